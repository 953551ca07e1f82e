//! An alert fires once, whoever is killed between the answer to the event that reaches its threshold and the look at its customer.
//!
//! `BILLING_KILLS` says how often somebody is killed: the server, and every second time Postgres with it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::thread;
use std::time::Duration;

use billing_audit::audit_database;
use diesel::{Connection as _, PgConnection};
use postgres_local::Cluster;
use serde_json::{Value, json};

use super::acknowledged::{Process, kill, postgres_processes};
use super::killed_run::count;
use crate::receiver::until;

/// Customers who reach the threshold at once.
const CUSTOMERS: usize = 12;
/// Calls that reach it.
const CALLS: usize = 9;

/// A metered plan, and an alert about everybody's ninth call; the plan.
fn open_for_business(server: &Process) -> Value {
    let metric = server.post("/api/metrics/", &json!({"event_name": "call"}))["metric_id"].clone();
    let plan = json!({"plan_name": "Pro", "plan_duration": "monthly", "initial_version": {"currency_code": "USD",
        "components": [{"metric_id": metric, "tiers": [{"type": "free", "range_start": 0}]}]}});
    let alert = json!({"kind": "metric_usage", "metric_id": metric, "threshold": CALLS});
    server.post("/api/usage_alerts/", &alert);
    server.post("/api/plans/", &plan)["plan_id"].clone()
}

fn customers(round: usize) -> impl Iterator<Item = String> {
    (0..CUSTOMERS).map(move |number| format!("{round}-{number}"))
}

/// Calls of each customer of a round; what was answered is kept. The last calls of every third customer count a second later.
fn track(server: &Process, round: usize, calls: Range<usize>) {
    let instant = |ahead: time::Duration| {
        let instant = time::OffsetDateTime::now_utc() + ahead;
        instant.format(&time::format_description::well_known::Rfc3339).expect("an instant")
    };
    let mut events = Vec::new();
    for (number, customer) in customers(round).enumerate() {
        let is_ahead = calls.end == CALLS && number % 3 == 0;
        let instant = instant(if is_ahead { time::Duration::SECOND } else { time::Duration::ZERO });
        events.extend(calls.clone().map(|n| {
            json!({"customer_id": customer, "event_name": "call", "idempotency_id": format!("{customer}-{n}"),
                "time_created": instant})
        }));
    }
    assert_eq!(server.post("/api/track/", &json!({"batch": events}))["success"], "all");
}

/// Makes customers of a round, and has all of them reach the threshold, once events may come that leave no mark.
fn reach_it(server: &Process, url: &str, plan: &Value, round: usize) {
    let day = time::OffsetDateTime::now_utc().date().to_string();
    for customer in customers(round) {
        server.post("/api/customers/", &json!({"customer_id": customer, "email": format!("{customer}@acme.io")}));
        server.post("/api/subscriptions/", &json!({"customer_id": customer, "plan_id": plan, "start_date": day}));
    }
    track(server, round, 0..5);
    let mut pg = PgConnection::establish(url).expect("a connection");
    let with_headroom = format!(
        "SELECT count(*) FROM usage_alert_headroom JOIN customers USING (customer_key)
        WHERE holds_from < holds_until AND customer_id LIKE '{round}-%'"
    );
    until("everybody was looked at", || count(&mut pg, &with_headroom) == CUSTOMERS as i64);
    track(server, round, 5..CALLS);
}

/// How often an alert was told about each customer.
fn fired(server: &Process) -> BTreeMap<String, usize> {
    let (mut fired, mut after) = (BTreeMap::new(), String::new());
    loop {
        let page = server.get(&format!("/api/feed/?types=usage_alert.triggered&limit=1000&after={after}"));
        let some = page["results"].as_array().expect("a list");
        if some.is_empty() {
            return fired;
        }
        for message in some {
            let customer = message["data"]["customer"]["customer_id"].as_str().expect("a customer");
            *fired.entry(customer.to_owned()).or_default() += 1;
        }
        page["next"].as_str().expect("a cursor").clone_into(&mut after);
    }
}

#[test]
fn an_alert_fires_once_whoever_is_killed_behind_its_event() {
    let kills: usize = std::env::var("BILLING_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let folder = tempfile::tempdir().expect("a folder");
    let (postgres, data_dir) = (folder.path().join("postgres"), folder.path().join("server"));
    let mut cluster = Cluster::persistent(&postgres).expect("a durable cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let mut server = Process::start(&cluster.url("billing"), &data_dir);
    let plan = open_for_business(&server);
    for round in 0..kills {
        reach_it(&server, &cluster.url("billing"), &plan, round);
        // Nobody was looked at yet, some were, and all.
        thread::sleep(Duration::from_millis(15) * (round as u32 / 2 % 5));
        if round % 2 == 1 {
            let (first, mut all) = postgres_processes(&postgres);
            all.insert(0, first);
            kill(&all);
            server.kill();
            drop(cluster);
            cluster = Cluster::persistent(&postgres).expect("it recovers");
        } else {
            server.kill();
        }
        server = Process::start(&cluster.url("billing"), &data_dir);
        until("everybody's alert fires", || fired(&server).len() == CUSTOMERS * (round + 1));
    }
    assert!(fired(&server).values().all(|times| *times == 1), "each once: {:?}", fired(&server));
    let report = audit_database(&cluster.url("billing"), &mut |_| ()).expect("an audit");
    assert!(report.is_clean(), "{report}");
}
