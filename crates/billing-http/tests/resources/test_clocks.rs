//! Test clocks, settings and the small catalogues.

use billing_domain::id::TestClockId;
use billing_domain::store::{Scope, Store};
use billing_domain::workflow::{AdvanceTestClock, advance_test_clock};
use diesel::connection::SimpleConnection;
use serde_json::json;
use time::macros::datetime;

use crate::support::{Field, World, now};

#[test]
fn a_clock_advances_and_never_goes_back() {
    let world = World::new();
    let made =
        world.post("/api/test_clocks/", &json!({"name": "c", "frozen_time": "2024-01-01T12:00:00+01:00"})).ok(201);
    let clock = made.id("test_clock_id");
    assert_eq!(
        made,
        json!({"test_clock_id": clock, "name": "c", "frozen_time": "2024-01-01T11:00:00Z", "status": "ready"})
    );
    assert_eq!(world.get("/api/test_clocks/").ok(200), json!([made]));
    let path = format!("/api/test_clocks/{clock}/advance/");
    let answer = world.post(&path, &json!({"frozen_time": "2024-02-01"})).ok(200);
    assert_eq!(
        (answer.id("status"), answer.id("frozen_time")),
        ("advancing".to_owned(), "2024-02-01T00:00:00Z".to_owned())
    );
    world.advance_done(&clock);
    for time in ["2024-02-01", "2024-01-15"] {
        assert_eq!(
            world.post(&path, &json!({"frozen_time": time})).faults(),
            [("frozen_time".to_owned(), "invalid".to_owned())]
        );
    }
}

#[test]
fn nothing_changes_on_the_way_and_an_interrupted_advance_goes_on() {
    let mut world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-01-01");
    world.customer_at("acme", &clock);
    world
        .post("/api/subscriptions/", &json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-01"}))
        .ok(200);
    // As a process leaves it that was told to advance and died.
    let store: &dyn Store = &world.opened.store;
    let id: TestClockId = clock.parse().expect("an id");
    let told = store.run_for(&Scope::Catalog(world.organization), |tx, now| {
        let command = AdvanceTestClock { clock: id, frozen_time: datetime!(2024-03-15 0:00 UTC) };
        advance_test_clock(tx, &command, now)
    });
    told.expect("told");

    let other = world.plan(&metric);
    let body = json!({"customer_id": "acme", "plan_id": other, "start_date": "2024-01-01"});
    let refused = world.post("/api/subscriptions/", &body);
    assert_eq!((refused.status, refused.error().as_str()), (409, "test_clock_advancing"));
    let again = world.post(&format!("/api/test_clocks/{clock}/advance/"), &json!({"frozen_time": "2024-04-01"}));
    assert_eq!((again.status, again.error().as_str()), (409, "test_clock_advancing"));
    assert_eq!(world.get("/api/invoices/").ok(200).as_array().map(Vec::len), Some(1));

    world.restart();
    world.advance_done(&clock);
    assert_eq!(world.get("/api/invoices/").ok(200).as_array().map(Vec::len), Some(3), "January, February, March");
    world.post("/api/subscriptions/", &body).ok(200);
}

#[test]
fn settings_change_one_by_one() {
    let world = World::new();
    let before = world.get("/api/organization/").ok(200);
    assert_eq!(before["organization_id"], json!(world.organization));
    let change = json!({"organization_name": "New", "tax_rate": "8.10", "payment_grace_period": 30, "subscription_filter_keys": ["env"],
        "access_policy": "any", "timezone": "Europe/Zurich", "default_currency_code": "CHF",
        "address": {"city": "Bern", "country": "CH", "line1": "1", "postal_code": "3000"}});
    let after = world.write("PATCH", "/api/organization/", change.to_string().as_bytes()).ok(200);
    assert_eq!((after["tax_rate"].to_string().as_str(), &after["default_currency"]["code"]), ("8.1", &json!("CHF")));
    assert_eq!(after["invoice_grace_minutes"], before["invoice_grace_minutes"], "what is left out stays");
    assert_eq!((&after["subscription_filter_keys"], &after["access_policy"]), (&json!(["env"]), &json!("any")));
    let cleared = world.write("PATCH", "/api/organization/", br#"{"tax_rate":null,"address":null}"#).ok(200);
    assert_eq!(
        (&cleared["tax_rate"], &cleared["address"], &cleared["payment_grace_period"]),
        (&json!(null), &json!(null), &json!(30))
    );
    let bad = br#"{"organization_name":null,"timezone":null,"event_window_days":null}"#;
    let faults = world.write("PATCH", "/api/organization/", bad).faults();
    assert_eq!(
        faults.iter().map(|(attr, code)| format!("{attr}:{code}")).collect::<Vec<_>>(),
        ["organization_name:null", "timezone:null", "event_window_days:null"]
    );
}

#[test]
fn own_units_join_the_currencies() {
    let world = World::new();
    let count = || world.get("/api/currencies/").ok(200).as_array().map_or(0, Vec::len);
    let before = count();
    let made = world
        .post("/api/currencies/", &json!({"code": "CREDITS", "name": "Credits", "symbol": "cr", "decimals": 0}))
        .ok(201);
    assert_eq!(made, json!({"code": "CREDITS", "name": "Credits", "symbol": "cr"}));
    assert_eq!(count(), before + 1);
    let metric = world.metric();
    let mut plan = crate::support::plan_body("P", &metric);
    plan["initial_version"]["currency_code"] = json!("CREDITS");
    assert_eq!(world.post("/api/plans/", &plan).ok(201)["versions"][0]["currency"], made);
}

#[test]
fn an_archived_metric_leaves_the_list() {
    let world = World::new();
    let metric = world.metric();
    let path = format!("/api/metrics/{metric}/");
    assert_eq!(world.get(&path).ok(200).id("metric_id"), metric);
    assert_eq!(world.write("POST", &format!("{path}archive/"), b"").status, 200);
    assert_eq!(world.get("/api/metrics/").ok(200), json!([]));
    assert_eq!(world.get(&path).status, 200, "it is still there by id");
    let faults = world.post("/api/plans/", &crate::support::plan_body("P", &metric)).faults();
    assert_eq!(faults, [("initial_version.components.0.metric_id".to_owned(), "does_not_exist".to_owned())]);
}

/// Several processes carry out one advance, and a customer may take one of them long.
#[test]
fn a_clock_waits_for_whoever_is_at_its_customer() {
    let world = World::new();
    let clock = world.clock("2024-01-01");
    world.customer_at("acme", &clock);
    let mut elsewhere = world.pg();
    let hold = "SELECT pg_advisory_lock(('x' || left(replace(customer_key::text, '-', ''), 16))::bit(64)::bigint) FROM customers";
    elsewhere.batch_execute(hold).expect("held");
    let advance = format!("/api/test_clocks/{clock}/advance/");
    world.post(&advance, &json!({"frozen_time": "2024-02-01"})).ok(200);
    // Longer than a lock is waited for.
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(world.get(&format!("/api/test_clocks/{clock}/")).ok(200)["status"], "advancing");
    drop(elsewhere);
    world.advance_done(&clock);
}

#[test]
fn invoices_of_the_customers_of_a_clock_are_listed() {
    let world = World::new();
    let plan = world.plan(&world.metric());
    let [clock, other, empty] = [(); 3].map(|()| world.clock("2024-01-01"));
    for (customer, clock) in [("one", &clock), ("two", &clock), ("three", &other)] {
        world.customer_at(customer, clock);
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": "2024-01-01"});
        world.post("/api/subscriptions/", &body).ok(200);
    }
    world.customer("real");
    world
        .post("/api/subscriptions/", &json!({"customer_id": "real", "plan_id": plan, "start_date": &now()[..10]}))
        .ok(200);
    world.advance(&clock, "2024-02-15");
    let listed = |query: &str| -> Vec<String> {
        let mut customers: Vec<String> = Vec::new();
        for invoice in world.get(&format!("/api/invoices/?{query}")).ok(200).as_array().expect("a list") {
            customers.push(invoice["customer"].id("customer_id"));
        }
        customers.sort_unstable();
        customers
    };
    #[rustfmt::skip]
    let cases = [
        // query,                                                listed, why
        (format!("test_clock_id={clock}"),                       vec!["one", "one", "two", "two"], "two months of both"),
        (format!("test_clock_id={other}"),                       vec!["three"],                    "another clock"),
        (format!("test_clock_id={empty}"),                       vec![],                           "one without customers"),
        (format!("test_clock_id={clock}&customer_id=two"),       vec!["two", "two"],               "both filters hold"),
        (format!("test_clock_id={other}&customer_id=two"),       vec![],                           "nobody of that clock"),
        (format!("test_clock_id={clock}&status=unpaid"),         vec!["one", "one", "two", "two"], "none was paid"),
        (format!("test_clock_id={clock}&status=voided"),         vec![],                           "nor voided"),
    ];
    for (query, expected, why) in cases {
        assert_eq!(listed(&query), expected, "{query}: {why}");
    }
    let second = world.opened.create_organization("Second", None).expect("made");
    let key = second.1.reveal().to_owned();
    for (key, query, why) in [
        (&world.key, "test_clock_id=test_clock_00000000000000000000000000000001".to_owned(), "there is no such clock"),
        (&key, format!("test_clock_id={clock}"), "it is another organization's"),
    ] {
        let refused = world.get_as(key, &format!("/api/invoices/?{query}"));
        assert!(
            [400, 404].contains(&refused.status) && refused.text.contains("test_clock_id"),
            "{why}: {}",
            refused.text
        );
    }
}
