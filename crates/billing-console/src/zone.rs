//! The time zone that somebody reads and writes instants in.

use std::fmt;
use std::sync::Arc;

use billing_domain::period::{Zone, instants_at, local_time};
use time::format_description::well_known::Rfc3339;
use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time, UtcOffset};

use crate::api::Failure;
use crate::text;

/// A zone by its name, with what its clocks show.
#[derive(Clone)]
pub struct ViewerZone {
    name: String,
    clocks: Arc<dyn Zone + Send + Sync>,
}

impl fmt::Debug for ViewerZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Default for ViewerZone {
    fn default() -> Self {
        Self::new("UTC", Arc::new(UtcOffset::UTC))
    }
}

impl ViewerZone {
    /// The zone of that name.
    pub fn new(name: impl Into<String>, clocks: Arc<dyn Zone + Send + Sync>) -> Self {
        Self { name: name.into(), clocks }
    }

    /// How it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its clocks show then, to the second: `2026-03-29T03:30:00`, as browsers write and read it.
    pub fn local(&self, instant: OffsetDateTime) -> String {
        let shown = local_time(&*self.clocks, instant);
        let (date, time) = (shown.date(), shown.time());
        let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
        format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())
    }

    /// The instant at which its clocks show what was typed.
    ///
    /// # Errors
    /// What is no time; one that its clocks leave out, or show twice.
    pub fn read(&self, typed: &str) -> Result<OffsetDateTime, Failure> {
        if let Ok(instant) = OffsetDateTime::parse(typed, &Rfc3339) {
            return Ok(instant.to_offset(UtcOffset::UTC));
        }
        let invalid = |detail: String| Failure::new(400, "invalid", &detail);
        let local = parsed(typed).ok_or_else(|| invalid(format!("{typed}: {}", text::NO_TIME)))?;
        match instants_at(&*self.clocks, local)[..] {
            [instant] => Ok(instant),
            [first, second] => Err(invalid(format!(
                "{typed}: {} {} ({} {} {}).",
                text::TIME_COMES_TWICE,
                self.name,
                utc(first),
                text::AND,
                utc(second)
            ))),
            _ => Err(invalid(format!("{typed}: {} {}.", text::TIME_IS_LEFT_OUT, self.name))),
        }
    }

    /// The first instant of a day, `2026-03-29`, or of the next one.
    pub fn begin_of(&self, day: &str, is_next: bool) -> Option<OffsetDateTime> {
        let day = parsed_day(day)?;
        let day = if is_next { day.next_day()? } else { day };
        Some(billing_domain::period::instant_at(&*self.clocks, PrimitiveDateTime::new(day, Time::MIDNIGHT)))
    }
}

/// An instant in UTC, with all of its digits.
pub fn utc(instant: OffsetDateTime) -> String {
    let part = match instant.microsecond() {
        0 => String::new(),
        microseconds => format!(".{microseconds:06}"),
    };
    format!("{}{part} UTC", ViewerZone::default().local(instant).replace('T', " "))
}

/// A day and a time as browsers write them: with seconds or without, and with parts of a second.
fn parsed(typed: &str) -> Option<PrimitiveDateTime> {
    let (day, time) = typed.split_once('T')?;
    let (whole, part) = time.split_once('.').unwrap_or((time, ""));
    let numbers: Option<Vec<u8>> = whole.split(':').map(two_digits).collect();
    let (hour, minute, second) = match numbers?[..] {
        [hour, minute] => (hour, minute, 0),
        [hour, minute, second] => (hour, minute, second),
        _ => return None,
    };
    let is_part = part.len() <= 6 && part.bytes().all(|byte| byte.is_ascii_digit());
    let microseconds = format!("{part:0<6}").parse().ok().filter(|_| is_part)?;
    Some(PrimitiveDateTime::new(parsed_day(day)?, Time::from_hms_micro(hour, minute, second, microseconds).ok()?))
}

fn parsed_day(typed: &str) -> Option<Date> {
    let mut parts = typed.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let is_year = year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    let year = year.parse().ok().filter(|_| is_year && parts.next().is_none())?;
    Date::from_calendar_date(year, Month::try_from(two_digits(month)?).ok()?, two_digits(day)?).ok()
}

fn two_digits(text: &str) -> Option<u8> {
    let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use time::macros::{datetime, offset};

    use super::*;

    /// Clocks as those of Berlin in 2026: summer from the last Sunday of March to that of October.
    struct Berlin;

    impl Zone for Berlin {
        fn offset_at(&self, instant: OffsetDateTime) -> UtcOffset {
            let is_summer = (datetime!(2026-03-29 1:00 UTC)..datetime!(2026-10-25 1:00 UTC)).contains(&instant);
            if is_summer { offset!(+2) } else { offset!(+1) }
        }
    }

    #[test]
    fn what_is_typed_is_an_instant_or_is_refused() {
        let berlin = ViewerZone::new("Europe/Berlin", Arc::new(Berlin));
        #[rustfmt::skip]
        let cases = [
            // typed,                      instant,                                     why
            ("2026-01-15T12:00",           Ok(datetime!(2026-01-15 11:00 UTC)),         "winter; browsers leave out seconds that are none"),
            ("2026-07-15T12:00:30",        Ok(datetime!(2026-07-15 10:00:30 UTC)),      "summer"),
            ("2026-07-15T12:00:30.250",    Ok(datetime!(2026-07-15 10:00:30.25 UTC)),   "with a part of a second"),
            ("2026-03-29T01:59:59",        Ok(datetime!(2026-03-29 0:59:59 UTC)),       "the last second before clocks go forward"),
            ("2026-03-29T02:00",           Err("clocks go forward over it"),            "the first that is left out"),
            ("2026-03-29T02:59:59",        Err("clocks go forward over it"),            "the last that is left out"),
            ("2026-03-29T03:00",           Ok(datetime!(2026-03-29 1:00 UTC)),          "the first of summer"),
            ("2026-10-25T01:59:59",        Ok(datetime!(2026-10-24 23:59:59 UTC)),      "the last that comes once"),
            ("2026-10-25T02:00",           Err("(2026-10-25 00:00:00 UTC and 2026-10-25 01:00:00 UTC)"), "the first that comes twice"),
            ("2026-10-25T02:59:59",        Err("clocks show it twice"),                 "the last that comes twice"),
            ("2026-10-25T03:00",           Ok(datetime!(2026-10-25 2:00 UTC)),          "the first of winter"),
            ("2026-10-25T02:30:00Z",       Ok(datetime!(2026-10-25 2:30 UTC)),          "a zone that is said holds"),
            ("2026-10-25T02:30:00+02:00",  Ok(datetime!(2026-10-25 0:30 UTC)),          "so the hour that comes twice can be said"),
            ("2026-02-30T12:00",           Err("no date and time"),                     "no such day"),
            ("tomorrow",                   Err("no date and time"),                     "not as browsers write it"),
            ("2026-01-15T12:00:00.1234567", Err("no date and time"),                    "finer than anything is kept"),
        ];
        for (typed, expected, why) in cases {
            match (berlin.read(typed), expected) {
                (Ok(instant), expected) => assert_eq!(Ok(instant), expected, "{typed}: {why}"),
                (Err(failure), Err(said)) => {
                    assert!(failure.detail.contains(said), "{typed}: {why}: {}", failure.detail)
                }
                (Err(failure), Ok(_)) => panic!("{typed}: {why}: {}", failure.detail),
            }
        }
    }

    #[test]
    fn what_is_shown_is_read_again() {
        let berlin = ViewerZone::new("Europe/Berlin", Arc::new(Berlin));
        let start = datetime!(2026-03-28 0:00 UTC);
        for minutes in (0..340 * 24 * 60).step_by(17) {
            let instant = start + time::Duration::minutes(minutes);
            let is_twice = (datetime!(2026-10-25 0:00 UTC)..datetime!(2026-10-25 2:00 UTC)).contains(&instant);
            let read = berlin.read(&berlin.local(instant));
            assert_eq!(read.ok(), Some(instant).filter(|_| !is_twice), "{instant}");
        }
    }

    #[test]
    fn days_begin_when_their_clocks_say() {
        let berlin = ViewerZone::new("Europe/Berlin", Arc::new(Berlin));
        #[rustfmt::skip]
        let cases = [
            // day,        next,  begins,                                why
            ("2026-01-15", false, Some(datetime!(2026-01-14 23:00 UTC)), "an hour ahead"),
            ("2026-03-29", true,  Some(datetime!(2026-03-29 22:00 UTC)), "a day of 23 hours ends"),
            ("2026-1-15",  false, None,                                  "not as browsers write it"),
        ];
        for (day, is_next, begins, why) in cases {
            assert_eq!(berlin.begin_of(day, is_next), begins, "{day}: {why}");
        }
    }
}
