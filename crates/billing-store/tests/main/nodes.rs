//! Lanes on a server of their own: everything that holds in one database holds over two.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use billing_domain::testing::contract::{Harness, all};
use billing_store::PgStore;
use billing_store::testing::{connect_with_nodes, put_on_node};
use postgres_local::Cluster;

use crate::sql::query;

/// The two servers of this process: home, and a node. Their companions stop them when it ends.
static SERVERS: LazyLock<Mutex<[Cluster; 2]>> = LazyLock::new(|| {
    Mutex::new([0, 1].map(|_| Cluster::temporary_sending().unwrap_or_else(|error| panic!("{error}"))))
});

/// A database of four lanes, two of which are on a node.
struct Spread {
    store: PgStore,
    home: String,
    node: String,
}

/// The URLs of a new database on each of the servers, and where the second one is.
fn databases() -> (String, String, (String, u16, String)) {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let name = format!("nodes_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    for server in servers.iter() {
        server.create_database_if_absent(&name).expect("a database");
    }
    let [home, node] = [&servers[0], &servers[1]].map(|server| server.url(&name));
    let host = "SELECT btrim(current_setting('unix_socket_directories'), '\"') AS value";
    let place = (query(&node, host).remove(0), 5432, name);
    (home, node, place)
}

fn spread() -> Spread {
    let (home, node, (host, port, database)) = databases();
    PgStore::migrate_into_lanes(&home, 4).expect("four lanes");
    PgStore::add_node(&home, ("east", &host, port, &database), &mut |_| {}).expect("a node");
    for lane in [1, 2] {
        put_on_node(&home, lane, "east").expect("moved");
    }
    let store = connect_with_nodes(&home, 12).expect("connected");
    Spread { store, home, node }
}

#[test]
fn the_contract_holds_with_lanes_on_two_servers() {
    let spread = spread();
    let harness = Harness::of(&spread.store);
    let mut failed = Vec::new();
    for (name, case) in all() {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| case(&harness))).is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    let count = |url: &str, sql: &str| query(url, &format!("SELECT ({sql})::text AS value")).remove(0);
    for lane in ["lane_01", "lane_02"] {
        assert_ne!(count(&spread.node, &format!("SELECT count(*) FROM {lane}.invoices")), "0", "{lane} was used");
    }
    for table in ["lane_reservations", "returned_numbers"] {
        assert_eq!(count(&spread.home, &format!("SELECT count(*) FROM {table}")), "0", "{table}: all is settled");
    }
    assert_eq!(spread.store.check_lanes(&mut |_| {}), Ok(Vec::new()));
}
