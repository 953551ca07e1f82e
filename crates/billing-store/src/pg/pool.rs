//! Connections: set up alike, never waited for long, thrown away once broken.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use billing_domain::StoreError;
use diesel::connection::SimpleConnection;
use diesel::r2d2::R2D2Connection;
use diesel::{Connection as _, PgConnection, QueryResult, RunQueryDsl};
use r2d2::{HandleError, ManageConnection};
use scheduled_thread_pool::ScheduledThreadPool;

use crate::pg::citus;
use crate::pg::error::{Failure, unreachable};
use crate::pg::migration;
use crate::pg::place::{Identity, Place, search_path};
use crate::pg::replica::Replica;
use crate::pg::statement::statement;

/// How long a caller waits for a connection before it is told that all are busy.
pub(crate) const CHECK_OUT_MAX: Duration = Duration::from_secs(1);

/// What every connection has set: limits on statements, on waiting for locks and on idling with locks held; UTC for
/// the few functions that cut instants into hours. Compiling plans to machine code never pays for statements this short.
/// A plan is kept for the life of a connection, so it must not scan a table because that was empty at the time.
const SESSION: &str = "
    SET statement_timeout = '5s';
    SET lock_timeout = '2s';
    SET idle_in_transaction_session_timeout = '10s';
    SET timezone = 'UTC';
    SET client_min_messages = warning;
    SET jit = off;
    SET enable_seqscan = off;
";

/// What the connections of workers have set on top: they send the same few statements all day, each of which finds its
/// rows by an index whatever the parameters are, so none of them is planned more than once. While a table is small the other
/// kinds of joins read all of it, and would go on to when it is large.
const SAME_STATEMENTS: &str = "
    SET plan_cache_mode = force_generic_plan;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
";

/// Sets a connection up for the same few statements.
pub(crate) fn expect_same_statements(pg: &mut PgConnection) -> QueryResult<()> {
    pg.batch_execute(SAME_STATEMENTS)
}

/// Errors are told apart by their English text where Diesel has no kind for them. Only a superuser may ask for it.
const ENGLISH: &str = "SET lc_messages = 'C'";

statement! {
    /// The language of the server's messages.
    MessageLanguage -> diesel::sql_types::Text { "SELECT current_setting('lc_messages')" }
}

/// Where connections are made to, and in which schema they look first.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    url: String,
    /// `None`: where the database's user looks by itself.
    schema: Option<String>,
    /// As whom; `None`: as the database's user.
    role: Option<String>,
    /// Which database must be found there; `None`: it is not led to by an address of the directory's.
    identity: Option<Identity>,
    /// How many may be open, with those of others.
    allowance: Option<Arc<Allowance>>,
    /// The copy of the catalogue that is there; `None`: it is the catalogue itself.
    replica: Option<Arc<Replica>>,
    /// Whether an engine has put the lane there.
    is_placed: bool,
}

impl Address {
    /// The database at `url`, where its user looks by itself.
    pub(crate) fn of(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            schema: None,
            role: None,
            identity: None,
            allowance: None,
            replica: None,
            is_placed: false,
        }
    }

    /// The same database, looking in a schema first and then in the catalogue's.
    pub(crate) fn in_schema(self, schema: &str) -> Self {
        Self { schema: Some(schema.to_owned()), ..self }
    }

    /// The same database by another address, if a place is given with what is to be found there.
    pub(crate) fn at(self, place: &Place, identity: Option<Identity>) -> Self {
        Self { url: place.url(&self.url), identity: identity.filter(|_| !place.is_home()), ..self }
    }

    /// The same, on a node, which has a copy of the catalogue.
    pub(crate) fn on_node(self, replica: Option<Arc<Replica>>) -> Self {
        Self { replica, ..self }
    }

    /// The same, of a lane that an engine places, or does not.
    pub(crate) fn placed(self, is_placed: bool) -> Self {
        Self { is_placed, ..self }
    }

    /// The same, sharing an allowance with others.
    pub(crate) fn within(self, allowance: &Arc<Allowance>) -> Self {
        Self { allowance: Some(Arc::clone(allowance)), ..self }
    }

    /// The same, working as a role of the database.
    pub(crate) fn with_role(self, role: Option<String>) -> Self {
        Self { role, ..self }
    }
}

/// How many connections the pools of several lanes have open together, and which pools those are: before one more is opened than is
/// used at a time, one that lies idle is closed, in whichever lane.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    most: u32,
    open: AtomicU32,
    pools: Mutex<Vec<r2d2::Pool<Manager>>>,
}

impl Allowance {
    /// For so many.
    pub(crate) fn of(most: u32) -> Arc<Self> {
        Arc::new(Self { most, ..Self::default() })
    }

    /// Counts one connection more, which closes an idle one where there are too many.
    fn open_one(self: &Arc<Self>) -> Opened {
        if self.open.fetch_add(1, Ordering::SeqCst) >= self.most {
            let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let idle = |pool: &&r2d2::Pool<Manager>| pool.state().idle_connections;
            // Where most lie there the next is missed least.
            let idle = pools.iter().filter(|pool| idle(pool) > 0).max_by_key(idle).and_then(r2d2::Pool::try_get);
            if let Some(mut idle) = idle {
                // Its pool throws it away when it comes back.
                idle.is_broken = true;
            }
        }
        Opened(Arc::clone(self))
    }

    /// No more than these are open, once the pools are gone.
    pub(crate) fn close(&self) {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// One connection of those that are counted.
struct Opened(Arc<Allowance>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A connection and whether it has been seen to fail.
pub(crate) struct Connection {
    pub(crate) pg: PgConnection,
    is_broken: bool,
    /// Behind the connection, so that it is counted until that is closed.
    _opened: Option<Opened>,
}

impl Connection {
    /// Makes a connection that is set up like those of the pool.
    fn establish(address: &Address, restrict: Restrict) -> Result<Self, Failure> {
        let opened = address.allowance.as_ref().map(Allowance::open_one);
        let unavailable = |error: diesel::ConnectionError| unreachable(error.to_string());
        let mut pg = PgConnection::establish(&address.url).map_err(unavailable)?;
        pg.batch_execute(SESSION)?;
        address.identity.map_or(Ok(()), |identity| identity.expect(&mut pg))?;
        if let Some(schema) = &address.schema {
            pg.batch_execute(&search_path(schema))?;
        }
        if address.is_placed {
            pg.batch_execute(citus::ON_THE_OWNER)?;
        }
        if address.replica.is_some() {
            migration::expect_customers_versions(&mut pg)?;
        }
        if let Some(role) = &address.role {
            pg.batch_execute(&format!("SET ROLE {role}"))?;
        }
        if pg.batch_execute(ENGLISH).is_err() {
            let language: String = MessageLanguage {}.get_result(&mut pg)?;
            if !["C", "POSIX", "en"].iter().any(|english| language.starts_with(english)) {
                log::warn!("lc_messages is {language}: set it to C, or some database errors are not understood");
            }
        }
        restrict(&mut pg)?;
        Ok(Self { pg, is_broken: false, _opened: opened })
    }

    /// Runs one piece of work, and remembers if it showed that the connection is gone.
    pub(crate) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut PgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let result = work(&mut self.pg);
        if matches!(result, Err(Failure::Disconnected(_))) {
            self.is_broken = true;
        }
        result
    }

    fn check(&mut self) -> Result<(), Failure> {
        self.attempt(|pg| pg.ping().map_err(Failure::from))
    }
}

/// What else is done to a new connection.
type Restrict = fn(&mut PgConnection) -> QueryResult<()>;

/// Makes and judges connections for the pool.
#[derive(Debug)]
pub(crate) struct Manager {
    address: Address,
    restrict: Restrict,
    made: Arc<AtomicU64>,
}

impl ManageConnection for Manager {
    type Connection = Connection;
    type Error = StoreError;

    fn connect(&self) -> Result<Connection, StoreError> {
        let connection = Connection::establish(&self.address, self.restrict).map_err(Failure::into_store_error)?;
        self.address.replica.iter().for_each(|replica| replica.forget());
        self.made.fetch_add(1, Ordering::SeqCst);
        Ok(connection)
    }

    fn is_valid(&self, connection: &mut Connection) -> Result<(), StoreError> {
        connection.check().map_err(Failure::into_store_error)
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        std::thread::panicking() || connection.is_broken || connection.pg.is_broken()
    }
}

/// How often the log says that connections cannot be made.
const COMPLAINT_EVERY: Duration = Duration::from_secs(1);

/// Says in the log that connections cannot be made, but not each of the many times that it is tried: an outage must not
/// fill a disk.
#[derive(Debug, Default)]
struct Complaints {
    last: Mutex<Option<Instant>>,
}

impl Complaints {
    /// Whether the log has heard nothing of it for a while.
    fn is_due(&self, now: Instant) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= COMPLAINT_EVERY);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

impl HandleError<StoreError> for Complaints {
    fn handle_error(&self, error: StoreError) {
        if self.is_due(Instant::now()) {
            log::error!("no new connection: {error}");
        }
    }
}

/// A pool of connections. Nothing is asked of a connection when it is taken; one that turns out to be dead is
/// replaced and the work done on another.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    inner: r2d2::Pool<Manager>,
    made: Arc<AtomicU64>,
    /// Whether a commit is believed only when the server knows of it.
    pub(crate) is_confirming: bool,
    /// Whether it is looked at the beginning of each transaction whether the lane is still here.
    pub(super) is_placed: bool,
    replica: Option<Arc<Replica>>,
}

/// How long a connection lies there before it is closed.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// The same where each of several lanes has some: all of them together are bounded by who uses them, and not by lanes.
const IDLE_MAX_IN_LANES: Duration = Duration::from_secs(60);

/// Threads that open and close connections, of all pools together: there are three pools for each lane.
const POOL_THREADS: usize = 4;
static THREADS: OnceLock<Arc<ScheduledThreadPool>> = OnceLock::new();

/// A connection on loan.
pub(crate) type Loan = r2d2::PooledConnection<Manager>;

impl Pool {
    /// A pool of at most `size` connections; one of them is made at once, to see whether it can be.
    pub(crate) fn connect(address: &Address, size: u32) -> Result<Self, StoreError> {
        let pool = Self::on_demand(address, size, |_| Ok(()));
        // Refused at once where the pool would only say that it took too long.
        Manager { address: address.clone(), restrict: |_| Ok(()), made: Arc::default() }.connect()?;
        Ok(pool)
    }

    /// A pool of at most `size` connections, none of which is made before it is needed; `restrict` sets each up further.
    pub(crate) fn on_demand(address: &Address, size: u32, restrict: Restrict) -> Self {
        let made = Arc::new(AtomicU64::new(0));
        let manager = Manager { address: address.clone(), restrict, made: Arc::clone(&made) };
        let threads = THREADS.get_or_init(|| Arc::new(ScheduledThreadPool::new(POOL_THREADS)));
        let inner = r2d2::Pool::builder()
            .thread_pool(Arc::clone(threads))
            .max_size(size.max(1))
            // Made when needed, and then kept: nobody has to wait for those that nobody needs.
            .min_idle(Some(0))
            .idle_timeout(Some(if address.schema.is_some() { IDLE_MAX_IN_LANES } else { IDLE_MAX }))
            .test_on_check_out(false)
            .connection_timeout(CHECK_OUT_MAX)
            .error_handler(Box::new(Complaints::default()))
            .build_unchecked(manager);
        if let Some(allowance) = &address.allowance {
            allowance.pools.lock().unwrap_or_else(PoisonError::into_inner).push(inner.clone());
        }
        let (is_confirming, replica) = (address.identity.is_some(), address.replica.clone());
        Self { inner, made, is_confirming, is_placed: address.is_placed, replica }
    }

    /// How many connections have been made so far, those among them that are closed again. Any of them that is in use has
    /// been counted before.
    pub(crate) fn connections_made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// Connections that are open, those of them that are idle, and the most there may be.
    pub(crate) fn counts(&self) -> (u32, u32, u32) {
        let state = self.inner.state();
        (state.connections, state.idle_connections, self.inner.max_size())
    }

    /// A connection, as it lies there.
    pub(crate) fn take(&self) -> Result<Loan, StoreError> {
        self.take_within(CHECK_OUT_MAX)
    }

    /// As [`Pool::take`], with a timeout of the caller's.
    pub(crate) fn take_within(&self, timeout: Duration) -> Result<Loan, StoreError> {
        let mut connection = self.take_stale_within(timeout)?;
        let Some(replica) = &self.replica else { return Ok(connection) };
        // After a restart of the server every connection in the pool may be dead.
        for _ in 0..self.inner.max_size() {
            match connection.attempt(|pg| replica.catch_up(pg)) {
                Err(Failure::Disconnected(_)) => connection = self.take_stale_within(timeout)?,
                caught_up => return caught_up.map(|()| connection).map_err(Failure::into_store_error),
            }
        }
        connection.attempt(|pg| replica.catch_up(pg)).map_err(Failure::into_store_error)?;
        Ok(connection)
    }

    /// A connection that may see an older catalogue than the one that holds.
    fn take_stale_within(&self, timeout: Duration) -> Result<Loan, StoreError> {
        self.inner.get_timeout(timeout).map_err(|error| match self.inner.state().connections {
            0 => unreachable(error.to_string()),
            _ => StoreError::PoolExhausted,
        })
    }

    /// A connection that has just answered: for the second try after a first one was dead.
    pub(crate) fn take_checked(&self) -> Result<Loan, StoreError> {
        // After a restart of the server every connection in the pool may be dead.
        for _ in 0..self.inner.max_size() {
            let mut connection = self.take()?;
            if connection.check().is_ok() {
                return Ok(connection);
            }
        }
        self.take()
    }

    /// Runs statements outside of any transaction, again on another connection if the first was dead. Only for
    /// what may run twice.
    pub(crate) fn run<T>(&self, mut work: impl FnMut(&mut PgConnection) -> QueryResult<T>) -> Result<T, Failure> {
        self.try_run(|pg| Ok(work(pg)?))
    }

    /// [`Pool::run`] of what can fail in other ways too. What an engine may move meanwhile stays until it is done.
    pub(crate) fn try_run<T>(&self, work: impl FnMut(&mut PgConnection) -> Result<T, Failure>) -> Result<T, Failure> {
        match self.is_placed {
            true => self.transact_again(work),
            false => self.try_run_anywhere(work),
        }
    }

    /// [`Pool::try_run`] of one statement that reads: what an engine moves meanwhile was here when it began.
    pub(crate) fn try_read<T>(
        &self,
        mut work: impl FnMut(&mut PgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.try_run_anywhere(|pg| {
            if self.is_placed {
                citus::expect_here(pg, false)?;
            }
            work(pg)
        })
    }

    /// [`Pool::try_run`], also where the lane may not be any more.
    pub(crate) fn try_run_anywhere<T>(
        &self,
        mut work: impl FnMut(&mut PgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self.take()?.attempt(&mut work) {
            Err(Failure::Disconnected(_)) => self.take_checked()?.attempt(work),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_in_the_log_once_a_second() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        #[rustfmt::skip]
        let cases = [
            // milliseconds, said, why
            (0,     true,  "the first"),
            (1,     false, "said already"),
            (999,   false, "not a second yet"),
            (1_000, true,  "a second later it is still so"),
            (1_999, false, "counted from when it was said last"),
        ];
        for (milliseconds, said, why) in cases {
            assert_eq!(complaints.is_due(start + Duration::from_millis(milliseconds)), said, "{why}");
        }
    }
}
