//! The months of the events table.

use diesel::prelude::*;
use diesel::sql_types::{Text, Timestamptz};
use time::OffsetDateTime;

use super::month::Month;
use super::statement::statement;

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

statement! {
    /// The partitions there are.
    ListPartitions -> Text {
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'events'::regclass"
    }
}

/// The months that have a partition, latest first.
pub(crate) fn list(pg: &mut PgConnection) -> QueryResult<Vec<Month>> {
    let tables: Vec<String> = ListPartitions {}.load(pg)?;
    let mut months: Vec<Month> = tables.iter().filter_map(|table| Month::of_table(table)).collect();
    months.sort();
    months.reverse();
    Ok(months)
}

/// The name of a partition without its indexes, if there is one.
pub(crate) fn find_unindexed(pg: &mut PgConnection) -> QueryResult<Option<String>> {
    FindUnindexed {}.get_result(pg).optional()
}

/// Makes a month's partition, unless it exists. Not beside anything else in one transaction: until it ends nobody else can
/// make any.
pub(crate) fn create(pg: &mut PgConnection, month: Month) -> QueryResult<()> {
    CreatePartition { month_start: month.start() }.execute(pg).map(drop)
}
