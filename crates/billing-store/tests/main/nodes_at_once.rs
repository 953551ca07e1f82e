//! Servers that take from each other at once do not wait for each other.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use billing_store::PgStore;
use diesel::connection::SimpleConnection;

use crate::nodes::databases;
use crate::sql::{connect, query};

/// Transactions that have written and are still open, of one database.
const WRITING: &str =
    "SELECT pid::text AS value FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND datname = current_database()";
/// Who waits for the transactions of the server to end before it keeps changes for anybody.
const WAITING: &str = "SELECT pid::text AS value FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND wait_event = 'transactionid' AND query ILIKE '%replication_slot%' AND datname = current_database()";

#[test]
fn a_node_that_waits_for_home_holds_nothing_that_others_wait_for() {
    let (home, node, (host, port, database)) = databases();
    PgStore::migrate_into_lanes(&home, 2).expect("two lanes");
    let mut at_work = connect(&home);
    at_work.batch_execute("BEGIN; CREATE TABLE of_somebody ()").expect("somebody writes at home");
    thread::scope(|scope| {
        let (done, is_done) = channel();
        let home_url = &home;
        let adding = scope.spawn(move || {
            let added = PgStore::add_node(home_url, ("east", &host, port, &database), &mut |_| {});
            done.send(()).expect("somebody listens");
            added
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        while query(&home, WAITING).is_empty() {
            assert!(Instant::now() < deadline && is_done.try_recv().is_err(), "it waits for who is at work");
            thread::sleep(Duration::from_millis(20));
        }
        let writing = query(&node, WRITING);
        at_work.batch_execute("COMMIT").expect("done");
        adding.join().expect("no panic").expect("added");
        assert_eq!(
            writing,
            Vec::<String>::new(),
            "whoever waits for the node's transactions would wait for home's, too"
        );
    });
}
