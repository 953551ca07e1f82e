//! A customer's page: what it may use and why, which alerts watch it, what happened to it, what its credits were drawn for, and what was
//! changed of it.

use billing_domain::user::Role;
use serde_json::json;

use super::{Browser, user};
use crate::support::{Field, World, now, version_body};

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

/// A credit that is drawn, given back by a void, and expires; a plan that is switched; a threshold that is reached.
#[test]
fn its_timeline_leads_to_what_happened() {
    let (world, metric) = world();
    let alert =
        json!({"kind": "metric_usage", "metric_id": metric, "threshold": 1, "unit": "absolute", "customer_id": "acme"});
    world.post("/api/usage_alerts/", &alert).ok(201);
    let credit =
        json!({"customer_id": "acme", "amount": 5.5, "currency_code": "USD", "description": "Sorry for <b>Monday</b>"});
    let credit = world.post("/api/credits/", &credit).ok(201).id("credit_id");
    let plan = world.plan(&metric);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": &now()[..10]});
    world.post("/api/subscriptions/", &body).ok(200);
    let invoice = world.get("/api/invoices/?customer_id=acme").ok(200)[0].clone();
    let event = json!({"customer_id": "acme", "event_name": "api_call", "idempotency_id": "e", "time_created": now()});
    world.post("/api/track/", &json!({"batch": [event]})).ok(201);
    let has_fired = || world.get("/api/customers/acme/messages/").text.contains("usage_alert.triggered");
    crate::receiver::until("the alert has fired", has_fired);

    let owner = Browser::signed_in(&world, OWNER);
    let (number, id) = (invoice.id("invoice_number"), invoice.id("invoice_id"));
    for path in ["/console/customers/acme/", "/console/customers/acme/timeline/"] {
        let page = owner.get(path).text;
        for shown in [
            "usage alert triggered",
            "credit drawn",
            "credit created",
            "subscription created",
            "customer created",
            &format!("href=\"/console/invoices/{id}/\">{number}</a>"),
            &format!("href=\"/console/credits/{credit}/\">Sorry for &lt;b&gt;Monday&lt;/b&gt;</a>"),
        ] {
            assert!(page.contains(shown), "{path}: {shown}: {page}");
        }
    }
    let other = owner.get("/console/customers/other/timeline/").text;
    assert!(!other.contains("credit") && other.contains("subscription created"), "another customer's: {other}");

    let drawn = world.get(&format!("/api/credits/{credit}/")).ok(200)["drawdowns"][0].clone();
    assert_eq!(drawn["invoice_id"], invoice["invoice_id"]);
    world.post(&format!("/api/invoices/{id}/void/"), &json!({})).ok(200);
    world.post(&format!("/api/credits/{credit}/void/"), &json!({})).ok(200);
    let page = owner.get(&format!("/console/credits/{credit}/")).text;
    let applied = format!("href=\"/console/invoices/{id}/\">Applied to an invoice</a>");
    let given_back = format!("href=\"/console/invoices/{id}/\">Given back by a voided invoice</a>");
    let places = [&*applied, &*given_back, ">Voided<"].map(|text| page.find(text));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "in the order of the ledger: {places:?} {page}");
    assert!(!page.contains("/void/"), "nothing is left to void: {page}");
}

#[test]
fn a_plan_says_who_holds_which_of_its_versions() {
    let (world, metric) = world();
    let plan = world.get("/api/plans/").ok(200)[0].clone();
    let first = plan["versions"][0].id("version_id");
    let versions = format!("/api/plans/{}/versions/", plan.id("plan_id"));
    let second = world.post(&versions, &version_body(&metric)).ok(201).id("version_id");
    world.customer("late one");
    let body = json!({"customer_id": "late one", "version_id": second, "start_date": &now()[..10]});
    world.post("/api/subscriptions/", &body).ok(200);
    let shown = world.get(&format!("/api/plans/{}/", plan.id("plan_id"))).ok(200);
    let running = |number: usize| shown["versions"][number]["active_subscriptions"].clone();
    assert_eq!((running(0), running(1)), (json!(2), json!(1)));

    let path = format!("/api/plan_versions/{first}/holders/");
    let holders = world.get(&path).ok(200);
    let mut names: Vec<String> =
        holders.as_array().expect("a list").iter().map(|one| one["customer"].id("customer_id")).collect();
    names.sort_unstable();
    assert_eq!(names, ["acme", "other"]);
    let held = world.get("/api/subscriptions/?customer_id=acme").ok(200)[0].clone();
    let of_acme = holders.as_array().expect("a list").iter().find(|one| one["customer"]["customer_id"] == "acme");
    for field in ["customer", "subscription_id", "start_date", "end_date", "auto_renew"] {
        assert_eq!(of_acme.expect("acme")[field], held[field], "{field}: as the subscription says it");
    }
    let first_page = world.get(&format!("{path}?limit=1"));
    assert!(first_page.header("link").contains("cursor="), "the list goes on");
    let other = world.other_key();
    assert_eq!(world.send("GET", &path, &[("X-API-KEY", &other)], b"").status, 404, "nobody else's");

    let owner = Browser::signed_in(&world, OWNER);
    let page = owner.get(&format!("/console/plans/{}/", plan.id("plan_id"))).text;
    let path = format!("/console/plans/{}/holders/?version=", plan.id("plan_id"));
    for (version, number) in [(&first, "2 running subscriptions"), (&second, "1 running subscription")] {
        assert!(page.contains(&format!("href=\"{path}{version}\">{number}</a>")), "{page}");
    }
    let shown = |version: &str| {
        let page = owner.get(&format!("{path}{version}")).text;
        ["acme", "other", "late%20one"].map(|name| page.contains(&format!("href=\"/console/customers/{name}/\"")))
    };
    assert_eq!((shown(&first), shown(&second)), ([true, true, false], [false, false, true]));
    let table = owner.get(&format!("{path}{second}&format=csv")).text;
    assert!(table.starts_with("customer_id,") && table.contains("late one"), "{table}");
    world.post("/api/subscriptions/cancel/?customer_id=late%20one", &json!({"flat_fee_behavior": "refund"})).ok(200);
    assert_eq!(shown(&second), [false; 3], "whoever has cancelled holds it no more");
}
