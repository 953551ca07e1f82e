//! Another organization's objects look exactly like objects that do not exist.

use serde_json::{Value, json};

use crate::support::{Field, World, event, now, version_body};

fn masked(text: &str, id: &str) -> Value {
    let mut body: Value = serde_json::from_str(&text.replace(id, "ID")).expect("json");
    body["request_id"] = Value::Null;
    body
}

#[test]
fn ids_of_others_are_as_good_as_absent() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]});
    let subscription = world.post("/api/subscriptions/", &body).ok(200);
    let version = subscription["billing_plan"].id("version_id");
    let invoice = world.get("/api/invoices/").ok(200)[0].clone();
    let addon = json!({"addon_name": "x", "currency_code": "USD", "billing_frequency": "one_time"});
    let addon = world.post("/api/addons/", &addon).ok(201).id("addon_id");
    let clock = world.clock("2024-01-01");
    let prefix = world.get("/api/api_keys/").ok(200)[0].id("prefix");
    let other = world.other_key();
    let before = world.snapshot();

    let zeros = "0".repeat(32);
    #[rustfmt::skip]
    let paths = [
        // method, path before the id,         id,                                  after,              an id that nobody has
        ("GET",    "/api/metrics/",            metric.clone(),                      "/",                format!("metric_{zeros}")),
        ("POST",   "/api/metrics/",            metric.clone(),                      "/archive/",        format!("metric_{zeros}")),
        ("GET",    "/api/plans/",              plan.clone(),                        "/",                format!("plan_{zeros}")),
        ("POST",   "/api/plans/",              plan.clone(),                        "/versions/",       format!("plan_{zeros}")),
        ("GET",    "/api/addons/",             addon.clone(),                       "/",                format!("addon_{zeros}")),
        ("POST",   "/api/subscriptions/",      subscription.id("subscription_id"),  "/addons/attach/",  format!("sub_{zeros}")),
        ("GET",    "/api/customers/",          "acme".to_owned(),                   "/",                "nobody".to_owned()),
        ("GET",    "/api/customers/",          "acme".to_owned(),                   "/draft_invoice/",  "nobody".to_owned()),
        ("GET",    "/api/subscriptions/",      subscription.id("subscription_id"),  "/",                format!("sub_{zeros}")),
        ("GET",    "/api/invoices/",           invoice.id("invoice_id"),            "/",                format!("invoice_{zeros}")),
        ("GET",    "/api/invoices/",           invoice.id("invoice_number"),        "/",                "990101-000009".to_owned()),
        ("GET",    "/api/invoices/",           invoice.id("invoice_id"),            "/explain/",        format!("invoice_{zeros}")),
        ("GET",    "/api/test_clocks/",        clock.clone(),                       "/",                format!("test_clock_{zeros}")),
        ("POST",   "/api/test_clocks/",        clock.clone(),                       "/advance/",        format!("test_clock_{zeros}")),
        ("DELETE", "/api/api_keys/",           prefix.clone(),                      "/",                "zzzzzzzz".to_owned()),
        ("POST",   "/api/api_keys/",           prefix,                              "/regenerate/",     "zzzzzzzz".to_owned()),
    ];
    let own_metric = world.send("POST", "/api/metrics/", &json_headers(&other), br#"{"event_name":"x"}"#).ok(201);
    for (method, front, id, back, absent) in &paths {
        let body = match *back {
            "/versions/" => version_body(&own_metric.id("metric_id")).to_string(),
            "/addons/attach/" => json!({"addon_id": addon}).to_string(),
            "/advance/" => json!({"frozen_time": "2025-01-01"}).to_string(),
            _ => String::new(),
        };
        let call = |id: &str| world.send(method, &format!("{front}{id}{back}"), &json_headers(&other), body.as_bytes());
        let (foreign, unknown) = (call(id), call(absent));
        assert_eq!((foreign.status, unknown.status), (404, 404), "{method} {front}{id}{back}: {}", foreign.text);
        assert_eq!(masked(&foreign.text, id), masked(&unknown.text, absent), "{method} {front}{id}{back}");
    }

    let other_customer = br#"{"customer_id":"theirs","email":"a@b.io"}"#;
    world.send("POST", "/api/customers/", &json_headers(&other), other_customer).ok(201);
    let subscribe = |field: &str, id: &str| json!({"customer_id": "theirs", "start_date": "2024-01-01", field: id});
    #[rustfmt::skip]
    let bodies = [
        // path,                  body,                                     bad field
        ("/api/subscriptions/",   subscribe("plan_id", &plan),              "plan_id"),
        ("/api/subscriptions/",   subscribe("version_id", &version),        "version_id"),
        ("/api/plans/",           json!({"plan_name": "p", "initial_version": version_body(&metric)}), "initial_version.components.0.metric_id"),
        ("/api/customers/",       json!({"customer_id": "c", "email": "c@b.io", "test_clock_id": clock}), "test_clock_id"),
    ];
    for (path, body, attr) in bodies {
        let answer = world.send("POST", path, &json_headers(&other), body.to_string().as_bytes());
        assert_eq!(answer.faults(), [(attr.to_owned(), "does_not_exist".to_owned())], "{path} {body}");
    }
    let access = format!("/api/metric_access/?customer_id=theirs&metric_id={metric}");
    let answer = world.send("GET", &access, &json_headers(&other), b"");
    assert_eq!(answer.faults(), [("metric_id".to_owned(), "does_not_exist".to_owned())]);
    assert_eq!(world.snapshot(), before, "nothing of the first organization has changed");
}

#[test]
fn one_customer_id_in_two_organizations_is_two_customers() {
    let world = World::new();
    let other = world.other_key();
    world.customer("acme");
    world
        .send("POST", "/api/customers/", &json_headers(&other), br#"{"customer_id":"acme","email":"4@acme.io"}"#)
        .ok(201);
    world.post("/api/track/", &event("acme", "e1", &now())).ok(201);
    let verify = json!({"idempotency_ids": ["e1"], "customer_id": "acme"}).to_string();
    let missing = |key: &str| {
        let answer = world.send("POST", "/api/verify_idems_received/", &json_headers(key), verify.as_bytes());
        answer.ok(200)["ids_not_found"].clone()
    };
    assert_eq!((missing(&world.key), missing(&other)), (json!([]), json!(["e1"])));
}

fn json_headers(key: &str) -> [(&str, &str); 2] {
    [("X-API-KEY", key), ("Content-Type", "application/json")]
}
