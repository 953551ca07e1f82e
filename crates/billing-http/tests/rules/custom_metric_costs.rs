//! Custom metrics that say much in few words, that take long, and that take the place of others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use billing_domain::testing::custom_sql::{chain, costly};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use serde_json::{Value, json};

use crate::support::{Answer, Field, World};

fn create(world: &World, key: &str, sql: &str) -> Answer {
    let body = json!({"metric_type": "custom", "metric_name": "Query", "custom_sql": sql});
    send(world, key, "POST", "/api/metrics/", &body)
}

fn send(world: &World, key: &str, method: &str, path: &str, body: &Value) -> Answer {
    let headers = [("X-API-KEY", key), ("Content-Type", "application/json")];
    world.send(method, path, &headers, body.to_string().as_bytes())
}

fn usage(world: &World, key: &str, metric: &str, days: u32) -> Answer {
    let path =
        format!("/api/usage/?customer_id=acme&metric_id={metric}&start=2024-03-01&end=2024-03-{days:02}&window=day");
    world.send("GET", &path, &[("X-API-KEY", key)], b"")
}

/// A customer with one event of the number 1 near the end of March 2024.
fn customer(world: &World, key: &str) {
    let clock = json!({"name": "clock", "frozen_time": "2024-04-01"});
    let clock = send(world, key, "POST", "/api/test_clocks/", &clock).ok(201).id("test_clock_id");
    let body = json!({"customer_id": "acme", "email": "acme@acme.io", "test_clock_id": clock});
    send(world, key, "POST", "/api/customers/", &body).ok(201);
    let event = json!({"customer_id": "acme", "event_name": "call", "idempotency_id": "1",
        "time_created": "2024-03-25T12:00:00Z", "properties": {"n": 1}});
    assert_eq!(send(world, key, "POST", "/api/track/", &json!({"batch": [event]})).ok(201)["success"], "all");
}

/// A query that takes as long as [`slow_down`] says for each event that it sees.
const SLOW: &str = "SELECT SUM((properties ->> 'n')::numeric) AS usage_qty FROM events";
const COUNT: &str = "SELECT COUNT(*) AS usage_qty FROM events";

/// Makes casts to numbers slow.
fn slow_down(world: &World, seconds: &str) {
    world.sql(&format!(
        "CREATE OR REPLACE FUNCTION custom_metric.number(value text) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
        BEGIN PERFORM pg_sleep({seconds}); RETURN value::numeric; END $$"
    ));
}

#[test]
fn a_short_query_that_says_much_is_refused_at_its_field() {
    let world = World::new();
    for query in costly() {
        let body = json!({"metric_type": "custom", "metric_name": query.name, "custom_sql": query.sql});
        let answer = world.post("/api/metrics/", &body);
        if !query.is_refused {
            assert_eq!(answer.status, 201, "{}: {}", query.name, answer.text);
            continue;
        }
        let fault = ("custom_sql".to_owned(), "custom_sql_not_allowed".to_owned());
        assert_eq!(answer.faults(), [fault], "{}", query.name);
        let detail = answer.json()["detail"].as_str().expect("a text").to_owned();
        let says_where = detail.starts_with("Line 1, column ") && detail.contains("more than 5000 parts");
        assert!(says_where, "{}: {detail}", query.name);
    }
}

#[test]
fn a_metric_that_was_made_before_there_was_a_bound_runs_as_before() {
    let world = World::new();
    customer(&world, &world.key);
    let metric = create(&world, &world.key, COUNT).ok(201).id("metric_id");
    let become_query = |sql: &str| {
        world.sql(&format!("UPDATE metrics SET custom_sql = '{}'", sql.replace('\'', "''")));
    };
    let whole = format!("/api/usage/?customer_id=acme&metric_id={metric}&start=2024-03-01&end=2024-03-31");
    become_query(&chain(40, "SELECT a + a AS a FROM t"));
    let usage = world.get(&whole).ok(200);
    assert_eq!(usage["total"]["quantity"].to_string(), "1099511627776", "two to the 40th");
    let between = costly().into_iter().find(|query| query.name == "BETWEEN in BETWEEN").expect("a query");
    become_query(&between.sql);
    let answer = world.get(&whole);
    assert_eq!((answer.status, answer.error().as_str()), (409, "custom_metric_failed"));
    assert!(answer.text.contains("more than 5000 parts"), "{}", answer.text);
    assert_eq!(world.get("/api/metrics/").ok(200)[0].id("custom_sql"), between.sql, "it can be read");
}

#[test]
fn the_windows_of_one_call_share_its_time() {
    let world = World::new();
    customer(&world, &world.key);
    slow_down(&world, "0.4");
    let metric = create(&world, &world.key, SLOW).ok(201).id("metric_id");
    assert_eq!(usage(&world, &world.key, &metric, 3).ok(200)["total"]["event_count"], 0, "nothing in the first days");
    // Six windows and the whole see the event: 2.8 s.
    assert_eq!(usage(&world, &world.key, &metric, 30).ok(200)["total"]["quantity"].to_string(), "1");
    slow_down(&world, "1.5");
    let answer = usage(&world, &world.key, &metric, 30);
    assert_eq!((answer.status, answer.error().as_str()), (409, "custom_metric_failed"), "10.5 s: {}", answer.text);
    assert!(answer.text.contains("takes too long"), "{}", answer.text);
    let whole = format!("/api/usage/?customer_id=acme&metric_id={metric}&start=2024-03-01&end=2024-03-30");
    world.get(&whole).ok(200);
}

/// How many connections run [`SLOW`].
fn sleeping(world: &World) -> i64 {
    #[derive(QueryableByName)]
    struct Count {
        #[diesel(sql_type = BigInt)]
        count: i64,
    }
    let mut pg = world.pg();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    diesel::sql_query(sql).get_result::<Count>(&mut pg).expect("a count").count
}

#[test]
fn one_organization_leaves_a_place_for_another() {
    let world = World::new();
    let (greedy, modest) = (world.key.clone(), world.other_key());
    for key in [&greedy, &modest] {
        customer(&world, key);
    }
    slow_down(&world, "0.5");
    let slow = create(&world, &greedy, SLOW).ok(201).id("metric_id");
    let quick = create(&world, &modest, COUNT).ok(201).id("metric_id");
    let is_over = AtomicBool::new(false);
    thread::scope(|threads| {
        // As many as there are places for requests, less two.
        for _ in 0..6 {
            threads.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let answer = usage(&world, &greedy, &slow, 30);
                    let is_fair = answer.status == 200 || answer.error() == "db_pool_exhausted";
                    assert!(is_fair, "{} {}", answer.status, answer.text);
                }
            });
        }
        while sleeping(&world) < 2 {
            thread::yield_now();
        }
        for n in 0..20 {
            let answer = usage(&world, &modest, &quick, 30);
            let (status, most) = (answer.status, sleeping(&world));
            if status != 200 || most > 2 {
                is_over.store(true, Ordering::SeqCst);
                panic!("question {n}: {status} {}, {most} of the others at work", answer.text);
            }
        }
        is_over.store(true, Ordering::SeqCst);
    });
}
