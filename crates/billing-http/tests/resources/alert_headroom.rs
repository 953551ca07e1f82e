//! Usage alerts of customers whose events leave no marks for a while: whatever ends that is noticed.

use serde_json::{Value, json};
use time::Duration;

use super::usage_alerts::{alert, fired, has_headroom, settle, subscribe, track, wait_for};
use crate::receiver::until;
use crate::support::{Answer, Field, World, ago, event, now, plan_body};

/// A metered plan, the customer `acme` with a subscription to it, and its metric.
fn with_acme(world: &World) -> (String, String) {
    let metric = world.metric();
    let plan = world.plan(&metric);
    world.customer("acme");
    (subscribe(world, "acme", &plan), metric)
}

fn usage_alert(world: &World, metric: &str, threshold: u32) -> Value {
    alert(world, json!({"kind": "metric_usage", "metric_id": metric, "threshold": threshold}))
}

/// Waits until all is looked at: so many have fired, and `acme` has headroom.
fn rest(world: &World, count: usize, why: &str) {
    settle(world);
    assert_eq!(fired(world).len(), count, "{why}");
    assert!(has_headroom(world, "acme"), "{why}");
}

/// Twelve of a thousand calls under an alert at half of the limit, and then a switch to a plan with this one.
fn switch_to_limit(world: &World, subscription: &str, metric: &str, limit: u32) {
    let mut small = plan_body("Small", metric);
    small["initial_version"]["components"][0]["tiers"][1]["range_end"] = json!(limit);
    let small = world.post("/api/plans/", &small).ok(201).id("plan_id");
    alert(world, json!({"kind": "metric_usage", "metric_id": metric, "threshold": 50, "unit": "percent_of_limit"}));
    track(world, "acme", 0..12, &now());
    rest(world, 0, "12 of 1000");
    let body = json!({"switch_plan_id": small});
    world.post(&format!("/api/subscriptions/{subscription}/switch_plan/"), &body).ok(200);
}

#[test]
fn a_switch_to_a_smaller_limit_is_looked_at() {
    let world = World::new();
    let (subscription, metric) = with_acme(&world);
    switch_to_limit(&world, &subscription, &metric, 40);
    rest(&world, 0, "12 of 40");
    track(&world, "acme", 12..18, &now());
    rest(&world, 0, "18 of 40");
    track(&world, "acme", 18..20, &now());
    assert_eq!(wait_for(&world, 1)[0]["data"]["value"], 20);
}

#[test]
fn a_switch_below_what_was_used_fires_at_once() {
    let world = World::new();
    let (subscription, metric) = with_acme(&world);
    switch_to_limit(&world, &subscription, &metric, 20);
    assert_eq!(wait_for(&world, 1)[0]["data"]["value"], 12);
}

#[test]
fn a_correction_that_raises_the_figure_is_looked_at() {
    let world = World::new();
    let (_, metric) = with_acme(&world);
    usage_alert(&world, &metric, 9);
    track(&world, "acme", 0..6, &now());
    track(&world, "acme", 6..8, &ago(Duration::DAY * 3));
    rest(&world, 0, "six of nine: two are from before");
    let voided = json!({"customer_id": "acme", "idempotency_ids": ["acme-0"]});
    world.post("/api/events/void/", &voided).ok(200);
    rest(&world, 0, "five");
    let amended: Vec<Value> =
        (6..8).map(|id| json!({"idempotency_id": format!("acme-{id}"), "time_created": now()})).collect();
    world.post("/api/events/amend/", &json!({"customer_id": "acme", "events": amended})).ok(200);
    rest(&world, 0, "seven");
    track(&world, "acme", 8..9, &now());
    settle(&world);
    assert_eq!(fired(&world), Vec::<Value>::new(), "eight");
    track(&world, "acme", 9..10, &now());
    assert_eq!(wait_for(&world, 1)[0]["data"]["value"], 9);
}

#[test]
fn an_alert_that_is_made_later_is_looked_at_with_the_next_event() {
    let world = World::new();
    let (_, metric) = with_acme(&world);
    usage_alert(&world, &metric, 1_000);
    track(&world, "acme", 0..5, &now());
    rest(&world, 0, "five of a thousand");
    let made = usage_alert(&world, &metric, 7);
    track(&world, "acme", 5..7, &now());
    assert_eq!(wait_for(&world, 1)[0]["data"]["usage_alert"], made);
    let id = made.id("usage_alert_id");
    assert_eq!(world.write("DELETE", &format!("/api/usage_alerts/{id}/"), b"").status, 204);
    track(&world, "acme", 7..8, &now());
    settle(&world);
    track(&world, "acme", 8..9, &now());
    rest(&world, 1, "there is the other one alone");
}

#[test]
fn every_interval_is_counted_from_its_start_with_what_was_dated_ahead() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-01-10T00:00:00Z");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-10"});
    world.post("/api/subscriptions/", &body).ok(200);
    usage_alert(&world, &metric, 6);
    track(&world, "acme", 0..2, "2024-01-10T00:00:00Z");
    rest(&world, 0, "two of six");
    track(&world, "acme", 2..4, "2024-01-10T06:00:00Z");
    rest(&world, 0, "two of six, and two ahead");
    track(&world, "acme", 4..6, "2024-01-10T06:00:00Z");
    settle(&world);
    assert_eq!(fired(&world), Vec::<Value>::new(), "two of six, and four ahead");
    world.advance(&clock, "2024-01-10T12:00:00Z");
    track(&world, "acme", 6..7, "2024-01-10T12:00:00Z");
    assert_eq!(wait_for(&world, 1)[0]["data"]["value"], 7, "the next event after they have come");
    rest(&world, 1, "once in this interval");
    track(&world, "acme", 7..30, "2024-01-10T12:00:00Z");
    rest(&world, 1, "once in this interval, however many");
    world.advance(&clock, "2024-02-10T00:00:00Z");
    track(&world, "acme", 30..35, "2024-02-10T00:00:00Z");
    settle(&world);
    assert_eq!(fired(&world).len(), 1, "five of six in the next one");
    track(&world, "acme", 35..36, "2024-02-10T00:00:00Z");
    let second = wait_for(&world, 2).remove(1);
    assert_eq!(
        (&second["data"]["value"], &second["data"]["interval_start"]),
        (&json!(6), &json!("2024-02-10T00:00:00Z"))
    );
}

/// Two tenants name a customer and an event alike; what one has stored, made and deleted takes nothing from what the other is told.
#[test]
fn another_tenants_events_and_alerts_take_nothing_from_it() {
    let world = World::new();
    let (_, metric) = with_acme(&world);
    let key = world.other_key();
    let other = |method: &str, path: &str, body: Value| -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        world.send(method, path, &[("X-API-KEY", &key), ("Content-Type", "application/json")], body.as_bytes())
    };
    let theirs = other("POST", "/api/metrics/", json!({"event_name": "api_call"})).ok(201).id("metric_id");
    let plan = other("POST", "/api/plans/", plan_body("Theirs", &theirs)).ok(201).id("plan_id");
    let body = json!({"customer_id": "acme", "email": "acme@other.example", "default_currency_code": "USD"});
    other("POST", "/api/customers/", body).ok(201);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": ago(Duration::HOUR)});
    other("POST", "/api/subscriptions/", body).ok(200);
    let body = json!({"kind": "metric_usage", "metric_id": theirs, "threshold": 5});
    let made = other("POST", "/api/usage_alerts/", body).ok(201);
    let send = |ids: std::ops::Range<u32>| {
        let batch: Vec<Value> = ids.map(|id| event("acme", &format!("acme-{id}"), &now())).collect();
        other("POST", "/api/track/", json!({"batch": batch})).ok(201);
    };
    let told = || {
        let feed = other("GET", "/api/feed/?types=usage_alert.triggered", Value::Null).ok(200);
        let values = feed["results"].as_array().expect("a list").iter().map(|one| one["data"]["value"].clone());
        values.collect::<Vec<_>>()
    };
    usage_alert(&world, &metric, 9);
    track(&world, "acme", 0..5, &now());
    rest(&world, 0, "five of nine");
    send(0..4);
    settle(&world);
    assert_eq!(told(), Vec::<Value>::new(), "four of five, beside five of another tenant's");
    send(4..5);
    until("theirs fires", || !told().is_empty());
    rest(&world, 0, "their five are not among ours");
    let id = made.id("usage_alert_id");
    assert_eq!(other("DELETE", &format!("/api/usage_alerts/{id}/"), Value::Null).status, 204);
    send(5..300);
    track(&world, "acme", 5..6, &now());
    rest(&world, 0, "six of nine");
    track(&world, "acme", 6..9, &now());
    assert_eq!(wait_for(&world, 1)[0]["data"]["value"], 9);
    settle(&world);
    assert_eq!((told(), fired(&world).len()), (vec![json!(5)], 1), "each was told once, of its own");
}
