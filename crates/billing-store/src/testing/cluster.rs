//! A database of its own for a test on a Citus cluster: on the coordinator and on every node.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Integer, Text};

use crate::pg::place::Place;
use crate::pg::statement::statement;

/// The variable that says where stores with several lanes are made: the URL of a database that is one of a cluster's.
pub(super) const CLUSTER: &str = "BILLING_TEST_CLUSTER";

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
    pub fn new(admin: &str) -> Result<Self, Box<dyn std::error::Error>> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let name = format!("billing_test_{}_{}", process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
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
            home.batch_execute(&format!("SELECT {add}('{host}', {port})"))?;
        }
        Ok(made)
    }

    /// Where it is on the coordinator.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn drop_all(&self) -> Result<(), Box<dyn std::error::Error>> {
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

impl Drop for ClusterDatabase {
    fn drop(&mut self) {
        if let Err(error) = self.drop_all() {
            log::warn!("{} is left on the cluster: {error}", self.name);
        }
    }
}
