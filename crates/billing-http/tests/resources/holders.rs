//! Who holds a version of a plan: whoever is counted, whatever happens to them.

use serde_json::json;

use crate::support::{Field, World, version_body};

/// The customers that hold a version, by when it ends and by id, each once; as many as the plan counts.
fn holders(world: &World, plan: &str, version: &str) -> Vec<String> {
    let shown = world.get(&format!("/api/plan_versions/{version}/holders/")).ok(200);
    let shown = shown.as_array().expect("a list");
    let plan = world.get(&format!("/api/plans/{plan}/")).ok(200);
    let versions = plan["versions"].as_array().expect("versions");
    let counted =
        versions.iter().find(|one| one["version_id"] == version).map(|one| one["active_subscriptions"].clone());
    assert_eq!(counted, Some(json!(shown.len())), "{shown:?}");
    for held in shown {
        let customer = held["customer"].id("customer_id");
        let subscription = world.get(&format!("/api/subscriptions/{}/", held.id("subscription_id"))).ok(200);
        for field in ["customer", "start_date", "end_date", "auto_renew"] {
            assert_eq!(held[field], subscription[field], "{customer}: {field}");
        }
        assert_eq!(subscription["billing_plan"]["version_id"], version, "{customer}");
    }
    let mut names: Vec<String> = shown.iter().map(|held| held["customer"].id("customer_id")).collect();
    names.sort_unstable();
    names
}

/// Month ends, a new version, a switch, a void, a cancellation and a deletion, beside another organization with customers of the same names.
#[test]
fn holders_are_whoever_is_counted_whatever_happens() {
    let world = World::new();
    let metric = world.metric();
    let (gold, silver) = (world.plan(&metric), world.plan(&metric));
    let newest = |plan: &str| {
        let versions = world.get(&format!("/api/plans/{plan}/")).ok(200)["versions"].clone();
        versions.as_array().and_then(|all| all.last()).expect("a version").id("version_id")
    };
    let (first, of_silver) = (newest(&gold), newest(&silver));
    let clock = world.clock("2024-01-31");
    for customer in ["a", "b"] {
        world.customer_at(customer, &clock);
        let body = json!({"customer_id": customer, "plan_id": gold, "start_date": "2024-01-31"});
        world.post("/api/subscriptions/", &body).ok(200);
    }
    let other = world.other_key();
    let headers = [("X-API-KEY", other.as_str()), ("Content-Type", "application/json")];
    world.send("POST", "/api/customers/", &headers, br#"{"customer_id": "a", "email": "a@other.io"}"#).ok(201);
    assert_eq!(holders(&world, &gold, &first), ["a", "b"]);
    world.advance(&clock, "2024-03-15T00:00:00Z");
    assert_eq!(holders(&world, &gold, &first), ["a", "b"], "once each, although both have renewed at a month's end");

    world.post(&format!("/api/plans/{gold}/versions/"), &version_body(&metric)).ok(201);
    let second = newest(&gold);
    assert_eq!((holders(&world, &gold, &first).len(), holders(&world, &gold, &second).len()), (2, 0));
    world.advance(&clock, "2024-04-15T00:00:00Z");
    assert_eq!(holders(&world, &gold, &first), [""; 0], "they have renewed to the next version");
    assert_eq!(holders(&world, &gold, &second), ["a", "b"]);

    let held = |customer: &str| {
        world.get(&format!("/api/subscriptions/?customer_id={customer}")).ok(200)[0].id("subscription_id")
    };
    let invoice = world.get("/api/invoices/?customer_id=a&status=unpaid").ok(200)[0].id("invoice_id");
    world.post(&format!("/api/invoices/{invoice}/void/"), &json!({})).ok(200);
    assert_eq!(holders(&world, &gold, &second), ["a", "b"], "a void changes what is owed, not what is held");
    let switch = json!({"switch_plan_id": silver});
    world.post(&format!("/api/subscriptions/{}/switch_plan/", held("a")), &switch).ok(200);
    assert_eq!(
        (holders(&world, &gold, &second), holders(&world, &silver, &of_silver)),
        (vec!["b".to_owned()], vec!["a".to_owned()])
    );
    let told = world.get("/api/customers/a/messages/").ok(200);
    let told: Vec<_> = told.as_array().expect("a list").iter().rev().collect();
    let mut types = told.iter().map(|message| message.id("type"));
    for expected in [
        "customer.created",
        "subscription.created",
        "subscription.renewed",
        "subscription.renewed",
        "invoice.voided",
        "subscription.switched",
    ] {
        assert!(types.any(|kind| kind == expected), "{expected}, in the order in which it came: {told:?}");
    }
    assert!(
        told.is_sorted_by_key(|message| message.id("timestamp")),
        "by the clock that the customer lives by: {told:?}"
    );
    assert!(told.iter().all(|message| message["livemode"] == false), "{told:?}");
    let of_namesake = world.send("GET", "/api/customers/a/messages/", &headers, b"").ok(200);
    assert_eq!(of_namesake.as_array().expect("a list").len(), 1, "the other organization's own: {of_namesake}");

    world.post(&format!("/api/subscriptions/{}/cancel/", held("b")), &json!({})).ok(200);
    assert_eq!(holders(&world, &gold, &second), [""; 0]);
    world.post("/api/customers/a/delete/", &json!({})).ok(200);
    assert_eq!(holders(&world, &silver, &of_silver), [""; 0], "whoever is deleted holds nothing");
    for version in [&first, &second, &of_silver] {
        let path = format!("/api/plan_versions/{version}/holders/");
        assert_eq!(world.send("GET", &path, &headers, b"").status, 404, "nobody else's");
    }
}

#[test]
fn an_addon_is_no_plan_whose_version_is_held() {
    let world = World::new();
    let body = json!({"addon_name": "Seats", "currency_code": "USD", "billing_frequency": "recurring", "invoice_when": "invoice_on_attach",
        "recurring_charges": [{"name": "fee", "amount": 15, "charge_timing": "in_advance"}]});
    let version = world.post("/api/addons/", &body).ok(201).id("addon_version_id");
    let disguised = version.replace("addon_version_", "plan_version_");
    assert_eq!(world.get(&format!("/api/plan_versions/{disguised}/holders/")).status, 404);
}
