//! How far a customer's events may go before any of them could make a usage alert fire.
//!
//! Every event has an arrival number, and one event makes some figures 1 greater at most. So a figure that is 30 below its threshold
//! when the last event to have arrived was number 100 is below it as long as no event of its name with a number above 129 is stored,
//! whoever's events have the numbers between. What is dated ahead of now counts for the figure here, for it counts later without another
//! event.
//!
//! That holds from the look on until a figure begins anew, or something else runs than what was looked at. Whatever else changes (a
//! switch, a correction, an alert) ends it from outside: the store sees to that.

use std::collections::BTreeMap;

use bigdecimal::{BigDecimal, One, ToPrimitive};
use time::{Duration, OffsetDateTime};

use crate::metric::{Metric, MetricType};
use crate::period::Period;
use crate::subscription::Subscription;
use crate::usage::SeenUsage;
use crate::usage_alert::AlertHeadroom;

/// How far ahead figures are read. What is dated later than that counts for nothing before another look.
const AHEAD: Duration = Duration::hours(25);

/// The headroom that is left by all that was looked at so far.
pub(super) struct Headroom(Option<AlertHeadroom>);

impl Headroom {
    /// That of whoever `held` this at `now` and has no figure that could reach anything. Until something of it begins or ends it stays
    /// what it is; a renewal that is due and not yet made may still come to something else.
    pub fn of(held: &[Subscription], now: OffsetDateTime) -> Self {
        let is_due = |subscription: &Subscription| subscription.period.end() <= now;
        if held.iter().any(is_due) {
            return Self(None);
        }
        // Of whole hours, which are counted already.
        let horizon = now.truncate_to_hour().saturating_add(AHEAD);
        let bounds = held.iter().flat_map(|subscription| [subscription.period.start(), subscription.period.end()]);
        let until = bounds.filter(|bound| *bound > now).fold(horizon, OffsetDateTime::min);
        Self(Some(AlertHeadroom::new(BTreeMap::new(), (now, until))))
    }

    /// As much of an interval as a figure has to be read of.
    pub fn part_of(&self, interval: &Period) -> Option<Period> {
        self.0.as_ref().map(|headroom| interval.cut_at(headroom.until))
    }

    /// There is none: a figure can reach its threshold with any event.
    pub fn refuse(&mut self) {
        self.0 = None;
    }

    /// There is none for whatever this metric looks at.
    pub fn refuse_of(&mut self, metric: &Metric) {
        match metric.measure.metric_type() {
            // It looks at events of every name.
            MetricType::Custom => self.refuse(),
            _ => self.keep_until(metric, 0),
        }
    }

    /// No longer than until then.
    pub fn end_at(&mut self, instant: OffsetDateTime) {
        if let Some(headroom) = &mut self.0 {
            headroom.until = headroom.until.min(instant);
        }
    }

    /// Only as long as this usage of a metric, which rises by one with each of its events, is below a threshold.
    pub fn keep_below(&mut self, metric: &Metric, threshold: &BigDecimal, seen: &SeenUsage) {
        // The least number of events that reaches it, and one less.
        let events = (threshold - &seen.usage.quantity).with_scale_round(0, bigdecimal::RoundingMode::Ceiling)
            - BigDecimal::one();
        if events < BigDecimal::one() {
            return self.refuse_of(metric);
        }
        self.keep_until(metric, seen.last_arrival.saturating_add(events.to_u64().unwrap_or(u64::MAX)));
    }

    fn keep_until(&mut self, metric: &Metric, arrival: u64) {
        let Some(headroom) = &mut self.0 else { return };
        let until = headroom.until_arrivals.entry(metric.event_name.clone()).or_insert(arrival);
        *until = arrival.min(*until);
    }

    /// What is left of it; nothing where it is about no event.
    pub fn left(self) -> Option<AlertHeadroom> {
        let is_of_use = |headroom: &AlertHeadroom| {
            headroom.until_arrivals.is_empty() || headroom.until_arrivals.values().any(|until| *until > 0)
        };
        self.0.filter(is_of_use)
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::custom_sql::CustomSql;
    use crate::metric::Measure;
    use crate::testing::build::{self, Ids};
    use crate::testing::world::decimal;
    use crate::usage::Usage;

    const NOW: OffsetDateTime = datetime!(2024-04-10 10:20 UTC);

    fn metric(event_name: &str) -> Metric {
        build::count_metric(&mut Ids::new(1), event_name, NOW)
    }

    fn until(headroom: &Headroom, name: &str) -> Option<u64> {
        headroom.0.as_ref()?.until_arrivals.get(name).copied()
    }

    #[test]
    fn the_event_that_reaches_a_threshold_is_not_within_it() {
        #[rustfmt::skip]
        let cases = [
            // threshold, quantity, until,    why
            ("10",        "0",      109,      "nine more are below it, the tenth is at it"),
            ("10",        "8",      101,      "one more"),
            ("10",        "9",      0,        "the next event reaches it"),
            ("10",        "10",     0,        "it is reached by what is dated ahead"),
            ("10",        "12",     0,        "far above"),
            ("9.5",       "8",      101,      "9 is below it"),
            ("9.5",       "9",      0,        "10 is not"),
            ("1e30",      "0",      u64::MAX, "more than there are numbers"),
        ];
        for (threshold, quantity, expected, why) in cases {
            let mut headroom = Headroom::of(&[], NOW);
            let seen = Usage { quantity: decimal(quantity), event_count: 0 }.seen_to(100);
            headroom.keep_below(&metric("call"), &decimal(threshold), &seen);
            assert_eq!(until(&headroom, "call"), Some(expected), "{threshold} {quantity}: {why}");
            assert_eq!(headroom.left().is_some(), expected > 0, "{threshold} {quantity}: {why}");
        }
    }

    #[test]
    fn the_nearest_threshold_and_the_first_instant_count() {
        let mut headroom = Headroom::of(&[], NOW);
        let end = datetime!(2024-04-11 11:00 UTC);
        let nothing_looks = AlertHeadroom::new(BTreeMap::new(), (NOW, end));
        assert_eq!(headroom.0, Some(nothing_looks), "nothing bounds it but how far is looked");
        let (call, other) = (metric("call"), metric("other"));
        let seen = Usage { quantity: decimal("3"), event_count: 3 }.seen_to(100);
        for (threshold, expected) in [("20", 116), ("10", 106), ("15", 106)] {
            headroom.keep_below(&call, &decimal(threshold), &seen);
            assert_eq!(until(&headroom, "call"), Some(expected), "{threshold}");
        }
        for (instant, until) in [(end - Duration::HOUR, end - Duration::HOUR), (end, end - Duration::HOUR)] {
            headroom.end_at(instant);
            assert_eq!(headroom.0.as_ref().map(|left| left.until), Some(until));
        }
        headroom.refuse_of(&other);
        headroom.keep_below(&other, &decimal("1000"), &seen);
        assert_eq!(
            (until(&headroom, "call"), until(&headroom, "other")),
            (Some(106), Some(0)),
            "nothing gives it back"
        );
        let sql = CustomSql::parse("SELECT COUNT(*) AS usage_qty FROM events").expect("a query");
        let custom = Metric { measure: Measure::Custom(sql), ..other };
        headroom.refuse_of(&custom);
        assert_eq!(headroom.0, None, "it may look at events of any name");
        headroom.keep_below(&call, &decimal("1000"), &seen);
        headroom.end_at(end);
        assert_eq!(headroom.left(), None, "nothing gives it back");
    }
}
