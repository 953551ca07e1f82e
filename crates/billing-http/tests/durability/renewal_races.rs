//! Renewals that race for one customer, with each other and with cancellations, at the boundary to the microsecond.

use std::sync::{Arc, Barrier};
use std::thread;

use bigdecimal::BigDecimal;
use billing_audit::audit_database;
use billing_domain::id::CustomerKey;
use billing_domain::store::{Scope, Store};
use billing_domain::workflow::bill_customer;
use billing_http::Backend;
use billing_http::billing_run::{Asking, BillingRun};
use billing_store::PgStore;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

use super::races::{Ring, rounds};
use crate::support::{Answer, Field, LEAVE_TEST_CLOCKS, connect};

/// Racers of each side.
const RACERS: usize = 4;

/// One side of a race: what it does, and what it was answered if it asked somebody.
pub type Racer<'r> = Box<dyn FnOnce() -> Option<Answer> + Send + 'r>;

pub fn race(racers: Vec<Racer<'_>>) -> Vec<Answer> {
    let barrier = Barrier::new(racers.len());
    thread::scope(|scope| {
        let threads: Vec<_> = racers
            .into_iter()
            .map(|racer| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    racer()
                })
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect()
    })
}

fn key_of(ring: &Ring, customer: &str) -> CustomerKey {
    CustomerKey::derive(ring.world.organization, &customer.parse().expect("an id"))
}

/// Bills a customer as a worker does that has leased it.
fn bill(ring: &Ring, store: &PgStore, customer: &str) {
    let (store, key): (&dyn Store, _) = (store, key_of(ring, customer));
    let scope = Scope::Customer(ring.world.organization, key);
    store.run_for(&scope, |tx, now| bill_customer(tx, key, now)).expect("billed");
}

pub fn billers<'r>(ring: &'r Ring, stores: &'r [PgStore; 2], customer: &'r str) -> impl Iterator<Item = Racer<'r>> {
    (0..RACERS).map(move |i| -> Racer<'r> {
        Box::new(move || {
            bill(ring, &stores[i % 2], customer);
            None
        })
    })
}

fn cancellers<'r>(ring: &'r Ring, customer: &'r str) -> impl Iterator<Item = Racer<'r>> {
    (0..RACERS).map(move |i| -> Racer<'r> {
        Box::new(move || {
            let path = format!("/api/subscriptions/cancel/?customer_id={customer}");
            Some(ring.call(i, "POST", &path, "{}"))
        })
    })
}

pub fn two_stores(ring: &Ring) -> [PgStore; 2] {
    [0, 1].map(|_| connect(ring.world.url(), 4))
}

/// A subscriber since the 15th of January 2020 with fifteen calls, five of them to be paid; the clock.
pub fn subscriber(ring: &Ring, customer: &str) -> String {
    let clock = ring.world.clock("2020-01-15");
    ring.world.customer_at(customer, &clock);
    let body = json!({"customer_id": customer, "plan_id": ring.plan, "start_date": "2020-01-15"});
    ring.world.post("/api/subscriptions/", &body).ok(200);
    let events: Vec<_> = (0..15)
        .map(|n| {
            json!({"customer_id": customer, "event_name": "api_call", "idempotency_id": format!("{customer}-{n}"),
            "time_created": "2020-01-15T08:00:00Z"})
        })
        .collect();
    assert_eq!(ring.world.post("/api/track/", &json!({"batch": events})).json()["success"], "all");
    clock
}

/// Lets time pass for a clock's customers as it does for everybody else: nobody is told.
pub fn set_clock(ring: &Ring, clock: &str, instant: &str) {
    let id = clock.trim_start_matches("test_clock_");
    ring.world.sql_at_home(&format!("UPDATE test_clocks SET frozen_time = '{instant}' WHERE id = '{id}'"));
}

/// Everything a customer ever had, by start.
pub fn all_subscriptions(ring: &Ring, customer: &str) -> Vec<Value> {
    let path = format!("/api/subscriptions/?customer_id={customer}&status=active,ended,not_started");
    ring.world.get(&path).ok(200).as_array().expect("a list").clone()
}

pub fn assert_books_balance(ring: &Ring) {
    let report = audit_database(ring.world.url(), &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn cancel_against_renew_at_the_boundary() {
    #[rustfmt::skip]
    let cases = [
        // the customer's now,              periods, invoices, why
        ("2020-02-14 23:59:59.999999+00",   1,       2,        "cancelled in the last microsecond of its period, it does not renew"),
        ("2020-02-15 00:00:00+00",          2,       2,        "at the end it has renewed, and what is cancelled is the next period"),
        ("2020-02-15 00:00:00.000001+00",   2,       3,        "and a microsecond later, of which no usage is billed at once"),
    ];
    let ring = Ring::new();
    let stores = two_stores(&ring);
    for round in 0..rounds() {
        for (case, (instant, periods, invoices, why)) in cases.into_iter().enumerate() {
            let customer = format!("c{round}-{case}");
            let clock = subscriber(&ring, &customer);
            set_clock(&ring, &clock, instant);
            let answers = race(billers(&ring, &stores, &customer).chain(cancellers(&ring, &customer)).collect());

            let cancelled: Vec<usize> =
                answers.iter().map(|answer| answer.ok(200).as_array().map_or(0, Vec::len)).collect();
            assert_eq!(cancelled.iter().sum::<usize>(), 1, "{why}: one call has cancelled it: {cancelled:?}");
            let held = all_subscriptions(&ring, &customer);
            assert_eq!(held.len(), periods, "{why}: {held:#?}");
            assert!(held.iter().all(|subscription| subscription["auto_renew"] == false
                || subscription["end_date"] == "2020-02-14T23:59:59.999999Z"));

            set_clock(&ring, &clock, "2020-06-01");
            race(billers(&ring, &stores, &customer).collect());
            assert_eq!(all_subscriptions(&ring, &customer).len(), periods, "{why}: that was the end of it");
            let books = ring.books(&customer);
            assert_eq!(books.count(), (invoices, 0), "{why}: the fee of a month and its usage, each once");
            assert_eq!(books.net(), BigDecimal::new(905.into(), 2), "{why}");
        }
    }
    assert_books_balance(&ring);
}

#[test]
fn a_cancellation_at_the_boundary_is_about_the_next_period() {
    let ring = Ring::new();
    let clock = subscriber(&ring, "late");
    set_clock(&ring, &clock, "2020-02-15");
    let cancelled = ring.world.post("/api/subscriptions/cancel/?customer_id=late", &json!({})).ok(200);
    assert_eq!(cancelled[0]["start_date"], "2020-02-15T00:00:00Z", "nobody has renewed it yet, but it is due");
    assert_eq!(ring.list("subscriptions", "late"), Vec::<Value>::new(), "and nothing goes on unseen");
}

#[test]
fn renew_against_renew() {
    let ring = Ring::new();
    let stores = two_stores(&ring);
    for round in 0..rounds() {
        let customer = format!("c{round}");
        let clock = subscriber(&ring, &customer);
        set_clock(&ring, &clock, "2020-05-20");
        race(billers(&ring, &stores, &customer).chain(billers(&ring, &stores, &customer)).collect());
        let held = all_subscriptions(&ring, &customer);
        let starts: Vec<_> = held.iter().map(|subscription| subscription.id("start_date")[..10].to_owned()).collect();
        assert_eq!(starts, ["2020-01-15", "2020-02-15", "2020-03-15", "2020-04-15", "2020-05-15"], "each month once");
        let books = ring.books(&customer);
        assert_eq!(books.invoices.len(), 5);
        assert_eq!(books.net(), BigDecimal::new(4505.into(), 2), "five fees of 9 and five calls");
    }
    assert_books_balance(&ring);
}

/// With the queue, as two servers do it that both look into it, and with a worker whose lease has run out.
#[test]
fn renew_against_renew_by_the_queue() {
    let ring = Ring::new();
    let stores = two_stores(&ring);
    for round in 0..rounds() {
        let customer = format!("c{round}");
        let start = (OffsetDateTime::now_utc() - Duration::days(100)).date().to_string();
        let clock = ring.world.clock(&start);
        ring.world.customer_at(&customer, &clock);
        let body = json!({"customer_id": customer, "plan_id": ring.plan, "start_date": start});
        ring.world.post("/api/subscriptions/", &body).ok(200);
        // It leaves its clock, and finds that it is late. The workers of both servers are awake, too.
        ring.world.sql(LEAVE_TEST_CLOCKS);
        let backends: Vec<Arc<dyn Backend>> = stores.iter().map(|store| Arc::new(store.clone()) as _).collect();
        let by_the_queue = (0..RACERS).map(|i| -> Racer<'_> {
            let backend = backends[i % 2].clone();
            Box::new(move || {
                let mut run = BillingRun::default();
                while run.take_some(backend.as_ref(), Asking::Nobody, None).expect("leased") {}
                assert_eq!(run.failed, 0);
                None
            })
        });
        race(by_the_queue.chain(billers(&ring, &stores, &customer)).collect());
        assert_eq!(all_subscriptions(&ring, &customer).len(), 4, "each month once");
        let books = ring.books(&customer);
        assert_eq!((books.invoices.len(), books.net()), (4, BigDecimal::from(36)));
    }
    assert_books_balance(&ring);
}
