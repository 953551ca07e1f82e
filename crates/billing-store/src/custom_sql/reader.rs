//! The connections that custom metrics run on: few, read-only, short of time and memory, and as a role that sees one view.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use billing_domain::custom_sql::CustomFailure;
use billing_domain::{Error, StoreError};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use uuid::Uuid;

use super::share::Shares;
use crate::pg::error::Failure;
use crate::pg::pool::{Address, Connection, Pool};

/// Connections: so few that custom metrics can never be in the way of billing.
const CONNECTIONS: u32 = 3;
/// How many of them one organization has at most: there is always one for another.
const CONNECTIONS_EACH: u32 = CONNECTIONS - 1;
/// How long a call waits for its turn. With what its queries may take it stays within what its own transaction may wait.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Memory that all steps of a query together may keep rows in, in KiB; what does not fit goes to temporary files.
const MEMORY_KIB: u32 = 32 * 1024;
/// The same for each step, whose limit Postgres knows.
const STEP_KIB_MAX: u32 = 8 * 1024;
/// Postgres takes no less.
const STEP_KIB_MIN: u32 = 64;

/// The settings of one query.
pub(crate) fn limits(time: Duration, keeping: u32) -> String {
    let memory = (MEMORY_KIB / keeping.max(1)).clamp(STEP_KIB_MIN, STEP_KIB_MAX);
    format!("SET LOCAL statement_timeout = {}; SET LOCAL work_mem = {memory}", time.as_millis())
}

/// Limits of every connection, on top of those of the others. Set before the role is taken on. What is one query's is set anew
/// for each: [`limits`].
const LIMITS: &str = "
    SET default_transaction_read_only = on;
    SET statement_timeout = '2s';
    SET work_mem = '8MB';
    SET hash_mem_multiplier = 1;
    SET datestyle = 'ISO';
    SET max_parallel_workers_per_gather = 0;
    SET enable_seqscan = on;
";
/// Only a superuser may set it.
const TEMP_FILE_LIMIT: &str = "SET temp_file_limit = '64MB'";
/// From here on the connection can read one view.
const TAKE_ROLE: &str = "SET ROLE billing_custom_metric";

/// Makes the role, where the user may, and lets it read the view, how far events have arrived, and nothing else. A role belongs to all databases of a
/// server, so another one may have made it, or may be making it right now.
const PREPARE: &str = "
    DO $$
    BEGIN
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'billing_custom_metric') THEN
            BEGIN
                CREATE ROLE billing_custom_metric NOLOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION;
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
        IF NOT pg_has_role(current_user, 'billing_custom_metric', 'MEMBER') THEN
            EXECUTE format('GRANT billing_custom_metric TO %I', current_user);
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA custom_metric, public, %I TO billing_custom_metric', current_schema());
        GRANT SELECT ON custom_metric_events, event_arrivals TO billing_custom_metric;
    END
    $$
";

/// Prepares the database for custom metrics; called after every migration. Where the user may not make roles, custom
/// metrics run without that wall, and the log says so.
pub(crate) fn prepare(pg: &mut PgConnection) {
    if let Err(error) = pg.batch_execute(PREPARE) {
        log::warn!(
            "the role billing_custom_metric could not be made: {error}. Custom metrics will run as the service's own user; \
             make the role by hand as docs/operating.md says"
        );
    }
}

/// Whether the log has been told of a wall that is missing; once is enough.
static HAS_WARNED: AtomicBool = AtomicBool::new(false);

fn warn_once(message: &str) {
    if !HAS_WARNED.swap(true, Ordering::Relaxed) {
        log::warn!("{message}");
    }
}

/// Sets a connection up.
fn restrict(pg: &mut PgConnection) -> QueryResult<()> {
    pg.batch_execute(LIMITS)?;
    if pg.batch_execute(TEMP_FILE_LIMIT).is_err() {
        warn_once("custom metrics run without a limit on temporary files: set temp_file_limit for the database's user");
    }
    if let Err(error) = pg.batch_execute(TAKE_ROLE) {
        warn_once(&format!("custom metrics run as the service's own user: {error}"));
    }
    Ok(())
}

/// A pool of such connections. None is made before it is needed.
#[derive(Debug)]
pub(crate) struct Reader {
    pool: Pool,
    shares: Shares,
}

impl Reader {
    pub(crate) fn new(address: &Address) -> Self {
        let shares = Shares::new(CONNECTIONS, CONNECTIONS_EACH);
        Self { pool: Pool::on_demand(address, CONNECTIONS, restrict), shares }
    }

    /// Has nobody connect there any more.
    pub(crate) fn leave(&self) {
        self.pool.leave();
    }

    /// Runs statements for an organization in one read-only snapshot, when it is its turn. A connection that turns out to be dead
    /// before anything of `work` was sent is replaced; one that is lost later is the end of it: what was sent may be the reason,
    /// and would be so again.
    pub(crate) fn run<T>(
        &self,
        organization: Uuid,
        mut work: impl FnMut(&mut PgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let _place = self.shares.take(organization, WAIT_MAX)?;
        let has_begun = Cell::new(false);
        let mut in_snapshot = |connection: &mut Connection| {
            let mut begun = |pg: &mut PgConnection| {
                has_begun.set(true);
                work(pg)
            };
            connection.attempt(|pg| pg.build_transaction().read_only().repeatable_read().run(&mut begun))
        };
        match in_snapshot(&mut *self.pool.take()?) {
            Err(Failure::Disconnected(_)) if !has_begun.get() => in_snapshot(&mut *self.pool.take_checked()?),
            Err(Failure::Disconnected(message)) => {
                log::error!("a connection was lost under a custom metric of organization {organization}: {message}");
                Err(Failure::Disconnected(message))
            }
            other => other,
        }
    }
}

/// What the server says of a query that keeps more rows than [`LIMITS`] and [`TEMP_FILE_LIMIT`] let it (SQLSTATE 53400, 54001).
const MEMORY_LIMITS: &[&str] = &["temporary file size exceeds temp_file_limit", "stack depth limit exceeded"];

/// What a failed query means. A limit that it ran into is its own; whatever else the server holds against it would be a
/// fault of what was printed, which is logged and parks this one metric. The database's own troubles (a lost connection,
/// a full disk) are nobody's result.
pub(crate) fn failure_of(failure: Failure) -> Result<CustomFailure, Failure> {
    match failure {
        Failure::Final(Error::Store(StoreError::DeadlineExceeded)) => Ok(CustomFailure::TimedOut),
        // The server's answer, not the end of the connection: this one statement is refused more memory.
        Failure::Disconnected(message) if message.starts_with("out of memory") => Ok(CustomFailure::TooMuchMemory),
        Failure::Final(Error::Store(StoreError::Internal(message))) => {
            if MEMORY_LIMITS.iter().any(|limit| message.starts_with(limit)) {
                return Ok(CustomFailure::TooMuchMemory);
            }
            log::error!("a custom metric could not be run: {message}");
            Ok(CustomFailure::Fault)
        }
        other => Err(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn troubles_of_the_database_are_no_result() {
        let troubles = [
            Failure::Disconnected("gone".to_owned()),
            Failure::Conflict("in the way".to_owned()),
            Failure::Missing("on its way to another server".to_owned()),
            StoreError::StorageFull("could not extend file".to_owned()).into(),
            StoreError::PoolExhausted.into(),
        ];
        for trouble in troubles {
            let named = format!("{trouble:?}");
            assert!(failure_of(trouble).is_err(), "{named}: to be tried again, not to be billed around");
        }
        let unknown = StoreError::Internal("relation does not exist".to_owned());
        assert_eq!(failure_of(unknown.into()).ok(), Some(CustomFailure::Fault));
    }
}
