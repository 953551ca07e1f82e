//! The months of the events table.

use std::thread;
use std::time::{Duration, Instant};

use diesel::prelude::*;
use diesel::sql_types::{Array, Text, Timestamptz};
use time::OffsetDateTime;

use super::error::Failure;
use super::month::Month;
use super::pool::Pool;
use super::statement::statement;

/// The table of events itself: where an engine has placed the lane, `events` is a view of it.
const EVENTS: &str = "coalesce(
    (SELECT refobjid::regclass FROM pg_rewrite
        JOIN pg_depend ON classid = 'pg_rewrite'::regclass AND objid = pg_rewrite.oid AND refclassid = 'pg_class'::regclass AND refobjid <> ev_class
        WHERE ev_class = 'events'::regclass LIMIT 1),
    'events'::regclass)";

statement! {
    /// Makes one month's partition, unless it exists.
    CreatePartition -> Text { "SELECT create_events_partition(" month_start: OffsetDateTime as Timestamptz; ")::text" }
}

statement! {
    /// A partition that lacks one of the two indexes that deduplication and reading stand on.
    FindUnindexed -> Text {
        "SELECT partition.inhrelid::regclass::text
        FROM pg_inherits partition
        WHERE partition.inhparent = " [EVENTS] "
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
    /// The partitions there are; where an engine has placed the lane, the views of them.
    ListPartitions -> Text {
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'events'::regclass
        UNION ALL
        SELECT month.relname FROM pg_class events JOIN pg_class month ON month.relnamespace = events.relnamespace AND month.relkind = 'v'
        WHERE events.oid = 'events'::regclass AND events.relkind = 'v'"
    }
}

statement! {
    /// The transactions of others that may be at work with the months of before: they have a lock on the table of events, as
    /// whoever plans a statement about it has from before it looks for the months until its transaction ends.
    ListReaders -> Text {
        "SELECT DISTINCT virtualtransaction FROM pg_locks
        WHERE relation = " [EVENTS] " AND granted AND pid <> pg_backend_pid()
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    }
}

statement! {
    /// Which of these transactions have not ended.
    ListUnfinished -> Text {
        "SELECT virtualxid FROM pg_locks
        WHERE locktype = 'virtualxid' AND granted AND virtualxid = ANY(" transactions: Vec<String> as Array<Text>; ")"
    }
}

/// Whoever is there for longer is not planning: a statement of the service ends before, and what others read for longer (a dump,
/// an audit) is one snapshot, which lacks new events as well as their arrival numbers.
const READERS_WAIT_MAX: Duration = Duration::from_secs(6);
/// How often it is looked whether they have ended.
const READERS_POLL: Duration = Duration::from_millis(5);

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

/// Waits for everybody who may be planning without months that are attached by now. Whoever stores events in a month has waited
/// so since they saw it: a reading that was planned without it would miss them, and say that it had seen them.
pub(crate) fn wait_for_readers(pool: &Pool) -> Result<(), Failure> {
    let began = Instant::now();
    let mut transactions: Vec<String> = pool.run(|pg| ListReaders {}.load(pg))?;
    while !transactions.is_empty() && began.elapsed() < READERS_WAIT_MAX {
        thread::sleep(READERS_POLL);
        transactions = pool.run(|pg| ListUnfinished { transactions: transactions.clone() }.load(pg))?;
    }
    Ok(())
}
