//! What a plan comes to that nobody has made, held against what the same plan is invoiced with.

use serde_json::{Value, json};

use crate::support::{Field, World, plan_body};

/// A metric that adds a property up: its id.
pub(crate) fn summing_metric(world: &World) -> String {
    let body = json!({"event_name": "call", "metric_name": "units of <call>", "aggregation_type": "sum", "property_name": "units"});
    world.post("/api/metrics/", &body).ok(201).id("metric_id")
}

/// Has `acme` subscribe to the plan in April 2024, use so many units, and be invoiced for April: the lines of all invoices, oldest first.
pub(crate) fn invoiced_for_april(world: &World, plan: &str, units: &Value) -> Vec<Value> {
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-04-01", "auto_renew": false});
    world.post("/api/subscriptions/", &body).ok(200);
    world.advance(&clock, "2024-04-20");
    let used = json!({"customer_id": "acme", "event_name": "call", "idempotency_id": "used",
        "time_created": "2024-04-19T00:00:00Z", "properties": {"units": units}});
    world.post("/api/track/", &json!({"batch": [used]})).ok(201);
    world.advance(&clock, "2024-05-02");
    let mut invoices = world.get("/api/invoices/?customer_id=acme").ok(200).as_array().expect("a list").clone();
    invoices.reverse();
    let explained = |invoice: &Value| {
        let path = format!("/api/invoices/{}/explain/", invoice.id("invoice_id"));
        world.get(&path).ok(200)["line_items"].as_array().expect("lines").clone()
    };
    invoices.iter().flat_map(explained).collect()
}

/// A fee, and tiers that are free, by parts of thirds, flat and by started hundreds.
pub(crate) fn graduated(metric: &str) -> Value {
    let mut plan = plan_body("Graduated", metric);
    plan["initial_version"]["recurring_charges"][0]["amount"] = json!("9.99");
    plan["initial_version"]["components"][0]["tiers"] = json!([
        {"type": "free", "range_start": 0, "range_end": 10},
        {"type": "per_unit", "range_start": 10, "range_end": 1000, "cost_per_batch": "0.0137", "metric_units_per_batch": 3},
        {"type": "flat", "range_start": 1000, "range_end": 2000, "cost_per_batch": "4.5"},
        {"type": "per_unit", "range_start": 2000, "cost_per_batch": "0.77", "metric_units_per_batch": 100,
            "batch_rounding_type": "round_up"},
    ]);
    plan
}

#[test]
fn what_was_previewed_is_invoiced_to_the_digit() {
    let world = World::new();
    let metric = summing_metric(&world);
    let plan = graduated(&metric);
    let before = world.snapshot();
    let usage = json!([{"metric_id": metric, "quantity": "2345.5"}]);
    let previewed = world.post("/api/plans/preview/", &json!({"plan": plan, "usage": usage})).ok(200);
    assert!(world.snapshot() == before, "a preview writes nothing");
    assert_eq!((&previewed["amount"].to_string()[..], &previewed["currency"]["code"]), ("22.09", &json!("USD")));
    let lines = previewed["line_items"].as_array().expect("lines");
    assert_eq!((&lines[0]["charge_name"], &lines[1]["metric_id"]), (&json!("base"), &json!(metric)));

    let made = world.post("/api/plans/", &plan).ok(201);
    assert_eq!(made["versions"][0]["components"], previewed["components"], "as it is shown once it is made");
    let invoiced = invoiced_for_april(&world, &made.id("plan_id"), &json!(2345.5));
    assert_eq!(invoiced.len(), lines.len());
    for (invoiced, previewed) in invoiced.iter().zip(lines) {
        for field in ["name", "charge_name", "base", "adjustments", "amount"] {
            assert_eq!(invoiced[field], previewed[field], "{field}");
        }
        let (there, here) = (&invoiced["trace"], &previewed["trace"]);
        for field in ["kind", "rating", "rounding", "prepaid_amount", "quantity", "unit_amount"] {
            assert_eq!(there[field], here[field], "{field} of the trace");
        }
        assert!(here["event_count"].is_null() && here["last_arrival"].is_null(), "there are no events: {here}");
    }
    let other = world.other_key();
    let headers = [("X-API-KEY", other.as_str()), ("Content-Type", "application/json")];
    let foreign = world.send("POST", "/api/plans/preview/", &headers, json!({"plan": plan}).to_string().as_bytes());
    let at = "plan.initial_version.components.0.metric_id".to_owned();
    assert_eq!(foreign.faults(), [(at, "does_not_exist".to_owned())], "another tenant's metric");
}

#[test]
fn what_cannot_be_previewed_is_refused_at_its_field() {
    let world = World::new();
    let (metric, other) = (summing_metric(&world), world.metric());
    let with = |change: &dyn Fn(&mut Value)| {
        let mut body = json!({"plan": graduated(&metric), "usage": [{"metric_id": metric, "quantity": 1}]});
        change(&mut body);
        body
    };
    let daily = json!({"plan_duration": "yearly", "reset_interval_unit": "day"});
    let many: Vec<Value> = (0..100)
        .map(|start| json!({"type": "flat", "range_start": start, "range_end": start + 1, "cost_per_batch": 1}))
        .collect();
    #[rustfmt::skip]
    let cases = [
        // body,                                                                                    at,                                            code,               why
        (json!({}),                                                                                 "plan",                                        "required",         "nothing at all"),
        (with(&|body| body["plan"]["initial_version"] = Value::Null),                               "plan.initial_version",                        "required",         "no prices"),
        (with(&|body| body["plan"]["plan_name"] = json!("")),                                       "plan.plan_name",                              "blank",            "as when it is made"),
        (with(&|body| body["plan"]["initial_version"]["components"][0]["tiers"][1]["range_start"] = json!(12)), "plan.initial_version.components.0.tiers.1.range_start", "invalid", "a gap"),
        (with(&|body| body["usage"][0]["quantity"] = json!(-1)),                                    "usage.0.quantity",                            "min_value",        "less than nothing"),
        (with(&|body| body["usage"][0]["metric_id"] = json!(other)),                                "usage.0.metric_id",                           "does_not_exist",   "nothing is charged by it"),
        (with(&|body| body["usage"] = json!([body["usage"][0], body["usage"][0]])),                 "usage.1.metric_id",                           "unique",           "twice"),
        (with(&|body| body["usages"] = json!([])),                                                  "usages",                                      "unknown_field",    "misspelt"),
        (with(&|body| {
            body["plan"]["plan_duration"] = daily["plan_duration"].clone();
            body["plan"]["initial_version"]["components"][0]["reset_interval_unit"] = daily["reset_interval_unit"].clone();
            body["plan"]["initial_version"]["components"][0]["tiers"] = json!(many);
        }),                                                                                         "plan.initial_version",                        "invalid",          "a hundred tiers each day of a year"),
    ];
    for (body, at, code, why) in cases {
        let refused = world.post("/api/plans/preview/", &body);
        assert_eq!(refused.faults(), [(at.to_owned(), code.to_owned())], "{why}: {}", refused.text);
    }
    let unsaid = with(&|body| {
        body["plan"]["initial_version"]["components"][0]["prepaid_charge"] = json!({"charge_behavior": "full"});
    });
    let refused = world.post("/api/plans/preview/", &unsaid);
    assert_eq!((refused.status, &*refused.error()), (400, "prepayment_cant_determine_units"), "each subscription says");
}

#[test]
fn every_interval_of_a_period_is_a_line() {
    let world = World::new();
    let metric = summing_metric(&world);
    let mut plan = graduated(&metric);
    plan["plan_duration"] = json!("quarterly");
    plan["initial_version"]["components"][0]["reset_interval_unit"] = json!("month");
    let of = |plan: &Value, quantity: &str| {
        let body = json!({"plan": plan, "usage": [{"metric_id": metric, "quantity": quantity}]});
        world.post("/api/plans/preview/", &body).ok(200)
    };
    let quarter = of(&plan, "1500");
    let amounts = |preview: &Value| -> Vec<String> {
        let lines = preview["line_items"].as_array().expect("lines");
        lines.iter().map(|line| line["amount"].to_string()).collect()
    };
    // 990 units are 330 batches at 0.0137, 4.521; entering the third tier is 4.5.
    assert_eq!(amounts(&quarter), ["9.99", "9.02", "9.02", "9.02"]);
    assert_eq!(quarter["amount"].to_string(), "37.05");
    plan["plan_duration"] = Value::Null;
    plan["initial_version"]["price_adjustment"] =
        json!({"price_adjustment_name": "off", "price_adjustment_type": "percentage", "price_adjustment_amount": -10});
    let month = of(&plan, "1500");
    assert_eq!(amounts(&month), ["8.99", "8.12"], "a month where the plan has no duration, ten percent off");
    assert_eq!(month["line_items"][0]["adjustments"][0]["amount"].to_string(), "-1");
}
