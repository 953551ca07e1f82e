//! What the planner knows of the tables. Postgres gathers it by itself, in its own time: at most once a minute, and not for a
//! table that was filled a moment ago. Until then a question may take fifty times as long as it should.
//!
//! The parent of the months of events is left out: gathering for it takes the lock under which a month is attached, for as
//! long as reading samples of all months takes, and statements name the months.

use billing_domain::{Error, StoreError};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

use super::error::Failure;
use super::lock::{LockClass, try_lock};
use super::pool::Pool;
use super::statement::statement;

/// Smaller tables are read quickly whatever is known of them.
const PAGES_MIN: i64 = 8;

/// The schema that is looked at: that of the catalogue, or that of a lane, where an engine has placed that the one with its tables.
pub(crate) const NAMESPACE: &str = "coalesce(
    (SELECT tables.relnamespace FROM pg_class views
        JOIN pg_rewrite ON ev_class = views.oid
        JOIN pg_depend ON classid = 'pg_rewrite'::regclass AND objid = pg_rewrite.oid AND refclassid = 'pg_class'::regclass AND refobjid <> ev_class
        JOIN pg_class tables ON tables.oid = refobjid
        WHERE views.oid = to_regclass('customers') AND views.relkind = 'v' LIMIT 1),
    to_regnamespace(quote_ident(current_schema())))";

statement! {
    /// The tables of which what is known is not of what they hold, the largest first: those of which nothing was gathered
    /// since the statistics of the server began, that have grown by a fifth, or of which a tenth of the rows have changed. The
    /// size is that of this moment; changes are told with a delay of seconds.
    ListStale -> Text {
        "SELECT relation.oid::regclass::text
        FROM (
            SELECT oid, relpages, reltuples, pg_relation_size(oid) / current_setting('block_size')::bigint AS pages
            FROM pg_class
            WHERE relkind = 'r' AND relnamespace = " [NAMESPACE] " AND pg_has_role(relowner, 'USAGE')
        ) relation
        WHERE relation.pages >= " pages_min: i64 as BigInt; " AND (
            coalesce(pg_stat_get_last_analyze_time(relation.oid), pg_stat_get_last_autoanalyze_time(relation.oid)) IS NULL
            OR relation.pages > 1.2 * relation.relpages
            OR pg_stat_get_mod_since_analyze(relation.oid) > 1000 + 0.1 * greatest(relation.reltuples, 0)
        )
        ORDER BY relation.pages DESC"
    }
}

impl Pool {
    /// Gathers statistics of every table that has too old ones, one after the other; how many those were. A table that
    /// somebody has locked waits for the next time.
    pub(crate) fn refresh_statistics(&self) -> Result<usize, Error> {
        let stale = ListStale { pages_min: PAGES_MIN };
        let stale: Vec<String> = self.run(|pg| stale.clone().load(pg)).map_err(Failure::into_error)?;
        let mut gathered = 0;
        for table in stale {
            match self.transact(|pg| gather(pg, &table)).map_err(Failure::into_error) {
                Ok(true) => gathered += 1,
                // Somebody else is at it.
                Ok(false) => break,
                Err(Error::Store(StoreError::LockTimeout)) => log::info!("statistics of {table} wait: it is locked"),
                Err(error) => return Err(error),
            }
        }
        Ok(gathered)
    }
}

/// Gathers statistics of one table, whose name is quoted where it has to be.
fn gather(pg: &mut PgConnection, table: &str) -> Result<bool, Failure> {
    use diesel::connection::SimpleConnection;
    if !try_lock(pg, LockClass::Statistics)? {
        return Ok(false);
    }
    // It reads 30,000 pages at most.
    pg.batch_execute(&format!("SET LOCAL statement_timeout = '60s'; ANALYZE {table}"))?;
    Ok(true)
}
