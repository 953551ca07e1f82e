//! What was committed is delivered, however often the process that delivers is killed, or Postgres with it.
//!
//! `BILLING_KILLS` says how often somebody is killed: every third time Postgres dies first, while messages are on their way.

use std::collections::BTreeMap;

use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection};
use postgres_local::Cluster;
use serde_json::{Value, json};

use super::acknowledged::{Process, kill, postgres_processes};
use crate::receiver::{Receiver, until};

/// Customers made between two kills: more than are on their way at once.
const CUSTOMERS_PER_KILL: usize = 40;

#[test]
fn what_was_committed_is_delivered_however_often_the_sender_is_killed() {
    let kills: usize = std::env::var("BILLING_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let folder = tempfile::tempdir().expect("a folder");
    let (postgres, data_dir) = (folder.path().join("postgres"), folder.path().join("server"));
    let mut cluster = Cluster::persistent(&postgres).expect("a durable cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let start = |url: &str| Process::start_with(url, &data_dir, &[("BILLING_WEBHOOKS_ALLOW_PRIVATE", "true")]);
    let receiver = Receiver::new();
    let mut server = start(&cluster.url("billing"));
    let endpoint = server.post("/api/webhook_endpoints/", &json!({"url": receiver.url}));
    for round in 0..kills {
        let before = receiver.received().len();
        for customer in 0..CUSTOMERS_PER_KILL {
            if customer == CUSTOMERS_PER_KILL / 2 {
                // In every second round some are on their way when it happens, in the others some are not placed or not read.
                receiver.hangs(round % 2 == 0);
            }
            let id = format!("{round}-{customer}");
            server.post("/api/customers/", &json!({"customer_id": id, "email": format!("{id}@acme.io")}));
        }
        if round % 2 == 0 {
            receiver.wait_for(before + 1);
        }
        if round % 3 == 2 {
            let (first, mut all) = postgres_processes(&postgres);
            all.insert(0, first);
            kill(&all);
        }
        server.kill();
        receiver.hangs(false);
        if round % 3 == 2 {
            drop(cluster);
            cluster = Cluster::persistent(&postgres).expect("it recovers");
        }
        // Its leases run out.
        let mut pg = PgConnection::establish(&cluster.url("billing")).expect("a connection");
        pg.batch_execute("UPDATE webhook_endpoints SET leased_until = '2000-01-01Z'").expect("the clock goes on");
        server = start(&cluster.url("billing"));
    }
    let told = || -> Vec<Value> {
        let (mut told, mut after) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("/api/feed/?limit=1000&after={after}"));
            let some = page["results"].as_array().expect("a list").clone();
            if some.is_empty() {
                return told;
            }
            told.extend(some);
            after = page["next"].as_str().expect("a cursor").to_owned();
        }
    };
    until("all is placed", || told().len() == kills * CUSTOMERS_PER_KILL);
    let mut sent: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    until("all is delivered", || {
        sent.clear();
        for message in receiver.received() {
            assert!(message.is_signed_with(endpoint["secret"].as_str().expect("a secret")));
            sent.entry(message.id().to_owned()).or_default().push(message.json());
        }
        sent.len() == kills * CUSTOMERS_PER_KILL
    });
    for told in told() {
        let sent = sent.remove(told["id"].as_str().expect("an id")).unwrap_or_default();
        assert!(sent.iter().all(|body| *body == told), "as the feed has it: {told}");
    }
    assert_eq!(sent, BTreeMap::new(), "nothing that was not committed");
}
