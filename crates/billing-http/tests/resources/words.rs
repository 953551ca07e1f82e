//! Every word of the interface's enumerations goes in, and comes out as it went in.

use serde_json::{Value, json};

use crate::support::{Field, World, now};

const UNITS: [&str; 4] = ["day", "week", "month", "year"];

/// The fields of `sent` as `shown` has them.
fn same(shown: &Value, sent: &Value) {
    for (name, value) in sent.as_object().expect("an object") {
        assert_eq!(&shown[name], value, "{name} of {shown}");
    }
}

#[test]
fn of_metrics() {
    let world = World::new();
    let spans = ["seconds", "minutes", "hours", "days", "months", "quarters", "years"];
    let mut metrics = Vec::new();
    for aggregation in ["count", "sum", "max", "min", "unique", "average", "latest"] {
        metrics.push(json!({"metric_type": "counter", "aggregation_type": aggregation,
            "property_name": if aggregation == "count" { json!(null) } else { json!("n") }}));
    }
    for (place, granularity) in spans.iter().chain(&["total"]).enumerate() {
        for event_type in ["delta", "total"] {
            let gauge = |proration: &str| {
                json!({"metric_type": "gauge", "event_type": event_type,
                "granularity": granularity, "proration": proration, "property_name": "n"})
            };
            metrics.push(gauge("total"));
            metrics.extend(spans[..place].iter().map(|proration| gauge(proration)));
        }
    }
    for granularity in spans {
        for aggregation in ["count", "sum", "average", "max"] {
            metrics.push(json!({"metric_type": "rate", "aggregation_type": aggregation, "granularity": granularity,
                "property_name": if aggregation == "count" { json!(null) } else { json!("n") }}));
        }
    }
    metrics.push(json!({"metric_type": "custom", "custom_sql": "SELECT COUNT(*) AS usage_qty FROM events"}));
    for operator in ["gte", "gt", "eq", "lt", "lte"] {
        metrics
            .push(json!({"numeric_filters": [{"property_name": "n", "operator": operator, "comparison_value": 1.5}]}));
    }
    for operator in ["isin", "isnotin"] {
        let filter = json!({"property_name": "n", "operator": operator, "comparison_value": ["a", "b"]});
        metrics.push(json!({"categorical_filters": [filter], "is_cost_metric": true}));
    }
    for (n, mut sent) in metrics.into_iter().enumerate() {
        sent["metric_name"] = json!(format!("metric {n}"));
        sent["event_name"] = json!("call");
        let made = world.post("/api/metrics/", &sent).ok(201);
        same(&made, &sent);
        assert_eq!(world.get(&format!("/api/metrics/{}/", made.id("metric_id"))).ok(200), made);
    }
}

#[test]
fn of_plans() {
    let world = World::new();
    let metric = world.metric();
    for duration in [json!("monthly"), json!("quarterly"), json!("yearly"), json!(null)] {
        let plan = json!({"plan_name": "Plan", "plan_duration": duration});
        same(&world.post("/api/plans/", &plan).ok(201), &plan);
    }
    let plan = json!({"plan_name": "Plan", "plan_duration": "yearly", "external_links": [
        {"source": "stripe", "external_plan_id": "a"}, {"source": "braintree", "external_plan_id": "b"}]});
    let made = world.post("/api/plans/", &plan).ok(201);
    same(&made, &plan);
    let path = format!("/api/plans/{}/versions/", made.id("plan_id"));

    let intervals = |unit: Value, count: Value| {
        json!({"invoicing_interval_unit": unit, "invoicing_interval_count": count, "reset_interval_unit": unit,
            "reset_interval_count": count})
    };
    let mut spans: Vec<Value> = UNITS.iter().map(|unit| intervals(json!(unit), json!(2))).collect();
    spans.push(intervals(Value::Null, Value::Null));
    let tiers = |rounding: Value| {
        json!([
            {"type": "free", "range_start": 0, "range_end": 5, "cost_per_batch": null, "metric_units_per_batch": null, "batch_rounding_type": null},
            {"type": "flat", "range_start": 5, "range_end": 10.5, "cost_per_batch": 2.25, "metric_units_per_batch": null, "batch_rounding_type": null},
            {"type": "per_unit", "range_start": 10.5, "range_end": null, "cost_per_batch": 3, "metric_units_per_batch": 100, "batch_rounding_type": rounding},
        ])
    };
    let roundings = ["round_up", "round_down", "round_nearest", "no_rounding"];
    let adjustments = ["percentage", "fixed", "price_override"];
    for (n, span) in spans.iter().enumerate() {
        let behavior = ["prorate", "full"][n % 2];
        let timing = ["in_advance", "in_arrears"][n / 2 % 2];
        let mut charge = json!({"name": "base", "amount": 7.5, "charge_behavior": behavior,
            "charge_timing": timing});
        let units = if n % 2 == 0 { json!(10) } else { Value::Null };
        let mut component = json!({"tiers": tiers(json!(roundings[n % 4])),
            "prepaid_charge": {"units": units, "charge_behavior": behavior}});
        for (name, value) in span.as_object().expect("an object") {
            (charge[name], component[name]) = (value.clone(), value.clone());
        }
        let adjustment = json!({"price_adjustment_name": "deal", "price_adjustment_description": "a deal",
            "price_adjustment_type": adjustments[n % 3], "price_adjustment_amount": 1.5});
        let mut body = json!({"currency_code": "USD", "active_to": null, "localized_name": "Tarif",
            "recurring_charges": [charge], "price_adjustment": adjustment, "components": [component]});
        body["components"][0]["metric_id"] = json!(metric);
        let shown = world.post(&path, &body).ok(201);
        same(&shown["recurring_charges"][0], &charge);
        same(&shown["components"][0], &component);
        same(&shown["price_adjustment"], &adjustment);
        assert_eq!(shown["components"][0]["billable_metric"]["metric_id"], json!(metric));
        assert_eq!(shown["flat_fee_billing_type"], charge["charge_timing"]);
        assert_eq!((shown["flat_rate"].to_string(), &shown["localized_name"]), ("7.5".to_owned(), &json!("Tarif")));
    }
}

#[test]
fn of_addons() {
    let world = World::new();
    let metric = world.metric();
    let component = json!([{"metric_id": metric, "tiers": [{"type": "free", "range_start": 0}]}]);
    for frequency in ["one_time", "recurring"] {
        for when in ["invoice_on_attach", "invoice_on_subscription_end"] {
            for (components, kind) in [(json!([]), "flat"), (component.clone(), "usage_based")] {
                let sent = json!({"addon_name": format!("{frequency} {when} {kind}"), "billing_frequency": frequency,
                    "invoice_when": when});
                let mut body = sent.clone();
                (body["currency_code"], body["components"]) = (json!("USD"), components);
                let made = world.post("/api/addons/", &body).ok(201);
                same(&world.get(&format!("/api/addons/{}/", made.id("addon_id"))).ok(200), &made);
                assert_eq!(made["addon_name"], sent["addon_name"]);
                for word in [frequency, when, kind] {
                    assert!(made.to_string().contains(&format!("\"{word}\"")), "{word} in {made}");
                }
            }
        }
    }
}

#[test]
fn of_customers() {
    let world = World::new();
    for provider in ["stripe", "braintree"] {
        let sent = json!({"customer_id": provider, "email": format!("{provider}@acme.io"), "payment_provider": provider,
            "payment_provider_id": "cus_1", "timezone": "GMT", "tax_rate": 10.5});
        let shown = world.post("/api/customers/", &sent).ok(201);
        same(&shown, &sent);
        let id = json!({format!("{provider}_id"): "cus_1", "has_payment_method": false});
        assert_eq!(shown["integrations"][provider], id);
    }
    let shown = world.post("/api/customers/", &json!({"customer_id": "none", "email": "none@acme.io"})).ok(201);
    assert_eq!((&shown["payment_provider"], &shown["payment_provider_id"]), (&Value::Null, &Value::Null));
    assert_eq!(shown["integrations"], json!({"stripe": null, "braintree": null}));
}

#[test]
fn running_subscriptions_are_counted_over_all_versions() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let path = format!("/api/plans/{plan}/");
    let count = || world.get(&path).ok(200)["active_subscriptions"].clone();
    world.customer("acme");
    let subscribe = |customer: &str, start: &str| {
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": start});
        world.post("/api/subscriptions/", &body).ok(200).id("subscription_id")
    };
    let first = subscribe("acme", &now()[..10]);
    world.post(&format!("{path}versions/"), &crate::support::version_body(&metric)).ok(201);
    let clock = world.clock("2024-01-01");
    world.customer_at("past", &clock);
    subscribe("past", "2024-01-01");
    assert_eq!(count(), json!(2), "one of each version; the second lives in January 2024");
    let statuses = |plan: &Value| {
        plan["versions"].as_array().expect("a list").iter().map(|version| version.id("status")).collect::<Vec<_>>()
    };
    assert_eq!(
        statuses(&world.get(&path).ok(200)),
        ["retiring", "active"],
        "the first goes when its subscription renews"
    );
    world.post(&format!("/api/subscriptions/{first}/cancel/"), &json!({})).ok(200);
    assert_eq!(count(), json!(1));
    assert_eq!(statuses(&world.get(&path).ok(200)), ["inactive", "active"], "nobody holds it any more");
    world.customer("globex");
    let held = subscribe("globex", &now()[..10]);
    let mut third = crate::support::version_body(&metric);
    third["make_active_type"] = json!("grandfather");
    world.post(&format!("{path}versions/"), &third).ok(201);
    let shown = statuses(&world.get(&path).ok(200));
    assert_eq!(shown, ["inactive", "grandfathered", "active"], "who holds the second keeps it");
    world.post(&format!("/api/subscriptions/{held}/cancel/"), &json!({})).ok(200);
}
