//! Local time: what an embedder brings to do calendar arithmetic in a zone.

use time::{Duration, OffsetDateTime, PrimitiveDateTime, UtcOffset};

use super::instant;

/// A time zone, as the offset from UTC in force at an instant.
///
/// This crate knows no zone database: bring one, or use a [`UtcOffset`], which is a zone that never changes.
/// Billing itself is in UTC; zones serve usage windows and embedders. With the crate `jiff` a zone of the IANA
/// database is a few lines, and any other database will do as well:
///
/// ```
/// use billing_domain::period::{Interval, IntervalUnit, Period, Zone};
/// use time::macros::datetime;
/// use time::{OffsetDateTime, UtcOffset};
///
/// struct Iana(jiff::tz::TimeZone);
///
/// impl Zone for Iana {
///     fn offset_at(&self, instant: OffsetDateTime) -> UtcOffset {
///         // UTC is the answer for what the database does not reach: years far away.
///         let Ok(timestamp) = jiff::Timestamp::from_second(instant.unix_timestamp()) else { return UtcOffset::UTC };
///         let seconds = self.0.to_offset(timestamp).seconds();
///         UtcOffset::from_whole_seconds(seconds).unwrap_or(UtcOffset::UTC)
///     }
/// }
///
/// let berlin = Iana(jiff::tz::TimeZone::get("Europe/Berlin")?);
/// let month = Interval::new(IntervalUnit::Month, 1)?;
/// let march = datetime!(2026-03-01 0:00 +1);
/// let span = Period::new(march, datetime!(2026-05-01 0:00 +2))?;
/// let tiles = month.tiles_in(&berlin, march, &span);
/// let hours = tiles.iter().map(|tile| (tile.period.end() - tile.period.start()).whole_hours());
/// assert_eq!(hours.collect::<Vec<_>>(), [31 * 24 - 1, 30 * 24]); // clocks go forward on the last Sunday of March
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Surprising: a day that a zone skipped, as Samoa did in 2011, is no tile; the one before it ends where the one
/// behind it starts.
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

/// Every instant at which clocks in `zone` show `local`, in their order: none where clocks go forward over it, two where they go back
/// over it. Offsets are assumed not to change twice within two days.
pub fn instants_at(zone: &dyn Zone, local: PrimitiveDateTime) -> Vec<OffsetDateTime> {
    let near = local.assume_utc();
    let offsets = [near.saturating_sub(Duration::DAY), near.saturating_add(Duration::DAY)].map(|at| zone.offset_at(at));
    let at = offsets.map(|offset| (offset, instant::whole(local.assume_offset(offset)).to_offset(UtcOffset::UTC)));
    let mut shown: Vec<_> =
        at.into_iter().filter(|(offset, at)| zone.offset_at(*at) == *offset).map(|(_, at)| at).collect();
    shown.sort_unstable();
    shown.dedup();
    shown
}
