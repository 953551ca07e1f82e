//! The time zones of the world, out of the database that is part of the program.

use billing_domain::period::Zone;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use time::{OffsetDateTime, UtcOffset};

/// A zone of the IANA database.
pub struct IanaZone(TimeZone);

impl IanaZone {
    /// The zone of that name, whatever its letters' case.
    pub fn find(name: &str) -> Option<Self> {
        TimeZone::get(name).ok().map(Self)
    }
}

impl Zone for IanaZone {
    fn offset_at(&self, instant: OffsetDateTime) -> UtcOffset {
        let offset = Timestamp::from_second(instant.unix_timestamp()).map(|at| self.0.to_offset(at).seconds());
        // Beyond the years that the database knows clocks are in UTC.
        offset.ok().and_then(|seconds| UtcOffset::from_whole_seconds(seconds).ok()).unwrap_or(UtcOffset::UTC)
    }
}

#[cfg(test)]
mod tests {
    use billing_domain::timezone;
    use time::macros::{datetime, offset};

    use super::*;

    #[test]
    fn every_accepted_name_is_a_zone() {
        for name in timezone::NAMES {
            assert!(IanaZone::find(name).is_some(), "{name}");
        }
        assert!(IanaZone::find("Mars/Olympus").is_none());
        assert!(IanaZone::find("").is_none());
    }

    #[test]
    fn offsets_follow_daylight_saving() {
        let zone = IanaZone::find("America/New_York").expect("a zone");
        let change = datetime!(2024-03-10 7:00 UTC);
        assert_eq!(zone.offset_at(change - time::Duration::NANOSECOND), offset!(-5));
        assert_eq!(zone.offset_at(change), offset!(-4));
    }
}
