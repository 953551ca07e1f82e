//! Dates and instants, in and out.
//!
//! In: `YYYY-MM-DD`, or a date-time with `T` or a space, seconds and fraction optional, offset optional (none is
//! UTC). Periods are half open inside and closed on the wire, so a start and an end read the same text differently:
//! [`StartDate`], [`EndDate`]. Questions about usage are half open on the wire too: [`UntilDate`]. Out: RFC 3339 in UTC
//! with `Z`, six decimals where there is a fraction.

use std::fmt;

use billing_domain::{FieldCode, FieldErrors};
use serde::{Serialize, Serializer};
use serde_json::Value;
use time::{Date, Duration, Month, OffsetDateTime, Time, UtcOffset};
use utoipa::openapi::schema::{KnownFormat, Type};

use super::body::{FromJson, incorrect_type, one};
use super::schema::{Described, Schema, Schemas, formatted, plain};

/// First year that is accepted.
const YEAR_MIN: i32 = 1970;
/// Last year that is accepted.
const YEAR_MAX: i32 = 2199;
const MICROSECOND: Duration = Duration::microseconds(1);
/// The last microsecond of a second.
const LAST_MICROSECOND: u32 = 999_999;

/// A point in time; a date alone is its midnight UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub OffsetDateTime);

/// The first instant inside a period; a date alone is its midnight UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartDate(pub OffsetDateTime);

/// The end of a period, as the first instant after it. A date alone, or 23:59:59 with any fraction, ends with its
/// day; any other date-time is the last microsecond inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndDate(pub OffsetDateTime);

/// The first instant after the time that is asked about, so that questions which meet count nothing twice. A date alone, or
/// 23:59:59 with any fraction, ends with its day; the last microsecond of a second, as an `end_date` shows it, is
/// inside; any other date-time is the first instant outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UntilDate(pub OffsetDateTime);

/// A calendar day in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day(pub Date);

/// A text taken apart.
struct Written {
    /// The instant, cut to whole microseconds.
    instant: OffsetDateTime,
    /// Whether there was a date only.
    is_date: bool,
    /// The time of day as it was written.
    time: Time,
}

impl Written {
    fn read(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked(10)?;
        let date = read_date(date)?;
        if rest.is_empty() {
            return Some(Self { instant: date.midnight().assume_utc(), is_date: true, time: Time::MIDNIGHT });
        }
        let rest = rest.strip_prefix(['T', 't', ' '])?;
        let (time, offset) = split_offset(rest)?;
        let time = read_time(time)?;
        let instant = date.with_time(time).assume_offset(offset).checked_to_offset(UtcOffset::UTC)?;
        Some(Self { instant, is_date: false, time })
    }

    /// The end of the day that it stands for, when it is one of the ways to write that.
    fn end_of_day(&self) -> Option<OffsetDateTime> {
        let ends_its_day = |time: Time| (time.hour(), time.minute(), time.second()) == (23, 59, 59);
        if self.is_date {
            return Some(self.instant.saturating_add(Duration::DAY));
        }
        let is_last_second = ends_its_day(self.time) || ends_its_day(self.instant.time());
        let second = self.instant.replace_nanosecond(0).unwrap_or(self.instant);
        is_last_second.then(|| second.saturating_add(Duration::SECOND))
    }

    fn end(&self) -> OffsetDateTime {
        self.end_of_day().unwrap_or_else(|| self.instant.saturating_add(MICROSECOND))
    }

    fn until(&self) -> OffsetDateTime {
        let is_last_inside = self.instant.microsecond() == LAST_MICROSECOND;
        let instant = if is_last_inside { self.instant.saturating_add(MICROSECOND) } else { self.instant };
        self.end_of_day().unwrap_or(instant)
    }
}

fn read_date(text: &str) -> Option<Date> {
    let (year, rest) = text.split_once('-')?;
    let (month, day) = rest.split_once('-')?;
    let month = Month::try_from(u8::try_from(digits(month, 2)?).ok()?).ok()?;
    Date::from_calendar_date(i32::try_from(digits(year, 4)?).ok()?, month, u8::try_from(digits(day, 2)?).ok()?).ok()
}

/// `HH:MM`, `HH:MM:SS` or `HH:MM:SS.f`, cut to whole microseconds.
fn read_time(text: &str) -> Option<Time> {
    let (clock, fraction) = match text.split_once(['.', ',']) {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (text, None),
    };
    let mut parts = clock.split(':').map(|part| digits(part, 2).and_then(|value| u8::try_from(value).ok()));
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = match parts.next() {
        Some(second) => second?,
        None if fraction.is_some() => return None,
        None => 0,
    };
    if parts.next().is_some() {
        return None;
    }
    let microsecond = match fraction {
        None => 0,
        Some(fraction) if fraction.is_empty() || fraction.len() > 9 => return None,
        Some(fraction) if !fraction.bytes().all(|byte| byte.is_ascii_digit()) => return None,
        Some(fraction) => format!("{fraction:0<6}")[..6].parse().ok()?,
    };
    Time::from_hms_micro(hour, minute, second, microsecond).ok()
}

/// The time of day and the offset behind it: `Z`, `+HH`, `+HHMM`, `+HH:MM` or none.
fn split_offset(text: &str) -> Option<(&str, UtcOffset)> {
    if let Some(time) = text.strip_suffix(['Z', 'z']) {
        return Some((time, UtcOffset::UTC));
    }
    let Some(at) = text.find(['+', '-']) else { return Some((text, UtcOffset::UTC)) };
    let (time, signed) = text.split_at(at);
    let (hours, minutes) = match signed.len() {
        3 => (&signed[1..], "00"),
        5 => signed[1..].split_at_checked(2)?,
        6 => signed[1..].split_once(':')?,
        _ => return None,
    };
    let sign: i8 = if signed.starts_with('-') { -1 } else { 1 };
    let part = |text| digits(text, 2).and_then(|value| i8::try_from(value).ok());
    let hours = part(hours).filter(|hours| *hours < 24)?;
    let offset = UtcOffset::from_hms(sign * hours, sign * part(minutes)?, 0).ok()?;
    Some((time, offset))
}

fn digits(text: &str, count: usize) -> Option<u32> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

fn read(value: &Value) -> Result<Written, FieldErrors> {
    let Value::String(text) = value else { return Err(incorrect_type("a date or date-time", value)) };
    let written = Written::read(text).ok_or_else(|| {
        one(
            FieldCode::Invalid,
            "Use one of these formats: YYYY-MM-DD, YYYY-MM-DDThh:mm:ss with an optional fraction and offset.",
        )
    })?;
    match written.instant.year() {
        ..YEAR_MIN => Err(one(FieldCode::MinValue, format!("Dates begin with the year {YEAR_MIN}."))),
        YEAR_MIN..=YEAR_MAX => Ok(written),
        _ => Err(one(FieldCode::MaxValue, format!("Dates end with the year {YEAR_MAX}."))),
    }
}

/// Reads the time of an event, which is not bounded to years of billing.
pub(crate) fn read_instant(text: &str) -> Option<OffsetDateTime> {
    Written::read(text).map(|written| written.instant)
}

impl FromJson for Instant {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        read(&value).map(|written| Self(written.instant))
    }
}

impl FromJson for StartDate {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        read(&value).map(|written| Self(written.instant))
    }
}

impl FromJson for EndDate {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        read(&value).map(|written| Self(written.end()))
    }
}

impl FromJson for UntilDate {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        read(&value).map(|written| Self(written.until()))
    }
}

impl FromJson for Day {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        let written = read(&value)?;
        if !written.is_date {
            return Err(one(FieldCode::Invalid, "Use the format YYYY-MM-DD."));
        }
        Ok(Self(written.instant.date()))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let utc = self.0.to_offset(UtcOffset::UTC);
        let (date, (hour, minute, second, microsecond)) = (utc.date(), utc.time().as_hms_micro());
        match microsecond {
            0 => write!(f, "{date}T{hour:02}:{minute:02}:{second:02}Z"),
            _ => write!(f, "{date}T{hour:02}:{minute:02}:{second:02}.{microsecond:06}Z"),
        }
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

macro_rules! described {
    ($($type:ty => $described:expr;)*) => {
        $(impl Described for $type {
            fn describe(_: &mut Schemas) -> Schema {
                $described
            }
        })*
    };
}

described! {
    Instant => formatted(KnownFormat::DateTime, "RFC 3339 in UTC; a date alone is its midnight.");
    StartDate => plain(Type::String, "Date or date-time; a date alone is its midnight UTC, without offset is UTC.");
    EndDate => plain(Type::String, "Date or date-time, the last moment inside; a date alone, or 23:59:59, ends with its day.");
    UntilDate => plain(Type::String, "Date or date-time, the first moment outside; a date alone, or 23:59:59, ends with its day.");
    Day => formatted(KnownFormat::Date, "YYYY-MM-DD.");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(instant: OffsetDateTime) -> String {
        serde_json::to_string(&Instant(instant)).expect("json").trim_matches('"').to_owned()
    }

    #[test]
    fn reads_starts_and_ends_of_periods() {
        #[rustfmt::skip]
        let cases = [
            // text,                               start,                          end (exclusive),               why
            ("2024-01-31",                         "2024-01-31T00:00:00Z",         "2024-02-01T00:00:00Z",        "a date is a whole day"),
            ("2024-02-29",                         "2024-02-29T00:00:00Z",         "2024-03-01T00:00:00Z",        "a leap day"),
            ("2024-01-31T13:30:00Z",               "2024-01-31T13:30:00Z",         "2024-01-31T13:30:00.000001Z", "the last instant inside"),
            ("2024-01-31 13:30:00",                "2024-01-31T13:30:00Z",         "2024-01-31T13:30:00.000001Z", "a space, and no offset is UTC"),
            ("2024-01-31T13:30",                   "2024-01-31T13:30:00Z",         "2024-01-31T13:30:00.000001Z", "seconds are optional"),
            ("2024-01-31T13:30:00.25+02:00",       "2024-01-31T11:30:00.250000Z",  "2024-01-31T11:30:00.250001Z", "an offset and a fraction"),
            ("2024-01-31T13:30:00-0230",           "2024-01-31T16:00:00Z",         "2024-01-31T16:00:00.000001Z", "an offset without colon"),
            ("2024-01-31T13:30:00+02",             "2024-01-31T11:30:00Z",         "2024-01-31T11:30:00.000001Z", "an offset of hours"),
            ("2024-01-31T23:59:59.999999Z",        "2024-01-31T23:59:59.999999Z",  "2024-02-01T00:00:00Z",        "what an answer shows"),
            ("2024-01-31T23:59:59Z",               "2024-01-31T23:59:59Z",         "2024-02-01T00:00:00Z",        "the last second is the day's end"),
            ("2024-01-31T23:59:59.5",              "2024-01-31T23:59:59.500000Z",  "2024-02-01T00:00:00Z",        "with any fraction"),
            ("2024-01-31T23:59:59+02:00",          "2024-01-31T21:59:59Z",         "2024-01-31T22:00:00Z",        "the end of the day as written"),
            ("2024-02-01T01:59:59+02:00",          "2024-01-31T23:59:59Z",         "2024-02-01T00:00:00Z",        "the end of the day in UTC"),
            ("2024-02-01T00:00:00Z",               "2024-02-01T00:00:00Z",         "2024-02-01T00:00:00.000001Z", "midnight itself is inside"),
            ("2024-01-31T13:30:00.123456789Z",     "2024-01-31T13:30:00.123456Z",  "2024-01-31T13:30:00.123457Z", "cut to whole microseconds"),
        ];
        for (text, start, end, why) in cases {
            let value = Value::from(text);
            assert_eq!(written(StartDate::from_json(value.clone()).expect(text).0), start, "{text}: {why}");
            assert_eq!(written(Instant::from_json(value.clone()).expect(text).0), start, "{text}: {why}");
            assert_eq!(written(EndDate::from_json(value).expect(text).0), end, "{text}: {why}");
        }
    }

    #[test]
    fn reads_ends_of_questions() {
        #[rustfmt::skip]
        let cases = [
            // text,                          end (exclusive),               why
            ("2024-01-31",                    "2024-02-01T00:00:00Z",        "a date is a whole day"),
            ("2024-01-31T23:59:59Z",          "2024-02-01T00:00:00Z",        "the last second is the day's end"),
            ("2024-01-31T23:59:59.5",         "2024-02-01T00:00:00Z",        "with any fraction"),
            ("2024-01-31T23:59:59.999999Z",   "2024-02-01T00:00:00Z",        "as an end_date shows it"),
            ("2024-01-31T23:59:59+02:00",     "2024-01-31T22:00:00Z",        "the end of the day as written"),
            ("2024-02-01T01:59:59+02:00",     "2024-02-01T00:00:00Z",        "the end of the day in UTC"),
            ("2024-01-31T13:29:59.999999Z",   "2024-01-31T13:30:00Z",        "an end_date in the middle of a day"),
            ("2024-01-31T13:29:59.9999995Z",  "2024-01-31T13:30:00Z",        "cut to whole microseconds first"),
            ("2024-01-31T13:29:59.999998Z",   "2024-01-31T13:29:59.999998Z", "the first instant outside"),
            ("2024-01-31T13:30:00Z",          "2024-01-31T13:30:00Z",        "the first instant outside"),
            ("2024-01-31 13:30",              "2024-01-31T13:30:00Z",        "a space, no seconds, no offset"),
            ("2024-01-31T13:30:00.25+02:00",  "2024-01-31T11:30:00.250000Z", "an offset and a fraction"),
            ("2024-02-01T00:00:00Z",          "2024-02-01T00:00:00Z",        "midnight belongs to the next day"),
        ];
        for (text, end, why) in cases {
            let UntilDate(read) = UntilDate::from_json(text.into()).expect(text);
            assert_eq!(written(read), end, "{text}: {why}");
            assert_eq!(
                UntilDate::from_json(end.into()).expect(end),
                UntilDate(read),
                "{text}: what is shown means the same"
            );
        }
    }

    #[test]
    fn refuses_what_is_no_date() {
        #[rustfmt::skip]
        let cases = [
            // text,                       code,        why
            ("2023-02-29",                 "invalid",   "no such day"),
            ("2024-13-01",                 "invalid",   "no such month"),
            ("2024-1-1",                   "invalid",   "two digits each"),
            ("24-01-01",                   "invalid",   "four digits for the year"),
            ("2024-01-01T25:00:00Z",       "invalid",   "no such hour"),
            ("2024-01-01T12:00:60Z",       "invalid",   "no leap seconds"),
            ("2024-01-01T12Z",             "invalid",   "an hour alone"),
            ("2024-01-01T12:00.5Z",        "invalid",   "a fraction of a minute"),
            ("2024-01-01T12:00:00.Z",      "invalid",   "an empty fraction"),
            ("2024-01-01T12:00:00+2",      "invalid",   "one digit of an offset"),
            ("2024-01-01T12:00:00+24:00",  "invalid",   "no such offset"),
            ("2024-01-01X12:00:00Z",       "invalid",   "neither T nor a space"),
            ("2024-01-01 ",                "invalid",   "nothing behind the space"),
            ("",                           "invalid",   "nothing"),
            ("tomorrow",                   "invalid",   "a word"),
            ("２０２４-01-01",              "invalid",   "digits of another script"),
            ("1969-12-31",                 "min_value", "before the first year"),
            ("2200-01-01",                 "max_value", "after the last year"),
            ("9999-12-31T23:59:59-23:00",  "invalid",   "outside the calendar once in UTC"),
        ];
        for (text, code, why) in cases {
            for read in [EndDate::from_json(text.into()).err(), StartDate::from_json(text.into()).err()] {
                assert_eq!(read.expect(why).0[0].code.as_str(), code, "{text}: {why}");
            }
        }
        assert_eq!(Instant::from_json(5.into()).expect_err("a number").0[0].code, FieldCode::IncorrectType);
    }

    #[test]
    fn what_was_received_can_be_sent_back() {
        for text in ["2024-01-31", "2024-01-31T23:59:59", "2024-01-31T13:30:00.000001Z", "2024-02-28T12:00:00+05:30"] {
            let EndDate(end) = EndDate::from_json(text.into()).expect(text);
            let shown = written(end - MICROSECOND);
            assert_eq!(EndDate::from_json(shown.into()).expect(text), EndDate(end), "{text}");
        }
    }
}
