//! Local time: what an embedder brings to do calendar arithmetic in a zone.

use time::{Duration, OffsetDateTime, PrimitiveDateTime, UtcOffset};

use super::instant;

/// A time zone, as the offset from UTC in force at an instant.
///
/// This crate knows no zone database: bring one (a zone of the IANA database is a function from instants to
/// offsets), or use a [`UtcOffset`], which is a zone that never changes. Billing itself is in UTC; zones serve
/// usage windows and embedders.
///
/// ```
/// use billing_domain::period::{Interval, IntervalUnit, Zone};
/// use time::macros::{datetime, offset};
/// use time::{OffsetDateTime, UtcOffset};
///
/// /// New York in the spring of 2025: clocks go forward on 9 March at 07:00 UTC.
/// struct NewYork;
/// impl Zone for NewYork {
///     fn offset_at(&self, instant: OffsetDateTime) -> UtcOffset {
///         if instant < datetime!(2025-03-09 7:00 UTC) { offset!(-5) } else { offset!(-4) }
///     }
/// }
///
/// let daily = Interval::new(IntervalUnit::Day, 1).unwrap();
/// let midnight = datetime!(2025-03-09 0:00 -5);
/// let next = daily.boundary_in(&NewYork, midnight, 1);
/// assert_eq!(next, datetime!(2025-03-10 0:00 -4)); // a day of 23 hours
/// assert_eq!((next - midnight).whole_hours(), 23);
/// ```
pub trait Zone {
    /// The offset that clocks in the zone show at `instant`.
    fn offset_at(&self, instant: OffsetDateTime) -> UtcOffset;
}

impl Zone for UtcOffset {
    fn offset_at(&self, _: OffsetDateTime) -> UtcOffset {
        *self
    }
}

/// What clocks in `zone` show at `instant`.
pub fn local_time(zone: &dyn Zone, instant: OffsetDateTime) -> PrimitiveDateTime {
    let there = instant.checked_to_offset(zone.offset_at(instant)).unwrap_or(instant);
    PrimitiveDateTime::new(there.date(), there.time())
}

/// When clocks in `zone` show `local`.
///
/// Where clocks go back an hour shows twice: the first counts. Where they go forward an hour is missing: a time
/// in it is taken by the offset before, so 02:30 becomes 03:30. Offsets are assumed not to change twice
/// within two days.
pub fn instant_at(zone: &dyn Zone, local: PrimitiveDateTime) -> OffsetDateTime {
    let near = local.assume_utc();
    let day = Duration::DAY;
    let before = zone.offset_at(near.saturating_sub(day));
    let after = zone.offset_at(near.saturating_add(day));
    let at = |offset: UtcOffset| instant::whole(local.assume_offset(offset));
    let shows = |offset: &UtcOffset| zone.offset_at(at(*offset)) == *offset;
    at([before, after].into_iter().find(shows).unwrap_or(before))
}
