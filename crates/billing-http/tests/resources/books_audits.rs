//! Audits of the books that an organization asks for: carried out in the background, one at a time, and told to nobody else.

use std::thread;
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use serde_json::{Value, json};

use crate::support::{Field, World, ago};

const AUDITS: &str = "/api/books_audits/";
/// Those that are about an organization.
const CHECKS: usize = billing_audit::CHECKS.len() - 1;

/// An organization with an invoice.
fn world() -> World {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": ago(time::Duration::days(1))});
    world.post("/api/subscriptions/", &body).ok(200);
    world
}

fn ask(world: &World) -> String {
    let asked = world.post(AUDITS, &Value::Null).ok(202);
    assert_eq!(
        (&asked["state"], &asked["finished_at"], &asked["breaches"]),
        (&json!("running"), &Value::Null, &Value::Null)
    );
    asked.id("books_audit_id")
}

/// The audit once it is at its end.
fn ended(world: &World, id: &str) -> Value {
    let began = Instant::now();
    loop {
        let audit = world.get(&format!("{AUDITS}{id}/")).ok(200);
        if audit["state"] != "running" {
            return audit;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it does not end: {audit}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn books_are_audited_and_what_is_wrong_is_told_to_whose_it_is() {
    let world = world();
    let clean = ended(&world, &ask(&world));
    let found = (&clean["state"], &clean["checks_done"], &clean["breaches"], &clean["failure"]);
    assert_eq!(found, (&json!("clean"), &json!(CHECKS), &json!([]), &Value::Null), "{clean}");

    world.sql("SET session_replication_role = replica; UPDATE invoices SET amount = amount + 1");
    let id = ask(&world);
    let breached = ended(&world, &id);
    let breaches = breached["breaches"].as_array().expect("a list");
    assert_eq!(breached["state"], "breached", "{breached}");
    assert_eq!(breached["breaches_found"], breaches.len(), "{breached}");
    let sums: Vec<_> = breaches.iter().filter(|one| one["check"] == "invoice_is_the_sum_of_its_lines").collect();
    assert_eq!(sums.len(), 1, "{breached}");

    let listed = world.get(AUDITS).ok(200);
    let states: Vec<_> =
        listed.as_array().expect("a list").iter().map(|one| (&one["state"], &one["breaches"])).collect();
    assert_eq!(states, [(&json!("breached"), &Value::Null), (&json!("clean"), &Value::Null)], "newest first");
    let entries = world.get("/api/audit_log/?kind=books_audit").ok(200);
    assert_eq!(entries[0]["id"], id.as_str(), "who asked for it is noted: {entries}");

    let other = world.other_key();
    assert_eq!(world.get_as(&other, &format!("{AUDITS}{id}/")).status, 404);
    assert_eq!(world.get_as(&other, AUDITS).ok(200), json!([]));
    let asked = world.send("POST", AUDITS, &[("X-API-KEY", &other)], b"").ok(202).id("books_audit_id");
    let began = Instant::now();
    loop {
        let theirs = world.get_as(&other, &format!("{AUDITS}{asked}/")).ok(200);
        if theirs["state"] != "running" {
            assert_eq!((&theirs["state"], &theirs["breaches"]), (&json!("clean"), &json!([])), "{theirs}");
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it does not end: {theirs}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn one_runs_at_a_time_and_who_asks_again_gets_the_one_that_waits() {
    let world = world();
    world.other_key();
    // Somebody else's is at work in another process.
    world.sql(&format!(
        "INSERT INTO books_audits (organization_id, id, state, requested_at, attempts, leased_until)
        SELECT id, gen_random_uuid(), 'running', now() - interval '1 minute', 1, now() + interval '1 hour'
        FROM organizations WHERE id <> '{}'",
        world.organization.uuid()
    ));
    let id = ask(&world);
    assert_eq!(ask(&world), id, "it is under way");
    thread::sleep(Duration::from_millis(2_500));
    let waiting = world.get(&format!("{AUDITS}{id}/")).ok(200);
    assert_eq!((&waiting["state"], &waiting["checks_done"]), (&json!("running"), &json!(0)), "it waits for its turn");
    world.sql("UPDATE books_audits SET state = 'clean', finished_at = now() WHERE attempts = 1");
    assert_eq!(ended(&world, &id)["state"], "clean");
}

#[test]
fn an_audit_that_somebody_died_over_is_begun_again_and_not_for_ever() {
    let world = world();
    #[rustfmt::skip]
    let cases = [
        // begun before, ends as,   why
        (1,              "clean",   "the process that had it is gone"),
        (3,              "failed",  "it may have been its end"),
    ];
    for (attempts, state, why) in cases {
        world.sql(&format!(
            "INSERT INTO books_audits (organization_id, id, state, requested_at, attempts, checks_done, leased_until)
            VALUES ('{}', gen_random_uuid(), 'running', now(), {attempts}, 7, now())",
            world.organization.uuid()
        ));
        let audits = world.get(AUDITS).ok(200);
        let ids = audits.as_array().expect("a list").iter().filter(|one| one["finished_at"].is_null());
        let running: Vec<String> = ids.map(|one| one.id("books_audit_id")).collect();
        for id in running {
            assert_eq!(ended(&world, &id)["state"], state, "{why}");
        }
    }
    let audits = world.get(AUDITS).ok(200);
    let failed = audits.as_array().expect("a list").iter().find(|one| one["state"] == "failed").expect("it failed");
    assert!(failed["failure"].as_str().expect("a text").contains("never came to its end"), "{failed}");
}

#[test]
fn a_server_that_stops_leaves_the_audit_to_the_next() {
    let mut world = world();
    // Before anything is locked, which it would wait for.
    let mut watching = world.pg();
    let mut pg = world.pg();
    pg.batch_execute("BEGIN").expect("a transaction");
    for enter in world.search_paths() {
        // What only the auditor reads.
        pg.batch_execute(&format!("{enter}; LOCK TABLE event_corrections IN ACCESS EXCLUSIVE MODE")).expect("locked");
    }
    let id = ask(&world);
    let began = Instant::now();
    let is_begun = "SELECT 1 / count(*) FROM books_audits WHERE attempts = 1";
    while watching.batch_execute(is_begun).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not begin");
        thread::sleep(Duration::from_millis(50));
    }
    world.stop();
    world.start();
    pg.batch_execute("ROLLBACK").expect("free");
    assert_eq!(ended(&world, &id)["state"], "clean", "it is begun anew at once");
}
