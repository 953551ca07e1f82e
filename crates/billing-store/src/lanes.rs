//! Lanes: ranges of customers, each with all that its customers own in a schema of its own.
//!
//! A customer's transaction runs on a connection that looks in its lane's schema first and then in the catalogue's, and sees
//! nothing of other lanes. What is asked over lanes is asked of each by itself. A database has one lane unless it was made with
//! more; that one is where the catalogue is, and shares its connections.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use billing_domain::StoreError;
use billing_domain::id::CustomerKey;
use diesel::{PgConnection, QueryResult};

use crate::custom_sql::Reader;
use crate::pg::error::Failure;
use crate::pg::lane::{CATALOGUE, LaneRow, bits, directory};
use crate::pg::node::{Node, has_nodes};
use crate::pg::place::{Identity, Place};
use crate::pg::pool::{Address, Allowance, Pool, expect_same_statements};
use crate::pg::replica::{Replica, position};
use crate::remembered::IngestCache;
use crate::rollup::top_bits;

/// Connections of lanes beside those of requests and workers that are at work: for custom metrics, and what lies idle for the next.
const MORE_CONNECTIONS: u32 = 16;

/// Connections of the catalogue for those who are in a lane on a node: their statements there are short.
const HOME_CONNECTIONS: u32 = 8;

/// One lane.
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
    /// Connections of requests.
    pub(crate) pool: Pool,
    /// Connections of the workers, who never wait behind requests.
    pub(crate) worker_pool: Pool,
    /// Connections of custom metrics.
    pub(crate) reader: Reader,
    /// What ingesting its events remembers.
    pub(crate) ingest: IngestCache,
}

/// What becomes of lanes on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nodes {
    /// They are worked with.
    #[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "no command moves a lane to a node yet"))]
    Used,
    /// Nobody works with them yet.
    Refused,
}

/// All lanes of a database.
pub(crate) struct Lanes {
    bits: u8,
    /// As many as the bits can tell apart, by their numbers.
    all: Vec<Lane>,
    /// How often they were gone through.
    turns: AtomicUsize,
    allowance: Arc<Allowance>,
    /// Whether a node was ever seen.
    have_nodes: AtomicBool,
    /// Connections of the catalogue for those who hold one of a lane on a node: nobody who has one of these waits for any other.
    pub(crate) home: Pool,
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
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.allowance.close();
    }
}

impl Lanes {
    /// The lanes of the directory, with connections to each: at most so many for `requests` and for `workers`, and as many in all of
    /// them together as requests and workers use at the same time; what nobody uses is closed again after a while.
    pub(crate) fn open(
        catalogue: &Address,
        (pool, requests): (&Pool, u32),
        (worker_pool, workers): (&Pool, u32),
        nodes: Nodes,
    ) -> Result<Self, StoreError> {
        let rows = pool.run(directory).map_err(Failure::into_store_error)?;
        let have_nodes = pool.run(has_nodes).map_err(Failure::into_store_error)?;
        let elsewhere = rows.iter().find_map(|row| row.node.as_ref().map(|node| (&row.schema, &node.name)));
        if let (Nodes::Refused, Some((schema, node))) = (nodes, elsewhere) {
            let message = format!("{schema} is on the node {node}: this version works with lanes of one database only");
            return Err(StoreError::Internal(message));
        }
        let is_in_order = rows.iter().zip(0_i16..).all(|(row, number)| row.number == number);
        let bits = bits(rows.len()).filter(|_| is_in_order);
        let bits = bits.ok_or_else(|| StoreError::Internal("the directory of lanes is not whole".to_owned()))?;
        let count = rows.len();
        let is_addressed = rows.iter().any(|row| !row.place.is_home());
        let identity = is_addressed.then(|| pool.run(Identity::read)).transpose().map_err(Failure::into_store_error)?;
        let allowance = Allowance::of(requests + workers + MORE_CONNECTIONS);
        let home = Pool::on_demand(catalogue, HOME_CONNECTIONS, |_| Ok(()));
        let mut replicas: HashMap<String, Arc<Replica>> = HashMap::new();
        let mut lane = |(number, row): (usize, LaneRow)| {
            let ingest = IngestCache::one_of(count);
            let LaneRow { schema, role, place, node, .. } = row;
            let mut replica_of = |node: &Node| {
                let replica = replicas.entry(node.name.clone()).or_insert_with(|| {
                    let home = home.clone();
                    Arc::new(Replica::of(move || home.run(position).map_err(Failure::into_store_error)))
                });
                Arc::clone(replica)
            };
            let replica = node.as_ref().map(&mut replica_of);
            let (place, identity) = node.map_or((place, identity), |node| (node.place(), Some(node.identity())));
            if count == 1 && schema == CATALOGUE && role.is_none() && place.is_home() {
                let (pool, worker_pool, reader) = (pool.clone(), worker_pool.clone(), Reader::new(catalogue));
                return Lane { number, schema, role, place, replica, pool, worker_pool, reader, ingest };
            }
            let in_schema = catalogue.clone().at(&place, identity).in_schema(&schema).within(&allowance);
            // Custom metrics read nothing of the catalogue.
            let reader = Reader::new(&in_schema);
            let address = in_schema.on_node(replica.clone()).with_role(role.clone());
            let pool = Pool::on_demand(&address, requests, |_| Ok(()));
            let worker_pool = Pool::on_demand(&address, workers, expect_same_statements);
            Lane { number, schema, role, place, replica, pool, worker_pool, reader, ingest }
        };
        Ok(Self {
            bits,
            all: rows.into_iter().enumerate().map(&mut lane).collect(),
            turns: AtomicUsize::default(),
            allowance,
            have_nodes: AtomicBool::new(have_nodes),
            home,
        })
    }

    /// The lane of a customer: as many top bits of its key as there are lanes.
    pub(crate) fn of(&self, customer: CustomerKey) -> &Lane {
        &self.all[usize::from(top_bits(customer, self.bits))]
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
    pub(crate) fn all(&self) -> &[Lane] {
        &self.all
    }

    /// Every lane, beginning with another one each time.
    pub(crate) fn by_turns(&self) -> impl Iterator<Item = &Lane> {
        let (behind, before) = self.all.split_at(self.turns.fetch_add(1, Ordering::Relaxed) % self.all.len());
        before.iter().chain(behind)
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
        let mut apart: Vec<(&Lane, Vec<(usize, T)>)> = self.all.iter().map(|lane| (lane, Vec::new())).collect();
        for (place, thing) in things.into_iter().enumerate() {
            apart[self.of(customer(&thing)).number].1.push((place, thing));
        }
        apart.retain(|(_, things)| !things.is_empty());
        apart
    }
}
