//! The store as others see it: connecting, health, durability, and the doors that need no scope.

mod billing_queue;
mod books_audits;
mod deliveries;
mod event_tails;
mod feeds;
mod idempotency;
mod jobs;
mod lane_status;
mod later_looks;
mod measure;
mod overview;
mod recent_events;
mod usage_alerts;
mod users;

pub use self::lane_status::{LaneContents, LaneStatus};

use std::collections::BTreeMap;
use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

use billing_domain::api_key::{ApiKey, Fingerprint};
use billing_domain::event::{Event, Ingested};
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::idempotency::Claim;
use billing_domain::store::{
    ApiKeyLookup, ClaimedWork, EventIngest, Question, Reply, Requester, Scope, Store, Window, Work, WorkOfEach,
};
use billing_domain::{Error, StoreError};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Integer, Text};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::access::{self, PendingQuestion};
use crate::backfill::EVENTS_PER_LOCK;
use crate::batcher::{Batcher, spawn_workers};
use crate::company::Company;
use crate::custom_sql;
use crate::ingest::{self, Arrival, WRITERS};
use crate::issued::{Issued, IssuedAmount};
use crate::lanes::{Lane, Lanes};
use crate::measured::{LastMeasured, Measured};
use crate::nodes::{self, Moved, NewNode};
use crate::pg::error::Failure;
use crate::pg::pool::{Address, CHECK_OUT_MAX, Pool, expect_same_statements};
use crate::pg::statement::statement;
use crate::pg::{migration, partition, schema};
use crate::remembered::{Remembered, Uncounted};
use crate::repo::api_key::{self, Found, KeyLookup, NoteKeyUses};
use crate::repo::idempotency::{self as answers, AnswerLookup};
use crate::repo::key_pepper;
use crate::rollup::KeyRanges;
use crate::shared::Shared;
use crate::split::{self, Split};
use crate::tallies::EventTallies;
use crate::told::Told;

/// How long the readiness check may take, in milliseconds.
const PING_MAX: Duration = Duration::from_millis(500);

/// Workers that look keys up: one may hang with its connection.
const KEY_WORKERS: usize = 2;
/// Workers that answer questions about usage: one may hang with its connection.
const QUESTION_WORKERS: usize = 2;
/// Workers that look for answers under idempotency keys: one may hang with its connection.
const ANSWER_WORKERS: usize = 2;
/// How long an organization that sends events in many calls at a time, or asks many questions about usage, or for many answers under
/// idempotency keys, waits at least for its next turn in company: a call costs so little that it would take processors and database from
/// others.
const ARRIVALS_REST: Duration = Duration::ZERO;
const QUESTIONS_REST: Duration = Duration::from_millis(1);
const ANSWERS_REST: Duration = Duration::from_millis(4);
/// Most memory that waiting events may take; beyond that callers are told to come back.
const WAITING_BYTES_MAX: usize = 24 * 1024 * 1024;
/// Most look-ups of a kind, and most questions, that may wait.
const WAITING_MAX: usize = 10_000;

/// The billing store on Postgres. Cheap to clone: all clones share one pool.
///
/// Every call blocks its thread; an asynchronous caller has threads for that.
#[derive(Clone)]
pub struct PgStore {
    pub(crate) shared: Arc<Shared>,
    queues: Arc<Queues>,
}

/// Where callers leave what is done together with what others leave. The workers leave when it is dropped.
struct Queues {
    /// One for each writer.
    arrivals: Vec<Arc<Batcher<Arrival>>>,
    keys: Arc<Batcher<KeyLookup>>,
    questions: Arc<Batcher<PendingQuestion>>,
    answers: Arc<Batcher<AnswerLookup>>,
    /// Whether several organizations are at it.
    company: Arc<Company>,
}

impl Queues {
    /// Queues with workers behind them, who serve for as long as there is something shared.
    fn open(shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let company = Arc::default();
        let queues = Self {
            arrivals: (0..WRITERS)
                .map(|_| {
                    Arc::new(Batcher::without_timeout(WAITING_BYTES_MAX / WRITERS, &company).resting(ARRIVALS_REST))
                })
                .collect(),
            keys: Arc::new(Batcher::with_timeout(WAITING_MAX, &company, CHECK_OUT_MAX)),
            questions: Arc::new(Batcher::with_timeout(WAITING_MAX, &company, CHECK_OUT_MAX).resting(QUESTIONS_REST)),
            answers: Arc::new(Batcher::with_timeout(WAITING_MAX, &company, CHECK_OUT_MAX).resting(ANSWERS_REST)),
            company,
        };
        for batcher in &queues.arrivals {
            spawn_workers(batcher, 1, serving(shared, ingest::serve))?;
        }
        spawn_workers(&queues.keys, KEY_WORKERS, serving(shared, api_key::serve))?;
        spawn_workers(&queues.questions, QUESTION_WORKERS, serving(shared, access::serve))?;
        spawn_workers(&queues.answers, ANSWER_WORKERS, serving(shared, answers::serve))?;
        Ok(queues)
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        self.arrivals.iter().for_each(|batcher| batcher.close());
        self.keys.close();
        self.questions.close();
        self.answers.close();
    }
}

/// Serving jobs with what is shared, for as long as that is there: jobs that are left then are dropped unanswered.
fn serving<J>(shared: &Arc<Shared>, serve: fn(&Shared, Vec<J>)) -> impl Fn(Vec<J>) + Clone + Send + use<J> {
    let shared: Weak<Shared> = Arc::downgrade(shared);
    move |jobs| {
        if let Some(shared) = shared.upgrade() {
            serve(&shared, jobs);
        }
    }
}

/// What a store is busy with at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Connections that are open.
    pub connections: u32,
    /// Those of them that nobody uses.
    pub idle_connections: u32,
    /// Most connections there may be.
    pub connections_max: u32,
    /// Memory of the events that wait for a transaction, in bytes, roughly.
    pub waiting_bytes: usize,
    /// How long the event has waited that waits longest.
    pub waiting_longest: Duration,
    /// Transactions that store events.
    pub ingesting: usize,
    /// Key ranges of which one transaction at a time takes events in.
    pub key_ranges: u32,
    /// Events that this process has stored although they count for nothing.
    pub events_uncounted: Uncounted,
    /// What this process has issued by the code of its currency; `own` for those that organizations have made up.
    pub issued: BTreeMap<String, IssuedAmount>,
    /// The database as it was last measured.
    pub measured: Option<Arc<Measured>>,
}

statement! {
    /// Settings without which a commit may be lost.
    DurabilitySettings -> (Text, Text, Text) {
        "SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')"
    }
}

/// What makes a server forget what was committed.
fn forgets(pg: &mut PgConnection) -> QueryResult<Vec<String>> {
    let (fsync, full_page_writes, synchronous_commit): (String, String, String) =
        DurabilitySettings {}.get_result(pg)?;
    let is_off =
        [("fsync", fsync), ("full_page_writes", full_page_writes)].into_iter().filter(|(_, value)| value != "on");
    let mut faults: Vec<String> =
        is_off.map(|(name, value)| format!("{name} is {value}: a power cut would lose what was committed")).collect();
    if !["on", "remote_write", "remote_apply"].contains(&synchronous_commit.as_str()) {
        faults.push(format!("synchronous_commit is {synchronous_commit}: a crash would lose what was committed"));
    }
    Ok(faults)
}

statement! {
    /// Whether the database answers.
    One -> Bool { "SELECT " class: i32 as Integer; " = 1" }
}

/// Whether the database answers within half a second, and has these migrations where the pool's connections look first.
fn expect_versions(pool: &Pool, expected: &[String]) -> Result<(), StoreError> {
    let mut connection = pool.take_within(PING_MAX)?;
    let applied = connection.attempt(|pg| {
        pg.transaction(|pg| {
            pg.batch_execute("SET LOCAL statement_timeout = '500ms'")?;
            One { class: 1 }.get_result::<bool>(pg)?;
            Ok(migration::applied_versions(pg)?)
        })
    });
    let applied = applied.map_err(Failure::into_store_error)?;
    // A newer program may have migrated further already.
    match expected.iter().find(|version| !applied.contains(version)) {
        Some(version) => Err(StoreError::Internal(format!("migration {version} has not been applied"))),
        None => Ok(()),
    }
}

/// [`expect_versions`] of a lane.
fn ping_lane(lane: &Lane) -> Result<(), StoreError> {
    match expect_versions(&lane.pool, &migration::customers_versions()?) {
        Err(error) if lane.replica.is_some() => {
            log::warn!("lane {} cannot be worked with at {}: {error}", lane.number, lane.place);
            Ok(())
        }
        answered => answered,
    }
}

/// Brings everything up to date, and lanes to where an engine places them.
fn migrate(url: &str, lanes: Option<u16>) -> Result<Vec<String>, StoreError> {
    let applied = migration::migrate(url, lanes, custom_sql::prepare)?;
    nodes::follow_the_engine(url, !applied.is_empty(), custom_sql::prepare)?;
    Ok(applied)
}

impl PgStore {
    /// Connects to the database at `url`, with at most `pool_size` connections.
    ///
    /// The URL should set keepalives and `tcp_user_timeout` where the network can go silent.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the first connection cannot be made.
    pub fn connect(url: &str, pool_size: u32) -> Result<Self, StoreError> {
        let address = Address::of(url);
        let pool = Pool::connect(&address, pool_size)?;
        let range_bits = pool
            .run(|pg| schema::ingest_key_ranges::table.select(schema::ingest_key_ranges::range_bits).first::<i16>(pg));
        let range_bits = range_bits.map_err(Failure::into_store_error)?;
        let workers = (WRITERS + KEY_WORKERS + QUESTION_WORKERS + ANSWER_WORKERS) as u32;
        let worker_pool = Pool::on_demand(&address, workers, expect_same_statements);
        let shared = Arc::new(Shared {
            url: url.to_owned(),
            lanes: Lanes::open(&address, (&pool, pool_size), (&worker_pool, workers))?,
            pool,
            worker_pool,
            key_ranges: KeyRanges::new(u8::try_from(range_bits).unwrap_or(0)),
            remembered: Remembered::default(),
            issued: Issued::default(),
            measured: LastMeasured::default(),
            tallies: EventTallies::default(),
            messages: Told::default(),
        });
        let queues = Arc::new(Queues::open(&shared)?);
        Ok(Self { shared, queues })
    }

    /// Where its database is, for whoever needs a connection of their own. The password is in it: it is not for logs.
    pub fn database_url(&self) -> &str {
        &self.shared.url
    }

    /// Whether the database at `url` has tables of this service, of whatever version.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub fn is_made(url: &str) -> Result<bool, StoreError> {
        migration::is_made(url)
    }

    /// Brings the database at `url` up to date and answers the versions that were missing. Of several programs
    /// that try at once, one does it and the others wait.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], or [`StoreError::Internal`] with the migration that failed; it left no trace.
    pub fn migrate(url: &str) -> Result<Vec<String>, StoreError> {
        migrate(url, None)
    }

    /// [`PgStore::migrate`], dividing the customers of a new database into so many lanes: 1, 2, 4 .. 64. Their number is fixed from then
    /// on.
    ///
    /// # Errors
    /// As [`PgStore::migrate`], and [`StoreError::Internal`] when the database has another number of lanes.
    pub fn migrate_into_lanes(url: &str, lanes: u16) -> Result<Vec<String>, StoreError> {
        migrate(url, Some(lanes))
    }

    /// Divides the customers of the database at `url`, which has one lane, into so many: 2, 4, 8 .. 64. Nobody may work on it
    /// meanwhile, and nobody can: what customers own is moved aside first. Interrupted, it is called again. `progress` is told
    /// what is being done. What was there before is kept until [`PgStore::finish_split`].
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], or [`StoreError::Internal`] with what is in the way.
    pub fn split(url: &str, lanes: u16, progress: &mut dyn FnMut(&str)) -> Result<Split, StoreError> {
        split::split(url, lanes, custom_sql::prepare, progress)
    }

    /// Drops what [`PgStore::split`] has left aside, once somebody has looked at the books.
    ///
    /// # Errors
    /// As [`PgStore::split`]; when no split has come to its end.
    pub fn finish_split(url: &str) -> Result<(), StoreError> {
        split::finish(url)
    }

    /// Makes the database of another server ready for lanes of the database at `url`, by a copy of the catalogue that it gets from then on,
    /// and calls it `name`. The user, the password and the settings of `url` hold there too. Interrupted, it is called again.
    /// `progress` is told what is being done.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], or [`StoreError::Internal`] with what is in the way.
    pub fn add_node(
        url: &str,
        (name, host, port, database): (&str, &str, u16, &str),
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), StoreError> {
        nodes::add(url, &NewNode { name, host, port, database }, custom_sql::prepare, progress)
    }

    /// Moves a lane of the database at `url`, given by its number, to the node of this name, or home where there is none, while its
    /// customers are served until the very last. Interrupted, it is called again; called to where the lane still is according to the directory,
    /// it gives back what an interrupted move has cut off. `progress` is told what is being done.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], or [`StoreError::Internal`] with what is in the way.
    pub fn move_lane(
        url: &str,
        lane: u16,
        to: Option<&str>,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Moved, StoreError> {
        nodes::move_lane(url, (lane, to), custom_sql::prepare, progress)
    }

    /// Refuses a database that forgets commits in a power cut, on whichever server, or whose events have lost an index. A node that does not
    /// answer is passed over.
    ///
    /// # Errors
    /// [`StoreError::Internal`] naming what is wrong.
    pub fn check_durability(&self) -> Result<(), StoreError> {
        let lanes = &self.shared.lanes;
        let mut faults = self.shared.pool.run(forgets).map_err(Failure::into_store_error)?;
        for lane in lanes.all() {
            let looked = lanes.with(lane, |lane| {
                lane.pool.run(|pg| {
                    let forgets = if lane.replica.is_some() { forgets(pg)? } else { Vec::new() };
                    Ok((forgets, partition::find_unindexed(pg)?))
                })
            });
            let (forgets, unindexed) = match looked.map_err(Failure::into_store_error) {
                Err(StoreError::Unavailable(fault)) if lane.replica.is_some() => {
                    log::warn!("lane {} is not looked at: {fault}", lane.number);
                    continue;
                }
                looked => looked?,
            };
            faults.extend(forgets.into_iter().map(|fault| format!("lane {} at {}: {fault}", lane.number, lane.place)));
            faults.extend(
                unindexed.map(|name| format!("events partition {name} lacks an index: events could be counted twice")),
            );
        }
        if faults.is_empty() { Ok(()) } else { Err(StoreError::Internal(faults.join("; "))) }
    }

    /// Where it is told which organizations ask for something: in company it does less at a time.
    pub fn company(&self) -> Arc<Company> {
        Arc::clone(&self.queues.company)
    }

    /// The fingerprint of the pepper that keys of this database are digested with; `None` before the first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn find_pepper(&self) -> Result<Option<Vec<u8>>, StoreError> {
        self.shared.pool.run(key_pepper::find).map_err(Failure::into_store_error)
    }

    /// Notes the fingerprint of the pepper, unless there is one, and answers the one that holds: of several processes that
    /// start at once the first decides.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn note_pepper(&self, of_pepper: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.shared.pool.run(|pg| key_pepper::note(pg, of_pepper)).map_err(Failure::into_store_error)
    }

    /// What the store is busy with; asks the database nothing.
    pub fn load(&self) -> Load {
        let mut pools = vec![self.shared.pool.counts()];
        if self.shared.lanes.only().is_none() {
            pools.extend(self.shared.lanes.all().map(|lane| lane.pool.counts()));
        }
        let sum = |all: (u32, u32, u32), one: (u32, u32, u32)| (all.0 + one.0, all.1 + one.1, all.2 + one.2);
        let (connections, idle_connections, connections_max) = pools.into_iter().fold((0, 0, 0), sum);
        let loads = self.queues.arrivals.iter().map(|batcher| batcher.load());
        let (waiting_bytes, ingesting) = loads.fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1));
        let waits = self.queues.arrivals.iter().map(|batcher| batcher.longest_wait());
        Load {
            connections,
            idle_connections,
            connections_max,
            waiting_bytes,
            waiting_longest: waits.max().unwrap_or_default(),
            ingesting,
            key_ranges: self.shared.key_ranges.count(),
            events_uncounted: self.shared.lanes.uncounted(),
            issued: self.shared.issued.all(),
            measured: self.shared.measured.get(),
        }
    }

    /// Whether the database answers within half a second and is as this program expects it; of several lanes, one each time. What is wrong
    /// with a node keeps nobody from asking for the customers of others, so it is in the log alone.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], [`StoreError::PoolExhausted`], or [`StoreError::Internal`] when migrations are missing.
    pub fn ping(&self) -> Result<(), StoreError> {
        if let Some(lane) = self.shared.lanes.only() {
            return expect_versions(&lane.pool, &migration::embedded_versions()?);
        }
        expect_versions(&self.shared.pool, &migration::catalogue_versions()?)?;
        // One lane each time, so that all of them have their turn and none takes the time of all.
        let Some(lane) = self.shared.lanes.by_turns().next() else { return Ok(()) };
        match ping_lane(lane) {
            // Perhaps nothing is left of it there.
            Err(StoreError::Internal(_)) => {
                self.shared.lanes.look().map_err(Failure::into_store_error)?;
                ping_lane(self.shared.lanes.at(lane.number))
            }
            answered => answered,
        }
    }

    /// Makes the months of events before anybody needs them: from the earliest that some organization takes events in for
    /// to the one after next; how many were missing. Those of older events are made by whoever brings them.
    ///
    /// # Errors
    /// Those of the connection; what was made stays.
    pub fn make_months_ahead(&self) -> Result<usize, Error> {
        self.shared.make_months_ahead()
    }

    /// Gathers statistics of every table that has too old ones, one after the other; how many those were. A table that
    /// somebody has locked waits for the next time.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn refresh_statistics(&self) -> Result<usize, Error> {
        let mut gathered = self.shared.pool.refresh_statistics()?;
        if self.shared.lanes.only().is_none() {
            for lane in self.shared.lanes.all() {
                gathered += self.shared.lanes.found(lane).pool.refresh_statistics()?;
            }
        }
        Ok(gathered)
    }
}

impl Store for PgStore {
    fn run(&self, scope: &Scope, work: &mut Work<'_>) -> Result<(), Error> {
        self.shared.run_work(scope, None, work)
    }

    fn run_with_key(&self, scope: &Scope, key: &Fingerprint, work: &mut Work<'_>) -> Result<(), Error> {
        self.shared.run_work(scope, Some(key), work)
    }

    fn run_each(
        &self,
        organization: OrganizationId,
        customers: &[CustomerKey],
        work: &mut WorkOfEach<'_>,
    ) -> Vec<Result<(), Error>> {
        self.shared.run_in_batches(organization, customers, work)
    }

    fn run_once(&self, scope: &Scope, claim: &Claim, work: &mut ClaimedWork<'_>) -> Result<(), Error> {
        self.shared.run_claimed(scope, claim, work)
    }

    fn ask(&self, requester: Requester, question: Box<dyn Question>) {
        self.queues.questions.submit(PendingQuestion { requester, question }, 1);
    }
}

impl EventIngest for PgStore {
    fn ingest(&self, organization: OrganizationId, events: &[Event], window: Window) -> Result<Vec<Ingested>, Error> {
        let (sender, receiver) = mpsc::channel();
        // Nobody waits any more only if this thread is gone.
        let reply = move |outcome| sender.send(outcome).unwrap_or_default();
        self.ingest_then(organization.into(), events.to_vec(), window, Box::new(reply));
        receiver.recv().map_err(|_| StoreError::Internal("storing the events ended without an answer".to_owned()))?
    }

    fn ingest_then(&self, requester: Requester, events: Vec<Event>, window: Window, reply: Reply<Vec<Ingested>>) {
        ingest::submit(&self.shared, &self.queues.arrivals, (requester, events, window), reply);
    }

    fn catch_up(&self) -> Result<bool, Error> {
        self.shared.fill_in(EVENTS_PER_LOCK)
    }
}

impl ApiKeyLookup for PgStore {
    fn find_key(&self, prefix: &str) -> Result<Option<(ApiKey, OffsetDateTime)>, Error> {
        self.shared.pool.try_run(|pg| api_key::find_with_now(pg, prefix)).map_err(Failure::into_error)
    }

    fn find_key_then(&self, prefix: String, reply: Reply<Option<Found>>) {
        self.queues.keys.submit(KeyLookup { prefix, reply }, 1);
    }

    fn note_uses(&self, prefixes: &[String]) -> Result<(), Error> {
        let note = NoteKeyUses { prefixes: prefixes.to_vec() };
        self.shared.pool.run(|pg| note.clone().load::<String>(pg)).map(drop).map_err(Failure::into_error)
    }

    fn list_organizations(&self) -> Result<Vec<OrganizationId>, Error> {
        use schema::organizations::dsl::{created_at, id, organizations};
        let ids = self.shared.pool.run(|pg| organizations.select(id).order((created_at, id)).load::<Uuid>(pg));
        Ok(ids.map_err(Failure::into_error)?.into_iter().map(OrganizationId::from).collect())
    }
}
