//! Nobody can hurt their neighbour: what one organization does leaves the others their places, and ends with its deadline or
//! with whoever asked for it.

use std::io::Write;
use std::num::NonZero;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use billing_domain::id::CustomerKey;
use billing_domain::store::{Scope, Store};
use serde_json::json;

use super::catching_up::daily_plan;
use crate::support::{Field, World, ago};

/// A plan whose invoices are many, and take long each: one a day, with the usage of many metrics.
fn slow_plan(world: &World) -> String {
    let metered = (0..10).map(|n| {
        let metric = world.post("/api/metrics/", &json!({"event_name": format!("event {n}")})).ok(201).id("metric_id");
        json!({"metric_id": metric, "invoicing_interval_unit": "day", "invoicing_interval_count": 1, "tiers": [
            {"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1}]})
    });
    let version = json!({"currency_code": "USD", "components": metered.collect::<Vec<_>>()});
    let body = json!({"plan_name": "Slow", "plan_duration": "monthly", "initial_version": version});
    world.post("/api/plans/", &body).ok(201).id("plan_id")
}

/// As much of it as one call does.
fn from_last_year(plan: &str) -> serde_json::Value {
    let start = &ago(time::Duration::days(300))[..10];
    json!({"customer_id": "acme", "plan_id": plan, "start_date": start})
}

#[test]
fn an_organization_whose_calls_all_wait_leaves_places_to_others() {
    let world = World::new();
    world.customer("held");
    let other = world.other_key();
    let (locked, is_locked) = mpsc::channel();
    let (release, is_released) = mpsc::channel::<()>();
    let key = CustomerKey::derive(world.organization, &"held".parse().expect("an id"));
    let (world, scope) = (&world, &Scope::Customer(world.organization, key));
    let credit = json!({"customer_id": "held", "amount": 1, "currency_code": "USD"});
    thread::scope(|threads| {
        // Dropped with this closure, also when it fails.
        let release = release;
        threads.spawn(move || {
            let hold = world.opened.store.run(scope, &mut |_, _| {
                locked.send(()).expect("it is waited for");
                is_released.recv().expect("told to go on");
                Ok(())
            });
            hold.expect("held");
        });
        is_locked.recv().expect("it is locked");
        let waiting: Vec<_> = (0..24).map(|_| threads.spawn(|| world.post("/api/credits/", &credit).status)).collect();
        // While they all wait for the customer, in turn for every place that they may have.
        let headers = [("X-API-KEY", other.as_str()), ("Content-Type", "application/json")];
        for n in 0..20 {
            let body = json!({"customer_id": format!("theirs-{n}"), "email": format!("{n}@acme.io")}).to_string();
            let answer = world.send("POST", "/api/customers/", &headers, body.as_bytes());
            assert_eq!(answer.status, 201, "{}", answer.text);
        }
        release.send(()).expect("somebody holds it");
        let statuses: Vec<_> = waiting.into_iter().map(|call| call.join().expect("an answer")).collect();
        assert!(statuses.iter().all(|status| [201, 409, 503].contains(status)), "{statuses:?}");
    });
}

#[test]
fn in_company_an_organization_waits_for_its_own_few_places() {
    let world = World::new();
    world.customer("held");
    let other = world.other_key();
    let key = CustomerKey::derive(world.organization, &"held".parse().expect("an id"));
    let (world, scope) = (&world, &Scope::Customer(world.organization, key));
    let credit = json!({"customer_id": "held", "amount": 1, "currency_code": "USD"});
    let (locked, is_locked) = mpsc::channel();
    let (release, is_released) = mpsc::channel::<()>();
    thread::scope(|threads| {
        // Dropped with this closure, also when it fails.
        let release = release;
        threads.spawn(move || {
            let hold = world.opened.store.run(scope, &mut |_, _| {
                locked.send(()).expect("it is waited for");
                is_released.recv().expect("told to go on");
                Ok(())
            });
            hold.expect("held");
        });
        is_locked.recv().expect("it is locked");
        assert_eq!(
            world.send("GET", "/api/ping/", &[("X-API-KEY", &other)], b"").status,
            200,
            "now they are in company"
        );
        let places = thread::available_parallelism().map_or(1, NonZero::get);
        let waiting: Vec<_> =
            (0..places).map(|_| threads.spawn(|| world.post("/api/credits/", &credit).status)).collect();
        thread::sleep(Duration::from_millis(300));
        let next =
            threads.spawn(|| world.post("/api/customers/", &json!({"customer_id": "free", "email": "free@acme.io"})));
        thread::sleep(Duration::from_millis(1_400));
        release.send(()).expect("somebody holds it");
        let answer = next.join().expect("an answer");
        assert_eq!(answer.status, 201, "a lock of another customer is waited for: {}", answer.text);
        for call in waiting {
            assert_eq!(call.join().expect("an answer"), 201);
        }
    });
}

#[test]
fn work_beyond_the_deadline_is_given_up_and_leaves_nothing() {
    let world = World::with(|settings| settings.request_deadline = Duration::from_millis(300));
    let plan = slow_plan(&world);
    world.customer("acme");
    let before = world.snapshot();
    let answer = world.post("/api/subscriptions/", &from_last_year(&plan));
    assert_eq!((answer.status, answer.error()), (504, "deadline_exceeded".to_owned()));
    assert_eq!(world.snapshot(), before);
}

#[test]
fn work_whose_client_has_gone_is_given_up_and_leaves_nothing() {
    let world = World::with(|settings| settings.request_deadline = Duration::from_secs(600));
    let plan = slow_plan(&world);
    world.customer("acme");
    let before = world.snapshot();
    let body = from_last_year(&plan).to_string();
    let free = || {
        let page = world.get("/metrics").text;
        page.lines()
            .find(|line| line.starts_with("billing_blocking_places") && line.contains("free"))
            .map(str::to_owned)
    };
    let all = free();
    assert!(all.is_some(), "the page says how many places are free");
    let mut stream = world.raw();
    let head = format!(
        "POST /api/subscriptions/ HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        world.key,
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    while free() == all {
        thread::sleep(Duration::from_millis(5));
    }
    drop(stream);
    for _ in 0..2_000 {
        if free() == all {
            assert_eq!(world.snapshot(), before);
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("its place is still held");
}

#[test]
fn starts_long_ago_of_one_organization_keep_no_other_waiting() {
    let world = World::new();
    let greedy_plan = daily_plan(&|path, body| world.post(path, body).ok(201));
    let modest_key = world.other_key();
    let headers = [("X-API-KEY", modest_key.as_str()), ("Content-Type", "application/json")];
    let modest = |path: &str, body: &serde_json::Value| {
        let answer = world.send("POST", path, &headers, body.to_string().as_bytes());
        assert!((200..300).contains(&answer.status), "{path}: {}", answer.text);
        answer.json()
    };
    let plan = daily_plan(&modest);
    let start = &ago(time::Duration::days(3))[..10];
    modest("/api/customers/", &json!({"customer_id": "modest", "email": "m@acme.io"}));
    modest("/api/subscriptions/", &json!({"customer_id": "modest", "plan_id": plan, "start_date": start}));

    let start = &ago(time::Duration::days(1_190))[..10];
    let greedy = (0..18).map(|n| format!("greedy-{n}")).collect::<Vec<_>>();
    for id in &greedy {
        world.post("/api/customers/", &json!({"customer_id": id, "email": format!("{id}@acme.io")})).ok(201);
    }
    let mut sockets = Vec::new();
    for id in &greedy {
        let body = json!({"customer_id": id, "plan_id": greedy_plan, "start_date": start}).to_string();
        let mut stream = world.raw();
        let head = format!(
            "POST /api/subscriptions/ HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            world.key,
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        // Nobody reads the answer, and the work goes on.
        sockets.push(stream);
    }
    for _ in 0..25 {
        modest("/api/credits/", &json!({"customer_id": "modest", "amount": 1, "currency_code": "USD"}));
        let draft = world.send("GET", "/api/customers/modest/draft_invoice/", &headers, b"");
        assert_eq!(draft.status, 200, "{}", draft.text);
    }
}
