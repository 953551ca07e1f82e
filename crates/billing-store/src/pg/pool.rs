//! Connections: set up alike, never waited for long, thrown away once broken.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use billing_domain::StoreError;
use diesel::connection::SimpleConnection;
use diesel::r2d2::R2D2Connection;
use diesel::{PgConnection, QueryResult, RunQueryDsl};
use r2d2::ManageConnection;
use scheduled_thread_pool::ScheduledThreadPool;

use crate::pg::citus;
use crate::pg::error::{Failure, unreachable};
use crate::pg::migration;
use crate::pg::outage::{Complaints, Outage};
use crate::pg::place::{Identity, Place, search_path};
use crate::pg::replica::Replica;
use crate::pg::statement::statement;
use crate::pg::url;

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
    /// Which server that leads to, as pools of one server share threads; `None`: the catalogue's.
    server: Option<String>,
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
            server: None,
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
        let server = (!place.is_home()).then(|| place.to_string());
        Self { url: place.url(&self.url), identity: identity.filter(|_| server.is_some()), server, ..self }
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
    pools: Mutex<Vec<Connections>>,
}

/// What a pool has, until nobody is to connect there any more.
type Connections = Arc<RwLock<Option<r2d2::Pool<Manager>>>>;

/// `None`: nobody is to connect there any more.
fn held(connections: &Connections) -> Option<r2d2::Pool<Manager>> {
    connections.read().unwrap_or_else(PoisonError::into_inner).clone()
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
            let idle = |pool: &r2d2::Pool<Manager>| pool.state().idle_connections;
            // Where most lie there the next is missed least.
            let most = pools.iter().filter_map(held).filter(|pool| idle(pool) > 0).max_by_key(idle);
            if let Some(mut idle) = most.and_then(|pool| pool.try_get()) {
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
        let mut pg = url::connect(&address.url)?;
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
    outage: Arc<Outage>,
}

impl ManageConnection for Manager {
    type Connection = Connection;
    type Error = StoreError;

    fn connect(&self) -> Result<Connection, StoreError> {
        let made = Connection::establish(&self.address, self.restrict).map_err(Failure::into_store_error);
        self.outage.note(made.as_ref().err().map(ToString::to_string), Instant::now());
        let connection = made?;
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

/// A pool of connections. Nothing is asked of a connection when it is taken; one that turns out to be dead is
/// replaced and the work done on another.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    inner: Connections,
    /// `None`: the catalogue's.
    server: Option<String>,
    size: u32,
    made: Arc<AtomicU64>,
    outage: Arc<Outage>,
    allowance: Option<Arc<Allowance>>,
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

/// How long connections are still made where a lane was: whoever asked just before it moved is told there that it did.
const LEFT_AFTER: Duration = Duration::from_secs(10);
/// How long a caller waits for a connection of a node that has been away for more than a moment: those who wait keep others from nodes that
/// are there.
const AWAY_CHECK_OUT_MAX: Duration = Duration::from_millis(10);

/// Threads that open and close connections, of all pools of a server together: there are three pools for each lane. One that says nothing
/// holds up nobody else's.
const POOL_THREADS: usize = 4;
static THREADS: Mutex<BTreeMap<Option<String>, Weak<ScheduledThreadPool>>> = Mutex::new(BTreeMap::new());

/// Those of a server.
fn threads_of(server: &Option<String>) -> Arc<ScheduledThreadPool> {
    let mut all = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|_, threads| threads.strong_count() > 0);
    all.get(server).and_then(Weak::upgrade).unwrap_or_else(|| {
        let threads = Arc::new(ScheduledThreadPool::new(POOL_THREADS));
        all.insert(server.clone(), Arc::downgrade(&threads));
        threads
    })
}

/// A connection on loan.
pub(crate) type Loan = r2d2::PooledConnection<Manager>;

impl Pool {
    /// A pool of at most `size` connections; one of them is made at once, to see whether it can be.
    pub(crate) fn connect(address: &Address, size: u32) -> Result<Self, StoreError> {
        let pool = Self::on_demand(address, size, |_| Ok(()));
        // Refused at once where the pool would only say that it took too long.
        let (made, outage) = <_>::default();
        Manager { address: address.clone(), restrict: |_| Ok(()), made, outage }.connect()?;
        Ok(pool)
    }

    /// A pool of at most `size` connections, none of which is made before it is needed; `restrict` sets each up further.
    pub(crate) fn on_demand(address: &Address, size: u32, restrict: Restrict) -> Self {
        let manager = Manager { address: address.clone(), restrict, made: Arc::default(), outage: Arc::default() };
        let (made, outage) = (Arc::clone(&manager.made), Arc::clone(&manager.outage));
        let (server, size) = (address.server.clone(), size.max(1));
        let pool = r2d2::Pool::builder()
            .thread_pool(threads_of(&server))
            .max_size(size)
            // Made when needed, and then kept: nobody has to wait for those that nobody needs.
            .min_idle(Some(0))
            .idle_timeout(Some(if address.schema.is_some() { IDLE_MAX_IN_LANES } else { IDLE_MAX }))
            .test_on_check_out(false)
            .connection_timeout(CHECK_OUT_MAX)
            .error_handler(Box::new(Complaints::default()))
            .build_unchecked(manager);
        let inner: Connections = Arc::new(RwLock::new(Some(pool)));
        let allowance = address.allowance.clone();
        if let Some(allowance) = &allowance {
            allowance.pools.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&inner));
        }
        let (is_confirming, replica, is_placed) =
            (address.identity.is_some(), address.replica.clone(), address.is_placed);
        Self { inner, server, size, made, outage, allowance, is_confirming, is_placed, replica }
    }

    /// Has no connection made there any more, once whoever was about to ask for one has been told that the lane has moved: the server may be
    /// gone, and would be tried for ever.
    pub(crate) fn leave(&self) {
        let (inner, allowance) = (Arc::clone(&self.inner), self.allowance.clone());
        threads_of(&self.server).execute_after(LEFT_AFTER, move || {
            if let Some(allowance) = allowance {
                let mut pools = allowance.pools.lock().unwrap_or_else(PoisonError::into_inner);
                pools.retain(|pool| !Arc::ptr_eq(pool, &inner));
            }
            drop(inner.write().unwrap_or_else(PoisonError::into_inner).take());
        });
    }

    /// How many connections have been made so far, those among them that are closed again. Any of them that is in use has
    /// been counted before.
    pub(crate) fn connections_made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// Connections that are open, those of them that are idle, and the most there may be.
    pub(crate) fn counts(&self) -> (u32, u32, u32) {
        let state = held(&self.inner).map(|pool| pool.state());
        state.map_or((0, 0, self.size), |state| (state.connections, state.idle_connections, self.size))
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
        for _ in 0..self.size {
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
        let pool = held(&self.inner).ok_or_else(|| unreachable("the lane has moved from there".to_owned()))?;
        let is_away = || self.server.is_some() && self.outage.lasts(Instant::now()) && pool.state().connections == 0;
        let timeout = if is_away() { timeout.min(AWAY_CHECK_OUT_MAX) } else { timeout };
        pool.get_timeout(timeout).map_err(|error| match pool.state().connections {
            // Whoever has waited for a moment alone has not seen an attempt fail.
            0 => unreachable(self.outage.reason().unwrap_or_else(|| error.to_string())),
            _ => StoreError::PoolExhausted,
        })
    }

    /// A connection that has just answered: for the second try after a first one was dead.
    pub(crate) fn take_checked(&self) -> Result<Loan, StoreError> {
        // After a restart of the server every connection in the pool may be dead.
        for _ in 0..self.size {
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
