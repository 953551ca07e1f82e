//! Ordinary calls take few statements: each is a round trip that its caller waits for.

use std::cell::Cell;

use billing_store::testing::count_statements;
use serde_json::json;
use time::Duration;

use crate::support::{Answer, Field, World, ago, now};

/// What changes something is noted in the audit log, together with its message where it has one, and what is there is shown before it is changed.
/// A statement is whatever is sent to the database for the call, by any thread: the look-up of the key, where there is one, and the
/// begin of the transaction count, its COMMIT does not. It is the least of three calls, of which the first finds the caches cold.
#[test]
fn ordinary_calls_take_no_more_statements() {
    count_statements();
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let usage = &*format!("/api/usage/?customer_id=c&metric_id={metric}&start={}", &now()[..10]);
    let subscribe = |customer: &str| {
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": ago(Duration::days(1))});
        world.post("/api/subscriptions/", &body)
    };
    let customers: Vec<String> = (1..=5).map(|length| "c".repeat(length)).collect();
    customers.iter().for_each(|customer| world.customer(customer));
    subscribe("c").ok(200);
    #[rustfmt::skip]
    let cases = [
        // path,                                       most, why
        ("/api/customers/c/",                 4,  "begun, itself, its invoices, what it holds"),
        ("/api/subscriptions/?customer_id=c", 3,  "begun, the customer, what it holds"),
        ("/api/invoices/?customer_id=c",      3,  "begun, the customer, its invoices"),
        (usage,                               3,  "begun, the customer, its usage"),
        ("/api/customers/c/draft_invoice/",   6,  "begun, the customer, records, what it holds, credit, usage"),
    ];
    let mut counts = Vec::new();
    for (path, most, why) in cases {
        let taken = world.statements(|| {
            let answer = world.get(path);
            answer.ok(200);
            answer
        });
        counts.push((path, taken, most, why));
    }
    // Something else each time, of as many as are tried.
    let next = Cell::new(0);
    let mut count = |call: &'static str, most: u64, why: &'static str, ask: &dyn Fn(usize) -> Answer| {
        next.set(0);
        let taken = world.statements(|| {
            next.set(next.get() + 1);
            let answer = ask(next.get());
            assert!(answer.status < 300, "{call}: {}", answer.text);
            answer
        });
        counts.push((call, taken, most, why));
    };
    let create = |n: usize| {
        let body = json!({"customer_id": format!("new-{n}"), "email": format!("new-{n}@acme.io")});
        world.post("/api/customers/", &body)
    };
    count("POST /api/customers/", 7, "begun, locked, looked at, made with its address, told and noted", &create);
    let make = |n: usize| subscribe(&customers[n]);
    count(
        "POST /api/subscriptions/",
        8,
        "begun, locked, looked at, made with its records, queued, told and noted, invoiced",
        &make,
    );
    let held = |n: usize| {
        let path = format!("/api/subscriptions/?customer_id={}", customers[n]);
        world.get(&path).ok(200)[0].id("subscription_id")
    };
    let ids = [held(1), held(2), held(3)];
    let cancel = |n: usize| world.post(&format!("/api/subscriptions/{}/cancel/", ids[n - 1]), &json!({}));
    count(
        "POST ../cancel/",
        23,
        "found in three; begun, locked, looked at, shown as it was, cut, billed, looked at to be told, told, noted, shown",
        &cancel,
    );
    let over: Vec<_> = counts.iter().filter(|(_, taken, most, _)| taken > most).collect();
    assert!(over.is_empty(), "{counts:?}");
}
