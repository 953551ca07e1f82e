//! The calendar that the intervals of a subscription follow within its periods.

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, UtcOffset};

use super::interval::{date_in_month, month_index};
use super::{Interval, Period, Tile, instant};

/// Where the reset and invoicing intervals of a subscription are counted from.
///
/// Month and year intervals that divide the period are counted as periods are: from one boundary of the calendar to the
/// next, on the same day of the month, or a shorter month's last. So they go on over renewals without a cut, and
/// each interval of the calendar is there once. All others (days, weeks, two months in a quarter) are counted from
/// the period's start, and the last one is cut.
///
/// ```
/// use billing_domain::period::{Anchors, Cadence, Interval, IntervalUnit, Period, PlanDuration};
/// use time::macros::datetime;
///
/// let quarters = Cadence::new(datetime!(2023-11-30 0:00 UTC), PlanDuration::Quarterly, Anchors::NONE);
/// let monthly = Interval::new(IntervalUnit::Month, 1).unwrap();
/// let second = quarters.period(1).period;
/// let starts: Vec<_> = quarters.calendar().tiles(monthly, &second).iter().map(|tile| tile.period.start()).collect();
/// let expected = [datetime!(2024-02-29 0:00 UTC), datetime!(2024-03-30 0:00 UTC), datetime!(2024-04-30 0:00 UTC)];
/// assert_eq!(starts, expected); // not the 29th: it was only February that has no 30th
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calendar {
    /// The period's first instant, before any switch of plans within it: what does not follow the calendar is counted
    /// from here.
    #[serde(with = "instant")]
    pub start: OffsetDateTime,
    /// A boundary of the calendar, at or before [`Calendar::start`].
    #[serde(with = "instant")]
    pub from: OffsetDateTime,
    /// The day of the month that boundaries are on; a shorter month's last day stands in.
    pub day: u8,
    /// How many months a whole period has: intervals whose months divide them follow the calendar. 0: none does.
    pub months: u32,
}

impl Calendar {
    /// The calendar of a single period that no other follows.
    pub fn of_single_period(start: OffsetDateTime) -> Self {
        let start = instant::whole(start);
        Self { start, from: start, day: start.day(), months: 0 }
    }

    /// Whether `interval` is counted by the calendar, not from the period's start.
    pub fn is_followed_by(&self, interval: Interval) -> bool {
        interval.months().is_some_and(|months| self.months > 0 && self.months.is_multiple_of(months))
    }

    /// The intervals that lie in `span`, in order: they cover it without gap or overlap.
    ///
    /// An interval that the period's start cuts is measured against a whole one from that start, as a first period is.
    ///
    /// - **Units:** instants in UTC.
    /// - **Errors:** none. What lies before [`Calendar::from`] is not covered.
    /// - **Source:** `docs/pricing.md`, "Periods and anchors".
    pub fn tiles(&self, interval: Interval, span: &Period) -> Vec<Tile> {
        if !self.is_followed_by(interval) {
            return interval.tiles(self.start, span);
        }
        let mut tiles = interval.tiles_on(&UtcOffset::UTC, (self.from, self.day), span);
        if let Some(first) = tiles.first_mut().filter(|first| first.full.start() < self.start) {
            let whole_end = interval.boundary_on(&UtcOffset::UTC, (self.start, self.start.day()), 1);
            first.full = Period::from_whole(self.start, whole_end.max(first.full.end()));
        }
        tiles
    }

    /// The first boundary after `instant` of what `interval` makes of the calendar, whatever the period's end.
    pub fn boundary_after(&self, interval: Interval, instant: OffsetDateTime) -> OffsetDateTime {
        let (anchor, day) =
            if self.is_followed_by(interval) { (self.from, self.day) } else { (self.start, self.start.day()) };
        let moment = Period::from_whole(instant, instant.saturating_add(super::MICROSECOND));
        let tiles = interval.tiles_on(&UtcOffset::UTC, (anchor, day), &moment);
        tiles.first().map_or(instant::LAST, |tile| tile.full.end())
    }

    /// The day of the month that is meant by `instant`: the calendar's, where the instant is one of its boundaries,
    /// clamped or not; otherwise its own.
    pub fn day_of(&self, instant: OffsetDateTime) -> u8 {
        let is_boundary = instant.time() == self.from.time()
            && date_in_month(month_index(instant.date()), self.day) == Some(instant.date());
        if is_boundary { self.day } else { instant.day() }
    }
}
