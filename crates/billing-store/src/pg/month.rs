//! Calendar months in UTC: each has a table of its events.

use time::{Date, Duration, OffsetDateTime};

/// A calendar month in UTC, counted since the year 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Month(i32);

impl Month {
    /// The month that holds `instant`.
    pub(crate) fn of(instant: OffsetDateTime) -> Self {
        let (year, month, _) = instant.to_offset(time::UtcOffset::UTC).to_calendar_date();
        Self(year * 12 + i32::from(u8::from(month)) - 1)
    }

    /// Its first instant.
    pub(crate) fn start(self) -> OffsetDateTime {
        let month = u8::try_from(self.0.rem_euclid(12) + 1).ok().and_then(|number| time::Month::try_from(number).ok());
        let date = month.and_then(|month| Date::from_calendar_date(self.0.div_euclid(12), month, 1).ok());
        date.map_or(billing_domain::period::instant::LAST, |date| date.midnight().assume_utc())
    }

    /// The first instant after it.
    pub(crate) fn end(self) -> OffsetDateTime {
        Self(self.0 + 1).start()
    }

    /// The one so many months later.
    pub(crate) fn later(self, months: i32) -> Self {
        Self(self.0 + months)
    }

    /// The months from the first to the last, both included.
    pub(crate) fn range((first, last): (Self, Self)) -> impl Iterator<Item = Self> {
        (first.0..=last.0).map(Self)
    }

    /// The name of its partition.
    pub(crate) fn table(self) -> String {
        format!("events_{:04}_{:02}", self.0.div_euclid(12), self.0.rem_euclid(12) + 1)
    }

    /// The month whose partition has this name.
    pub(crate) fn of_table(table: &str) -> Option<Self> {
        let (year, month) = table.strip_prefix("events_")?.split_once('_')?;
        Some(Self(year.parse::<i32>().ok()? * 12 + month.parse::<i32>().ok()? - 1))
    }
}

/// `instant` moved, within the calendar.
pub(crate) fn moved(instant: OffsetDateTime, by: Duration) -> OffsetDateTime {
    instant.checked_add(by).unwrap_or(if by.is_negative() {
        OffsetDateTime::UNIX_EPOCH
    } else {
        billing_domain::period::instant::LAST
    })
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn months_have_names_and_beginnings() {
        let december = Month::of(datetime!(2023-12-31 23:59:59.999999 UTC));
        let january = Month::of(datetime!(2024-01-01 0:00 UTC));
        assert_eq!((december.start(), december.table().as_str()), (datetime!(2023-12-01 0:00 UTC), "events_2023_12"));
        assert_eq!(Month::range((december, january)).collect::<Vec<_>>(), [december, january]);
        assert_eq!(Month::of_table("events_2024_01"), Some(january));
        assert_eq!(Month::of_table("events_default"), None);
    }
}
