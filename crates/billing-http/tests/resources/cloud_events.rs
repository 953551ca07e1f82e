//! Taking events in as CloudEvents.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::{Answer, Field, World, event, now};

const ONE: &str = "application/cloudevents+json";
const BATCH: &str = "application/cloudevents-batch+json";

fn cloud(source: &str, id: &str) -> Value {
    json!({"specversion": "1.0", "id": id, "source": source, "type": "upload", "subject": "acme", "time": now(),
        "comexampleshard": 7, "data": {"mb": 1}})
}

fn send(world: &World, key: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let headers: Vec<_> = [("X-API-KEY", key)].into_iter().chain(headers.iter().copied()).collect();
    world.send("POST", "/api/events/", &headers, body.as_bytes())
}

fn send_as(world: &World, media_type: &str, body: &Value) -> Answer {
    send(world, &world.key, &[("Content-Type", media_type)], &body.to_string())
}

/// A service with a customer who pays for what is uploaded; the metric's id.
fn subscribed() -> (World, String) {
    let world = World::new();
    let sum = json!({"event_name": "upload", "aggregation_type": "sum", "property_name": "mb"});
    let metric = world.post("/api/metrics/", &sum).ok(201).id("metric_id");
    let plan = world.plan(&metric);
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]});
    world.post("/api/subscriptions/", &body).ok(200);
    (world, metric)
}

fn usage(world: &World, metric: &str) -> String {
    let access = world.get(&format!("/api/metric_access/?customer_id=acme&metric_id={metric}")).ok(200);
    access["access_per_subscription"][0]["metric_usage"].to_string()
}

#[test]
fn an_event_counts_once_in_whichever_form_it_comes() {
    let (world, metric) = subscribed();
    let one = cloud("/eu", "1");
    assert_eq!(send_as(&world, ONE, &one).text, "{\"success\":\"all\"}\n");
    assert_eq!(send_as(&world, ONE, &one).ok(201)["success"], "all", "known, and acknowledged again");
    assert_eq!(usage(&world, &metric), "1");
    let batch = json!([one, cloud("/eu", "2"), cloud("/us", "1"), cloud("/us", "1")]);
    assert_eq!(send_as(&world, BATCH, &batch).ok(201)["success"], "all", "another source's first is another event");
    assert_eq!(usage(&world, &metric), "3");

    let time = now();
    let binary = [
        ("Content-Type", "application/json"),
        ("ce-specversion", "1.0"),
        ("ce-id", "a%20%C3%A9"),
        ("ce-source", "/eu"),
        ("ce-type", "upload"),
        ("ce-subject", "acme"),
        ("ce-time", time.as_str()),
        ("ce-comexampleshard", "7"),
    ];
    let sent = || send(&world, &world.key, &binary, r#"{"mb":0.125}"#).ok(201)["success"].clone();
    assert_eq!((sent(), sent()), (json!("all"), json!("all")), "attributes in headers, data in the body");
    assert_eq!(usage(&world, &metric), "3.125");
    let without_data: Vec<_> = binary[1..].iter().map(|(n, v)| (*n, if *n == "ce-id" { "none" } else { *v })).collect();
    assert_eq!(send(&world, &world.key, &without_data, "").ok(201)["success"], "all", "none has to be there");

    // By its id an event is the same in the service's own form, at either call.
    let mut own = event("acme", "/eu 1", &now());
    (own["event_name"], own["properties"]) = (json!("upload"), json!({"mb": 1000}));
    world.post("/api/track/", &own).ok(201);
    world.post("/api/events/", &json!({"batch": [own]})).ok(201);
    assert_eq!(usage(&world, &metric), "3.125");
    let ids = json!({"idempotency_ids": ["/eu 1", "/eu 2", "/us 1", "/eu a \u{e9}", "/eu none", "/us 2"]});
    let missing = world.post("/api/verify_idems_received/", &ids).ok(200)["ids_not_found"].clone();
    assert_eq!(missing, json!(["/us 2"]));
    let other = world.other_key();
    assert_eq!(send(&world, &other, &[("Content-Type", ONE)], &one.to_string()).ok(201)["success"], "all");
    let theirs = world.send("GET", "/api/events/?customer_id=acme", &[("X-API-KEY", &other)], b"").ok(200);
    assert_eq!(theirs.as_array().map(Vec::len), Some(1), "another organization's event is its own");
    assert_eq!(usage(&world, &metric), "3.125");
}

#[test]
fn each_event_stands_for_itself_and_says_what_is_wrong_with_it() {
    let (world, metric) = subscribed();
    let mut nobodys = cloud("/eu", "1");
    nobodys["subject"] = Value::Null;
    let mut nameless = cloud("", "");
    nameless["data"] = json!([]);
    let mut old = cloud("/eu", "2");
    old["time"] = json!("2001-01-01T00:00:00Z");
    let answer = send_as(&world, BATCH, &json!([nobodys, cloud("/eu", "3"), nameless, old, 7])).ok(201);
    assert_eq!((&answer["success"], usage(&world, &metric)), (&json!("some"), "1".to_owned()));
    let failed = answer["failed_events"].as_object().expect("an object");
    let keys: Vec<_> = failed.keys().map(String::as_str).collect();
    assert_eq!(keys, ["/eu 1", "/eu 2", "no_idempotency_id"]);
    assert_eq!(failed["/eu 1"], "No subject provided: it is the customer");
    assert!(failed["/eu 2"].as_str().expect("text").starts_with("Time created too far in the past"));
    let no_id =
        "No id provided; No source provided; Invalid data: expected an object of properties (2); Invalid event (4)";
    assert_eq!(failed["no_idempotency_id"], no_id, "each with its place");

    let reason = |answer: Answer| answer.ok(400)["failed_events"]["no_idempotency_id"].clone();
    let one = cloud("/eu", "9");
    assert_eq!(reason(send_as(&world, BATCH, &one)), "Expected a list of CloudEvents");
    assert_eq!(reason(send_as(&world, ONE, &json!([one]))), "Invalid event");
    assert_eq!(reason(send(&world, &world.key, &[("Content-Type", ONE)], "{")), "Invalid JSON");
    assert_eq!(reason(send(&world, &world.key, &[("Content-Type", ONE)], "")), "Invalid JSON");
    assert_eq!(send_as(&world, BATCH, &json!([])).ok(400)["success"], "none");
    let binary = [("Content-Type", "application/json"), ("ce-specversion", "1.0"), ("ce-id", "9")];
    let smuggled = r#"{"mb":1},"subject":"acme""#;
    assert_eq!(reason(send(&world, &world.key, &binary, smuggled)), "Invalid JSON", "data is one value");
    let twice = [binary[0], binary[1], ("ce-id", "%zz")];
    assert_eq!(send(&world, &world.key, &twice, "{}").faults(), [("ce-id".to_owned(), "invalid".to_owned())]);
    let text = [("Content-Type", "text/plain"), ("ce-specversion", "1.0")];
    assert_eq!(send(&world, &world.key, &text, "x").error(), "unsupported_media_type");
    assert_eq!(usage(&world, &metric), "1", "nothing of these was taken in");
}

#[test]
fn the_limits_are_those_of_all_events() {
    let (world, metric) = subscribed();
    let most: Vec<Value> = (0..10_000).map(|i| cloud("/eu", &i.to_string())).collect();
    let text = Value::from(most.clone()).to_string();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).expect("compressed");
    let packed = encoder.finish().expect("compressed");
    let headers = [("X-API-KEY", world.key.as_str()), ("Content-Type", BATCH), ("Content-Encoding", "gzip")];
    assert_eq!(world.send("POST", "/api/events/", &headers, &packed).ok(201)["success"], "all");
    assert_eq!(usage(&world, &metric), "10000");
    let many: Vec<Value> = most.into_iter().chain([cloud("/eu", "one more")]).collect();
    let refused = send_as(&world, BATCH, &Value::from(many));
    assert_eq!(refused.faults(), [("batch".to_owned(), "list_too_long".to_owned())]);
    let mut twice = cloud("/eu", "x").to_string();
    twice.truncate(twice.len() - 1);
    let answer = send(&world, &world.key, &[("Content-Type", ONE)], &format!("{twice},\"subject\":\"globex\"}}"));
    assert_eq!(answer.error(), "duplicate_json_key");
}

/// Attributes of one's own are part of CloudEvents; of an event in the service's own form this call knows all fields.
#[test]
fn unknown_fields_of_the_services_own_form_are_refused() {
    let world = World::new();
    let mut misspelt = event("acme", "a", &now());
    misspelt["propreties"] = json!({});
    let answer = world.post("/api/events/", &json!({"batch": [misspelt, event("acme", "b", &now())]})).ok(201);
    assert_eq!(answer, json!({"success": "some", "failed_events": {"a": "Unknown field"}}));
    let added = json!({"batch": [event("acme", "c", &now())], "sentAt": "now"});
    assert_eq!(world.post("/api/events/", &added).faults(), [("sentAt".to_owned(), "unknown_field".to_owned())]);
    let listed = world.get("/api/events/?customer_id=acme").ok(200);
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
}
