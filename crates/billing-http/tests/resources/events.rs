//! Events, listed.

use serde_json::json;

use crate::support::{Field, World, event, now};

#[test]
fn events_are_listed_with_every_digit_and_what_they_do_not_count_for() {
    let world = World::new();
    let sum = json!({"event_name": "upload", "aggregation_type": "sum", "property_name": "mb"});
    let sum = world.post("/api/metrics/", &sum).ok(201).id("metric_id");
    let unique = json!({"event_name": "upload", "aggregation_type": "unique", "property_name": "user"});
    let unique = world.post("/api/metrics/", &unique).ok(201).id("metric_id");
    world.post("/api/metrics/", &json!({"event_name": "upload"})).ok(201);
    let time = now();
    for (id, properties) in
        [("a", r#"{"mb":1.50000000000000000000000000001,"user":7}"#), ("b", r#"{"mb":"many","user":"x"}"#), ("c", "{}")]
    {
        let body = format!(
            r#"{{"customer_id":"new","event_name":"upload","idempotency_id":"{id}","time_created":"{time}","properties":{properties}}}"#
        );
        world.post_text("/api/track/", &body).ok(201);
    }
    world.post("/api/track/", &event("new", "d", &time)).ok(201);
    let answer = world.get("/api/events/?customer_id=new&limit=2");
    let first = answer.ok(200);
    let (link, _) = answer.header("link").split_once('>').expect("a link");
    let rest = world.get(link.trim_start_matches('<')).ok(200);
    let ids = |list: &serde_json::Value| {
        list.as_array().expect("a list").iter().map(|event| event.id("idempotency_id")).collect::<Vec<_>>().concat()
    };
    assert_eq!((ids(&first).as_str(), ids(&rest).as_str()), ("dc", "ba"), "newest first");
    assert_eq!((&first[0]["unusable_for"], &first[0]["event_name"]), (&json!([]), &json!("api_call")));
    assert_eq!(first[1]["unusable_for"], json!([sum, unique]));
    assert_eq!(rest[0]["unusable_for"], json!([sum]));
    assert_eq!(rest[1]["unusable_for"], json!([]));
    assert_eq!(rest[1]["properties"]["mb"].to_string(), "1.50000000000000000000000000001");
    assert_eq!((rest[1].id("time_created"), rest[1].id("customer_id")), (time, "new".to_owned()));

    assert_eq!(ids(&world.get("/api/events/?customer_id=new&event_name=api_call").ok(200)), "d");
    assert_eq!(ids(&world.get("/api/events/?customer_id=new&idempotency_id=b").ok(200)), "b");
    assert_eq!(world.get("/api/events/?customer_id=nobody").ok(200), json!([]));
    for (query, attr, code) in [("", "customer_id", "required"), ("customer_id=new&cursor=x", "cursor", "invalid")] {
        let faults = world.get(&format!("/api/events/?{query}")).faults();
        assert_eq!(faults, [(attr.to_owned(), code.to_owned())]);
    }
    let other = world.other_key();
    let foreign = world.send("GET", "/api/events/?customer_id=new", &[("X-API-KEY", &other)], b"").ok(200);
    assert_eq!(foreign, json!([]), "another organization has none of them");
}
