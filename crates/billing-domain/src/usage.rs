//! Usage: the fold from events to a quantity. This is the one definition; every store must agree with it.

mod custom;
mod gauge;
mod rate;

use bigdecimal::{BigDecimal, Zero};

use crate::error::StoreError;
use crate::event::Event;
use crate::id::CustomerKey;
use crate::metric::{Aggregation, Gauge, Measure, Measured, Metric, Rate, Totals};
use crate::period::{MICROSECOND, Period, instant};
use crate::subscription::SubscriptionFilters;

pub use self::custom::fold_custom;
pub use self::gauge::{Levels, Step};

/// A question to the store: how much of `metric` did `customer` use in `period`?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRequest {
    /// Whose usage.
    pub customer: CustomerKey,
    /// Of what.
    pub metric: Metric,
    /// Only events that have all of these properties count.
    pub filters: SubscriptionFilters,
    /// Only events dated inside count; the end is outside. A gauge brings its level from before.
    pub period: Period,
    /// What one unit of a prorated gauge is for, such as a month for seats per month; nothing else looks at it. All
    /// parts of a period share one, so that their usage adds up.
    pub full: Period,
}

impl UsageRequest {
    /// Refuses questions about custom metrics, whose answer may be a failure: they are not asked this way.
    ///
    /// # Errors
    /// [`StoreError::Internal`]: whoever asks has a bug.
    pub fn refuse_custom(requests: &[Self]) -> Result<(), StoreError> {
        match requests.iter().any(|request| matches!(request.metric.measure, Measure::Custom(_))) {
            true => Err(StoreError::Internal("a custom metric was asked for as if it could not fail".to_owned())),
            false => Ok(()),
        }
    }

    /// Asks for the usage that is billed for `period`, which begins where usage began to count. `total` is the uncut
    /// period of the plan.
    pub fn billed(
        customer: CustomerKey,
        metric: Metric,
        filters: SubscriptionFilters,
        period: Period,
        total: &Period,
    ) -> Self {
        let full = metric.measure.full(period.start(), total);
        Self { customer, metric, filters, period, full }
    }

    /// Asks for the usage that access is decided by at the last instant of `period`, which begins where usage began to
    /// count: of a counter that which is billed, of a gauge the present level, of a rate the window that ends now.
    ///
    /// Either is what a counter of the same events makes of another period, so that it costs no more than that.
    pub fn current(customer: CustomerKey, metric: Metric, filters: SubscriptionFilters, period: Period) -> Self {
        let start = match &metric.measure {
            Measure::Custom(_) => return Self { customer, metric, filters, period, full: period },
            Measure::Counter(_) => period.start(),
            Measure::Gauge(Gauge { .. }) => instant::FIRST,
            Measure::Rate(Rate { window, .. }) => window.before(period.end() - MICROSECOND),
        };
        let period = Period::new(start, period.end()).unwrap_or(period);
        let metric = Metric { measure: Measure::Counter(metric.measure.aggregation()), ..metric };
        Self { customer, metric, filters, period, full: period }
    }
}

/// The answer: a quantity, and how many events it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// In units of the metric; unrounded.
    pub quantity: BigDecimal,
    /// Events that count: of the metric's name, inside the period, past every filter, with a usable property.
    pub event_count: u64,
}

impl Usage {
    /// No usage at all.
    pub fn zero() -> Self {
        Self { quantity: BigDecimal::zero(), event_count: 0 }
    }

    /// This usage, read when the last event to have arrived was this one.
    pub fn seen_to(self, last_arrival: u64) -> SeenUsage {
        SeenUsage { usage: self, last_arrival }
    }
}

/// Usage, and which events it was counted of: whoever keeps both can count it again when others have arrived.
///
/// Every event has an arrival number: of two events of one customer, the one that was committed later has the greater. Gaps mean
/// nothing, and numbers of different customers have nothing to do with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeenUsage {
    /// The usage.
    pub usage: Usage,
    /// The customer's events with an arrival number up to this one were seen, and no others.
    pub last_arrival: u64,
}

impl Totals {
    /// The usage that these totals are by `aggregation`.
    pub fn usage(&self, aggregation: &Aggregation) -> Usage {
        Usage { quantity: aggregation.quantity(self), event_count: self.event_count }
    }
}

/// Folds a customer's events, in any order, into the usage that `request` asks for.
///
/// - **Units:** those of the metric: events for a count, different texts for a unique count, otherwise the
///   property's own unit; of a gauge with proration, that unit over [`UsageRequest::full`].
/// - **Edges:** an event at `period.start()` counts, one at `period.end()` does not. No events is 0, but for a gauge,
///   whose level outlives periods. An event that a filter stops, or whose property cannot be used, does not count, not
///   even as an event.
/// - **Source:** `docs/pricing.md`, "Usage".
pub fn fold<'e>(request: &UsageRequest, events: impl IntoIterator<Item = &'e Event>) -> Usage {
    let UsageRequest { metric, filters, period, full, .. } = request;
    let counting = events.into_iter().filter(|event| {
        event.name == metric.event_name && event.time_created < period.end() && filters.matches(&event.properties)
    });
    let measured = counting.filter_map(|event| Some((event, metric.measured(event)?)));
    match &metric.measure {
        // Its query is folded by `fold_custom`, which may fail; here it has no usage, and stores do not ask.
        Measure::Custom(_) => Usage::zero(),
        Measure::Counter(aggregation) => {
            Totals::of(measured.filter(|(event, _)| period.contains(event.time_created))).usage(aggregation)
        }
        Measure::Gauge(gauge) => {
            let mut moves: Vec<_> = measured
                .filter_map(|(event, measured)| match measured {
                    Measured::Number(number) => Some((event.time_created, event.idempotency_id.as_str(), number)),
                    Measured::Event | Measured::Text(_) => None,
                })
                .collect();
            moves.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
            Levels::of(gauge, period, &moves).usage(gauge, period, full)
        }
        Measure::Rate(rate) => {
            let mut events: Vec<_> = measured.map(|(event, measured)| (event.time_created, measured)).collect();
            events.sort_by_key(|(time, _)| *time);
            rate::fold(rate, period, &events)
        }
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use uuid::Uuid;

    use super::*;
    use crate::metric::AggregationKind;
    use crate::testing::build::{Ids, count_metric, days_from, event, properties};
    use crate::testing::world::decimal;

    fn request(metric: Metric, period: Period) -> UsageRequest {
        UsageRequest::billed(Uuid::nil().into(), metric, SubscriptionFilters::none(), period, &period)
    }

    #[test]
    fn every_aggregation_has_its_edges() {
        use AggregationKind::{Average, Count, Latest, Max, Min, Sum, Unique};
        let start = datetime!(2024-03-01 0:00 UTC);
        #[rustfmt::skip]
        let cases: [(AggregationKind, &[&str], &str, u64, &str); 19] = [
            // kind,   values in time,            quantity, events, why
            (Count,   &[],                        "0",      0,      "nothing"),
            (Sum,     &[],                        "0",      0,      "nothing"),
            (Max,     &[],                        "0",      0,      "nothing"),
            (Min,     &[],                        "0",      0,      "nothing"),
            (Unique,  &[],                        "0",      0,      "nothing"),
            (Average, &[],                        "0",      0,      "nothing, not a division by zero"),
            (Latest,  &[],                        "0",      0,      "nothing"),
            (Count,   &["7", "null", "\"x\""],    "3",      3,      "a count looks at no property"),
            (Sum,     &["350", "125", "543"],     "1018",   3,      "added up"),
            (Sum,     &["1", "\"x\"", "true"],    "1",      1,      "what is no number does not count"),
            (Max,     &["65", "148", "16"],       "148",    3,      "the greatest"),
            (Max,     &["-3", "-2.5", "null"],    "-2.5",   2,      "negative values are kept"),
            (Min,     &["65", "\"-16\"", "148"],  "-16",    3,      "the least"),
            (Unique,  &["1", "\"1\"", "1.0"],     "2",      3,      "texts differ, not numbers"),
            (Unique,  &["null", "[1]", "true"],   "1",      1,      "what has no text does not count"),
            (Average, &["1", "2", "\"x\""],       "1.5",    2,      "only what counts is divided by"),
            (Average, &["1", "-1"],               "0",      2,      "may be zero"),
            (Latest,  &["5", "-7", "\"x\""],      "-7",     2,      "the last that is usable"),
            (Latest,  &["5", "5", "3"],           "3",      3,      "the last"),
        ];
        for (kind, values, quantity, event_count, why) in cases {
            let aggregation = kind.of(Some("n".to_owned())).expect("an aggregation");
            let metric = Metric { measure: aggregation.into(), ..count_metric(&mut Ids::new(1), "call", start) };
            let events: Vec<Event> = (0_i64..)
                .zip(values)
                .map(|(n, value)| Event {
                    properties: properties(&format!(r#"{{"n": {value}}}"#)),
                    ..event("acme", "call", &n.to_string(), start + time::Duration::seconds(n))
                })
                .collect();
            let expected = Usage { quantity: decimal(quantity), event_count };
            let request = request(metric, days_from(start, 1));
            assert_eq!(fold(&request, &events), expected, "{kind:?} {values:?}: {why}");
            assert_eq!(fold(&request, events.iter().rev()), expected, "{kind:?} backwards: {why}");
        }
    }

    #[test]
    fn of_events_at_one_instant_the_greatest_id_is_the_latest() {
        let start = datetime!(2024-03-01 0:00 UTC);
        let aggregation = AggregationKind::Latest.of(Some("n".to_owned())).expect("an aggregation");
        let metric = Metric { measure: aggregation.into(), ..count_metric(&mut Ids::new(1), "call", start) };
        let at = |id: &str, n: u32| Event {
            properties: properties(&format!(r#"{{"n": {n}}}"#)),
            ..event("acme", "call", id, start)
        };
        let events = [at("9", 1), at("a", 2), at("Z", 3), at("10", 4), at("é", 5), at("b", 6)];
        let usage = fold(&request(metric, days_from(start, 1)), &events);
        assert_eq!(usage.quantity, decimal("5"), "é comes behind every ASCII letter");
    }
}
