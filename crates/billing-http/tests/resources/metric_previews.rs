//! Metrics that are tried on a customer's events before they are made.

use serde_json::{Value, json};

use crate::support::{Field, World, event};

const PREVIEW: &str = "/api/metrics/preview/";

/// A customer in March 2024 with calls of some users: ten on the 4th, three on the 5th.
fn world() -> World {
    let world = World::new();
    let clock = world.clock("2024-03-01");
    world.customer_at("acme", &clock);
    world.advance(&clock, "2024-03-20");
    let calls = (0..13).map(|n| {
        let time = if n < 10 { format!("2024-03-04T0{n}:00:00Z") } else { "2024-03-05T12:00:00Z".to_owned() };
        let mut call = event("acme", &format!("call {n}"), &time);
        call["properties"] =
            json!({"user": format!("u{}", n % 4), "bytes": n, "region": if n % 2 == 0 { "eu" } else { "us" }});
        call
    });
    assert_eq!(world.post("/api/track/", &json!({"batch": calls.collect::<Vec<_>>()})).ok(201)["success"], "all");
    world
}

fn asked(metric: &Value) -> Value {
    json!({"metric": metric, "customer_id": "acme", "start": "2024-03-01", "end": "2024-03-10", "window": "day"})
}

#[test]
fn what_is_tried_is_what_the_metric_measures_once_it_is_made() {
    let world = world();
    let heavy = "SELECT COUNT(*) AS usage_qty FROM events
        WHERE (properties ->> 'bytes')::numeric >= 5 AND time_created >= start_date AND time_created <= end_date";
    let filters = json!([{"property_name": "region", "operator": "isin", "comparison_value": ["eu"]}]);
    #[rustfmt::skip]
    let cases = [
        // metric,                                                                                        in all, why
        (json!({"event_name": "api_call"}),                                                                13, "a count"),
        (json!({"event_name": "api_call", "aggregation_type": "sum", "property_name": "bytes"}),            78, "a sum"),
        (json!({"event_name": "api_call", "aggregation_type": "unique", "property_name": "user"}),          4,  "users"),
        (json!({"metric_name": "eu", "event_name": "api_call", "categorical_filters": filters}),                                 7,  "a filter"),
        (json!({"event_name": "none"}),                                                                     0,  "no such events"),
        (json!({"metric_type": "rate", "event_name": "api_call", "granularity": "days"}),                   10, "the busiest day"),
        (json!({"metric_type": "custom", "custom_sql": heavy}),                                             8,  "a query"),
    ];
    for (metric, in_all, why) in cases {
        let before = world.snapshot();
        let tried = world.post(PREVIEW, &asked(&metric)).ok(200);
        assert_eq!(tried["total"]["quantity"], in_all, "{why}: {tried}");
        assert_eq!(world.snapshot(), before, "{why}: nothing is kept");
        let made = world.post("/api/metrics/", &metric).ok(201);
        assert_eq!(tried["metric_name"], made["metric_name"], "{why}");
        let path = format!(
            "/api/usage/?customer_id=acme&metric_id={}&start=2024-03-01&end=2024-03-10&window=day",
            made.id("metric_id")
        );
        let measured = world.get(&path).ok(200);
        for part in ["total", "windows", "timezone"] {
            assert_eq!(tried[part], measured[part], "{why}: {part}");
        }
    }
}

#[test]
fn what_cannot_be_tried_is_refused_at_its_field() {
    let world = world();
    let count = json!({"event_name": "api_call"});
    let with = |name: &str, value: Value| {
        let mut body = asked(&count);
        body[name] = value;
        body
    };
    let query = |sql: &str| asked(&json!({"metric_type": "custom", "custom_sql": sql}));
    #[rustfmt::skip]
    let cases = [
        // body,                                              field,                why
        (query("SELECT 1 AS usage_qty FROM api_keys"),         "metric.custom_sql",  "a table that is not theirs"),
        (query(""),                                            "metric.custom_sql",  "no query"),
        (asked(&json!({"event_name": ""})),                    "metric.event_name",  "no name"),
        (with("customer_id", json!("nobody")),                 "customer_id",        "nobody"),
        (with("end", json!("2024-02-01")),                     "end",                "before the start"),
        (with("end", json!("2024-04-02")),                     "end",                "more than 31 days"),
        (with("window", json!("week")),                        "window",             "no such window"),
        (with("timezone", json!("Mars/Olympus")),              "timezone",           "no such zone"),
        (with("start", Value::Null),                           "start",              "no start"),
    ];
    for (body, field, why) in cases {
        let refused = world.post(PREVIEW, &body);
        assert_eq!(refused.status, 400, "{why}: {}", refused.text);
        assert_eq!(refused.faults().first().map(|(attr, _)| attr.as_str()), Some(field), "{why}: {}", refused.text);
    }
    let other = world.other_key();
    let headers = [("X-API-KEY", other.as_str()), ("Content-Type", "application/json")];
    let foreign = world.send("POST", PREVIEW, &headers, asked(&count).to_string().as_bytes());
    assert_eq!(foreign.faults().first().map(|(attr, _)| attr.as_str()), Some("customer_id"), "another's customer");
    // Half of the calls have no number there.
    let failing = query("SELECT SUM((properties ->> 'region')::numeric) AS usage_qty FROM events");
    let refused = world.post(PREVIEW, &failing);
    assert_eq!(refused.error(), "custom_metric_failed", "{}", refused.text);
}
