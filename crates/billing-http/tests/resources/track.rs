//! Taking events in.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::{World, event, now};

fn usage(world: &World, metric: &str) -> Value {
    world.get(&format!("/api/metric_access/?customer_id=acme&metric_id={metric}")).ok(200)["access_per_subscription"][0]
        ["metric_usage"]
        .clone()
}

/// A service whose customer `acme` is subscribed; the metric's id.
fn subscribed() -> (World, String) {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]});
    world.post("/api/subscriptions/", &body).ok(200);
    (world, metric)
}

#[test]
fn takes_three_forms_and_answers_for_each_event() {
    let (world, metric) = subscribed();
    let time = now();
    let good = |id: &str| event("acme", id, &time);
    let outside = "Time created too far in the past or future.";
    let mut no_customer = good("x1");
    no_customer["customer_id"] = json!("");
    let mut no_id = good("");
    no_id["idempotency_id"] = json!(null);
    #[rustfmt::skip]
    let cases = [
        // body,                                                  status, success, failed,                                  usage, why
        (json!({"batch": [good("a"), good("b")]}),                201,    "all",   vec![],                                  2, "a batch"),
        (good("c"),                                               201,    "all",   vec![],                                  3, "one event"),
        (json!([good("d"), good("e")]),                           201,    "all",   vec![],                                  5, "a bare list"),
        (json!({"batch": [good("a"), good("f"), good("f")]}),     201,    "all",   vec![],                                  6, "duplicates are acknowledged and counted once"),
        (json!({"batch": [good("g"), no_customer]}),              201,    "some",  vec![("x1", "No customer_id provided")], 7, "a bad one spoils no other"),
        (json!({"batch": [no_id.clone(), good("h")]}),            201,    "some",  vec![("no_idempotency_id", "No idempotency_id provided")], 8, "one without id"),
        (json!({"batch": [no_id.clone(), no_id]}),                400,    "none",  vec![("no_idempotency_id", "No idempotency_id provided")], 8, "events are counted, not ids"),
        (event("acme", "i", "yesterday"),                         400,    "none",  vec![("i", "Invalid time_created")],     8, "no time"),
        (event("acme", "j", "2020-01-01T00:00:00Z"),              400,    "none",  vec![("j", outside)],                    8, "too old"),
        (event("acme", "k", "2199-01-01T00:00:00Z"),              400,    "none",  vec![("k", outside)],                    8, "too far ahead"),
        (json!({"batch": []}),                                    400,    "none",  vec![],                                  8, "an empty batch"),
        (json!([]),                                               400,    "none",  vec![],                                  8, "an empty list"),
        (json!({"batch": [good("l")], "sentAt": "now", "library": "lotus-python"}), 201, "all", vec![],                     9, "unknown fields are ignored"),
    ];
    for (body, status, success, failed, expected, why) in cases {
        let answer = world.post("/api/track/", &body).ok(status);
        assert_eq!(answer["success"], success, "{why}");
        match answer.get("failed_events") {
            None => assert_eq!(success, "all", "{why}"),
            Some(events) => {
                let events = events.as_object().expect("an object");
                assert_eq!(events.len(), failed.len(), "{why}");
                for (id, reason) in failed {
                    assert!(events[id].as_str().expect("text").starts_with(reason), "{why}: {events:?}");
                }
            }
        }
        assert_eq!(usage(&world, &metric), json!(expected), "{why}");
    }
    assert_eq!(world.post("/api/track/", &good("z")).text, "{\"success\":\"all\"}\n");
}

#[test]
fn unreadable_bodies_are_answered_as_clients_expect() {
    let world = World::new();
    let invalid = json!({"success": "none", "failed_events": {"no_idempotency_id": "Invalid JSON"}});
    for body in ["", "{", "nonsense", "[1,]", "7", "\"text\"", "{\"a\":+1}"] {
        assert_eq!(world.post_text("/api/track/", body).ok(400), invalid, "{body}");
    }
    #[rustfmt::skip]
    let cases = [
        // body,                                                 code
        (r#"{"batch":[{"customer_id":"a","customer_id":"b"}]}"#, "duplicate_json_key"),
        (r#"{"idempotency_id":"a\u0000b"}"#,                     "invalid_encoding"),
        (r#"{"batch":{}}"#,                                      "not_a_list"),
    ];
    for (body, code) in cases {
        assert_eq!(world.post_text("/api/track/", body).error(), code, "{body}");
    }
    let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
    assert_eq!(world.post_text("/api/track/", &deep).error(), "json_too_deep");
    let many = json!({"batch": vec![event("a", "b", "c"); 10_001]});
    assert_eq!(world.post("/api/track/", &many).faults(), [("batch".to_owned(), "list_too_long".to_owned())]);
}

#[test]
fn sums_keep_every_digit() {
    let world = World::new();
    let body = json!({"event_name": "upload", "aggregation_type": "sum", "property_name": "mb"});
    let metric = world.post("/api/metrics/", &body).ok(201)["metric_id"].as_str().expect("an id").to_owned();
    let plan = world.plan(&metric);
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]});
    world.post("/api/subscriptions/", &body).ok(200);
    for (i, digits) in
        ["0.1", "0.2", "\"1000000000000000.000000000000001\"", "1e999999999", "\"many\"", "true"].iter().enumerate()
    {
        let time = now();
        let body = format!(
            r#"{{"customer_id":"acme","event_name":"upload","idempotency_id":"e{i}","time_created":"{time}","properties":{{"mb":{digits}}}}}"#
        );
        world.post_text("/api/track/", &body).ok(201);
    }
    assert_eq!(usage(&world, &metric).to_string(), "1000000000000000.300000000000001");
}

#[test]
fn compressed_bodies_are_read_within_the_limit() {
    let (world, metric) = subscribed();
    let compressed = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text.as_bytes()).expect("compressed");
        encoder.finish().expect("compressed")
    };
    let send = |body: &[u8], encoding: &str| {
        let headers =
            [("X-API-KEY", world.key.as_str()), ("Content-Type", "application/json"), ("Content-Encoding", encoding)];
        world.send("POST", "/api/track/", &headers, body)
    };
    let batch = json!({"batch": [event("acme", "a", &now())]}).to_string();
    assert_eq!(send(&compressed(&batch), "gzip").ok(201)["success"], "all");
    assert_eq!(usage(&world, &metric), json!(1));
    let bomb = compressed(&" ".repeat(64 << 20));
    assert!(bomb.len() < 100_000);
    assert_eq!(send(&bomb, "gzip").error(), "payload_too_large");
    assert_eq!(send(batch.as_bytes(), "gzip").error(), "parse_error", "it is not gzip");
    assert_eq!(send(batch.as_bytes(), "br").error(), "unsupported_media_type");

    let (empty, halves) = (compressed(""), batch.split_at(batch.len() / 2));
    let halves = [compressed(halves.0), compressed(halves.1)].concat();
    #[rustfmt::skip]
    let cases = [
        // body,                                             status, why
        (halves.clone(),                                     201,    "in two members"),
        ([empty.repeat(14), halves.clone()].concat(),        201,    "in as many as there may be"),
        ([empty.repeat(15), halves.clone()].concat(),        400,    "in one more"),
        (empty.repeat((9 << 20) / empty.len()),              400,    "a flood of members with nothing in them"),
        ([halves, b"rest".to_vec()].concat(),                400,    "something else behind them"),
    ];
    for (body, status, why) in cases {
        let answer = send(&body, "gzip");
        assert_eq!(answer.status, status, "{why}: {}", answer.text);
        assert!(status == 201 || answer.error() == "parse_error", "{why}: {}", answer.text);
    }
}

#[test]
fn received_ids_are_verified() {
    let (world, _) = subscribed();
    world.post("/api/track/", &json!([event("acme", "a", &now()), event("stranger", "b", &now())])).ok(201);
    #[rustfmt::skip]
    let cases = [
        // body,                                                             not found,              why
        (json!({"idempotency_ids": ["a", "b", "c"]}),                        json!(["c"]),           "events of any customer"),
        (json!({"idempotency_ids": "a"}),                                    json!([]),              "a single text is one id"),
        (json!({"idempotency_ids": ["c", "a", "c"]}),                        json!(["c"]),           "each once"),
        (json!({"idempotency_ids": ["a", "b"], "customer_id": "acme"}),      json!(["b"]),           "one customer's"),
        (json!({"idempotency_ids": ["b"], "customer_id": "stranger"}),       json!([]),              "a customer who does not exist"),
        (json!({"idempotency_ids": ["a"], "number_days_lookback": "1"}),     json!([]),              "numeric text"),
        (json!({"idempotency_ids": ["a"], "$type": "x", "sentAt": "now"}),   json!([]),              "what the Python client adds"),
    ];
    for (body, missing, why) in cases {
        let answer = world.post("/api/verify_idems_received/", &body).ok(200);
        assert_eq!(answer, json!({"status": "success", "ids_not_found": missing}), "{why}");
    }
    let ids = |count: usize| (0..count).map(|i| format!("id{i}")).collect::<Vec<_>>();
    assert_eq!(world.post("/api/verify_idems_received/", &json!({"idempotency_ids": ids(1000)})).status, 200);
    #[rustfmt::skip]
    let faults = [
        // body,                                                       attr,                   code
        (json!({}),                                                    "idempotency_ids",      "required"),
        (json!({"idempotency_ids": []}),                               "idempotency_ids",      "empty"),
        (json!({"idempotency_ids": ids(1001)}),                        "idempotency_ids",      "list_too_long"),
        (json!({"idempotency_ids": [1]}),                              "idempotency_ids.0",    "incorrect_type"),
        (json!({"idempotency_ids": {}}),                               "idempotency_ids",      "not_a_list"),
        (json!({"idempotency_ids": ["a"], "number_days_lookback": 0}), "number_days_lookback", "min_value"),
        (json!({"idempotency_ids": ["a"], "number_days_lookback": 366}), "number_days_lookback", "max_value"),
    ];
    for (body, attr, code) in faults {
        let answer = world.post("/api/verify_idems_received/", &body);
        assert_eq!(answer.faults(), [(attr.to_owned(), code.to_owned())]);
    }
}

#[test]
fn the_lookback_counts_from_the_customers_now() {
    let world = World::new();
    let clock = world.clock("2024-03-01");
    world.customer_at("acme", &clock);
    world.post("/api/track/", &event("acme", "a", "2024-03-01T00:00:00Z")).ok(201);
    let missing = |days: Option<u32>| {
        let mut body = json!({"idempotency_ids": ["a"], "customer_id": "acme"});
        if let Some(days) = days {
            body["number_days_lookback"] = json!(days);
        }
        world.post("/api/verify_idems_received/", &body).ok(200)["ids_not_found"].clone()
    };
    world.advance(&clock, "2024-03-31");
    assert_eq!(missing(None), json!([]), "thirty days, when nobody says how many");
    world.advance(&clock, "2024-03-31T00:00:01Z");
    assert_eq!((missing(None), missing(Some(31)), missing(Some(30))), (json!(["a"]), json!([]), json!(["a"])));
}
