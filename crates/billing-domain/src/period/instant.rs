//! Instants: whole microseconds, UTC, written as RFC 3339.
//!
//! The functions [`serialize`] and [`deserialize`] serve `#[serde(with = "period::instant")]`.

use serde::{Deserialize, Deserializer, Serializer, de, ser};
use time::format_description::well_known::Rfc3339;
use time::macros::datetime;
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

/// The last instant that calendars here know: the end of the year 9999.
pub const LAST: OffsetDateTime = match PrimitiveDateTime::MAX.replace_nanosecond(999_999_000) {
    Ok(last) => last.assume_utc(),
    Err(_) => PrimitiveDateTime::MAX.assume_utc(),
};

/// The first instant that calendars here know: the beginning of the year 1.
pub const FIRST: OffsetDateTime = datetime!(0001-01-01 0:00 UTC);

/// The same instant in UTC, without what is finer than a microsecond.
///
/// An instant whose UTC form leaves the years 0 to 9999 becomes [`LAST`].
pub fn whole(instant: OffsetDateTime) -> OffsetDateTime {
    let Some(utc) = instant.checked_to_offset(UtcOffset::UTC) else { return LAST };
    utc.replace_microsecond(utc.microsecond()).unwrap_or(utc)
}

/// Writes the instant, with a fraction of a second only when there is one.
///
/// # Errors
/// Those of the serializer, or a year outside 0 to 9999.
pub fn serialize<S: Serializer>(instant: &OffsetDateTime, serializer: S) -> Result<S::Ok, S::Error> {
    let text = whole(*instant).format(&Rfc3339).map_err(ser::Error::custom)?;
    serializer.serialize_str(&text)
}

/// Reads an RFC 3339 instant.
///
/// # Errors
/// When the text is not one.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OffsetDateTime, D::Error> {
    let text = String::deserialize(deserializer)?;
    let instant = OffsetDateTime::parse(&text, &Rfc3339).map_err(de::Error::custom)?;
    Ok(whole(instant))
}

/// `#[serde(with = "period::instant::optional")]`: an instant or null.
pub mod optional {
    use serde::{Deserialize, Deserializer, Serializer};
    use time::OffsetDateTime;

    /// Writes the instant or null.
    ///
    /// # Errors
    /// As [`super::serialize`].
    pub fn serialize<S: Serializer>(instant: &Option<OffsetDateTime>, serializer: S) -> Result<S::Ok, S::Error> {
        match instant {
            Some(instant) => super::serialize(instant, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads an instant or null.
    ///
    /// # Errors
    /// As [`super::deserialize`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<OffsetDateTime>, D::Error> {
        #[derive(Deserialize)]
        struct Instant(#[serde(with = "super")] OffsetDateTime);
        Ok(Option::<Instant>::deserialize(deserializer)?.map(|instant| instant.0))
    }
}
