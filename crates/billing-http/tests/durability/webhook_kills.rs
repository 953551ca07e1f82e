//! What was committed is delivered, however often the process that delivers is killed.
//!
//! `BILLING_KILLS` says how often it is killed.

use std::collections::BTreeMap;

use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection};
use postgres_local::Cluster;
use serde_json::{Value, json};

use super::acknowledged::Process;
use crate::receiver::{Receiver, until};

/// Customers made between two kills: more than are on their way at once.
const CUSTOMERS_PER_KILL: usize = 40;

#[test]
fn what_was_committed_is_delivered_however_often_the_sender_is_killed() {
    let kills: usize = std::env::var("BILLING_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::persistent(&folder.path().join("postgres")).expect("a durable cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let (url, data_dir) = (cluster.url("billing"), folder.path().join("server"));
    let start = || Process::start_with(&url, &data_dir, &[("BILLING_WEBHOOKS_ALLOW_PRIVATE", "true")]);
    let mut pg = PgConnection::establish(&url).expect("a connection");
    let receiver = Receiver::new();
    let mut server = start();
    let endpoint = server.post("/api/webhook_endpoints/", &json!({"url": receiver.url}));
    for kill in 0..kills {
        let before = receiver.received().len();
        for customer in 0..CUSTOMERS_PER_KILL {
            if customer == CUSTOMERS_PER_KILL / 2 {
                // In every second round some are on their way when it happens, in the others some are not placed or not read.
                receiver.hangs(kill % 2 == 0);
            }
            let id = format!("{kill}-{customer}");
            server.post("/api/customers/", &json!({"customer_id": id, "email": format!("{id}@acme.io")}));
        }
        if kill % 2 == 0 {
            receiver.wait_for(before + 1);
        }
        server.kill();
        receiver.hangs(false);
        // Its leases run out.
        pg.batch_execute("UPDATE webhook_endpoints SET leased_until = '2000-01-01Z'").expect("the clock goes on");
        server = start();
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
