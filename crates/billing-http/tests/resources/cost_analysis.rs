//! Costs against revenue, day by day.

use serde_json::{Value, json};

use crate::support::{Field, World};

fn sent(id: &str, name: &str, time: &str, properties: &Value) -> Value {
    json!({"customer_id": "acme", "event_name": name, "idempotency_id": id, "time_created": time,
        "properties": properties})
}

/// A customer in March 2024 with a fee of 31 a month and 2 a call, and costs of three kinds.
fn acme(world: &World) -> String {
    let calls = world.post("/api/metrics/", &json!({"event_name": "call"})).ok(201).id("metric_id");
    for body in [
        json!({"metric_name": "tokens", "event_name": "call", "aggregation_type": "sum", "property_name": "cost"}),
        json!({"metric_name": "models", "event_name": "call", "aggregation_type": "unique", "property_name": "model"}),
        json!({"metric_name": "peak", "event_name": "call", "aggregation_type": "max", "property_name": "cost"}),
    ] {
        let mut body = body;
        body["is_cost_metric"] = json!(true);
        world.post("/api/metrics/", &body).ok(201);
    }
    let version = json!({
        "currency_code": "USD",
        "recurring_charges": [{"name": "base", "amount": 31, "charge_timing": "in_advance"}],
        "components": [{"metric_id": calls, "tiers":
            [{"type": "per_unit", "range_start": 0, "cost_per_batch": 2, "metric_units_per_batch": 1}]}],
    });
    let plan = json!({"plan_name": "Calls", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    let clock = world.clock("2024-03-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-03-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    world.advance(&clock, "2024-03-11");
    let batch = [
        sent("1", "call", "2024-03-02T10:00:00Z", &json!({"cost": "0.25", "model": "a"})),
        sent("2", "call", "2024-03-02T23:59:59.999999Z", &json!({"cost": 0.5, "model": "b"})),
        sent("3", "call", "2024-03-04T00:00:00Z", &json!({"cost": 0.75, "model": "a"})),
        sent("4", "call", "2024-03-04T01:00:00Z", &json!({"cost": "free", "model": "c"})),
    ];
    world.post("/api/track/", &json!({"batch": batch})).ok(201);
    clock
}

#[test]
fn costs_and_revenue_are_told_apart_by_days() {
    let world = World::new();
    let clock = acme(&world);
    let ask = |days: &str| world.get(&format!("/api/customers/acme/cost_analysis/?{days}")).ok(200);
    let analysis = ask("start_date=2024-03-01&end_date=2024-03-05");
    let days: Vec<(String, String, Vec<String>)> = analysis["per_day"]
        .as_array()
        .expect("days")
        .iter()
        .map(|day| {
            let cost = |cost: &Value| format!("{} {}", cost["metric"].id("metric_name"), cost["cost"]);
            let costs = day["cost_data"].as_array().expect("costs").iter().map(cost).collect();
            (day.id("date"), day["revenue"].to_string(), costs)
        })
        .collect();
    #[rustfmt::skip]
    let expected = [
        // day,        revenue, costs: added up, seen first, beyond what there was
        ("2024-03-01", "1",     vec![]),
        ("2024-03-02", "5",     vec!["tokens 0.75", "models 2", "peak 0.5"]),
        ("2024-03-03", "1",     vec![]),
        ("2024-03-04", "5",     vec!["tokens 0.75", "models 1", "peak 0.25"]),
        ("2024-03-05", "1",     vec![]),
    ];
    let expected = expected.map(|(day, revenue, costs)| {
        (day.to_owned(), revenue.to_owned(), costs.into_iter().map(str::to_owned).collect::<Vec<_>>())
    });
    assert_eq!(days, expected, "a day's part of the fee, and calls where they were made, not yet invoiced");
    assert_eq!(
        (analysis["total_cost"].to_string(), analysis["total_revenue"].to_string()),
        ("5.25".into(), "13".into())
    );
    assert_eq!(analysis["profit_margin"].to_string(), "0.5961538462", "7.75 of 13");
    assert_eq!(analysis["markup"].to_string(), "1.4761904762", "7.75 on 5.25");
    assert_eq!(analysis["currency"]["code"], "USD");
    world.advance(&clock, "2024-04-02");
    assert_eq!(ask("start_date=2024-03-01&end_date=2024-03-05"), analysis, "invoiced, it is the same");
    let month = ask("start_date=2024-03-01&end_date=2024-03-31");
    assert_eq!(month["total_revenue"].to_string(), "39", "the fee of 31 and four calls");
}

#[test]
fn nothing_costs_and_earns_nothing() {
    let world = World::new();
    world.customer("acme");
    let analysis = world.get("/api/customers/acme/cost_analysis/?start_date=2024-02-28&end_date=2024-02-29").ok(200);
    let day = |date: &str| json!({"date": date, "cost_data": [], "revenue": 0});
    let expected = json!({"per_day": [day("2024-02-28"), day("2024-02-29")], "total_cost": 0, "total_revenue": 0,
        "profit_margin": 0, "markup": 0, "currency": {"code": "USD", "name": "US Dollar", "symbol": "$"}});
    assert_eq!(analysis, expected);
}

#[test]
fn bad_questions_about_costs_are_named() {
    let world = World::new();
    world.customer("acme");
    #[rustfmt::skip]
    let cases: [(&str, &[(&str, &str)]); 5] = [
        ("",                                                       &[("start_date", "required"), ("end_date", "required")]),
        ("start_date=2024-02-30&end_date=yesterday",               &[("start_date", "invalid"), ("end_date", "invalid")]),
        ("start_date=2024-02-01T00:00:00Z&end_date=2024-02-02",    &[("start_date", "invalid")]),
        ("start_date=2024-02-02&end_date=2024-02-01",              &[("end_date", "min_value")]),
        ("start_date=2024-01-01&end_date=2025-01-01",              &[("end_date", "max_value")]),
    ];
    for (query, expected) in cases {
        let faults = world.get(&format!("/api/customers/acme/cost_analysis/?{query}")).faults();
        let found: Vec<_> = faults.iter().map(|(attr, code)| (attr.as_str(), code.as_str())).collect();
        assert_eq!(found, expected, "{query}");
    }
    let leap = world.get("/api/customers/acme/cost_analysis/?start_date=2024-01-01&end_date=2024-12-31").ok(200);
    assert_eq!(leap["per_day"].as_array().map(Vec::len), Some(366));
    let absent = world.get("/api/customers/nobody/cost_analysis/?start_date=2024-01-01&end_date=2024-01-01");
    assert_eq!((absent.status, absent.error()), (404, "not_found".to_owned()));
}
