//! Events that arrive when their time has been billed, over the wire.

use serde_json::{Value, json};

use crate::support::{Field, World, event};

/// A customer in January 2024 with calls at a cent, and the clock it lives by.
fn subscribed(world: &World, prepaid: Option<u32>) -> (String, String) {
    let metric = world.metric();
    let mut component = json!({"metric_id": metric, "tiers": [
        {"type": "per_unit", "range_start": 0, "cost_per_batch": "0.5", "metric_units_per_batch": 1},
    ]});
    if let Some(units) = prepaid {
        component["prepaid_charge"] = json!({"charge_behavior": "full", "units": units});
    }
    let version = json!({"currency_code": "USD", "components": [component]});
    let plan = json!({"plan_name": "Metered", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    let clock = world.clock("2024-01-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-01"});
    (clock, world.post("/api/subscriptions/", &body).ok(200).id("subscription_id"))
}

fn track(world: &World, ids: &[&str], time: &str) -> Value {
    let events: Vec<_> = ids.iter().map(|id| event("acme", id, time)).collect();
    world.post("/api/track/", &json!({"batch": events})).json()
}

/// Issue date, name and amount of every line, oldest first.
fn lines(world: &World) -> Vec<String> {
    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    let invoices = invoices.as_array().expect("a list").iter().rev();
    let lines = invoices.flat_map(|invoice| {
        let lines = invoice["line_items"].as_array().expect("lines").iter();
        lines.map(|line| format!("{} {} {}", invoice.id("issue_date"), line.id("name"), line["amount"]))
    });
    lines.collect()
}

#[test]
fn late_events_are_billed_once_and_explained() {
    let world = World::new();
    let (clock, _) = subscribed(&world, None);
    track(&world, &["a", "b"], "2024-01-01T00:00:00Z");
    world.advance(&clock, "2024-02-10");
    let accepted = track(&world, &["c", "d", "a"], "2024-01-31T23:59:59.999999Z");
    assert_eq!(accepted["success"], "all", "{accepted}");
    let draft = world.get("/api/customers/acme/draft_invoice/").ok(200);
    assert_eq!(draft["invoices"][0]["amount"].to_string(), "1", "a draft shows what is to come: {draft}");
    world.advance(&clock, "2024-06-01");
    #[rustfmt::skip]
    assert_eq!(lines(&world), [
        "2024-02-01T00:30:00Z count of api_call 1",
        "2024-03-01T00:30:00Z count of api_call - Late Usage 1",
        "2024-03-01T00:30:00Z count of api_call 0",
        "2024-04-01T00:30:00Z count of api_call 0",
        "2024-05-01T00:30:00Z count of api_call 0",
    ]);
    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    let id = invoices[2].id("invoice_id");
    let explained = world.get(&format!("/api/invoices/{id}/explain/")).ok(200);
    let trace = &explained["line_items"][0]["trace"];
    let figures = ["billed_before", "quantity", "event_count"].map(|name| trace[name].to_string());
    assert_eq!(figures, ["2", "4", "4"], "what was billed, what it is now: {trace}");
    let refused = track(&world, &["e"], "2024-01-31T00:00:00Z");
    assert_ne!(refused["success"], "all", "nothing is accepted and not billed: {refused}");
}

#[test]
fn a_cancelled_customer_is_billed_for_late_events_when_the_wait_is_over() {
    let world = World::new();
    let (clock, subscription) = subscribed(&world, Some(3));
    track(&world, &["a", "b"], "2024-01-02T00:00:00Z");
    world.advance(&clock, "2024-01-10");
    world.post(&format!("/api/subscriptions/{subscription}/cancel/"), &json!({})).ok(200);
    track(&world, &["c", "d", "e"], "2024-01-09T00:00:00Z");
    track(&world, &["f"], "2024-01-10T00:00:00Z");
    world.advance(&clock, "2024-02-09T00:29:59.999999Z");
    let before = lines(&world);
    assert_eq!(before.len(), 2, "prepaid units, and usage within them: {before:?}");
    world.advance(&clock, "2024-03-01");
    assert_eq!(
        lines(&world)[2..],
        ["2024-02-09T00:30:00Z count of api_call - Late Usage 1"],
        "two beyond what is prepaid"
    );
}
