//! What an API key may be used for.

use std::time::{Duration, Instant};

use actix_web::http::Method;
use billing_domain::api_key::KeyScope;
use billing_http::endpoint::{Access, Endpoint};
use billing_http::routes;
use serde_json::{Value, json};

use crate::support::{Answer, Field, World, event, now};

/// What changes something and needs another scope than an administrator's, and what looks and needs another one than `read`.
#[rustfmt::skip]
const OTHERS: &[(&str, &str, &str)] = &[
    // method, begin of the path,              scope
    ("GET",  "/api/ping/",                     ""),
    ("GET",  "/api/audit_log/",                "admin"),
    ("GET",  "/api/users/",                    "admin"),
    ("GET",  "/api/metric_access/",            "access_check"),
    ("GET",  "/api/feature_access/",           "access_check"),
    ("GET",  "/api/customer_metric_access/",   "access_check"),
    ("GET",  "/api/customer_feature_access/",  "access_check"),
    ("POST", "/api/track/",                    "ingest"),
    ("POST", "/api/events/amend/",             "billing"),
    ("POST", "/api/events/void/",              "billing"),
    ("POST", "/api/events/",                   "ingest"),
    ("POST", "/api/verify_idems_received/",    "ingest"),
    ("",     "/api/approvals/",                "billing"),
    ("",     "/api/jobs/",                     "billing"),
    ("",     "/api/customers/",                "billing"),
    ("",     "/api/subscriptions/",            "billing"),
    ("",     "/api/invoices/",                 "billing"),
    ("",     "/api/payments/",                 "billing"),
    ("",     "/api/billing_queue/",            "billing"),
    ("",     "/api/books_audits/",             "billing"),
    ("",     "/api/credits/",                  "billing"),
    ("",     "/api/credit_notes/",             "billing"),
];

/// The scope that a call is to need.
fn expected(row: &Endpoint) -> &'static str {
    let is_get = row.method == Method::GET;
    let is_of = |(method, path, _): &&(&str, &str, &str)| {
        (row.method.as_str() == *method || method.is_empty() && !is_get) && row.path.starts_with(path)
    };
    let usual = if is_get { "read" } else { "admin" };
    OTHERS.iter().find(is_of).map_or(usual, |(_, _, scope)| scope)
}

impl World {
    fn scoped(&self, scopes: &Value) -> String {
        let made = self.post("/api/api_keys/", &json!({"name": "scoped", "scopes": scopes})).ok(201);
        made["key"].as_str().expect("a key").to_owned()
    }

    fn send_as(&self, key: &str, method: &str, path: &str) -> Answer {
        self.send(method, path, &[("X-API-KEY", key), ("Content-Type", "application/json")], b"{\"no_such_field\": 1}")
    }
}

/// Every scope by every call. What is asked for is nothing, so that nothing comes of what is allowed.
#[test]
fn a_key_opens_the_calls_of_its_scopes_and_no_others() {
    let world = World::new();
    let scopes = KeyScope::ALL.iter().map(|scope| scope.as_str());
    let keys: Vec<(&str, String)> = scopes.map(|scope| (scope, world.scoped(&json!([scope])))).collect();
    let mut refused = 0;
    for row in routes::table().iter().filter(|row| row.access == Access::Key && row.path != "/api/feed/") {
        let needed = expected(row);
        let parts = row.path.split('/').map(|part| if part.starts_with('{') { "nothing" } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        for (scope, key) in &keys {
            let answer = world.send_as(key, row.method.as_str(), &path);
            let is_open = needed.is_empty() || needed == *scope;
            let call = format!("{} {path} with {scope}", row.method);
            assert_eq!(answer.status == 403, !is_open, "{call}: {}", answer.text);
            if !is_open {
                refused += 1;
                assert_eq!(answer.error(), "missing_scope", "{call}");
                assert!(answer.text.contains(&format!("`{needed}`")), "{call} names it: {}", answer.text);
            }
        }
        let answer = world.send_as(&world.key, row.method.as_str(), &path);
        assert_ne!(answer.status, 403, "{path}: without scopes it opens everything: {}", answer.text);
    }
    assert!(refused > 200, "{refused}");
}

#[test]
fn a_key_of_two_scopes_does_what_each_allows() {
    let world = World::new();
    let metric = world.metric();
    world.customer("acme");
    let key = world.scoped(&json!(["ingest", "access_check"]));
    let headers = [("X-API-KEY", key.as_str()), ("Content-Type", "application/json")];
    for id in ["1", "2"] {
        let body = json!({"batch": [event("acme", id, &now())]}).to_string();
        world.send("POST", "/api/track/", &headers, body.as_bytes()).ok(201);
        // Remembered the second time.
        world
            .send("GET", &format!("/api/metric_access/?customer_id=acme&metric_id={metric}"), &headers[..1], b"")
            .ok(200);
        assert_eq!(world.send("GET", "/api/customers/", &headers[..1], b"").error(), "missing_scope");
        assert_eq!(world.send("HEAD", "/api/customers/", &headers[..1], b"").status, 403);
    }
    let void = [headers[0], headers[1], ("Idempotency-Key", "k")];
    assert_eq!(world.send("POST", "/api/credits/", &void, b"{}").error(), "missing_scope", "whatever was sent before");
    let prefix = &key[..8];
    world.send("DELETE", &format!("/api/api_keys/{prefix}/"), &[("X-API-KEY", &world.key)], b"");
    assert_eq!(world.send("GET", "/api/customers/", &headers[..1], b"").status, 401, "a key that is none may nothing");
}

#[test]
fn scopes_are_said_kept_and_shown() {
    let world = World::new();
    let made = world.post("/api/api_keys/", &json!({"name": "meter", "scopes": ["ingest", "ingest", "read"]})).ok(201);
    assert_eq!(made["scopes"], json!(["read", "ingest"]));
    let again = world.post(&format!("/api/api_keys/{}/regenerate/", made.id("prefix")), &json!({})).ok(201);
    assert_eq!(again["scopes"], made["scopes"], "a new text for the same key");
    let all = world.post("/api/api_keys/", &json!({"name": "all"})).ok(201);
    assert_eq!(all["scopes"], json!(["read", "ingest", "access_check", "billing", "admin"]));
    #[rustfmt::skip]
    let cases = [
        // path,                  scopes,               field,      code,              why
        ("/api/api_keys/",        json!([]),            "scopes",   "empty",           "nothing would be everything"),
        ("/api/api_keys/",        json!(["write"]),     "scopes",   "invalid_choice",  "there is no such scope"),
        ("/api/api_keys/",        json!("read"),        "scopes",   "not_a_list",      "a list is due"),
        ("/api/access_tokens/",   json!(["read"]),      "scopes",   "unknown_field",   "a token opens nothing by itself"),
    ];
    for (path, scopes, field, code, why) in cases {
        let refused = world.post(path, &json!({"name": "bad", "scopes": scopes}));
        let faults = refused.faults();
        let [(at, found)] = &faults[..] else { panic!("{why}: {}", refused.text) };
        assert!(at.starts_with(field) && found == code, "{why}: {}", refused.text);
    }
}

#[test]
fn it_is_noted_when_a_key_was_used() {
    let world = World::new();
    let key = world.scoped(&json!(["read"]));
    let shown = || {
        let keys = world.get("/api/api_keys/").ok(200);
        let ours = keys.as_array().expect("a list").iter().find(|one| one["prefix"] == key[..8]).cloned();
        ours.expect("the key")["last_used_at"].clone()
    };
    assert_eq!(shown(), Value::Null);
    world.send("GET", "/api/customers/", &[("X-API-KEY", &key)], b"").ok(200);
    let began = Instant::now();
    while shown().is_null() {
        assert!(began.elapsed() < Duration::from_secs(20), "it is noted within seconds");
        std::thread::sleep(Duration::from_millis(50));
    }
    let first = shown();
    world.send("GET", "/api/customers/", &[("X-API-KEY", &key)], b"").ok(200);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(shown(), first, "at most once a minute");
    let wrong = format!("{}{}", &key[..9], "a".repeat(32));
    let other = world.scoped(&json!(["read"]));
    let wrong_other = format!("{}{}", &other[..9], "a".repeat(32));
    for wrong in [&wrong, &wrong_other] {
        assert_eq!(world.send("GET", "/api/customers/", &[("X-API-KEY", wrong)], b"").status, 401);
    }
    std::thread::sleep(Duration::from_secs(3));
    let keys = world.get("/api/api_keys/").ok(200);
    let unused = keys.as_array().expect("a list").iter().find(|one| one["prefix"] == other[..8]).cloned();
    assert_eq!(unused.expect("the key")["last_used_at"], Value::Null, "a wrong secret is no use");
}
