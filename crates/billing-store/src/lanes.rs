//! Lanes: ranges of customers, each with all that its customers own in a schema of its own.
//!
//! A customer's transaction runs on a connection that looks in its lane's schema first and then in the catalogue's, and sees
//! nothing of other lanes. What is asked over lanes is asked of each by itself. A database has one lane unless it was made with
//! more; that one is where the catalogue is, and shares its connections.

use std::collections::HashMap;
use std::iter;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use billing_domain::StoreError;
use billing_domain::id::CustomerKey;
use diesel::sql_types::Integer;
use diesel::{Connection, PgConnection, QueryResult, RunQueryDsl};

use crate::custom_sql::{self, Reader};
use crate::pg::citus;
use crate::pg::deadline;
use crate::pg::error::Failure;
use crate::pg::lane::{CATALOGUE, HasTable, LaneRow, bits, directory};
use crate::pg::month::Month;
use crate::pg::node::{Node, has_nodes};
use crate::pg::partition;
use crate::pg::place::{Identity, Place};
use crate::pg::pool::{Address, Allowance, Pool, expect_same_statements};
use crate::pg::replica::{Replica, position};
use crate::pg::statement::statement;
use crate::remembered::{IngestCache, Uncounted};
use crate::rollup::top_bits;

/// Connections of lanes beside those of requests and workers that are at work: for custom metrics, and what lies idle for the next.
const MORE_CONNECTIONS: u32 = 16;
/// Connections that each of several lanes keeps for those who come to it again and again: of workers who go from lane to lane two may be in the same
/// one, and a few requests. To open one costs fifty times what is asked on it, so with fewer nearly all work is opening and closing.
const CONNECTIONS_OF_A_LANE: u32 = 6;

/// Connections of the catalogue for those who are in a lane on a node: their statements there are short.
const HOME_CONNECTIONS: u32 = 8;

/// How long a lane that is on its way to another server is waited for, since it was missed first.
const ON_ITS_WAY_MAX: Duration = Duration::from_secs(5);
/// How long a node that does not answer is taken to be where it was when that was read last.
const ADDRESS_STANDS_FOR: Duration = Duration::from_secs(1);
/// How long between two looks at where it is.
const LOOK_EVERY: Duration = Duration::from_millis(20);

statement! {
    /// How many connections the server takes.
    ConnectionsMax -> Integer { "SELECT current_setting('max_connections')::integer" }
}

/// One lane, in one place.
pub(crate) struct Lane {
    pub(crate) number: usize,
    /// Where all is that its customers own.
    pub(crate) schema: String,
    /// As whom the service works there; `None`: as itself.
    pub(crate) role: Option<String>,
    /// Where its connections go.
    pub(crate) place: Place,
    /// The copy of the catalogue that it has on its node; `None`: it is in the catalogue's database.
    pub(crate) replica: Option<Arc<Replica>>,
    /// What an engine has placed, if one has.
    placed: Option<Placed>,
    /// Connections of requests.
    pub(crate) pool: Pool,
    /// Connections of the workers, who never wait behind requests.
    pub(crate) worker_pool: Pool,
    /// Connections of custom metrics.
    pub(crate) reader: Reader,
    /// What ingesting its events remembers.
    pub(crate) ingest: IngestCache,
    /// Since when it is on its way, as far as this process has run into that.
    missed_since: Mutex<Option<Instant>>,
    /// The same lane in the place where it was found later. Whoever is at work with it here still may be.
    moved_to: OnceLock<Box<Self>>,
}

/// A lane that an engine places.
struct Placed {
    /// Its schema as the engine has it.
    schema: String,
    /// Connections of the coordinator, where tables of lanes are made.
    home: Pool,
}

/// What lanes are opened with.
struct Opening {
    catalogue: Address,
    /// Which database the catalogue's is; `None`: no lane has an address of its own.
    identity: Option<Identity>,
    /// Most connections of each lane.
    requests: u32,
    workers: u32,
    /// How many lanes there are.
    count: usize,
    allowance: Arc<Allowance>,
    home: Pool,
    /// The copies of nodes, by name.
    replicas: HashMap<String, Arc<Replica>>,
    /// When the directory was read last.
    looked_at: Option<Instant>,
}

/// All lanes of a database.
pub(crate) struct Lanes {
    bits: u8,
    /// As many as the bits can tell apart, by their numbers, each where it was found first.
    all: Vec<Lane>,
    /// How often they were gone through.
    turns: AtomicUsize,
    allowance: Arc<Allowance>,
    /// Whether a node was ever seen.
    have_nodes: AtomicBool,
    /// Connections of the catalogue for those who hold one of a lane on a node: nobody who has one of these waits for any other.
    pub(crate) home: Pool,
    opening: Mutex<Opening>,
}

impl Opening {
    /// A lane with connections to where it is: none is made before it is needed.
    fn open(&mut self, row: LaneRow) -> Lane {
        let LaneRow { number, schema, role, place, node, placed } = row;
        let number = usize::try_from(number).unwrap_or_default();
        let replica = node.as_ref().map(|node| self.replica_of(node));
        let (place, identity) = node.map_or((place, self.identity), |node| (node.place(), Some(node.identity())));
        let in_schema = self.catalogue.clone().at(&place, identity).in_schema(&schema).within(&self.allowance);
        let placed = placed.map(|schema| Placed { schema, home: self.home.clone() });
        // Custom metrics read nothing of the catalogue.
        let reader = Reader::new(&in_schema);
        let address = in_schema.on_node(replica.clone()).with_role(role.clone()).placed(placed.is_some());
        let pool = Pool::on_demand(&address, self.requests, |_| Ok(()));
        let worker_pool = Pool::on_demand(&address, self.workers, expect_same_statements);
        let ingest = IngestCache::one_of(self.count);
        let (missed_since, moved_to) = <_>::default();
        Lane { number, schema, role, place, replica, placed, pool, worker_pool, reader, ingest, missed_since, moved_to }
    }

    /// The one lane of a database that was not made with more: it shares the catalogue's connections.
    fn open_only(&self, row: LaneRow, pool: &Pool, worker_pool: &Pool) -> Lane {
        let LaneRow { schema, role, place, .. } = row;
        Lane {
            number: 0,
            schema,
            role,
            place,
            replica: None,
            placed: None,
            pool: pool.clone(),
            worker_pool: worker_pool.clone(),
            reader: Reader::new(&self.catalogue),
            ingest: IngestCache::one_of(1),
            missed_since: Mutex::default(),
            moved_to: OnceLock::new(),
        }
    }

    fn replica_of(&mut self, node: &Node) -> Arc<Replica> {
        let replica = self.replicas.entry(node.name.clone()).or_insert_with(|| {
            let home = self.home.clone();
            Arc::new(Replica::of(move || home.run(position).map_err(Failure::into_store_error)))
        });
        Arc::clone(replica)
    }
}

impl Lane {
    /// The lane's number as its column has it.
    pub(crate) fn row_number(&self) -> i16 {
        self.number as i16
    }

    /// Waits until a connection of the lane sees all that was committed of the catalogue before; where the catalogue is, it does.
    pub(crate) fn catch_up(&self, pg: &mut PgConnection) -> Result<(), Failure> {
        self.replica.as_ref().map_or(Ok(()), |replica| replica.catch_up(pg))
    }

    /// The lane where it was found last.
    fn newest(&self) -> &Self {
        self.moved_to.get().map_or(self, |moved| moved.newest())
    }

    /// Has nobody connect here any more, now that it is elsewhere. The catalogue's connections are not the lane's own.
    fn leave(&self) {
        if self.schema != CATALOGUE {
            self.pool.leave();
            self.worker_pool.leave();
            self.reader.leave();
        }
    }

    /// Whether the directory has it here.
    fn is_at(&self, row: &LaneRow) -> bool {
        let place = row.node.as_ref().map_or_else(|| row.place.clone(), Node::place);
        (&self.schema, &self.role, &self.place) == (&row.schema, &row.role, &place)
    }

    /// Whether what its customers own is here. Where an engine has put it here, what is worked with is made if that is missing.
    fn is_here(&self) -> Result<bool, Failure> {
        match &self.placed {
            None => self.worker_pool.run(|pg| HasTable { name: "customers".to_owned() }.get_result(pg)),
            Some(placed) => placed.arrange(&self.worker_pool),
        }
    }

    /// Makes a month's table of events, unless it exists.
    pub(crate) fn create_month(&self, month: Month) -> Result<(), Failure> {
        let Some(Placed { schema, home }) = &self.placed else {
            return self.worker_pool.transact_again(|pg| Ok(partition::create(pg, month)?));
        };
        home.transact_again(|pg| {
            citus::make_in_lane(pg, schema)?;
            Ok(partition::create(pg, month)?)
        })?;
        self.worker_pool.transact_again(|pg| Ok(citus::show_month(pg, schema, month)?))
    }
}

impl Placed {
    /// Whether the lane is where these connections go; if it is, there is from here on what is worked with.
    fn arrange(&self, pool: &Pool) -> Result<bool, Failure> {
        let described = self.home.run(|pg| citus::describe(pg, &self.schema))?;
        pool.try_run_anywhere(|pg| {
            pg.transaction(|pg| {
                if !citus::is_placed_here(pg, &self.schema)? {
                    return Ok(false);
                }
                if citus::arrange(pg, &self.schema, &described, false)? {
                    custom_sql::prepare(pg);
                }
                Ok(true)
            })
        })
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.allowance.close();
    }
}

impl Lanes {
    /// The lanes of the directory, with connections to each: at most so many for `requests` and for `workers`, and as many in all of
    /// them together as requests and workers use at the same time and as lie there in each for the next, if the server takes so many; what
    /// nobody uses is closed again after a while.
    pub(crate) fn open(
        catalogue: &Address,
        (pool, requests): (&Pool, u32),
        (worker_pool, workers): (&Pool, u32),
    ) -> Result<Self, StoreError> {
        let mut rows = pool.run(directory).map_err(Failure::into_store_error)?;
        let have_nodes = pool.run(has_nodes).map_err(Failure::into_store_error)?;
        let is_in_order = rows.iter().zip(0_i16..).all(|(row, number)| row.number == number);
        let bits = bits(rows.len()).filter(|_| is_in_order);
        let bits = bits.ok_or_else(|| StoreError::Internal("the directory of lanes is not whole".to_owned()))?;
        let is_addressed = rows.iter().any(|row| !row.place.is_home());
        let at_a_time = requests + workers + MORE_CONNECTIONS;
        let wanted = at_a_time
            .saturating_add(CONNECTIONS_OF_A_LANE.saturating_mul(u32::try_from(rows.len()).unwrap_or(u32::MAX)));
        let room: i32 = pool.run(|pg| ConnectionsMax {}.get_result(pg)).map_err(Failure::into_store_error)?;
        // The rest is for home, for other programs, and for whoever looks after the server.
        let room = u32::try_from(room).unwrap_or_default() / 4 * 3;
        let allowance = Allowance::of(wanted.min(room.saturating_sub(requests + workers)).max(at_a_time));
        let home = Pool::on_demand(catalogue, HOME_CONNECTIONS, |_| Ok(()));
        let mut opening = Opening {
            catalogue: catalogue.clone(),
            identity: is_addressed.then(|| pool.run(Identity::read)).transpose().map_err(Failure::into_store_error)?,
            requests,
            workers,
            count: rows.len(),
            allowance: Arc::clone(&allowance),
            home: home.clone(),
            replicas: HashMap::new(),
            looked_at: None,
        };
        let only = rows.pop_if(|row| row.number == 0 && row.is_with_the_catalogue());
        let only = only.map(|row| opening.open_only(row, pool, worker_pool));
        Ok(Self {
            bits,
            all: only.into_iter().chain(rows.into_iter().map(|row| opening.open(row))).collect(),
            turns: AtomicUsize::default(),
            allowance,
            have_nodes: AtomicBool::new(have_nodes),
            home,
            opening: Mutex::new(opening),
        })
    }

    /// Does something with a lane, wherever that is. Where it is not found it is looked up where it has moved to, and done again there; while it
    /// is on its way, and nobody can work with it, this waits. A node that cannot be reached may have another address by now, because a
    /// standby has taken its place: whoever comes next goes there. What was done before its connection was lost is not known, so nothing
    /// is done again.
    ///
    /// # Errors
    /// Those of `work`; [`StoreError::Unavailable`] when the lane takes longer than [`ON_ITS_WAY_MAX`] since this process ran into it first, so that
    /// those who wait do not take all there is from other lanes; [`StoreError::DeadlineExceeded`].
    pub(crate) fn with<'l, T>(
        &'l self,
        lane: &'l Lane,
        mut work: impl FnMut(&'l Lane) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (mut lane, mut was_here) = (lane.newest(), false);
        loop {
            let message = match work(lane) {
                Err(Failure::Missing(message)) if lane.schema != CATALOGUE => message,
                Err(failure) if lane.replica.is_some() && failure.is_of_the_connection() => {
                    self.look_at_times();
                    return Err(failure);
                }
                done => return done,
            };
            match self.follow(lane)? {
                Some(moved) => (lane, was_here) = (moved, false),
                // It came back to where it was; unless it is something else that is missing.
                None if !was_here => was_here = true,
                None => return Err(Failure::Missing(message)),
            }
        }
    }

    /// A lane where it is, with what is worked with there, as far as that can be found out: an engine may have moved it since it was worked with
    /// last.
    pub(crate) fn found<'l>(&'l self, lane: &'l Lane) -> &'l Lane {
        if lane.placed.is_none() {
            return lane;
        }
        let look = |lane: &'l Lane| lane.worker_pool.try_read(|_| Ok(())).map(|()| lane);
        self.with(lane, look).unwrap_or_else(|_| lane.newest())
    }

    /// Waits until a lane is to be found somewhere; `None`: where it was.
    fn follow<'l>(&'l self, lane: &'l Lane) -> Result<Option<&'l Lane>, Failure> {
        let now = Instant::now();
        let since = *lane.missed_since.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(now);
        loop {
            self.look()?;
            let newest = lane.newest();
            if !std::ptr::eq(newest, lane) {
                log::info!("lane {} is {} at {} now", newest.number, newest.schema, newest.place);
                return Ok(Some(newest));
            }
            if lane.is_here()? {
                *lane.missed_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
                return Ok(None);
            }
            if since.elapsed() > ON_ITS_WAY_MAX {
                let message = format!("lane {} is on its way to another server", lane.number);
                return Err(StoreError::Unavailable(message).into());
            }
            deadline::check()?;
            thread::sleep(LOOK_EVERY);
        }
    }

    /// [`Lanes::look`], unless that was done just now, or cannot be done.
    fn look_at_times(&self) {
        let looked_at = self.opening.lock().unwrap_or_else(PoisonError::into_inner).looked_at;
        if looked_at.is_some_and(|at| at.elapsed() < ADDRESS_STANDS_FOR) {
            return;
        }
        if let Err(failure) = self.look() {
            log::warn!("where lanes are cannot be read: {}", failure.into_store_error());
        }
    }

    /// Reads the directory, unless somebody has done so since this was called: from here on lanes are known to be where they were then.
    ///
    /// # Errors
    /// Those of home's connections.
    pub(crate) fn look(&self) -> Result<(), Failure> {
        let called = Instant::now();
        // Whoever waits here is answered by the next who asks.
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if opening.looked_at.is_some_and(|at| at >= called) {
            return Ok(());
        }
        let at = Instant::now();
        for row in self.home.run(directory)? {
            let known = usize::try_from(row.number).ok().and_then(|number| self.all.get(number));
            let Some(lane) = known.map(Lane::newest).filter(|lane| !lane.is_at(&row)) else { continue };
            if row.node.is_some() {
                self.have_nodes.store(true, Ordering::SeqCst);
            }
            if opening.identity.is_none() && !row.place.is_home() {
                opening.identity = Some(self.home.run(Identity::read)?);
            }
            lane.moved_to.get_or_init(|| Box::new(opening.open(row)));
            lane.leave();
        }
        opening.looked_at = Some(at);
        Ok(())
    }

    /// The lane of a customer: as many top bits of its key as there are lanes.
    pub(crate) fn of(&self, customer: CustomerKey) -> &Lane {
        self.all[usize::from(top_bits(customer, self.bits))].newest()
    }

    /// Whether any can be on a node, as far as was seen: then numbers may have come back that are to be used before others, and what
    /// is begun with the catalogue is seen later elsewhere.
    pub(crate) fn have_nodes(&self) -> bool {
        self.have_nodes.load(Ordering::SeqCst)
    }

    /// [`Lanes::have_nodes`], and looks at the catalogue where none was seen: the first one may be younger than this process.
    pub(crate) fn look_for_nodes(&self, pg: &mut PgConnection) -> QueryResult<bool> {
        if !self.have_nodes() && has_nodes(pg)? {
            self.have_nodes.store(true, Ordering::SeqCst);
        }
        Ok(self.have_nodes())
    }

    /// How many top bits of a key tell them apart.
    pub(crate) fn bits(&self) -> u8 {
        self.bits
    }

    /// Every lane, by number.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Lane> {
        self.all.iter().map(Lane::newest)
    }

    /// The lane of a number that there is.
    pub(crate) fn at(&self, number: usize) -> &Lane {
        self.all[number].newest()
    }

    /// Events that this process has stored although they count for nothing, wherever lanes were then.
    pub(crate) fn uncounted(&self) -> Uncounted {
        let places = |lane| iter::successors(Some(lane), |lane: &&Lane| lane.moved_to.get().map(Box::as_ref));
        self.all.iter().flat_map(places).map(|lane| lane.ingest.uncounted()).sum()
    }

    /// Every lane, beginning with another one each time.
    pub(crate) fn by_turns(&self) -> impl Iterator<Item = &Lane> {
        let (behind, before) = self.all.split_at(self.turns.fetch_add(1, Ordering::Relaxed) % self.all.len());
        before.iter().chain(behind).map(Lane::newest)
    }

    /// The lane, where there is but one.
    pub(crate) fn only(&self) -> Option<&Lane> {
        match &self.all[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Things apart by the lanes that their customers are in, each with its place among all.
    pub(crate) fn apart<T>(
        &self,
        things: impl IntoIterator<Item = T>,
        customer: impl Fn(&T) -> CustomerKey,
    ) -> Vec<(&Lane, Vec<(usize, T)>)> {
        let mut apart: Vec<(&Lane, Vec<(usize, T)>)> = self.all().map(|lane| (lane, Vec::new())).collect();
        for (place, thing) in things.into_iter().enumerate() {
            apart[self.of(customer(&thing)).number].1.push((place, thing));
        }
        apart.retain(|(_, things)| !things.is_empty());
        apart
    }
}
