//! What the service says of itself: its description, its codes, its health, its request ids.

use std::collections::BTreeSet;

use billing_domain::message::MessageType;
use billing_http::endpoint::{Access, Endpoint};
use billing_http::error::codes;
use billing_http::message::webhooks;
use billing_http::openapi::{calls, document};
use billing_http::routes;
use billing_http::unknown_field::UnknownFields;
use billing_http::wire::DecimalForm;
use serde_json::Value;

use crate::seen;
use crate::support::World;

#[test]
fn the_description_covers_every_route() {
    let world = World::new();
    let document = world.send("GET", "/openapi.json", &[], b"").ok(200);
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document, self::document(&routes::table(), &webhooks(), DecimalForm::Number));
    let told: BTreeSet<&str> = MessageType::ALL.iter().map(|told| told.as_str()).collect();
    let sent: BTreeSet<&str> = document["webhooks"].as_object().expect("webhooks").keys().map(String::as_str).collect();
    assert_eq!(sent, told, "a description of each message");
    let of_texts = world.send("GET", "/openapi.json?numbers=text", &[], b"").ok(200);
    assert_eq!(of_texts, self::document(&routes::table(), &webhooks(), DecimalForm::Text));
    let paths = document["paths"].as_object().expect("paths");
    let described: BTreeSet<(String, String)> = paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object().expect("an item").keys().map(move |method| (path.clone(), method.clone()))
        })
        .collect();
    let table = routes::table();
    let routed: BTreeSet<_> =
        table.iter().map(|endpoint| (endpoint.path.to_owned(), endpoint.method.as_str().to_lowercase())).collect();
    assert_eq!(described, routed);
    assert_eq!(routed.len(), table.len(), "every route is there once");

    let ids: BTreeSet<_> = paths
        .values()
        .flat_map(|item| {
            item.as_object().expect("an item").values().map(|operation| operation["operationId"].to_string())
        })
        .collect();
    assert_eq!(ids.len(), table.len(), "operation ids are unique");
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(document.pointer(reference).is_some(), "{reference} leads nowhere");
    }
}

#[test]
fn the_description_tells_types_and_requirements() {
    let document = document(&routes::table(), &webhooks(), DecimalForm::Number);
    let schema = |name: &str| document["components"]["schemas"][name].clone();
    let required = |name: &str| schema(name)["required"].as_array().cloned().unwrap_or_default();
    assert_eq!(required("CreateSubscriptionBody"), ["customer_id", "start_date"]);
    assert_eq!(schema("TierBody")["properties"]["type"]["enum"], serde_json::json!(["free", "flat", "per_unit"]));
    let create = &document["paths"]["/api/subscriptions/"]["post"];
    let body = &create["requestBody"]["content"]["application/json"]["schema"]["$ref"];
    assert_eq!(body, "#/components/schemas/CreateSubscriptionBody");
    let parameters = document["paths"]["/api/metric_access/"]["get"]["parameters"].as_array().expect("a list").clone();
    let named = |name: &str| {
        parameters.iter().find(|parameter| parameter["name"] == name).expect("a parameter")["required"].clone()
    };
    assert_eq!((named("customer_id"), named("subscription_filters")), (Value::Bool(true), Value::Bool(false)));
}

/// The parts of `docs/api.md` that are made from the tables.
fn generated() -> [(&'static str, String); 3] {
    let calls: String = routes::table().iter().map(call_row).collect();
    let codes: String =
        codes::table().iter().map(|(text, status, meaning)| format!("| `{text}` | {status} | {meaning} |\n")).collect();
    [
        (
            "calls",
            format!(
                "| call | what it does | scope of the key | answer | what it does not know |\n|---|---|---|---|---|\n{calls}"
            ),
        ),
        ("rules", format!("| call | codes of its rules |\n|---|---|\n{}", rule_rows())),
        ("codes", format!("| code | status | when |\n|---|---|---|\n{codes}")),
    ]
}

fn rule_rows() -> String {
    let row = |endpoint: &Endpoint| {
        let codes: Vec<_> = calls::of_rules(&endpoint.method, endpoint.path).iter().map(|code| code.text).collect();
        format!("| `{} {}` | `{}` |\n", endpoint.method, endpoint.path, codes.join("`, `"))
    };
    let table = routes::table();
    table.iter().filter(|call| !calls::of_rules(&call.method, call.path).is_empty()).map(row).collect()
}

fn call_row(endpoint: &Endpoint) -> String {
    let key = match (endpoint.access, endpoint.needed_scope()) {
        (Access::Public, _) => "none".to_owned(),
        (Access::Key, None) => "any".to_owned(),
        (Access::Key, Some(scope)) => format!("`{}`", scope.as_str()),
    };
    let status = endpoint.answer.map_or_else(|| "".to_owned(), |(status, _)| status.to_string());
    let unknown = match endpoint.unknown_fields() {
        UnknownFields::Refused => "refused",
        UnknownFields::Ignored => "named",
    };
    format!("| `{} {}` | {} | {key} | {status} | {unknown} |\n", endpoint.method, endpoint.path, endpoint.summary)
}

/// Run with `BLESS=1` to write the tables into the file.
#[test]
fn the_api_document_has_the_tables_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/api.md");
    let mut document = std::fs::read_to_string(path).expect("docs/api.md");
    let before = document.clone();
    for (name, table) in generated() {
        let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
        let start = document.find(&begin).expect("a begin marker") + begin.len();
        let stop = document.find(&end).expect("an end marker");
        document.replace_range(start..stop, &table);
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &document).expect("written");
        return;
    }
    assert!(document == before, "docs/api.md is not up to date: run this test with BLESS=1");
}

/// The document is checked in for those who generate clients from it. Run with `BLESS=1` to write it.
#[test]
fn the_checked_in_description_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let document = document(&routes::table(), &webhooks(), DecimalForm::Number);
    let text = serde_json::to_string_pretty(&document).expect("json") + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &text).expect("written");
        return;
    }
    let known = std::fs::read_to_string(path).expect("docs/openapi.json");
    assert!(known == text, "docs/openapi.json is not up to date: run this test with BLESS=1");
}

#[test]
fn every_answer_has_a_request_id_of_its_own() {
    let world = World::new();
    let answers = [
        world.get("/api/ping/"),
        world.get("/api/nope/"),
        world.send("GET", "/api/ping/", &[], b""),
        world.send("PUT", "/livez", &[], b""),
        world.post_text("/api/customers/", "{"),
        world.send("GET", "/livez", &[], b""),
    ];
    let ids: BTreeSet<_> = answers.iter().map(|answer| answer.header("x-request-id").to_owned()).collect();
    assert_eq!(ids.len(), answers.len());
    assert!(ids.iter().all(|id| id.len() == 32));
    for answer in &answers {
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
    }
}

#[test]
fn a_callers_request_id_and_trace_are_taken_over() {
    let world = World::new();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let refused = world.send("GET", "/api/ping/", &[("X-Request-Id", "order-4711"), ("traceparent", parent)], b"");
    assert_eq!((refused.error().as_str(), refused.header("x-request-id")), ("not_authenticated", "order-4711"));
    let response = refused.header("traceresponse");
    assert!(response.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && response.ends_with("-01"), "{response}");
    let other = world.send("GET", "/livez", &[("X-Request-Id", "two words"), ("traceparent", "00-zz")], b"");
    assert_eq!(
        (other.header("x-request-id").len(), other.header("traceresponse")),
        (32, ""),
        "what is no id is replaced"
    );
}

#[test]
fn health_is_told_without_a_key() {
    let world = World::new();
    let get = |path: &str| world.send("GET", path, &[], b"");
    assert_eq!(get("/livez").ok(200)["status"], "ok");
    assert_eq!(get("/readyz").ok(200)["status"], "ok");
    assert_eq!(get("/api/healthcheck/").text, "{}\n", "JSON ends its line");
    let page = get("/docs/errors");
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    for (code, ..) in codes::table() {
        assert!(page.text.contains(&format!("id=\"{code}\"")), "{code}");
    }
}

#[test]
fn a_stopping_service_says_so_first() {
    let mut world = World::with(|settings| settings.notice = std::time::Duration::from_secs(2));
    let server = world.server.take().expect("it runs");
    let addr = server.addr;
    let stopping = std::thread::spawn(move || server.stop());
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let status = |path: &str| agent.get(format!("http://{addr}{path}")).call().map(|answer| answer.status().as_u16());
    let began = std::time::Instant::now();
    while status("/readyz").expect("it still answers") != 503 {
        assert!(began.elapsed() < std::time::Duration::from_secs(2), "readyz never said no");
    }
    let mut why = agent.get(format!("http://{addr}/readyz")).call().expect("it still answers");
    let why = why.body_mut().read_to_string().expect("text");
    seen::note_text(&why);
    assert!(why.contains("\"title\":\"shutting_down\""), "and says why: {why}");
    assert_eq!(status("/livez").expect("it still answers"), 200);
    stopping.join().expect("a thread").expect("a clean stop");
    assert!(status("/livez").is_err(), "it is gone");
}
