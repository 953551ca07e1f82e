//! The periods of a subscription, one after the other.

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, UtcOffset};

use super::interval::{date_in_month, month_index};
use super::{Calendar, Interval, IntervalUnit, Period, Tile, instant};

choices! {
    /// How long a plan's period is.
    pub PlanDuration {
        /// One calendar month.
        Monthly = "monthly",
        /// Three calendar months.
        Quarterly = "quarterly",
        /// One calendar year.
        Yearly = "yearly",
    }
}

impl PlanDuration {
    /// The same as an interval.
    pub fn interval(self) -> Interval {
        let (unit, count) = match self {
            Self::Monthly => (IntervalUnit::Month, 1),
            Self::Quarterly => (IntervalUnit::Month, 3),
            Self::Yearly => (IntervalUnit::Year, 1),
        };
        Interval { unit, count }
    }

    fn months(self) -> u32 {
        match self {
            Self::Monthly => 1,
            Self::Quarterly => 3,
            Self::Yearly => 12,
        }
    }
}

/// Why numbers are not anchors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnchorError {
    /// The day is not one of 1 to 31.
    #[error("A day anchor is between 1 and 31.")]
    Day,
    /// The month is not one of 1 to 12.
    #[error("A month anchor is between 1 and 12.")]
    Month,
}

/// The calendar day that a plan version's periods are aligned to; with none, they run from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Anchors {
    /// The day of the month, 1 to 31; a shorter month's last day stands in.
    pub day: Option<u8>,
    /// The month, 1 to 12: a quarter or a year begins in it. Without effect on monthly periods.
    pub month: Option<u8>,
}

impl Anchors {
    /// No alignment.
    pub const NONE: Self = Self { day: None, month: None };

    /// Checked anchors.
    ///
    /// # Errors
    /// [`AnchorError`].
    pub fn new(day: Option<u8>, month: Option<u8>) -> Result<Self, AnchorError> {
        if day.is_some_and(|day| !(1..=31).contains(&day)) {
            return Err(AnchorError::Day);
        }
        if month.is_some_and(|month| !(1..=12).contains(&month)) {
            return Err(AnchorError::Month);
        }
        Ok(Self { day, month })
    }
}

/// The endless sequence of a subscription's periods from one start.
///
/// Without anchors every period is whole and begins at the start's time of day. With anchors the first is cut
/// short at the next anchor (midnight UTC), and those behind it are whole. None ever drifts.
///
/// ```
/// use billing_domain::period::{Anchors, Cadence, PlanDuration};
/// use time::macros::datetime;
///
/// let anchors = Anchors::new(Some(1), None).unwrap();
/// let cadence = Cadence::new(datetime!(2023-01-15 13:30 UTC), PlanDuration::Monthly, anchors);
/// let first = cadence.period(0);
/// assert_eq!(first.period.end(), datetime!(2023-02-01 0:00 UTC));
/// // The part is measured by the month that began with the start, not by January.
/// assert_eq!(first.full.end(), datetime!(2023-02-15 13:30 UTC));
/// assert_eq!(cadence.period(1).period.end(), datetime!(2023-03-01 0:00 UTC));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cadence {
    /// The first instant of period 0.
    #[serde(with = "instant")]
    pub start: OffsetDateTime,
    /// The day of the month that is meant by the start: a later one than the start's own where a period before this
    /// sequence was clamped to a short month.
    pub day: u8,
    /// How long a whole period is.
    pub duration: PlanDuration,
    /// What the periods are aligned to.
    pub anchors: Anchors,
}

impl Cadence {
    /// The periods from `start`, on its own day of the month.
    pub fn new(start: OffsetDateTime, duration: PlanDuration, anchors: Anchors) -> Self {
        let start = instant::whole(start);
        Self { start, day: start.day(), duration, anchors }
    }

    /// The calendar of its month and year intervals: they are counted like its periods.
    pub fn calendar(&self) -> Calendar {
        let start = instant::whole(self.start);
        let anchored = self.grid(start).and_then(|(month, day)| Some((date_in_month(month, day)?, day)));
        let (from, day) = anchored.map_or((start, self.day), |(date, day)| (date.midnight().assume_utc(), day));
        Calendar { start, from, day, months: self.duration.months() }
    }

    /// Period `number`, counted from 0, and the whole interval it is part of.
    ///
    /// - **Units:** instants in UTC. Only period 0 can be shorter than its `full`.
    /// - **Errors:** none. Beyond the year 9999 periods are empty.
    /// - **Source:** `docs/pricing.md`, "Periods and anchors".
    pub fn period(&self, number: u32) -> Tile {
        let start = instant::whole(self.start);
        let boundary = |n: u32| if n == 0 { start } else { self.boundary(start, n) };
        let period = Period::from_whole(boundary(number), boundary(number.saturating_add(1)));
        if number > 0 {
            return Tile { period, full: period };
        }
        // An anchor on the 31st, reached late on 28 February, allows more than a month to 31 March: still one whole.
        let whole_end = self.duration.interval().boundary_on(&UtcOffset::UTC, (start, self.day), 1);
        Tile { period, full: Period::from_whole(start, whole_end.max(period.end())) }
    }

    /// The end of period `n - 1`.
    fn boundary(&self, start: OffsetDateTime, n: u32) -> OffsetDateTime {
        let Some((grid_month, day)) = self.grid(start) else {
            return self.duration.interval().boundary_on(&UtcOffset::UTC, (start, self.day), n);
        };
        let month = grid_month + i64::from(self.duration.months()) * i64::from(n);
        date_in_month(month, day).map_or(instant::LAST, |date| date.midnight().assume_utc())
    }

    /// Month and day of the boundary that period 0 begins at or runs into the one behind; none when nothing is
    /// anchored.
    ///
    /// A month anchor says which months begin a period. Without one it is the start's own month: an anchored day
    /// still to come in it ends the first period, and one that has passed is one whole duration away.
    fn grid(&self, start: OffsetDateTime) -> Option<(i64, u8)> {
        let months = i64::from(self.duration.months());
        let month_anchor = self.anchors.month.filter(|_| months > 1);
        if month_anchor.is_none() && self.anchors.day.is_none() {
            return None;
        }
        let day = self.anchors.day.unwrap_or(self.day);
        let mut month = month_index(start.date());
        if let Some(first) = month_anchor {
            month -= (month - i64::from(first) + 1).rem_euclid(months);
        }
        if date_in_month(month, day).is_some_and(|date| date.midnight().assume_utc() > start) {
            month -= months;
        }
        Some((month, day))
    }
}
