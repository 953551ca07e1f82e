//! Gauges and rates: made, shown, measured, billed; and definitions that are none.

use serde_json::{Value, json};

use crate::support::{Field, World};

fn moved(n: usize, name: &str, time: &str, number: &str) -> Value {
    let text = format!(
        r#"{{"customer_id": "acme", "event_name": "{name}", "idempotency_id": "{name}{n}", "time_created": "{time}",
            "properties": {{"n": {number}}}}}"#
    );
    serde_json::from_str(&text).expect("an event")
}

/// Name, further fields, usage of March 2024, usage at its end, events of it.
#[rustfmt::skip]
const CASES: [(&str, &str, &str, &str, u32); 8] = [
    ("peak",       r#""metric_type": "gauge", "event_type": "total", "granularity": "total""#,                           "9",   "2.5", 3),
    ("seats",      r#""metric_type": "gauge", "event_type": "total", "granularity": "months", "proration": "days""#,     "",    "2.5", 3),
    ("moved",      r#""metric_type": "gauge", "event_type": "delta", "granularity": "total", "proration": "total""#,     "24.5", "24.5", 3),
    ("moved days", r#""metric_type": "gauge", "event_type": "delta", "granularity": "days", "proration": "hours""#,      "",    "24.5", 3),
    ("busiest",    r#""metric_type": "rate", "aggregation_type": "count", "granularity": "hours""#,                      "2",   "0",   4),
    ("most",       r#""metric_type": "rate", "aggregation_type": "sum", "granularity": "days""#,                         "16",  "0",   3),
    ("mean",       r#""metric_type": "rate", "aggregation_type": "average", "granularity": "months""#,                   "7.3333333333", "6.1666666667", 3),
    ("greatest",   r#""metric_type": "rate", "aggregation_type": "max", "granularity": "years""#,                        "9",   "9",   3),
];

#[test]
fn levels_and_rates_get_from_track_to_an_invoice_line() {
    let world = World::new();
    let tiers = json!([{"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1}]);
    let metrics: Vec<String> = CASES
        .iter()
        .map(|(name, fields, ..)| {
            let property = if fields.contains("count") { "null" } else { "\"n\"" };
            let body =
                format!(r#"{{"metric_name": "{name}", "event_name": "level", "property_name": {property}, {fields}}}"#);
            world.post_text("/api/metrics/", &body).ok(201).id("metric_id")
        })
        .collect();
    let components: Vec<Value> = metrics.iter().map(|metric| json!({"metric_id": metric, "tiers": tiers})).collect();
    let version = json!({"currency_code": "USD", "components": components});
    let plan = json!({"plan_name": "Levels", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    let clock = world.clock("2024-02-20");
    world.customer_at("acme", &clock);
    world.post("/api/track/", &json!({"batch": [moved(0, "level", "2024-02-20T00:00:00Z", "6")]})).ok(201);
    world.advance(&clock, "2024-03-01");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-03-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    world.advance(&clock, "2024-03-31T23:59:59.999999Z");
    // What is no number is nothing but an event; what has another name is not even that.
    let batch = [
        moved(1, "level", "2024-03-10T12:00:00Z", "7"),
        moved(2, "level", "2024-03-10T12:30:00Z", "\"9\""),
        moved(3, "level", "2024-03-11T18:00:00Z", "2.5"),
        moved(4, "level", "2024-03-20T00:00:00Z", "\"many\""),
        moved(5, "other", "2024-03-20T00:00:00Z", "1000"),
    ];
    assert_eq!(world.post("/api/track/", &json!({"batch": batch})).ok(201)["success"], "all");
    for ((name, _, usage, now, event_count), metric) in CASES.iter().zip(&metrics) {
        let path = format!("/api/metric_access/?customer_id=acme&metric_id={metric}");
        let found = world.get(&path).ok(200)["access_per_subscription"][0]["metric_usage"].to_string();
        assert_eq!(rounded(&found, 10), *now, "{name}: present usage");
        let path = format!("/api/usage/?customer_id=acme&metric_id={metric}&start=2024-03-01&end=2024-03-31");
        let found = world.get(&path).ok(200);
        assert_eq!(found["total"]["event_count"], *event_count, "{name}");
        let quantity = found["total"]["quantity"].to_string();
        check_usage(name, &quantity, usage);
    }
    world.advance(&clock, "2024-04-02");
    let invoice = world.get("/api/invoices/?customer_id=acme").ok(200)[0].id("invoice_id");
    let explanation = world.get(&format!("/api/invoices/{invoice}/explain/")).ok(200);
    let lines = explanation["line_items"].as_array().expect("lines");
    for ((name, fields, usage, _, event_count), metric) in CASES.iter().zip(&metrics) {
        let line = lines.iter().find(|line| line["name"] == *name).unwrap_or_else(|| panic!("no line of {name}"));
        let trace = &line["trace"];
        check_usage(name, &trace["quantity"].to_string(), usage);
        assert_eq!(trace["event_count"], *event_count, "{name}");
        assert_eq!(
            rounded(&trace["quantity"].to_string(), 2),
            rounded(&line["amount"].to_string(), 2),
            "{name}: 1 each"
        );
        let fields: Value = serde_json::from_str(&format!("{{{fields}}}")).expect("json");
        let shown = world.get(&format!("/api/metrics/{metric}/")).ok(200);
        for (field, value) in fields.as_object().expect("an object") {
            assert_eq!((&trace["metric"][field], &shown[field]), (value, value), "{name}: {field}");
        }
    }
}

fn rounded(number: &str, decimals: u8) -> String {
    let number = number.parse::<billing_domain::BigDecimal>().unwrap_or_else(|_| panic!("{number:?}"));
    billing_domain::decimal::plain(&billing_domain::money::round_half_away_from_zero(&number, decimals).normalized())
}

/// The two that are weighed by time are given as what they add up to.
fn check_usage(name: &str, quantity: &str, usage: &str) {
    // 9 days at 6, one at 9, 21 at 2.5: by days of a month of 31.
    let days = || rounded(&divided("115.5", "31"), 10);
    // 228 hours at 6, 30 at 22, 486 at 24.5: by hours of a day.
    let hours = || rounded(&divided("13935", "24"), 10);
    let expected = match name {
        "seats" => days(),
        "moved days" => hours(),
        _ => usage.to_owned(),
    };
    assert_eq!(rounded(quantity, 10), expected, "{name}");
}

fn divided(top: &str, bottom: &str) -> String {
    let parse = |text: &str| text.parse::<billing_domain::BigDecimal>().expect("a number");
    billing_domain::decimal::plain(&billing_domain::decimal::divide(&parse(top), &parse(bottom)))
}

#[test]
fn a_level_outlives_periods_and_falls_back() {
    let world = World::new();
    let body = json!({"event_name": "seats", "metric_type": "gauge", "event_type": "delta", "granularity": "total",
        "property_name": "n"});
    let metric = world.post("/api/metrics/", &body).ok(201);
    assert_eq!(metric["aggregation_type"], "max");
    assert_eq!((&metric["proration"], &metric["metric_name"]), (&json!("total"), &json!("level of n of seats")));
    let metric = metric.id("metric_id");
    let tiers = json!([{"type": "free", "range_start": 0, "range_end": 10}]);
    let version = json!({"currency_code": "USD", "components": [{"metric_id": metric, "tiers": tiers}]});
    let plan = json!({"plan_name": "Seats", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    let clock = world.clock("2024-03-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-03-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    let access = || {
        let answer = world.get(&format!("/api/metric_access/?customer_id=acme&metric_id={metric}")).ok(200);
        (answer["access"] == true, answer["access_per_subscription"][0]["metric_usage"].to_string())
    };
    let send = |n, time, number| {
        world.post("/api/track/", &json!({"batch": [moved(n, "seats", time, number)]})).ok(201);
    };
    assert_eq!(access(), (true, "0".to_owned()));
    world.advance(&clock, "2024-03-10");
    send(1, "2024-03-09T00:00:00Z", "10");
    assert_eq!(access(), (false, "10".to_owned()), "at the limit");
    send(2, "2024-03-09T12:00:00Z", "-9");
    assert_eq!(access(), (true, "1".to_owned()), "it peaked at the limit and is below it now");
    world.advance(&clock, "2024-05-10");
    assert_eq!(access(), (true, "1".to_owned()), "two periods on");
    let path = format!("/api/usage/?customer_id=acme&metric_id={metric}&start=2024-03-01&end=2024-06-30&window=month");
    let usage = world.get(&path).ok(200);
    let months: Vec<String> =
        usage["windows"].as_array().expect("windows").iter().map(|month| month["quantity"].to_string()).collect();
    assert_eq!(months, ["10", "1", "1", "0"], "June is to come");
}

#[test]
fn a_bad_definition_is_refused_by_its_fields() {
    let world = World::new();
    #[rustfmt::skip]
    let corpus: [(&str, &[&str]); 30] = [
        (r#"{}"#,                                                                                    &["event_name"]),
        (r#"{"event_name": "e", "metric_type": "gauge"}"#,                                           &["event_type", "granularity", "property_name"]),
        (r#"{"event_name": "e", "metric_type": "gauge", "property_name": "n", "event_type": "total"}"#, &["granularity"]),
        (r#"{"event_name": "e", "metric_type": "gauge", "property_name": "n", "granularity": "days"}"#, &["event_type"]),
        (r#"{"event_name": "e", "metric_type": "gauge", "property_name": "", "event_type": "total", "granularity": "days"}"#, &["property_name"]),
        (r#"{"event_name": "e", "metric_type": "gauge", "property_name": "n", "event_type": "sum", "granularity": "days"}"#, &["event_type"]),
        (r#"{"event_name": "e", "metric_type": "gauge", "property_name": "n", "event_type": "total", "granularity": "weeks"}"#, &["granularity"]),
        (r#"{"event_name": "e", "metric_type": "gauge", "property_name": "n", "event_type": "total", "granularity": "days", "proration": "months"}"#, &["proration"]),
        (r#"{"event_name": "e", "metric_type": "gauge", "property_name": "n", "event_type": "total", "granularity": "days", "aggregation_type": "sum"}"#, &["aggregation_type"]),
        (r#"{"event_name": "e", "metric_type": "gauge", "property_name": 7, "event_type": ["total"], "granularity": {}}"#, &["event_type", "granularity", "property_name"]),
        (r#"{"event_name": "e", "metric_type": "rate"}"#,                                            &["granularity"]),
        (r#"{"event_name": "e", "metric_type": "rate", "granularity": "total"}"#,                    &["granularity"]),
        (r#"{"event_name": "e", "metric_type": "rate", "granularity": "days", "proration": "hours"}"#, &["proration"]),
        (r#"{"event_name": "e", "metric_type": "rate", "granularity": "days", "event_type": "total"}"#, &["event_type"]),
        (r#"{"event_name": "e", "metric_type": "rate", "granularity": "days", "aggregation_type": "unique", "property_name": "n"}"#, &["aggregation_type"]),
        (r#"{"event_name": "e", "metric_type": "rate", "granularity": "days", "aggregation_type": "latest"}"#, &["aggregation_type", "property_name"]),
        (r#"{"event_name": "e", "metric_type": "rate", "granularity": "days", "aggregation_type": "sum"}"#, &["property_name"]),
        (r#"{"event_name": "e", "granularity": "days"}"#,                                            &["granularity"]),
        (r#"{"event_name": "e", "proration": "days"}"#,                                              &["proration"]),
        (r#"{"event_name": "e", "event_type": "delta"}"#,                                            &["event_type"]),
        (r#"{"event_name": "e", "aggregation_type": "sum"}"#,                                        &["property_name"]),
        (r#"{"event_name": "e", "aggregation_type": "median", "property_name": "n"}"#,               &["aggregation_type"]),
        (r#"{"event_name": "e", "metric_type": "histogram"}"#,                                       &["metric_type"]),
        (r#"{"event_name": "e", "metric_type": 1, "aggregation_type": 2, "granularity": 3}"#,        &["aggregation_type", "granularity", "metric_type"]),
        (r#"{"event_name": "e", "is_cost_metric": "perhaps"}"#,                                      &["is_cost_metric"]),
        (r#"{"event_name": "e", "numeric_filters": [{"property_name": "n", "operator": "ne", "comparison_value": 1}]}"#, &["numeric_filters.0.operator"]),
        (r#"{"event_name": "e", "numeric_filters": [{"property_name": "n", "operator": "eq", "comparison_value": "x"}]}"#, &["numeric_filters.0.comparison_value"]),
        (r#"{"event_name": "e", "numeric_filters": {"n": 1}}"#,                                      &["numeric_filters"]),
        (r#"{"event_name": "e", "categorical_filters": [{"property_name": "p", "operator": "isin", "comparison_value": "a"}]}"#, &["categorical_filters.0.comparison_value"]),
        (r#"{"event_name": "e", "categorical_filters": [{}]}"#,                                      &["categorical_filters.0.comparison_value", "categorical_filters.0.operator", "categorical_filters.0.property_name"]),
    ];
    for (body, fields) in corpus {
        let faults = world.post_text("/api/metrics/", body).faults();
        let mut found: Vec<&str> = faults.iter().map(|(attr, _)| attr.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, fields, "{body}: {faults:?}");
    }
    assert_eq!(world.get("/api/metrics/").ok(200), json!([]), "nothing was made");
}
