//! Every change is in the audit log, once, and nothing else is.

use actix_web::http::Method;
use billing_http::endpoint::{Access, Endpoint};
use billing_http::routes;
use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection};
use serde_json::{Value, json};

use crate::samples::{Fixture, Sample, samples};
use crate::support::World;

const LOG: &str = "/api/audit_log/";
/// Names nothing and takes nothing: there is nothing to refuse.
const ASKS_FOR_NOTHING_WRONG: &str = "/api/books_audits/";

/// Calls that are no GET and change nothing, or take in usage: what they do is in the events themselves.
const UNNOTED: &[&str] = &[
    "/api/track/",
    "/api/events/",
    "/api/verify_idems_received/",
    "/api/webhook_endpoints/{webhook_endpoint_id}/test/",
    "/api/invoices/{invoice_id}/corrections/preview/",
    "/api/metrics/preview/",
    "/api/plans/preview/",
    "/api/subscriptions/preview/",
    "/api/subscriptions/{subscription_id}/switch_plan/preview/",
    "/api/subscriptions/{subscription_id}/cancel/preview/",
    "/api/subscriptions/{subscription_id}/addons/attach/preview/",
    "/api/subscriptions/{subscription_id}/addons/{addon_id}/cancel/preview/",
    "/api/subscriptions/{subscription_id}/update/preview/",
    "/api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/preview/",
];

fn entries(world: &World, fixture: &Fixture, query: &str) -> Vec<Value> {
    let path = format!("{LOG}{query}");
    let answer = fixture.send(world, "GET", &path, None).ok(200);
    answer.as_array().expect("a list").clone()
}

fn changing() -> impl Iterator<Item = Endpoint> {
    let changes =
        |row: &Endpoint| row.method != Method::GET && row.access == Access::Key && !UNNOTED.contains(&row.path);
    routes::table().into_iter().filter(changes)
}

/// Sends a sample in an organization of its own; what the log has gained by it.
fn noted(world: &World, row: &Endpoint, sample: &Sample) -> (Fixture, Vec<Value>) {
    let fixture = Fixture::new(world, &row.operation_id());
    let before = entries(world, &fixture, "").len();
    let answer = sample.send(world, &fixture);
    assert_eq!(answer.status, sample.status, "{} {}: {}", row.method, row.path, answer.text);
    let mut after = entries(world, &fixture, "");
    after.truncate(after.len() - before);
    (fixture, after)
}

#[test]
fn every_change_has_one_entry() {
    let world = World::new();
    for row in changing() {
        let call = format!("{} {}", row.method, row.path);
        for sample in samples(&row) {
            let (fixture, noted) = noted(&world, &row, &sample);
            let [entry] = &noted[..] else { panic!("{call}: {noted:?}") };
            assert_eq!(entry["operation"], row.operation_id(), "{call}");
            assert_eq!(
                (&entry["actor_type"], &entry["actor_id"]),
                (&json!("api_key"), &json!(&fixture.key[..8])),
                "{call}"
            );
            assert_eq!(entry["address"], "127.0.0.1", "{call}");
            assert!(!entry["request_id"].as_str().unwrap_or_default().is_empty(), "{call}");
            let is_matching = row.path.starts_with("/api/subscriptions/")
                && !row.path.contains('{')
                && row.path != "/api/subscriptions/";
            let is_several = is_matching && !row.path.ends_with("/add/") || row.path.starts_with("/api/events/");
            assert_eq!(entry["id"].is_null(), is_several, "{call}: {entry}");
            let changes_one = row.path.contains('{')
                && !row.path.contains("/versions/")
                && !row.path.contains("/payments/")
                && !row.path.ends_with("/one_off_lines/")
                && !row.path.contains("/sessions/");
            assert_eq!(entry["before"].is_object(), changes_one || row.path == "/api/organization/", "{call}: {entry}");
            assert_eq!(entry["after"].is_null(), row.answer.is_none(), "{call}: {entry}");
            let text = entry.to_string();
            for revealed in ["\"[redacted]\"", "\"key\":\"", "\"secret\":\""] {
                assert!(row.secret.is_some() || !text.contains(revealed), "{call}: {text}");
            }
            if let Some(secret) = row.secret {
                assert_eq!(entry["after"][secret], "[redacted]", "{call}");
            }
        }
    }
}

#[test]
fn whatever_changes_nothing_has_none() {
    let world = World::new();
    let fixture = Fixture::new(&world, "reads");
    let before = entries(&world, &fixture, "").len();
    for row in routes::table().iter().filter(|row| row.method == Method::GET || UNNOTED.contains(&row.path)) {
        for sample in samples(row).iter().filter(|_| row.access == Access::Key) {
            if !row.path.contains("/feed/") {
                sample.send(&world, &fixture);
            }
        }
    }
    assert_eq!(entries(&world, &fixture, "").len(), before, "reads");
    for row in changing().filter(|row| row.path != ASKS_FOR_NOTHING_WRONG) {
        // Names of nothing, and a body that is none.
        let path = row.path.split('/').map(|part| if part.starts_with('{') { "nothing" } else { part });
        let path = path.collect::<Vec<_>>().join("/");
        let body = row.request.map(|_| json!({"no_such_field": true}));
        let answer = fixture.send(&world, row.method.as_str(), &path, body.as_ref());
        let is_empty_patch = row.path == "/api/organization/";
        assert!(answer.status >= 400 || is_empty_patch, "{} {path}: {}", row.method, answer.text);
        assert_eq!(entries(&world, &fixture, "").len(), before, "{} {path}: {}", row.method, answer.text);
    }
    // Another organization's.
    let other = Fixture::new(&world, "other");
    let void = format!("/api/invoices/{}/void/", other.id("invoice"));
    assert_eq!(fixture.send(&world, "POST", &void, None).status, 404);
    assert_eq!(entries(&world, &fixture, "").len(), before);
}

#[test]
fn a_request_sent_again_is_noted_once() {
    let world = World::new();
    let fixture = Fixture::new(&world, "again");
    let before = entries(&world, &fixture, "").len();
    let headers = [("X-API-KEY", fixture.key.as_str()), ("Content-Type", "application/json"), ("Idempotency-Key", "k")];
    let body = json!({"customer_id": "acme", "amount": 7, "currency_code": "USD"}).to_string();
    for _ in 0..3 {
        world.send("POST", "/api/credits/", &headers, body.as_bytes()).ok(201);
    }
    let refused = json!({"customer_id": "acme", "email": "c0@acme.io"}).to_string();
    let headers = [headers[0], headers[1], ("Idempotency-Key", "refused")];
    for _ in 0..2 {
        assert_eq!(world.send("POST", "/api/customers/", &headers, refused.as_bytes()).status, 400);
    }
    assert_eq!(entries(&world, &fixture, "").len(), before + 1);
}

#[test]
fn an_entry_says_what_was_before_and_since() {
    let world = World::new();
    let fixture = Fixture::new(&world, "before");
    let send = |method: &str, path: &str, body: Value| fixture.send(&world, method, path, Some(&body));
    send("PATCH", "/api/customers/acme/", json!({"customer_name": "Acme"})).ok(200);
    send("PATCH", "/api/customers/acme/", json!({"customer_name": "=HYPERLINK(\"x\")"})).ok(200);
    let entry = entries(&world, &fixture, "?limit=1").remove(0);
    let shown = (&entry["before"]["customer_name"], &entry["after"]["customer_name"]);
    assert_eq!(shown, (&json!("Acme"), &json!("=HYPERLINK(\"x\")")));
    assert_eq!(
        (&entry["kind"], &entry["id"], &entry["customer_id"]),
        (&json!("customer"), &json!("acme"), &json!("acme"))
    );
    assert_eq!(entry["actor_name"], "first key", "{entry}");
}

#[test]
fn entries_are_filtered_and_paged() {
    let world = World::new();
    let fixture = Fixture::new(&world, "filters");
    let all = entries(&world, &fixture, "");
    let count = |query: &str| entries(&world, &fixture, query).len();
    let is = |field: &'static str, value: &str| all.iter().filter(|entry| entry[field] == value).count();
    #[rustfmt::skip]
    let cases = [
        // query,                                           entries,                          why
        ("?customer_id=acme".to_owned(),                    is("customer_id", "acme"),        "one customer's"),
        ("?customer_id=nobody".to_owned(),                  0,                                "nobody's"),
        ("?kind=plan_version".to_owned(),                   is("kind", "plan_version"),       "of a kind"),
        ("?operation=create_plan".to_owned(),               3,                                "a call"),
        (format!("?actor={}", &fixture.key[..8]),           all.len(),                        "somebody's"),
        ("?actor=somebody".to_owned(),                      0,                                "somebody else's"),
        (format!("?kind=plan&id={}", fixture.id("plan")),   1,                                "one thing"),
        ("?from=2020-01-01&to=2020-12-31".to_owned(),       0,                                "long ago"),
        ("?from=2020-01-01".to_owned(),                     all.len(),                        "since then"),
    ];
    for (query, expected, why) in cases {
        assert_eq!(count(&query), expected, "{query}: {why}");
        assert!(expected > 0 || !why.starts_with("one"), "{query}: there is something to find");
    }
    let mut path = format!("{LOG}?limit=4");
    let mut found = Vec::new();
    loop {
        let answer = fixture.send(&world, "GET", &path, None);
        found.extend(answer.ok(200).as_array().expect("a list").clone());
        fixture
            .send(
                &world,
                "POST",
                "/api/features/",
                Some(&json!({"feature_name": format!("meanwhile {}", found.len())})),
            )
            .ok(201);
        let Some(next) = answer
            .header("link")
            .split_once(LOG)
            .map(|(_, rest)| rest.split('>').next().unwrap_or_default().to_owned())
        else {
            break;
        };
        path = format!("{LOG}{next}");
    }
    assert_eq!(found, all, "page by page, whatever is added meanwhile");
    for (query, field) in [
        ("?limit=0", "limit"),
        ("?cursor=x", "cursor"),
        ("?from=x", "from"),
        ("?from=2026-01-02&to=2026-01-01T00:00:00Z", "to"),
    ] {
        let refused = fixture.send(&world, "GET", &format!("{LOG}{query}"), None);
        assert_eq!(refused.faults().first().map(|(field, _)| field.as_str()), Some(field), "{query}: {}", refused.text);
    }
    let other = Fixture::new(&world, "another");
    assert!(
        entries(&world, &other, "").iter().all(|entry| entry["actor_id"] == other.key[..8]),
        "nobody sees another's"
    );
}

#[test]
fn a_table_is_safe_to_open() {
    let world = World::new();
    let fixture = Fixture::new(&world, "table");
    fixture
        .send(&world, "POST", "/api/customers/", Some(&json!({"customer_id": "@SUM(A1)", "email": "sum@acme.io"})))
        .ok(201);
    let headers = [("X-API-KEY", fixture.key.as_str()), ("Accept", "text/csv")];
    let answer = world.send("GET", "/api/audit_log/?limit=1", &headers, b"");
    assert_eq!(answer.status, 200);
    assert!(answer.header("content-type").starts_with("text/csv"), "{}", answer.header("content-type"));
    let mut lines = answer.text.split("\r\n");
    assert!(lines.next().is_some_and(|head| head.starts_with("timestamp,actor_type,actor_id")));
    let line = lines.next().unwrap_or_default();
    assert!(line.contains(",'@SUM(A1),'@SUM(A1),"), "{line}");
    assert!(answer.header("link").contains("limit=1"), "and goes on: {}", answer.header("link"));
}

#[test]
fn entries_never_change() {
    let world = World::new();
    Fixture::new(&world, "immutable");
    for lane in world.search_paths() {
        let mut pg = PgConnection::establish(world.url()).expect("a connection");
        pg.batch_execute(&lane).expect("in the lane");
        for table in ["audit_entries", "organization_audit_entries"] {
            for change in ["UPDATE {} SET actor_name = 'nobody'", "DELETE FROM {}", "TRUNCATE {}"] {
                let refused = pg.batch_execute(&change.replace("{}", table)).expect_err("it is refused").to_string();
                assert!(refused.contains("entries of the audit log do not change"), "{refused}");
            }
        }
    }
}
