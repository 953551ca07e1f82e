//! Usage: the fold from events to a quantity. This is the one definition; every store must agree with it.

use std::collections::BTreeSet;

use bigdecimal::BigDecimal;
use bigdecimal::Zero;

use crate::event::Event;
use crate::id::CustomerKey;
use crate::metric::{Aggregation, Measured, Metric};
use crate::period::Period;
use crate::subscription::SubscriptionFilters;

/// A question to the store: how much of `metric` did `customer` use in `period`?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRequest {
    /// Whose usage.
    pub customer: CustomerKey,
    /// Of what.
    pub metric: Metric,
    /// Only events that have all of these properties count.
    pub filters: SubscriptionFilters,
    /// Only events dated inside count; the end is outside.
    pub period: Period,
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
}

/// What the events of one metric come to, before its aggregation makes a quantity of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events that count.
    pub event_count: u64,
    /// Their numbers added up.
    pub sum: BigDecimal,
    /// The greatest of them.
    pub max: Option<BigDecimal>,
    /// The least of them.
    pub min: Option<BigDecimal>,
    /// That of the latest event.
    pub latest: Option<BigDecimal>,
    /// How many different texts there are.
    pub distinct: u64,
}

impl Totals {
    /// The usage that these totals are by `aggregation`.
    pub fn usage(&self, aggregation: &Aggregation) -> Usage {
        Usage { quantity: aggregation.quantity(self), event_count: self.event_count }
    }
}

/// Folds a customer's events, in any order, into the usage of `metric` in `period`.
///
/// - **Units:** those of the metric: events for a count, different texts for a unique count, otherwise the
///   property's own unit.
/// - **Edges:** an event at `period.start()` counts, one at `period.end()` does not. No events is 0. An event that a
///   filter stops, or whose property cannot be used, does not count, not even as an event.
/// - **Source:** `docs/pricing.md`, "Usage".
pub fn fold<'e>(
    metric: &Metric,
    filters: &SubscriptionFilters,
    period: &Period,
    events: impl IntoIterator<Item = &'e Event>,
) -> Usage {
    let mut totals = Totals::default();
    let mut texts = BTreeSet::new();
    let mut latest_key = None;
    for event in events {
        if event.name != metric.event_name || !period.contains(event.time_created) {
            continue;
        }
        if !filters.matches(&event.properties) {
            continue;
        }
        let Some(measured) = metric.measured(event) else { continue };
        totals.event_count += 1;
        match measured {
            Measured::Event => {}
            Measured::Text(text) => {
                texts.insert(text);
            }
            Measured::Number(number) => {
                totals.sum += &number;
                totals.max = Some(totals.max.map_or_else(|| number.clone(), |max| max.max(number.clone())));
                totals.min = Some(totals.min.map_or_else(|| number.clone(), |min| min.min(number.clone())));
                let key = Some((event.time_created, event.idempotency_id.as_str()));
                if key > latest_key {
                    (latest_key, totals.latest) = (key, Some(number));
                }
            }
        }
    }
    totals.distinct = texts.len() as u64;
    totals.usage(&metric.aggregation)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::metric::AggregationKind;
    use crate::testing::build::{Ids, count_metric, days_from, event, properties};
    use crate::testing::world::decimal;

    #[test]
    fn every_aggregation_has_its_edges() {
        use AggregationKind::{Average, Count, Latest, Max, Min, Sum, Unique};
        let (start, none) = (datetime!(2024-03-01 0:00 UTC), SubscriptionFilters::none());
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
            let metric = Metric { aggregation, ..count_metric(&mut Ids::new(1), "call", start) };
            let events: Vec<Event> = (0_i64..)
                .zip(values)
                .map(|(n, value)| Event {
                    properties: properties(&format!(r#"{{"n": {value}}}"#)),
                    ..event("acme", "call", &n.to_string(), start + time::Duration::seconds(n))
                })
                .collect();
            let expected = Usage { quantity: decimal(quantity), event_count };
            let period = days_from(start, 1);
            assert_eq!(fold(&metric, &none, &period, &events), expected, "{kind:?} {values:?}: {why}");
            assert_eq!(fold(&metric, &none, &period, events.iter().rev()), expected, "{kind:?} backwards: {why}");
        }
    }

    #[test]
    fn of_events_at_one_instant_the_greatest_id_is_the_latest() {
        let start = datetime!(2024-03-01 0:00 UTC);
        let aggregation = AggregationKind::Latest.of(Some("n".to_owned())).expect("an aggregation");
        let metric = Metric { aggregation, ..count_metric(&mut Ids::new(1), "call", start) };
        let at = |id: &str, n: u32| Event {
            properties: properties(&format!(r#"{{"n": {n}}}"#)),
            ..event("acme", "call", id, start)
        };
        let events = [at("9", 1), at("a", 2), at("Z", 3), at("10", 4), at("é", 5), at("b", 6)];
        let usage = fold(&metric, &SubscriptionFilters::none(), &days_from(start, 1), &events);
        assert_eq!(usage.quantity, decimal("5"), "é comes behind every ASCII letter");
    }
}
