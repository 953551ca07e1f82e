//! The months of the events table.

use diesel::prelude::*;
use diesel::sql_types::{Text, Timestamptz};
use time::{Date, Duration, OffsetDateTime};

use crate::statement::statement;

statement! {
    /// Makes one month's partition, unless it exists.
    CreatePartition -> Text { "SELECT create_events_partition(" month_start: OffsetDateTime as Timestamptz; ")::text" }
}

statement! {
    /// A partition that lacks one of the two indexes that deduplication and reading stand on.
    FindUnindexed -> Text {
        "SELECT partition.inhrelid::regclass::text
        FROM pg_inherits partition
        WHERE partition.inhparent = 'events'::regclass
            AND (
                NOT EXISTS (
                    SELECT FROM pg_index i
                    WHERE i.indrelid = partition.inhrelid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
                        AND i.indnkeyatts = 2
                        AND pg_get_indexdef(i.indexrelid, 1, false) = 'id_hash'
                        AND pg_get_indexdef(i.indexrelid, 2, false) = 'customer_key'
                )
                OR NOT EXISTS (
                    SELECT FROM pg_index i
                    WHERE i.indrelid = partition.inhrelid AND i.indisvalid AND i.indpred IS NULL
                        AND pg_get_indexdef(i.indexrelid, 1, false) = 'customer_key'
                        AND pg_get_indexdef(i.indexrelid, 2, false) = 'time_created'
                )
            )
        ORDER BY 1
        LIMIT 1"
    }
}

/// The name of a partition without its indexes, if there is one.
pub(crate) fn find_unindexed(pg: &mut PgConnection) -> QueryResult<Option<String>> {
    FindUnindexed {}.get_result(pg).optional()
}

/// A calendar month in UTC, counted since the year 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Month(i32);

impl Month {
    /// The month that holds `instant`.
    pub(crate) fn of(instant: OffsetDateTime) -> Self {
        let (year, month, _) = instant.to_offset(time::UtcOffset::UTC).to_calendar_date();
        Self(year * 12 + i32::from(u8::from(month)) - 1)
    }

    /// Its first instant; the last month's successor ends where the calendar does.
    pub(crate) fn start(self) -> OffsetDateTime {
        let month = u8::try_from(self.0.rem_euclid(12) + 1).ok().and_then(|number| time::Month::try_from(number).ok());
        let date = month.and_then(|month| Date::from_calendar_date(self.0.div_euclid(12), month, 1).ok());
        date.map_or(billing_domain::period::instant::LAST, |date| date.midnight().assume_utc())
    }

    /// The month after it.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Makes its partition, unless it exists.
    pub(crate) fn create(self, pg: &mut PgConnection) -> QueryResult<()> {
        CreatePartition { month_start: self.start() }.execute(pg).map(|_| ())
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
    fn months_touch() {
        let december = Month::of(datetime!(2023-12-31 23:59:59.999999 UTC));
        assert_eq!(december.start(), datetime!(2023-12-01 0:00 UTC));
        assert_eq!(december.next().start(), datetime!(2024-01-01 0:00 UTC));
        assert_eq!(Month::of(december.next().start()), december.next());
    }
}
