//! Half-open periods in UTC, and the calendar arithmetic that makes them.
//!
//! - [`Period`]: `[start, end)` in whole microseconds. An instant is in exactly one of two periods that touch.
//! - [`Fraction`]: which part of a full interval a period is, exact, for proration.
//! - [`Interval`]: every so many days, weeks, months or years from an anchor, without drift.
//! - [`Span`]: seconds to years of the UTC calendar, for gauges and rates.
//! - [`Zone`]: the same by local clocks, for whoever brings a zone.
//! - [`Cadence`]: the successive periods of a subscription, aligned to a calendar day where a plan asks for it.
//! - [`Calendar`]: what the reset and invoicing intervals within them are counted by.
//!
//! Source: `docs/pricing.md`, "Periods and anchors" and "Proration".

mod cadence;
mod calendar;
mod fraction;
pub mod instant;
mod interval;
mod span;
mod zone;

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

pub use cadence::{AnchorError, Anchors, Cadence, PlanDuration};
pub use calendar::Calendar;
pub use fraction::Fraction;
pub use interval::{Interval, IntervalError, IntervalUnit, Tile};
pub use span::Span;
pub use zone::{Zone, instant_at, instants_at, local_time};

/// The shortest time there is here.
pub const MICROSECOND: Duration = Duration::MICROSECOND;

/// Why two instants are not a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeriodError {
    /// The end is before the start.
    #[error("The end is before the start.")]
    EndBeforeStart,
}

/// The time from `start`, included, to `end`, excluded: `[start, end)`, UTC, whole microseconds.
///
/// A period may be empty (`start == end`): nothing is inside, it prorates to nothing and overlaps nothing.
///
/// ```
/// use billing_domain::period::Period;
/// use time::macros::datetime;
///
/// let january = Period::new(datetime!(2026-01-01 0:00 UTC), datetime!(2026-02-01 0:00 UTC)).unwrap();
/// let february = Period::new(datetime!(2026-02-01 0:00 UTC), datetime!(2026-03-01 0:00 UTC)).unwrap();
/// assert!(!january.overlaps(&february)); // they touch: midnight belongs to February alone
/// assert!(!january.contains(january.end()));
/// // What people call the end of January is the last instant inside.
/// assert_eq!(january.last_instant(), datetime!(2026-01-31 23:59:59.999999 UTC));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Ends")]
pub struct Period {
    #[serde(with = "instant")]
    start: OffsetDateTime,
    #[serde(with = "instant")]
    end: OffsetDateTime,
}

/// A period as written, not yet checked.
#[derive(Deserialize)]
struct Ends {
    #[serde(with = "instant")]
    start: OffsetDateTime,
    #[serde(with = "instant")]
    end: OffsetDateTime,
}

impl TryFrom<Ends> for Period {
    type Error = PeriodError;

    fn try_from(ends: Ends) -> Result<Self, PeriodError> {
        Self::new(ends.start, ends.end)
    }
}

impl Period {
    /// The period between two instants, each brought to UTC and cut to whole microseconds.
    ///
    /// # Errors
    /// [`PeriodError::EndBeforeStart`].
    pub fn new(start: OffsetDateTime, end: OffsetDateTime) -> Result<Self, PeriodError> {
        let (start, end) = (instant::whole(start), instant::whole(end));
        if end < start {
            return Err(PeriodError::EndBeforeStart);
        }
        Ok(Self { start, end })
    }

    /// For ends that are known to be whole and in UTC; an end before the start becomes the start.
    fn from_whole(start: OffsetDateTime, end: OffsetDateTime) -> Self {
        Self { start, end: end.max(start) }
    }

    /// The empty period at an instant.
    pub fn at(instant: OffsetDateTime) -> Self {
        let instant = instant::whole(instant);
        Self { start: instant, end: instant }
    }

    /// The first instant inside.
    pub fn start(&self) -> OffsetDateTime {
        self.start
    }

    /// The first instant after.
    pub fn end(&self) -> OffsetDateTime {
        self.end
    }

    /// The last microsecond inside, as answers show it; the start of an empty period.
    pub fn last_instant(&self) -> OffsetDateTime {
        if self.is_empty() { self.start } else { self.end - MICROSECOND }
    }

    /// Whether nothing is inside.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether `instant` is inside; the end is not.
    pub fn contains(&self, instant: OffsetDateTime) -> bool {
        self.start <= instant && instant < self.end
    }

    /// Whether any instant is inside both. Periods that touch do not overlap, and an empty one never does.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.intersection(other).is_some()
    }

    /// The time inside both, never empty.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Self { start, end })
    }

    /// The part before `instant`: nothing when it is before the start, everything when it is past the end.
    #[must_use]
    pub fn cut_at(&self, instant: OffsetDateTime) -> Self {
        Self { start: self.start, end: instant::whole(instant).clamp(self.start, self.end) }
    }

    /// Its length in microseconds.
    pub fn microseconds(&self) -> i128 {
        (self.end - self.start).whole_microseconds()
    }

    /// Its length as a part of `full`'s, for proration.
    ///
    /// Only lengths count: a period longer than `full` is more than one. A part of an empty interval is nothing.
    pub fn fraction_of(&self, full: &Self) -> Fraction {
        match full.microseconds() {
            0 => Fraction::ZERO,
            denominator => Fraction { numerator: self.microseconds(), denominator },
        }
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
