//! Custom metrics over the wire: made, shown, measured, billed, and left unbilled when they fail.

use billing_domain::testing::custom_sql::ATTACKS;
use serde_json::{Value, json};

use crate::support::{Field, World};

fn custom(sql: &str) -> Value {
    json!({"metric_type": "custom", "metric_name": "Busy days", "custom_sql": sql})
}

/// A customer in March 2024 with a plan that charges a dollar a unit of a custom metric, its clock, and the metric.
fn subscribed(world: &World, sql: &str) -> (String, String) {
    let metric = world.post("/api/metrics/", &custom(sql)).ok(201).id("metric_id");
    let tiers = json!([{"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1}]);
    let version = json!({"currency_code": "USD", "components": [{"metric_id": metric, "tiers": tiers}]});
    let plan = json!({"plan_name": "Custom", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    let clock = world.clock("2024-03-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-03-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    (clock, metric)
}

fn track(world: &World, events: &[(&str, &str, Value)]) {
    let event = |(id, time, properties): &(&str, &str, Value)| {
        json!({"customer_id": "acme", "event_name": "call", "idempotency_id": id, "time_created": time,
            "properties": properties})
    };
    let batch: Vec<Value> = events.iter().map(event).collect();
    assert_eq!(world.post("/api/track/", &json!({"batch": batch})).ok(201)["success"], "all");
}

#[test]
fn a_query_comes_back_as_it_was_sent() {
    let world = World::new();
    let sql = "WITH a AS (SELECT properties ->> 'User' AS u FROM events)\nSELECT COUNT(DISTINCT u) AS usage_qty FROM a";
    let made = world.post("/api/metrics/", &custom(sql)).ok(201);
    assert_eq!((&made["metric_type"], &made["custom_sql"]), (&json!("custom"), &json!(sql)));
    assert_eq!(world.get(&format!("/api/metrics/{}/", made.id("metric_id"))).ok(200), made);
    assert_eq!(world.get("/api/metrics/").ok(200), json!([made]));
    assert_eq!(world.post("/api/metrics/", &custom(sql)).error(), "duplicate_resource");
}

#[test]
fn every_attack_is_refused_at_creation() {
    let world = World::new();
    let mut refused = 0;
    for (name, sql) in ATTACKS {
        let answer = world.post("/api/metrics/", &custom(sql));
        assert_eq!(answer.status, 400, "{name}: {}", answer.text);
        let error = answer.json();
        assert_eq!(error["validation_errors"][0]["attr"], "custom_sql", "{name}: {error}");
        let code = error["title"].as_str().expect("a code");
        assert!(["custom_sql_not_allowed", "required"].contains(&code), "{name}: {error}");
        refused += 1;
    }
    assert!(refused >= 60, "{refused}");
    assert_eq!(world.get("/api/metrics/").ok(200), json!([]), "and none is kept");
}

#[test]
fn fields_that_do_not_go_with_a_query_are_named() {
    let world = World::new();
    let sql = "SELECT COUNT(*) AS usage_qty FROM events";
    let mut body = custom(sql);
    body["property_name"] = json!("n");
    body["granularity"] = json!("days");
    let attrs = |answer: crate::support::Answer| answer.faults().into_iter().map(|(attr, _)| attr).collect::<Vec<_>>();
    assert_eq!(attrs(world.post("/api/metrics/", &body)), ["property_name", "granularity"]);
    let counter = json!({"event_name": "call", "custom_sql": sql});
    assert_eq!(attrs(world.post("/api/metrics/", &counter)), ["custom_sql"]);
    assert_eq!(attrs(world.post("/api/metrics/", &json!({"metric_type": "custom"}))), ["custom_sql"]);
    let detail = world.post("/api/metrics/", &custom("SELECT 1 AS usage_qty FROM api_keys")).json()["detail"].clone();
    let detail = detail.as_str().expect("a text").to_owned();
    assert!(detail.starts_with("Line 1, column 28: There is no api_keys"), "{detail}");
}

#[test]
fn a_query_gets_from_track_to_an_invoice_line() {
    let world = World::new();
    let sql = "SELECT COUNT(DISTINCT date_trunc('day', time_created)) AS usage_qty FROM events
        WHERE (properties ->> 'n')::numeric >= 2 AND time_created BETWEEN start_date AND end_date";
    let (clock, metric) = subscribed(&world, sql);
    world.advance(&clock, "2024-03-20");
    track(
        &world,
        &[
            ("1", "2024-02-29T23:59:59Z", json!({"n": 5})),
            ("2", "2024-03-01T00:00:00Z", json!({"n": 5})),
            ("3", "2024-03-01T10:00:00Z", json!({"n": "2.0"})),
            ("4", "2024-03-02T10:00:00Z", json!({"n": 1})),
            ("5", "2024-03-03T10:00:00Z", json!({"n": 2})),
        ],
    );
    let access = world.get(&format!("/api/metric_access/?customer_id=acme&metric_id={metric}")).ok(200);
    assert_eq!(access["access_per_subscription"][0]["metric_usage"].to_string(), "2");
    let path = format!("/api/usage/?customer_id=acme&metric_id={metric}&start=2024-03-01&end=2024-03-03&window=day");
    let usage = world.get(&path).ok(200);
    let windows: Vec<String> = (0..3).map(|i| usage["windows"][i]["quantity"].to_string()).collect();
    assert_eq!(
        (usage["total"]["quantity"].to_string(), windows),
        ("2".to_owned(), vec!["1".into(), "0".into(), "1".into()])
    );

    world.advance(&clock, "2024-04-02");
    let invoice = world.get("/api/invoices/?customer_id=acme").ok(200)[0].clone();
    assert_eq!(invoice["amount"].to_string(), "2");
    let explanation = world.get(&format!("/api/invoices/{}/explain/", invoice.id("invoice_id"))).ok(200);
    let trace = &explanation["line_items"][0]["trace"];
    assert_eq!((&trace["kind"], &trace["metric"]["custom_sql"]), (&json!("usage_charge"), &json!(sql)));
    assert_eq!((trace["quantity"].to_string(), &trace["event_count"]), ("2".to_owned(), &json!(4)));
}

#[test]
fn a_query_that_fails_is_not_billed_and_says_why() {
    let world = World::new();
    let (clock, metric) = subscribed(&world, "SELECT SUM((properties ->> 'n')::numeric) AS usage_qty FROM events");
    world.advance(&clock, "2024-03-20");
    track(
        &world,
        &[("1", "2024-03-05T00:00:00Z", json!({"n": 7})), ("2", "2024-03-06T00:00:00Z", json!({"n": "seven"}))],
    );
    let asked = [
        format!("/api/metric_access/?customer_id=acme&metric_id={metric}"),
        format!("/api/usage/?customer_id=acme&metric_id={metric}&start=2024-03-01"),
    ];
    for path in asked {
        let answer = world.get(&path);
        assert_eq!((answer.status, answer.error().as_str()), (409, "custom_metric_failed"), "{path}");
        assert!(answer.text.contains("was cast to one"), "{}", answer.text);
    }
    world.advance(&clock, "2024-04-01T12:00:00Z");
    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    assert_eq!(invoices.as_array().map(Vec::len), Some(1), "{invoices}");
    assert_eq!(invoices[0]["line_items"][0]["name"], "Busy days - Not Billed");
    assert_eq!(invoices[0]["amount"].to_string(), "0");
    let explanation = world.get(&format!("/api/invoices/{}/explain/", invoices[0].id("invoice_id"))).ok(200);
    let trace = &explanation["line_items"][0]["trace"];
    assert_eq!(trace["kind"], "usage_not_billed");
    assert!(trace["reason"].as_str().is_some_and(|reason| reason.contains("was cast to one")), "{trace}");
    // It is tried again every day, and nobody gets an invoice about that.
    world.advance(&clock, "2024-04-20");
    assert_eq!(world.get("/api/invoices/?customer_id=acme").ok(200).as_array().map(Vec::len), Some(1));
}
