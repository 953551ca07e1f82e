//! Gauges: from levels over time to the peak, or to levels weighed by time.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use super::Usage;
use crate::decimal;
use crate::metric::{Gauge, GaugeEventType};
use crate::period::{Interval, IntervalUnit, Period, Span};

/// All lengths that a month (28 to 31 days), a quarter (89 to 92) or a year (365, 366) can have divide these.
const MONTH_PARTS: i128 = 377_580;
const QUARTER_PARTS: i128 = 33_529_860;
const YEAR_PARTS: i128 = 133_590;
const DAY_MICROSECONDS: i128 = 86_400_000_000;

/// What became of a gauge in a period: all that its usage depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// The level that the period began with, from the events before it.
    pub carried_in: BigDecimal,
    /// The buckets that have events, in order.
    pub steps: Vec<Step>,
}

/// The events of one bucket. Levels of a [`GaugeEventType::Delta`] gauge are counted from the period's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The first instant of the bucket; of the period, when that has no buckets.
    pub bucket: OffsetDateTime,
    /// When its first event was.
    pub first_at: OffsetDateTime,
    /// How many events it has.
    pub event_count: u64,
    /// The greatest level that one of them made.
    pub greatest: BigDecimal,
    /// The level that the last of them left.
    pub last: BigDecimal,
}

/// An event of a gauge: when, its id, and its number.
pub(super) type Move<'e> = (OffsetDateTime, &'e str, BigDecimal);

impl Levels {
    /// Of `moves` in order of time and id, up to the end of `period`.
    pub(super) fn of(gauge: &Gauge, period: &Period, moves: &[Move<'_>]) -> Self {
        let (mut carried_in, mut level) = (BigDecimal::default(), BigDecimal::default());
        let mut steps: BTreeMap<OffsetDateTime, Step> = BTreeMap::new();
        for (time, _, number) in moves {
            let running = if *time < period.start() { &mut carried_in } else { &mut level };
            match gauge.event_type {
                GaugeEventType::Total => running.clone_from(number),
                GaugeEventType::Delta => *running += number,
            }
            if *time < period.start() {
                continue;
            }
            let bucket = gauge.proration.map_or(period.start(), |span| span.around(*time).start());
            let new = || Step { bucket, first_at: *time, event_count: 0, greatest: level.clone(), last: level.clone() };
            let step = steps.entry(bucket).or_insert_with(new);
            step.event_count += 1;
            step.greatest = step.greatest.clone().max(level.clone());
            step.last.clone_from(&level);
        }
        Self { carried_in, steps: steps.into_values().collect() }
    }

    /// The usage of `period`; `full` is what one unit is for, see [`UsageRequest::full`](super::UsageRequest::full).
    pub fn usage(mut self, gauge: &Gauge, period: &Period, full: &Period) -> Usage {
        if period.is_empty() {
            return Usage::zero();
        }
        if gauge.event_type == GaugeEventType::Delta {
            for step in &mut self.steps {
                step.greatest += &self.carried_in;
                step.last += &self.carried_in;
            }
        }
        let event_count = self.steps.iter().map(|step| step.event_count).sum();
        let quantity = match gauge.proration {
            None => self.peak(period),
            Some(span) => self.weighed(span, period, full),
        };
        Usage { quantity, event_count }
    }

    /// The greatest level. That which was carried in counts too, unless an event replaces it at the very start.
    fn peak(self, period: &Period) -> BigDecimal {
        let is_replaced = self.steps.first().is_some_and(|step| step.first_at == period.start());
        let carried_in = (!is_replaced).then_some(self.carried_in);
        self.steps.into_iter().map(|step| step.greatest).chain(carried_in).max().unwrap_or_default()
    }

    /// Each bucket's level by its part of what a unit is for: the greatest that an event in it made, otherwise the one
    /// before it. A bucket that is only partly inside the period counts by that part.
    fn weighed(self, span: Span, period: &Period, full: &Period) -> BigDecimal {
        let (mut sum, mut level, mut at) = (BigDecimal::default(), self.carried_in, period.start());
        for step in self.steps {
            let bucket = span.around(step.bucket);
            let (start, end) = (bucket.start().max(at), bucket.end().min(period.end()));
            sum += &level * BigDecimal::from(parts(span, at, start));
            sum += &step.greatest * BigDecimal::from(parts(span, start, end));
            (level, at) = (step.last, end);
        }
        sum += &level * BigDecimal::from(parts(span, at, period.end()));
        decimal::divide(&sum, &BigDecimal::from(parts_of_full(span, full)))
    }
}

fn parts_by_day(span: Span) -> i128 {
    match span {
        Span::Quarter => QUARTER_PARTS,
        Span::Year => YEAR_PARTS,
        Span::Second | Span::Minute | Span::Hour | Span::Day | Span::Month => MONTH_PARTS,
    }
}

/// The parts of buckets between two instants, every bucket having the same number, however long it is.
fn parts(span: Span, start: OffsetDateTime, end: OffsetDateTime) -> i128 {
    if span.length().is_some() {
        return (end - start).whole_microseconds().max(0);
    }
    let (mut sum, mut at) = (0, start);
    while at < end {
        let bucket = span.around(at);
        let to = bucket.end().min(end);
        sum += part_of(span, (to - at).whole_microseconds(), bucket.microseconds());
        if to <= at {
            break;
        }
        at = to;
    }
    sum
}

/// `inside` of a bucket's `length`, as parts.
fn part_of(span: Span, inside: i128, length: i128) -> i128 {
    match length / DAY_MICROSECONDS {
        0 => 0,
        days => inside * (parts_by_day(span) / days),
    }
}

/// How many buckets one unit is for, as parts: whole ones counted from the start, and the part of another.
fn parts_of_full(span: Span, full: &Period) -> i128 {
    let months = span.months();
    if months == 0 {
        return full.microseconds();
    }
    let Ok(interval) = Interval::new(IntervalUnit::Month, months.into()) else { return 0 };
    let tiles = interval.tiles(full.start(), full);
    tiles.iter().map(|tile| part_of(span, tile.period.microseconds(), tile.full.microseconds())).sum()
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    /// How many parts one bucket has.
    fn parts_of_bucket(span: Span) -> i128 {
        match span.length() {
            Some(length) => length.whole_microseconds(),
            None => parts_by_day(span) * DAY_MICROSECONDS,
        }
    }

    #[test]
    fn every_length_of_a_bucket_divides_its_parts() {
        for (parts, days) in
            [(MONTH_PARTS, vec![28, 29, 30, 31]), (QUARTER_PARTS, vec![89, 90, 91, 92]), (YEAR_PARTS, vec![365, 366])]
        {
            assert!(days.iter().all(|days| parts % days == 0), "{parts} by {days:?}");
        }
    }

    #[test]
    fn a_bucket_has_the_same_parts_however_long_it_is() {
        for span in Span::ALL {
            let mut at = datetime!(2023-01-01 0:00 UTC);
            for _ in 0..15 {
                let bucket = span.around(at);
                assert_eq!(parts(*span, bucket.start(), bucket.end()), parts_of_bucket(*span), "{span:?} at {at}");
                at = bucket.end();
            }
        }
    }

    #[test]
    fn a_unit_is_for_so_many_buckets() {
        let from = |start, end| Period::new(start, end).expect("a period");
        let (january, leap) = (datetime!(2023-01-31 7:00 UTC), datetime!(2024-02-01 0:00 UTC));
        #[rustfmt::skip]
        let cases = [
            // bucket,       unit,                                      buckets, why
            (Span::Day,      from(january, Span::Month.after(january)), 28,      "a month from the 31st of January"),
            (Span::Day,      from(leap, Span::Month.after(leap)),       29,      "a leap February"),
            (Span::Minute,   from(leap, Span::Hour.after(leap)),        60,      "minutes of an hour"),
            (Span::Hour,     from(leap, Span::Day.after(leap)),         24,      "hours of a day"),
            (Span::Month,    from(january, Span::Year.after(january)),  12,      "months of a year"),
            (Span::Month,    from(leap, Span::Quarter.after(leap)),     3,       "months of a quarter"),
            (Span::Quarter,  from(january, Span::Year.after(january)),  4,       "quarters of a year"),
            (Span::Month,    from(leap, Span::Month.after(leap)),       1,       "the plan's own month"),
        ];
        for (span, full, buckets, why) in cases {
            assert_eq!(parts_of_full(span, &full), parts_of_bucket(span) * buckets, "{why}");
        }
    }
}
