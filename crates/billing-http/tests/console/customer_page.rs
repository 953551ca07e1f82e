//! A customer's page: what it may use and why, which alerts watch it, and what was changed of it.

use billing_domain::user::Role;
use serde_json::json;

use super::{Browser, user};
use crate::support::{Field, World, now};

const OWNER: &str = "owner@acme.example";

/// A world with two customers who hold a plan of two calls at most.
fn world() -> (World, String) {
    let world = World::new();
    let metric = world.metric();
    let tier = json!({"type": "free", "range_start": 0, "range_end": 2});
    let version = json!({"currency_code": "USD", "components": [{"metric_id": metric, "tiers": [tier]}]});
    let plan = json!({"plan_name": "Two calls", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    for customer in ["acme", "other"] {
        world.customer(customer);
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": &now()[..10]});
        world.post("/api/subscriptions/", &body).ok(200);
    }
    user(&world, OWNER, world.organization, Role::Owner);
    (world, metric)
}

#[test]
fn it_says_what_may_be_used_and_why() {
    let (world, _) = world();
    let owner = Browser::signed_in(&world, OWNER);
    let page = || owner.get("/console/customers/acme/").text;
    assert!(page().contains("within what its plans allow"), "{}", page());
    for number in 0..2 {
        let event = json!({"customer_id": "acme", "event_name": "api_call", "idempotency_id": format!("e{number}"), "time_created": now()});
        world.post("/api/track/", &json!({"batch": [event]})).ok(201);
    }
    assert!(page().contains("what its plans allow is used"), "{}", page());
    let other = owner.get("/console/customers/other/").text;
    assert!(other.contains("within what its plans allow"), "another customer has used nothing: {other}");
}

#[test]
fn it_shows_the_alerts_that_are_about_it() {
    let (world, metric) = world();
    let other_plan = world.plan(&metric);
    let version_of = |plan: &str| world.get(&format!("/api/plans/{plan}/")).ok(200)["versions"][0].id("version_id");
    let held = world.get("/api/customers/acme/").ok(200)["subscriptions"][0]["billing_plan"].id("version_id");
    let not_held = version_of(&other_plan);
    for (threshold, about) in [
        (7001, json!({"customer_id": "acme"})),
        (7002, json!({"customer_id": "other"})),
        (7003, json!({})),
        (7004, json!({"plan_version_id": held})),
        (7005, json!({"plan_version_id": not_held})),
    ] {
        let mut alert =
            json!({"kind": "metric_usage", "metric_id": metric, "threshold": threshold, "unit": "absolute"});
        alert.as_object_mut().expect("an object").extend(about.as_object().expect("an object").clone());
        world.post("/api/usage_alerts/", &alert).ok(201);
    }
    let owner = Browser::signed_in(&world, OWNER);
    let page = owner.get("/console/customers/acme/").text;
    for (threshold, is_shown, why) in [
        ("7,001", true, "its own"),
        ("7,002", false, "another customer's"),
        ("7,003", true, "everybody's"),
        ("7,004", true, "that of the version that it holds"),
        ("7,005", false, "that of a version that it does not hold"),
    ] {
        assert_eq!(page.contains(threshold), is_shown, "{why}: {page}");
    }
}

#[test]
fn it_shows_the_latest_changes_to_whoever_may_look_at_the_log() {
    let (world, _) = world();
    for number in 0..12 {
        let change = json!({"customer_name": format!("<i>Acme {number}</i>")}).to_string();
        world.write("PATCH", "/api/customers/acme/", change.as_bytes()).ok(200);
    }
    let log = "/console/audit_log/?customer_id=acme";
    for role in Role::ALL {
        let email = format!("{role}@acme.example");
        user(&world, &email, world.organization, *role);
        let page = Browser::signed_in(&world, &email).get("/console/customers/acme/").text;
        let may = [Role::Owner, Role::Finance, Role::Developer].contains(role);
        assert_eq!(page.contains(&format!("href=\"{log}\"")), may, "{role}: {page}");
        // As JSON, in the entries of the log; the name of now stands in the page's title besides.
        let shown = [11, 1, 0].map(|number| page.contains(&format!("Acme {number}&lt;/i&gt;&quot;")));
        assert_eq!(shown, [may, may, false], "{role}: the latest ten changes, with what was before each: {page}");
    }
}
