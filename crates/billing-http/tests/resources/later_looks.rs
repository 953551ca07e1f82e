//! Usage alerts and events that are dated ahead: they fire when these begin to count, though nothing else happens then.

use std::slice;

use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use super::usage_alerts::{alert, fired, settle, subscribe, track, wait_for};
use crate::support::{Field, World, ago, event, now};

fn instant(text: &Value) -> OffsetDateTime {
    OffsetDateTime::parse(text.as_str().expect("a text"), &Rfc3339).expect("an instant")
}

/// An alert on a metric's usage.
fn usage_alert(world: &World, metric: &str, threshold: u32) {
    alert(world, json!({"kind": "metric_usage", "metric_id": metric, "threshold": threshold}));
}

#[test]
fn an_alert_fires_when_the_event_that_reaches_it_begins_to_count() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    for customer in ["acme", "later", "nobody"] {
        world.customer(customer);
        subscribe(&world, customer, &plan);
    }
    usage_alert(&world, &metric, 3);
    settle(&world);
    let soon = ago(-Duration::seconds(4));
    // The last of them is stored when nothing but what lies ahead is missing.
    track(&world, "acme", 0..2, &soon);
    track(&world, "later", 0..3, &soon);
    track(&world, "nobody", 0..2, &soon);
    track(&world, "acme", 2..3, &now());
    settle(&world);
    let told = wait_for(&world, 2);
    for one in &told {
        assert!(instant(&one["timestamp"]) >= instant(&json!(soon)), "not before they count: {one}");
        assert_eq!(one["data"]["value"], 3, "as whoever reads it then finds it");
    }
    let mut customers: Vec<&str> =
        told.iter().filter_map(|one| one["data"]["customer"]["customer_id"].as_str()).collect();
    customers.sort_unstable();
    assert_eq!(customers, ["acme", "later"]);
    let usage = |customer: &str| {
        let path = format!("/api/metric_access/?customer_id={customer}&metric_id={metric}");
        world.get(&path).ok(200)["access_per_subscription"][0]["metric_usage"].clone()
    };
    assert_eq!(["acme", "later", "nobody"].map(usage), [3, 3, 2].map(|n| json!(n)));
    settle(&world);
    assert_eq!(fired(&world).len(), 2, "each once");
}

/// Calls that begin anew each day, of customers by a test clock, who are billed at the month's end.
fn by_days(world: &World, metric: &str) -> String {
    let version = json!({"currency_code": "USD", "components": [{"metric_id": metric,
        "reset_interval_unit": "day", "reset_interval_count": 1,
        "tiers": [{"type": "per_unit", "range_start": 0, "cost_per_batch": "1.5", "metric_units_per_batch": 1}]}]});
    let body = json!({"plan_name": "Days", "plan_duration": "monthly", "initial_version": version});
    world.post("/api/plans/", &body).ok(201).id("plan_id")
}

#[test]
fn a_test_clock_that_goes_on_meets_what_was_dated_ahead() {
    let world = World::new();
    let metric = world.metric();
    let plan = by_days(&world, &metric);
    let clock = world.clock("2024-01-31T20:00:00Z");
    for customer in ["acme", "leaves"] {
        world.customer_at(customer, &clock);
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": "2024-01-01"});
        world.post("/api/subscriptions/", &body).ok(200);
    }
    usage_alert(&world, &metric, 2);
    settle(&world);
    // Behind the month's end, where the subscription is renewed.
    for time in ["2024-01-31T23:59:59.999999Z", "2024-02-01T00:00:00Z", "2024-02-01T19:59:59Z"] {
        let ids = ["acme", "leaves"].map(|customer| event(customer, &format!("{customer} {time}"), time));
        assert_eq!(world.post("/api/track/", &json!({"batch": ids})).ok(201)["success"], "all");
    }
    let renewed = world.get("/api/subscriptions/?customer_id=leaves").ok(200)[0].id("subscription_id");
    let cancel = format!("/api/subscriptions/{renewed}/cancel/");
    world.advance(&clock, "2024-02-01T12:00:00Z");
    settle(&world);
    assert_eq!(fired(&world), Vec::<Value>::new(), "the second of the day is still to come");
    let running = world.get("/api/subscriptions/?customer_id=leaves").ok(200)[0].id("subscription_id");
    assert_ne!(running, renewed, "the month has ended");
    world.post(&cancel.replace(&renewed, &running), &json!({"flat_fee_behavior": "refund"})).ok(200);
    // Far behind both, in one go.
    world.advance(&clock, "2024-04-10");
    let told = wait_for(&world, 1);
    settle(&world);
    assert_eq!(fired(&world).len(), 1, "of the one who left before: {told:?}");
    assert_eq!(told[0]["data"]["customer"]["customer_id"], "acme");
    let (since, value) = (&told[0]["data"]["interval_start"], &told[0]["data"]["value"]);
    assert_eq!(
        (instant(since), value),
        (instant(&json!("2024-02-01T00:00:00Z")), &json!(2)),
        "of the day that has long passed"
    );
    // At the very instant where the clock stands: spent once it goes on.
    alert(&world, json!({"kind": "spend", "threshold": 3}));
    settle(&world);
    for id in ["a", "b"] {
        let at_now = event("acme", id, "2024-04-10T00:00:00Z");
        assert_eq!(world.post("/api/track/", &json!({"batch": slice::from_ref(&at_now)})).ok(201)["success"], "all");
    }
    let usage_told = wait_for(&world, 2);
    assert_eq!(usage_told[1]["data"]["usage_alert"]["kind"], "metric_usage", "{usage_told:?}");
    settle(&world);
    assert_eq!(fired(&world).len(), 2, "a draft goes up to its instant");
    world.advance(&clock, "2024-04-10T00:00:01Z");
    assert_eq!(wait_for(&world, 3)[2]["data"]["usage_alert"]["kind"], "spend");
}
