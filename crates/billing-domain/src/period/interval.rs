//! Intervals of days, weeks, months and years, counted from an anchor.

use serde::{Deserialize, Serialize};
use time::util::days_in_month;
use time::{Date, Duration, Month, OffsetDateTime, PrimitiveDateTime, UtcOffset};

use super::zone::{instant_at, local_time};
use super::{Period, Zone, instant};
use crate::decimal;

choices! {
    /// What an interval is counted in.
    pub IntervalUnit {
        /// 24 hours: all arithmetic is in UTC.
        Day = "day",
        /// Seven days.
        Week = "week",
        /// A calendar month.
        Month = "month",
        /// A calendar year.
        Year = "year",
    }
}

/// Why a count and a unit are not an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntervalError {
    /// The count is 0.
    #[error("Ensure this value is greater than or equal to 1.")]
    ZeroCount,
}

/// Every `count` days, weeks, months or years.
///
/// Boundaries are always counted from the anchor, never from the boundary before, so a short month leaves no
/// mark on those behind it:
///
/// ```
/// use billing_domain::period::{Interval, IntervalUnit};
/// use time::macros::datetime;
///
/// let monthly = Interval::new(IntervalUnit::Month, 1).unwrap();
/// let anchor = datetime!(2023-01-31 9:30 UTC);
/// assert_eq!(monthly.boundary(anchor, 1), datetime!(2023-02-28 9:30 UTC));
/// assert_eq!(monthly.boundary(anchor, 2), datetime!(2023-03-31 9:30 UTC)); // not the 28th
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Interval {
    /// What it is counted in.
    pub unit: IntervalUnit,
    /// How many of them, at least 1.
    #[serde(with = "decimal::integer")]
    pub count: u32,
}

/// An interval as written, not yet checked.
#[derive(Deserialize)]
struct Unchecked {
    unit: IntervalUnit,
    #[serde(with = "decimal::integer")]
    count: u32,
}

impl TryFrom<Unchecked> for Interval {
    type Error = IntervalError;

    fn try_from(unchecked: Unchecked) -> Result<Self, IntervalError> {
        Self::new(unchecked.unit, unchecked.count)
    }
}

/// One interval within a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tile {
    /// The interval, cut to the span.
    pub period: Period,
    /// The interval uncut: what a fraction of it is a fraction of.
    pub full: Period,
}

impl Interval {
    /// Every `count` of `unit`.
    ///
    /// # Errors
    /// [`IntervalError::ZeroCount`].
    pub fn new(unit: IntervalUnit, count: u32) -> Result<Self, IntervalError> {
        if count == 0 {
            return Err(IntervalError::ZeroCount);
        }
        Ok(Self { unit, count })
    }

    /// `anchor` plus `n` intervals: the same time of day, the same day or the month's last where it is shorter.
    ///
    /// Beyond the year 9999 it stays at [`instant::LAST`].
    pub fn boundary(&self, anchor: OffsetDateTime, n: u32) -> OffsetDateTime {
        self.boundary_in(&UtcOffset::UTC, anchor, n)
    }

    /// [`Interval::boundary`] by the clocks of `zone`: a day can have 23 or 25 hours there.
    pub fn boundary_in(&self, zone: &dyn Zone, anchor: OffsetDateTime, n: u32) -> OffsetDateTime {
        self.boundary_on(zone, (anchor, local_time(zone, anchor).day()), n)
    }

    /// [`Interval::boundary_in`] where `day` is the day of the month that is meant by the anchor, which may be a shorter
    /// month's last.
    pub(super) fn boundary_on(&self, zone: &dyn Zone, (anchor, day): (OffsetDateTime, u8), n: u32) -> OffsetDateTime {
        let anchor = instant::whole(anchor);
        if n == 0 {
            return anchor;
        }
        let local = local_time(zone, anchor);
        let steps = u64::from(self.count) * u64::from(n);
        let moved = match self.unit {
            IntervalUnit::Day => add_days(local, steps),
            IntervalUnit::Week => add_days(local, steps.saturating_mul(7)),
            IntervalUnit::Month => add_months(local, steps, day),
            IntervalUnit::Year => add_months(local, steps.saturating_mul(12), day),
        };
        moved.map_or(instant::LAST, |local| instant_at(zone, local))
    }

    /// How many months it lasts; `None` for days and weeks, whose months differ.
    pub fn months(&self) -> Option<u32> {
        match self.unit {
            IntervalUnit::Day | IntervalUnit::Week => None,
            IntervalUnit::Month => Some(self.count),
            IntervalUnit::Year => self.count.checked_mul(12),
        }
    }

    /// The intervals from `anchor` that lie in `span`, in order: they cover it without gap or overlap, and the
    /// first and last are cut to it.
    ///
    /// What lies before `anchor` is not covered. An empty span has no tiles.
    pub fn tiles(&self, anchor: OffsetDateTime, span: &Period) -> Vec<Tile> {
        self.tiles_in(&UtcOffset::UTC, anchor, span)
    }

    /// [`Interval::tiles`] by the clocks of `zone`.
    pub fn tiles_in(&self, zone: &dyn Zone, anchor: OffsetDateTime, span: &Period) -> Vec<Tile> {
        self.tiles_on(zone, (anchor, local_time(zone, anchor).day()), span)
    }

    /// [`Interval::tiles_in`] from an anchor and the day of the month that is meant by it.
    pub(super) fn tiles_on(&self, zone: &dyn Zone, anchor: (OffsetDateTime, u8), span: &Period) -> Vec<Tile> {
        let mut tiles = Vec::new();
        let mut n = self.index_at(zone, anchor, span.start());
        let mut start = self.boundary_on(zone, anchor, n);
        while start < span.end() {
            n = n.saturating_add(1);
            let full = Period::from_whole(start, self.boundary_on(zone, anchor, n));
            // Nothing in common: a day that the zone skipped, or one that shows twice and was over before the span.
            if let Some(period) = full.intersection(span) {
                tiles.push(Tile { period, full });
            }
            start = full.end();
        }
        tiles
    }

    /// The number of the last boundary at or before `instant`; 0 before the anchor.
    fn index_at(&self, zone: &dyn Zone, anchor: (OffsetDateTime, u8), instant: OffsetDateTime) -> u32 {
        if instant <= anchor.0 {
            return 0;
        }
        let (from, to) = (local_time(zone, anchor.0), local_time(zone, instant));
        let days = (to.date() - from.date()).whole_days();
        let steps = match self.unit {
            IntervalUnit::Day => days,
            IntervalUnit::Week => days / 7,
            IntervalUnit::Month => month_index(to.date()) - month_index(from.date()),
            IntervalUnit::Year => i64::from(to.year() - from.year()),
        };
        let mut n = u32::try_from(steps / i64::from(self.count)).unwrap_or(u32::MAX);
        // The day, month or year may be right and the boundary in it not reached yet.
        while n > 0 && self.boundary_on(zone, anchor, n) > instant {
            n -= 1;
        }
        n
    }
}

/// Months since the year 0.
pub(super) fn month_index(date: Date) -> i64 {
    i64::from(date.year()) * 12 + i64::from(u8::from(date.month())) - 1
}

fn add_days(local: PrimitiveDateTime, days: u64) -> Option<PrimitiveDateTime> {
    let days = i64::try_from(days).ok().filter(|days| *days <= i64::from(i32::MAX))?;
    local.checked_add(Duration::days(days))
}

/// `months` later at the same time of day, on the `day` of that month or its last.
fn add_months(local: PrimitiveDateTime, months: u64, day: u8) -> Option<PrimitiveDateTime> {
    let index = month_index(local.date()).checked_add(i64::try_from(months).ok()?)?;
    let date = date_in_month(index, day)?;
    Some(local.replace_date(date))
}

/// The `day` of a month counted since the year 0, or the month's last day.
pub(super) fn date_in_month(index: i64, day: u8) -> Option<Date> {
    let year = i32::try_from(index.div_euclid(12)).ok()?;
    let month = Month::try_from(u8::try_from(index.rem_euclid(12) + 1).ok()?).ok()?;
    Date::from_calendar_date(year, month, day.min(days_in_month(month, year))).ok()
}
