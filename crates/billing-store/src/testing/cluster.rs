//! A database of its own for a test on several servers: on the coordinator and every node of a Citus cluster, or on throw-away servers
//! of the process's own.

use std::error::Error;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Integer, Text};
use postgres_local::Cluster;

use super::put_on_node;
use crate::PgStore;
use crate::pg::migration;
use crate::pg::place::Place;
use crate::pg::statement::statement;

/// The variable that says where stores with several lanes are made: the URL of a database that is one of a cluster's.
pub(super) const CLUSTER: &str = "BILLING_TEST_CLUSTER";
/// The variable that says on how many servers of the process's own they are made.
pub(super) const SERVERS: &str = "BILLING_TEST_SERVERS";

/// The throw-away servers of this process, home first: stopped when it ends. A failure is kept, as it would be the next time.
static OWN_SERVERS: Mutex<Option<Result<Vec<Cluster>, String>>> = Mutex::new(None);
/// What databases of nodes are copies of.
const NODE_TEMPLATE: &str = "billing_node";

statement! {
    /// The nodes of a cluster, the coordinator first: server and port.
    ListNodes -> (Text, Integer) {
        "SELECT nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary' AND groupid >= " first: i32 as Integer; " ORDER BY groupid"
    }
}

/// What keeps a database from being dropped: what it takes from another, and what it keeps for one.
const LET_GO: &str = "
    DO $$
    DECLARE
        name name;
    BEGIN
        FOR name IN SELECT subname FROM pg_subscription WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database()) LOOP
            EXECUTE format('ALTER SUBSCRIPTION %I DISABLE', name);
            EXECUTE format('ALTER SUBSCRIPTION %I SET (slot_name = NONE)', name);
            EXECUTE format('DROP SUBSCRIPTION %I', name);
        END LOOP;
    END
    $$";
/// Waits for whoever was sent to what is kept to be gone.
const DROP_SLOTS: &str = "
    DO $$
    BEGIN
        FOR attempt IN 1..100 LOOP
            PERFORM pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database() AND active;
            PERFORM pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database() AND NOT active;
            EXIT WHEN NOT EXISTS (SELECT FROM pg_replication_slots WHERE database = current_database());
            PERFORM pg_sleep(0.1);
        END LOOP;
    END
    $$";

/// A database on all servers of a cluster; dropped with its connections.
#[derive(Debug)]
pub struct ClusterDatabase {
    admin: String,
    name: String,
    url: String,
    /// The coordinator first.
    nodes: Vec<Place>,
}

impl ClusterDatabase {
    /// An empty one, of the cluster that the database at `admin` is one of.
    ///
    /// # Errors
    /// What a server says.
    pub fn new(admin: &str) -> Result<Self, Box<dyn Error>> {
        let name = next_name();
        let nodes: Vec<(String, i32)> = ListNodes { first: 0 }.load(&mut PgConnection::establish(admin)?)?;
        let places: Vec<Place> = nodes.iter().map(|(host, port)| Place::of(host, *port, &name)).collect();
        let coordinator = places.first().ok_or("the cluster has no nodes")?;
        let made = Self { admin: admin.to_owned(), url: coordinator.url(admin), name, nodes: places };
        for (host, port) in &nodes {
            let server = Place::of(host, *port, "postgres").url(admin);
            PgConnection::establish(&server)?.batch_execute(&format!("CREATE DATABASE {}", made.name))?;
        }
        for node in &made.nodes {
            PgConnection::establish(&node.url(admin))?.batch_execute("CREATE EXTENSION citus")?;
        }
        let mut home = PgConnection::establish(&made.url)?;
        for (place, (host, port)) in nodes.iter().enumerate() {
            let add = if place == 0 { "citus_set_coordinator_host" } else { "citus_add_node" };
            insist(&mut home, &format!("SELECT {add}('{host}', {port})"))?;
        }
        Ok(made)
    }

    /// One with so many lanes, on so many throw-away servers of this process, to which the lanes are given in turn.
    ///
    /// # Errors
    /// What a server says.
    pub fn on_own_servers(lanes: u16, servers: usize) -> Result<Self, Box<dyn Error>> {
        let (name, template) = (next_name(), format!("billing_home_{lanes}"));
        let (admin, nodes) = with_own_servers(servers, |own| {
            let home = &own[0];
            if !home.has_database(&template)? {
                home.create_database_if_absent(&template)?;
                PgStore::migrate_into_lanes(&home.url(&template), lanes)?;
            }
            let mut nodes = Vec::new();
            for (number, server) in own.iter().enumerate() {
                let from = if number == 0 { &template } else { NODE_TEMPLATE };
                let make = format!("CREATE DATABASE {name} TEMPLATE {from}");
                PgConnection::establish(&server.url("postgres"))?.batch_execute(&make)?;
                let (folder, port) = server.address();
                nodes.push((folder.to_string_lossy().into_owned(), port));
            }
            Ok((home.url("postgres"), nodes))
        })?;
        let places = nodes.iter().map(|(host, port)| Place::of(host, i32::from(*port), &name)).collect::<Vec<_>>();
        let made = Self { url: places[0].url(&admin), admin, name, nodes: places };
        let called = |number: usize| format!("server_{number}");
        for (number, (host, port)) in nodes.iter().enumerate().skip(1) {
            PgStore::add_node(&made.url, (&called(number), host, *port, &made.name), &mut |_| {})?;
        }
        for lane in 0..lanes {
            match usize::from(lane) % servers {
                0 => {}
                number => put_on_node(&made.url, lane, &called(number))?,
            }
        }
        Ok(made)
    }

    /// Where it is on the coordinator.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn drop_all(&self) -> Result<(), Box<dyn Error>> {
        // Those who take before those who send.
        for node in self.nodes.iter().rev() {
            let mut there = PgConnection::establish(&node.url(&self.admin))?;
            there.batch_execute(LET_GO)?;
            there.batch_execute(DROP_SLOTS)?;
        }
        for node in &self.nodes {
            let server = node.clone().of_database("postgres").url(&self.admin);
            let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
            PgConnection::establish(&server)?.batch_execute(&drop)?;
        }
        Ok(())
    }
}

/// Says it again, a few times: an engine that was just made on another server may not answer yet.
fn insist(pg: &mut PgConnection, statement: &str) -> QueryResult<()> {
    for _ in 0..10 {
        if pg.batch_execute(statement).is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(200));
    }
    pg.batch_execute(statement)
}

/// A name that no other database has.
fn next_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    format!("billing_test_{}_{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Hands the servers of this process to `work`, which nobody else does anything with meanwhile; there are `count` of them.
fn with_own_servers<T>(
    count: usize,
    work: impl FnOnce(&[Cluster]) -> Result<T, Box<dyn Error>>,
) -> Result<T, Box<dyn Error>> {
    let mut own = OWN_SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    let start = || -> Result<Vec<Cluster>, Box<dyn Error>> {
        let servers = (0..count).map(|_| {
            let server = Cluster::temporary_sending()?;
            server.create_database_if_absent(NODE_TEMPLATE)?;
            migration::make_catalogue(&server.url(NODE_TEMPLATE))?;
            Ok(server)
        });
        servers.collect()
    };
    match own.get_or_insert_with(|| start().map_err(|error| error.to_string())) {
        Ok(servers) => work(servers),
        Err(message) => Err(message.clone().into()),
    }
}

impl Drop for ClusterDatabase {
    fn drop(&mut self) {
        if let Err(error) = self.drop_all() {
            log::warn!("{} is left on the cluster: {error}", self.name);
        }
    }
}
