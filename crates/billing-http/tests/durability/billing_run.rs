//! The billing run: everybody once, whoever fails, however many run it.

use std::thread;

use billing_audit::audit_database;
use billing_domain::store::{BillingQueue, Leased, Scope, Store};
use billing_domain::workflow::bill_customer;
use billing_http::billing_run::{Asking, run_to_the_end};
use billing_store::testing::{count_statements, statements_sent};
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel::{RunQueryDsl, sql_query};
use serde_json::json;
use time::macros::format_description;
use time::{Duration, OffsetDateTime};

use crate::support::{Field, World, connect};

/// One customer's invoices, how often its billing failed, and why.
#[derive(Debug, PartialEq, Eq, diesel::QueryableByName)]
struct Standing {
    #[diesel(sql_type = Text)]
    customer_id: String,
    #[diesel(sql_type = BigInt)]
    invoices: i64,
    #[diesel(sql_type = BigInt)]
    failures: i64,
    #[diesel(sql_type = Nullable<Text>)]
    failure: Option<String>,
}

fn standings(world: &World) -> Vec<Standing> {
    let mut pg = world.pg();
    let query = sql_query(
        "SELECT customer_id, (SELECT count(*) FROM invoices WHERE invoices.customer_key = customers.customer_key) AS invoices,
            failures, failure
        FROM customers JOIN billing_due USING (customer_key) ORDER BY customer_id",
    );
    query.load(&mut pg).expect("rows")
}

fn invoices_of(world: &World, customer: &str) -> i64 {
    standings(world).into_iter().find(|standing| standing.customer_id == customer).expect("in the queue").invoices
}

/// The customers that an audit notes as parked.
fn audited_as_parked(world: &World) -> Vec<String> {
    let report = audit_database(world.url(), &mut |_| {}).expect("an audit");
    assert!(report.notes.iter().all(|note| note.about == "parked_customers"), "{report}");
    report.notes.into_iter().map(|note| note.subject).collect()
}

fn days_ago(days: i64) -> OffsetDateTime {
    (OffsetDateTime::now_utc() - Duration::days(days)).replace_time(time::Time::MIDNIGHT)
}

fn day(at: OffsetDateTime) -> String {
    at.format(format_description!("[year]-[month]-[day]")).expect("a day")
}

/// A service that stood still for 100 days while its customers' months went by.
fn neglected(customers: &[&str]) -> World {
    let mut world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let start = day(days_ago(100));
    let clock = world.clock(&start);
    for customer in customers {
        world.customer_at(customer, &clock);
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": start});
        world.post("/api/subscriptions/", &body).ok(200);
    }
    world.fall_behind();
    world
}

#[test]
fn a_run_goes_as_far_as_it_is_told() {
    let world = neglected(&["a", "b"]);
    let backend = world.opened.backend();
    let run = run_to_the_end(backend.as_ref(), Asking::Nobody, Some(days_ago(99))).expect("a run");
    assert_eq!((run.billed, run.failed), (0, 0), "nothing was due by then");
    let run = run_to_the_end(backend.as_ref(), Asking::Nobody, Some(days_ago(60))).expect("a run");
    assert_eq!(run.billed, 2);
    assert_eq!(invoices_of(&world, "a"), 2, "the first month");
    run_to_the_end(backend.as_ref(), Asking::Nobody, None).expect("a run");
    assert_eq!((invoices_of(&world, "a"), invoices_of(&world, "b")), (4, 4), "and the others");
    let run = run_to_the_end(backend.as_ref(), Asking::Nobody, None).expect("a run");
    assert_eq!((run.billed, run.failed), (0, 0), "once is enough");
}

#[test]
fn two_processes_bill_everybody_once() {
    let customers: Vec<String> = (0..30).map(|n| format!("customer-{n}")).collect();
    let world = neglected(&customers.iter().map(String::as_str).collect::<Vec<_>>());
    let billed: u64 = thread::scope(|scope| {
        let runs: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let store = connect(world.url(), 2);
                    run_to_the_end(&store, Asking::Nobody, None).expect("a run").billed
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().expect("no panic")).sum()
    });
    assert_eq!(billed, 30, "each by one of the two");
    assert!(standings(&world).iter().all(|standing| standing.invoices == 4), "{:?}", standings(&world));
}

#[test]
fn whoever_fails_is_put_off_and_then_parked_and_the_others_go_on() {
    let world = neglected(&["bad", "good"]);
    let break_it = "UPDATE subscriptions SET filters = 'no JSON' FROM customers
        WHERE customers.customer_key = subscriptions.customer_key AND customer_id = 'bad'";
    world.sql(break_it);
    let backend = world.opened.backend();
    let failed = run_to_the_end(backend.as_ref(), Asking::Nobody, None).expect_err("one failed").to_string();
    assert!(failed.starts_with("1 customers billed, 1 failed, 0 parked"), "{failed}");
    let [bad, good] = &standings(&world)[..] else { panic!("two customers") };
    assert_eq!((good.invoices, good.failures), (4, 0));
    assert_eq!((bad.invoices, bad.failures), (1, 1), "nothing of it is kept");
    assert!(bad.failure.as_ref().is_some_and(|why| why.contains("unreadable")), "{bad:?}");
    let run = run_to_the_end(backend.as_ref(), Asking::Nobody, None).expect("a run");
    assert_eq!((run.billed, run.failed), (0, 0), "not before its time");

    world.sql("UPDATE billing_due SET failures = 7, claimed_until = now() WHERE failures = 1");
    let failed = run_to_the_end(backend.as_ref(), Asking::Nobody, None).expect_err("once more").to_string();
    assert!(failed.starts_with("0 customers billed, 1 failed, 1 parked"), "{failed}");
    let named = failed.lines().nth(1).expect("a line for the one that is parked");
    assert!(named.starts_with("parked: bad of org_") && named.contains("failed 8 times: "), "{named}");
    assert!(named.contains("unreadable") && !failed.contains("good"), "why, and nobody else: {failed}");
    assert_eq!(audited_as_parked(&world), ["bad"], "the audit says so, and it is no breach");
    world.sql("UPDATE billing_due SET claimed_until = now() WHERE is_parked");
    let failed = run_to_the_end(backend.as_ref(), Asking::Nobody, None).expect_err("it is still there").to_string();
    assert!(failed.starts_with("0 customers billed, 0 failed, 1 parked"), "left alone: {failed}");

    world.sql("UPDATE subscriptions SET filters = '{}' WHERE filters = 'no JSON'");
    assert_eq!(backend.release_parked().expect("released"), 1);
    run_to_the_end(backend.as_ref(), Asking::Nobody, None).expect("a run");
    assert_eq!((invoices_of(&world, "bad"), standings(&world)[0].failures), (4, 0), "as if nothing had been");
}

#[test]
fn a_lease_that_ran_out_is_somebody_elses() {
    let world = neglected(&["a"]);
    let backend = world.opened.backend();
    let leased = backend.lease_due(10, Duration::hours(1), None, &[]).expect("leased");
    assert_eq!(leased.len(), 1);
    let run = run_to_the_end(backend.as_ref(), Asking::Nobody, None).expect("a run");
    assert_eq!(run.billed, 0, "a worker has it");
    world.sql("UPDATE billing_due SET claimed_until = now()");
    assert_eq!(run_to_the_end(backend.as_ref(), Asking::Nobody, None).expect("a run").billed, 1, "the worker has died");
    assert_eq!(invoices_of(&world, "a"), 4);
}

#[test]
fn a_clock_that_failed_can_be_sent_off_again() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2020-01-01");
    for customer in ["bad", "good"] {
        world.customer_at(customer, &clock);
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": "2020-01-01"});
        world.post("/api/subscriptions/", &body).ok(200);
    }
    world.sql(
        "UPDATE subscriptions SET filters = 'no JSON' FROM customers
        WHERE customers.customer_key = subscriptions.customer_key AND customer_id = 'bad'",
    );
    let invoices = |customer: &str| {
        let invoices = world.get(&format!("/api/invoices/?customer_id={customer}")).ok(200);
        invoices.as_array().map_or(0, Vec::len)
    };
    let advance = || world.post(&format!("/api/test_clocks/{clock}/advance/"), &json!({"frozen_time": "2020-04-15"}));
    advance().ok(200);
    let path = format!("/api/test_clocks/{clock}/");
    while world.get(&path).ok(200).id("status") == "advancing" {
        thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(world.get(&path).ok(200).id("status"), "failed");
    assert_eq!((invoices("bad"), invoices("good")), (1, 4), "the others went on");

    world.sql("UPDATE subscriptions SET filters = '{}' WHERE filters = 'no JSON'");
    advance().ok(200);
    world.advance_done(&clock);
    assert_eq!((invoices("bad"), invoices("good")), (4, 4), "nobody is billed twice");
}

#[test]
fn one_more_customer_takes_few_statements() {
    count_statements();
    let world = neglected(&["a", "b", "c"]);
    // A store that knows nothing yet.
    let store = connect(world.url(), 2);
    let leased = store.lease_due(3, Duration::hours(1), None, &[]).expect("leased");
    let bill = |one: &Leased| {
        let before = statements_sent(world.url());
        let scope = Scope::Customer(one.organization, one.customer);
        let as_store: &dyn Store = &store;
        as_store.run_for(&scope, |tx, now| bill_customer(tx, one.customer, now)).expect("billed");
        statements_sent(world.url()) - before
    };
    let counts: Vec<u64> = thread::scope(|scope| {
        // Statements are counted on threads of this name.
        let named = thread::Builder::new().name("tokio".to_owned());
        let run = || leased.iter().map(bill).collect();
        named.spawn_scoped(scope, run).expect("a thread").join().expect("no panic")
    });
    assert!(
        standings(&world).iter().all(|standing| standing.invoices == 4),
        "three months each: {:?}",
        standings(&world)
    );
    assert!(counts[1] < counts[0], "the catalogue is read once: {counts:?}");
    // Eight for a customer, and eight for each month that is renewed, invoiced, and looked at once more for late events.
    assert!(counts[1..].iter().all(|count| (8..=8 + 3 * 8).contains(count)), "{counts:?}");
}

#[test]
fn billing_that_goes_on_for_ever_is_parked_and_seen() {
    let world = neglected(&["good", "runaway"]);
    let backend = world.opened.backend();
    run_to_the_end(backend.as_ref(), Asking::Nobody, None).expect("a run");
    let before = invoices_of(&world, "runaway");
    let forget = "UPDATE billing_records SET revision = revision + 1, billed_exact = 0, billed_given = 0,
            invoicing_instants = ARRAY[start_at]
        WHERE (customer_key, start_at) = (
            SELECT customer_key, min(start_at) FROM billing_records JOIN customers USING (customer_key)
            WHERE customer_id = 'runaway' GROUP BY customer_key
        ) AND recurring_charge_id IS NOT NULL;
        UPDATE billing_due SET due_at = now() - interval '1 day' FROM customers
        WHERE customers.customer_key = billing_due.customer_key AND customer_id = 'runaway'";
    // The last honest invoice of that subscription is the first of twenty.
    for run in 1..20 {
        world.sql(forget);
        run_to_the_end(backend.as_ref(), Asking::Nobody, None).expect("a run");
        assert_eq!(invoices_of(&world, "runaway"), before + run, "each run commits one more");
    }
    world.sql(forget);
    let failed = run_to_the_end(backend.as_ref(), Asking::Nobody, None).expect_err("stopped").to_string();
    assert!(failed.starts_with("0 customers billed, 1 failed, 1 parked"), "{failed}");
    let [good, runaway] = &standings(&world)[..] else { panic!("two customers") };
    assert_eq!((good.invoices, good.failures), (4, 0), "the others are as they were");
    assert_eq!(runaway.invoices, before + 19, "nothing of the last run is kept");
    let why = runaway.failure.as_deref().unwrap_or_default();
    assert!(why.contains("more than 20 scheduled invoices of sub_"), "{why}");
}

/// Somebody of whom not even their name can be read, so that nothing can be told of them, is parked all the same.
#[test]
fn whoever_cannot_be_told_of_is_parked() {
    let world = neglected(&["bad"]);
    world.sql("UPDATE customers SET properties = '[]'; UPDATE billing_due SET failures = 7");
    let failed =
        run_to_the_end(world.opened.backend().as_ref(), Asking::Nobody, None).expect_err("it failed").to_string();
    assert!(failed.starts_with("0 customers billed, 1 failed, 1 parked"), "{failed}");
}
