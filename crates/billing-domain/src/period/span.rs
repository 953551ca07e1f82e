//! Spans of the UTC calendar, from a second to a year.

use time::{Duration, OffsetDateTime, Time};

use super::interval::{date_in_month, month_index};
use super::{Period, instant};

/// A span of the UTC calendar. Spans of one kind tile all time, from one full second, hour or year to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Span {
    /// From one full second to the next.
    Second,
    /// From one full minute to the next.
    Minute,
    /// From one full hour to the next.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From the first of a month to the first of the next.
    Month,
    /// From the first of January, April, July or October to the first of the next of them.
    Quarter,
    /// From the first of January to the next.
    Year,
}

impl Span {
    /// Every span, shortest first.
    pub const ALL: &'static [Self] =
        &[Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Month, Self::Quarter, Self::Year];

    /// Its length where all are of one length; none for months and longer.
    pub fn length(self) -> Option<Duration> {
        match self {
            Self::Second => Some(Duration::SECOND),
            Self::Minute => Some(Duration::MINUTE),
            Self::Hour => Some(Duration::HOUR),
            Self::Day => Some(Duration::DAY),
            Self::Month | Self::Quarter | Self::Year => None,
        }
    }

    /// Its length in months; 0 for what is shorter.
    pub fn months(self) -> u8 {
        match self {
            Self::Second | Self::Minute | Self::Hour | Self::Day => 0,
            Self::Month => 1,
            Self::Quarter => 3,
            Self::Year => 12,
        }
    }

    /// The one that holds `instant`; it ends at [`instant::LAST`] at the latest.
    pub fn around(self, instant: OffsetDateTime) -> Period {
        let instant = instant::whole(instant);
        let start = match self.length() {
            Some(length) => {
                let past = instant.time() - Time::MIDNIGHT;
                let into = past.whole_microseconds() % length.whole_microseconds();
                instant - Duration::microseconds(i64::try_from(into).unwrap_or(0))
            }
            None => {
                let month = month_index(instant.date());
                let first = month - month.rem_euclid(i64::from(self.months()));
                date_in_month(first, 1).map_or(instant, |date| date.midnight().assume_utc())
            }
        };
        Period::from_whole(start, self.after(start))
    }

    /// One span later: the same time of day, on the same day of the month or the month's last where it is shorter.
    pub fn after(self, instant: OffsetDateTime) -> OffsetDateTime {
        self.moved(instant, 1)
    }

    /// One span earlier, likewise.
    pub fn before(self, instant: OffsetDateTime) -> OffsetDateTime {
        self.moved(instant, -1)
    }

    fn moved(self, instant: OffsetDateTime, direction: i32) -> OffsetDateTime {
        let instant = instant::whole(instant);
        let moved = match self.length() {
            Some(length) => instant.checked_add(length * direction),
            None => {
                let month = month_index(instant.date()) + i64::from(direction) * i64::from(self.months());
                date_in_month(month, instant.day()).map(|date| instant.replace_date(date))
            }
        };
        let edge = if direction < 0 { instant::FIRST } else { instant::LAST };
        moved.unwrap_or(edge).clamp(instant::FIRST, instant::LAST)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;

    use super::Span::{Day, Hour, Minute, Month, Quarter, Second, Year};
    use super::*;

    #[test]
    fn spans_begin_where_the_calendar_says() {
        let instant = datetime!(2024-05-31 13:45:59.000001 UTC);
        #[rustfmt::skip]
        let cases = [
            // span,   from,                                 to,                              before,                                 after
            (Second,   datetime!(2024-05-31 13:45:59 UTC),   datetime!(2024-05-31 13:46 UTC), datetime!(2024-05-31 13:45:58.000001 UTC), datetime!(2024-05-31 13:46:00.000001 UTC)),
            (Minute,   datetime!(2024-05-31 13:45 UTC),      datetime!(2024-05-31 13:46 UTC), datetime!(2024-05-31 13:44:59.000001 UTC), datetime!(2024-05-31 13:46:59.000001 UTC)),
            (Hour,     datetime!(2024-05-31 13:00 UTC),      datetime!(2024-05-31 14:00 UTC), datetime!(2024-05-31 12:45:59.000001 UTC), datetime!(2024-05-31 14:45:59.000001 UTC)),
            (Day,      datetime!(2024-05-31 0:00 UTC),       datetime!(2024-06-01 0:00 UTC),  datetime!(2024-05-30 13:45:59.000001 UTC), datetime!(2024-06-01 13:45:59.000001 UTC)),
            (Month,    datetime!(2024-05-01 0:00 UTC),       datetime!(2024-06-01 0:00 UTC),  datetime!(2024-04-30 13:45:59.000001 UTC), datetime!(2024-06-30 13:45:59.000001 UTC)),
            (Quarter,  datetime!(2024-04-01 0:00 UTC),       datetime!(2024-07-01 0:00 UTC),  datetime!(2024-02-29 13:45:59.000001 UTC), datetime!(2024-08-31 13:45:59.000001 UTC)),
            (Year,     datetime!(2024-01-01 0:00 UTC),       datetime!(2025-01-01 0:00 UTC),  datetime!(2023-05-31 13:45:59.000001 UTC), datetime!(2025-05-31 13:45:59.000001 UTC)),
        ];
        for (span, from, to, before, after) in cases {
            let around = span.around(instant);
            assert_eq!((around.start(), around.end()), (from, to), "{span:?}");
            assert_eq!((span.before(instant), span.after(instant)), (before, after), "{span:?}");
        }
    }

    #[test]
    fn the_calendar_has_ends() {
        for span in Span::ALL {
            assert_eq!(span.after(instant::LAST), instant::LAST);
            assert_eq!(span.before(instant::FIRST), instant::FIRST);
        }
    }

    proptest! {
        #[test]
        fn spans_tile_all_time(seconds in 0..4_000_000_000_i64, micro in 0..1_000_000_i64, span in prop::sample::select(Span::ALL)) {
            let instant = OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds) + Duration::microseconds(micro);
            let around = span.around(instant);
            prop_assert!(around.contains(instant));
            prop_assert_eq!(span.around(around.start()), around);
            prop_assert_eq!(span.around(around.end()).start(), around.end());
        }

        #[test]
        fn moving_keeps_the_order(a in 0..4_000_000_000_i64, b in 0..4_000_000_000_i64, span in prop::sample::select(Span::ALL)) {
            let at = |seconds| OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds);
            prop_assert!(span.before(at(a.min(b))) <= span.before(at(a.max(b))));
        }
    }
}
