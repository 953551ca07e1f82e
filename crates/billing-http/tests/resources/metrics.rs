//! Metrics of every aggregation: made, shown, measured, billed.

use serde_json::{Value, json};

use crate::support::{Field, World};

fn fault(attr: &str, code: &str) -> (String, String) {
    (attr.to_owned(), code.to_owned())
}

#[test]
fn filters_come_back_as_they_were_sent() {
    let world = World::new();
    let body = r#"{
        "event_name": "upload", "aggregation_type": "max", "property_name": "mb", "is_cost_metric": true,
        "numeric_filters": [
            {"property_name": "mb", "operator": "gte", "comparison_value": 0.000000000000001},
            {"property_name": "mb", "operator": "lt", "comparison_value": "12345678901234567890.5"}
        ],
        "categorical_filters": [{"property_name": "tier", "operator": "isnotin", "comparison_value": ["free", ""]}]
    }"#;
    let made = world.post_text("/api/metrics/", body).ok(201);
    let numbers: Vec<String> = [0, 1].map(|i| made["numeric_filters"][i]["comparison_value"].to_string()).to_vec();
    assert_eq!(numbers, ["0.000000000000001", "12345678901234567890.5"], "every digit");
    let expected = json!([{"property_name": "tier", "operator": "isnotin", "comparison_value": ["free", ""]}]);
    assert_eq!(made["categorical_filters"], expected);
    assert_eq!((&made["aggregation_type"], &made["property_name"]), (&json!("max"), &json!("mb")));
    assert_eq!(made["metric_name"], "max of mb of upload");
    let path = format!("/api/metrics/{}/", made.id("metric_id"));
    assert_eq!(world.get(&path).ok(200), made);
    assert_eq!(world.get("/api/metrics/").ok(200), json!([made]));
}

/// A component of a plan and of an add-on shows the metric as the metric's own answer does.
fn shown_in_a_plan(world: &World, metric: &str) -> Value {
    let version = json!({"currency_code": "USD", "components": [{"metric_id": metric, "tiers": [
        {"type": "free", "range_start": 0}]}]});
    let plan = json!({"plan_name": "Metered", "plan_duration": "monthly", "initial_version": version});
    let made = world.post("/api/plans/", &plan).ok(201);
    made["versions"][0]["components"][0]["billable_metric"].clone()
}

#[test]
fn both_names_of_the_aggregation_are_understood_and_answered() {
    let world = World::new();
    #[rustfmt::skip]
    let cases = [
        // body,                                                                                                                       aggregation, billable, property,         why
        (json!({"metric_type": "counter", "usage_aggregation_type": "count"}),                                                         "count",     "sum",    json!(null),      "as existing clients say it"),
        (json!({"metric_type": "counter", "usage_aggregation_type": "sum", "property_name": "tokens"}),                                "sum",       "sum",    json!("tokens"),  "a sum is no count"),
        (json!({"metric_type": "counter", "usage_aggregation_type": "max", "property_name": "latency"}),                               "max",       "sum",    json!("latency"), "the greatest of all"),
        (json!({"metric_type": "gauge", "usage_aggregation_type": "max", "event_type": "total", "granularity": "total",
            "proration": "total", "property_name": "qty"}),                                                                            "max",       "sum",    json!("qty"),     "a level"),
        (json!({"metric_type": "gauge", "event_type": "delta", "granularity": "months", "proration": "days", "property_name": "qty"}), "max",       "sum",    json!("qty"),     "a gauge's own"),
        (json!({"metric_type": "rate", "usage_aggregation_type": "count", "granularity": "minutes"}),                                  "count",     "max",    json!(null),      "the most within a window"),
        (json!({"metric_type": "rate", "usage_aggregation_type": "sum", "billable_aggregation_type": "max",
            "granularity": "days", "property_name": "n"}),                                                                             "sum",       "max",    json!("n"),       "the same, said"),
        (json!({"metric_type": "custom", "custom_sql": "SELECT COUNT(*) AS usage_qty FROM events"}),                                   "count",     "sum",    json!(null),      "a query"),
        (json!({"aggregation_type": "unique", "usage_aggregation_type": "unique", "property_name": "user"}),                           "unique",    "sum",    json!("user"),    "both say the same"),
        (json!({"aggregation_type": "sum", "usage_aggregation_type": null, "billable_aggregation_type": null, "property_name": "n"}),  "sum",       "sum",    json!("n"),       "null says nothing"),
        (json!({"aggregation_type": null, "usage_aggregation_type": "latest", "billable_aggregation_type": "sum", "property_name": "n"}), "latest", "sum",    json!("n"),       "null says nothing"),
        (json!({"usage_aggregation_type": "count", "property_name": ""}),                                                              "count",     "sum",    json!(null),      "no property"),
        (json!({"usage_aggregation_type": "count", "property_name": null}),                                                            "count",     "sum",    json!(null),      "no property"),
    ];
    for (n, (mut body, aggregation, billable, property, why)) in cases.into_iter().enumerate() {
        body["metric_name"] = json!(format!("metric {n}"));
        body["event_name"] = json!("call");
        let made = world.post("/api/metrics/", &body).ok(201);
        let found = ["aggregation_type", "usage_aggregation_type", "billable_aggregation_type"].map(|name| &made[name]);
        assert_eq!(found, [aggregation, aggregation, billable], "{body}: {why}");
        assert_eq!(made["property_name"], property, "{body}: {why}");
        assert_eq!(world.get(&format!("/api/metrics/{}/", made.id("metric_id"))).ok(200), made, "{why}");
        assert_eq!(shown_in_a_plan(&world, &made.id("metric_id")), made, "{why}");
    }
}

#[test]
fn what_a_metric_cannot_use_is_refused_at_its_field() {
    let world = World::new();
    let query = "SELECT COUNT(*) AS usage_qty FROM events";
    let (number, text) = (
        json!([{"property_name": "n", "operator": "gt", "comparison_value": 1}]),
        json!([{"property_name": "n", "operator": "isin", "comparison_value": ["a"]}]),
    );
    #[rustfmt::skip]
    let cases = [
        // body,                                                                               attr,                        code,             why
        (json!({"aggregation_type": "count", "property_name": "n"}),                           "property_name",             "invalid_choice", "a count looks at no property"),
        (json!({"usage_aggregation_type": "count", "property_name": "n"}),                     "property_name",             "invalid_choice", "by its other name too"),
        (json!({"property_name": "n"}),                                                        "property_name",             "invalid_choice", "a count unless said otherwise: most likely forgotten"),
        (json!({"metric_type": "rate", "granularity": "days", "property_name": "n"}),          "property_name",             "invalid_choice", "a count in each window"),
        (json!({"aggregation_type": "count", "usage_aggregation_type": "sum", "property_name": "n"}), "usage_aggregation_type", "invalid_choice", "which of the two?"),
        (json!({"usage_aggregation_type": "median", "property_name": "n"}),                    "usage_aggregation_type",    "invalid_choice", "no aggregation"),
        (json!({"usage_aggregation_type": "sum"}),                                             "property_name",             "required",       "a sum of nothing"),
        (json!({"metric_type": "gauge", "event_type": "total", "granularity": "days", "property_name": "n",
            "usage_aggregation_type": "sum"}),                                                 "usage_aggregation_type",    "invalid_choice", "a gauge takes its peak"),
        (json!({"metric_type": "rate", "granularity": "days", "property_name": "n",
            "usage_aggregation_type": "latest"}),                                              "usage_aggregation_type",    "invalid_choice", "not of a window"),
        (json!({"metric_type": "custom", "custom_sql": query, "usage_aggregation_type": "sum"}), "usage_aggregation_type",  "invalid_choice", "the query says it"),
        (json!({"metric_type": "custom", "custom_sql": query, "numeric_filters": number}),     "numeric_filters",           "invalid_choice", "the query has WHERE"),
        (json!({"metric_type": "custom", "custom_sql": query, "categorical_filters": text}),   "categorical_filters",       "invalid_choice", "the query has WHERE"),
        (json!({"billable_aggregation_type": "max"}),                                          "billable_aggregation_type", "invalid_choice", "a counter adds up"),
        (json!({"metric_type": "rate", "granularity": "days", "billable_aggregation_type": "sum"}), "billable_aggregation_type", "invalid_choice", "a rate takes its greatest window"),
        (json!({"billable_aggregation_type": "average"}),                                      "billable_aggregation_type", "invalid_choice", "no such way"),
        (json!({"billable_aggregation_type": 1}),                                              "billable_aggregation_type", "incorrect_type", "no word"),
    ];
    for (mut body, attr, code, why) in cases {
        body["event_name"] = json!("call");
        assert_eq!(world.post("/api/metrics/", &body).faults(), [fault(attr, code)], "{body}: {why}");
    }
    assert_eq!(world.get("/api/metrics/").ok(200), json!([]), "nothing was made");
}

#[test]
fn every_bad_field_is_named_at_once() {
    let world = World::new();
    let mut body = json!({
        "event_name": "", "aggregation_type": "latest", "granularity": "days",
        "numeric_filters": [{"property_name": "a\nb", "operator": "eq", "comparison_value": 1}],
        "categorical_filters": [{"property_name": "p", "operator": "isin", "comparison_value": []}],
    });
    let faults = world.post("/api/metrics/", &body).faults();
    assert_eq!(
        faults,
        [fault("granularity", "invalid_choice"), fault("property_name", "required")],
        "what it measures"
    );
    (body["granularity"], body["property_name"]) = (Value::Null, json!("mb"));
    let faults = world.post("/api/metrics/", &body).faults();
    #[rustfmt::skip]
    assert_eq!(faults, [
        fault("event_name", "blank"),
        fault("numeric_filters.0.property_name", "invalid"),
        fault("categorical_filters.0.comparison_value", "empty"),
    ]);
    assert_eq!(world.get("/api/metrics/").ok(200), json!([]));
}

/// Aggregation, what of the events below it comes to, and how many of them count.
#[rustfmt::skip]
const CASES: [(&str, &str, u32); 7] = [
    ("count",   "5",     5),
    ("sum",     "13.75", 4),
    ("max",     "9.25",  4),
    ("min",     "-2",    4),
    ("unique",  "5",     5),
    ("average", "3.4375", 4),
    ("latest",  "2.5",   4),
];

#[test]
fn every_aggregation_gets_from_track_to_an_invoice_line() {
    let world = World::new();
    let metrics: Vec<String> = CASES
        .iter()
        .map(|(kind, ..)| {
            let body = json!({
                "metric_name": kind, "event_name": "upload", "aggregation_type": kind,
                "property_name": if *kind == "count" { json!(null) } else { json!("mb") },
                "numeric_filters": [{"property_name": "size", "operator": "lt", "comparison_value": 10}],
                "categorical_filters": [{"property_name": "env", "operator": "isnotin", "comparison_value": ["test"]}],
            });
            world.post("/api/metrics/", &body).ok(201).id("metric_id")
        })
        .collect();
    let tiers = json!([{"type": "per_unit", "range_start": 0, "cost_per_batch": 100, "metric_units_per_batch": 1}]);
    let components: Vec<Value> = metrics.iter().map(|metric| json!({"metric_id": metric, "tiers": tiers})).collect();
    let version = json!({"currency_code": "USD", "components": components});
    let plan = json!({"plan_name": "Metered", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    let clock = world.clock("2024-03-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-03-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    world.advance(&clock, "2024-03-20");
    #[rustfmt::skip]
    let events = [
        // time,                          properties,                                     why
        ("2024-03-01T00:00:00Z",          json!({"mb": 4, "size": 1}),                    "the first instant"),
        ("2024-03-05T10:30:00.000001Z",   json!({"mb": "9.25", "size": 9.99, "env": 1}),  "numeric text"),
        ("2024-03-05T10:30:00.000001Z",   json!({"mb": -2, "size": "2"}),                 "below zero"),
        ("2024-03-19T23:59:59Z",          json!({"mb": 2.5, "size": 0}),                  "the latest"),
        ("2024-03-19T23:59:59.5Z",        json!({"mb": "4x", "size": 0}),                 "no number: a text, and an event"),
        ("2024-03-19T23:59:59.6Z",        json!({"mb": 1000, "size": 10}),                "stopped by its size"),
        ("2024-03-19T23:59:59.7Z",        json!({"mb": 1000}),                            "without a size"),
        ("2024-03-19T23:59:59.8Z",        json!({"mb": 1000, "size": 1, "env": "test"}),  "stopped by its env"),
    ];
    let batch: Vec<Value> = (0..)
        .zip(&events)
        .map(|(n, (time, properties, _))| {
            json!({"customer_id": "acme", "event_name": "upload", "idempotency_id": format!("e{n}"),
                "time_created": time, "properties": properties})
        })
        .collect();
    assert_eq!(world.post("/api/track/", &json!({"batch": batch})).ok(201)["success"], "all");
    for ((kind, quantity, _), metric) in CASES.iter().zip(&metrics) {
        let path = format!("/api/metric_access/?customer_id=acme&metric_id={metric}");
        let access = world.get(&path).ok(200);
        assert_eq!(access["access_per_subscription"][0]["metric_usage"].to_string(), *quantity, "{kind}");
        assert_eq!(access["access"], true, "{kind}");
    }

    world.advance(&clock, "2024-04-02");
    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    let invoice = &invoices[0];
    let explanation = world.get(&format!("/api/invoices/{}/explain/", invoice.id("invoice_id"))).ok(200);
    let lines = explanation["line_items"].as_array().expect("lines");
    for (kind, quantity, event_count) in CASES {
        let line = lines.iter().find(|line| line["name"] == kind).unwrap_or_else(|| panic!("no line of {kind}"));
        let (trace, metric) = (&line["trace"], &line["trace"]["metric"]);
        assert_eq!(trace["quantity"].to_string(), quantity, "{kind}");
        assert_eq!(trace["event_count"], event_count, "{kind}");
        assert_eq!(metric["aggregation_type"], kind);
        assert_eq!(metric["property_name"], if kind == "count" { json!(null) } else { json!("mb") });
        assert_eq!(metric["numeric_filters"][0]["operator"], "lt");
        assert_eq!(metric["categorical_filters"][0]["comparison_value"], json!(["test"]));
        let paid = quantity.parse::<billing_domain::BigDecimal>().expect("a number") * 100;
        let paid = billing_domain::decimal::plain(&paid);
        assert_eq!(
            line["amount"].to_string(),
            if kind == "min" { "0" } else { &paid },
            "{kind}: 100 each, nothing below zero"
        );
    }
}
