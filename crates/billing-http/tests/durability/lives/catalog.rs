//! What random customers can subscribe to: metrics of many kinds, plans of every duration, add-ons.

use serde_json::{Value, json};

use super::{Dice, Stage};
use crate::support::Field;

/// Metrics that plans choose from: what is counted, and how.
const METRICS: &[&str] = &[
    r#"{"event_name": "call"}"#,
    r#"{"event_name": "call", "aggregation_type": "sum", "property_name": "n"}"#,
    r#"{"event_name": "call", "aggregation_type": "unique", "property_name": "user"}"#,
    r#"{"event_name": "call", "aggregation_type": "max", "property_name": "n"}"#,
    r#"{"event_name": "call", "aggregation_type": "latest", "property_name": "n"}"#,
    r#"{"event_name": "call", "aggregation_type": "average", "property_name": "n"}"#,
    r#"{"event_name": "call", "numeric_filters": [{"property_name": "n", "operator": "gt", "comparison_value": 4}]}"#,
    r#"{"event_name": "level", "metric_type": "gauge", "event_type": "delta", "granularity": "total", "proration": "total", "property_name": "n"}"#,
    r#"{"event_name": "level", "metric_type": "gauge", "event_type": "total", "granularity": "months", "proration": "days", "property_name": "n"}"#,
    r#"{"event_name": "call", "metric_type": "rate", "aggregation_type": "count", "granularity": "days"}"#,
];

/// What there is to subscribe to and to attach.
pub struct Catalog {
    /// The metric that is prepaid in every plan.
    pub seats: String,
    pub plans: Vec<String>,
    pub addons: Vec<String>,
}

impl Catalog {
    /// The same for the same dice, wherever it is made.
    pub fn new(dice: &mut Dice, stage: &Stage) -> Self {
        let make = |path: &str, body: &Value, id: &str| stage.post(path, body).ok(201).id(id);
        let metrics = METRICS.iter().enumerate().map(|(n, text)| {
            let mut body: Value = serde_json::from_str(text).expect("a metric");
            body["metric_name"] = json!(format!("metric {n}"));
            make("/api/metrics/", &body, "metric_id")
        });
        let metrics: Vec<_> = metrics.collect();
        let seats = make("/api/metrics/", &json!({"event_name": "seat"}), "metric_id");
        let extra = make("/api/metrics/", &json!({"event_name": "extra"}), "metric_id");
        let plans = (0..3).map(|n| {
            let duration = ["monthly", "monthly", "quarterly", "yearly"][dice.roll(4) as usize];
            let body = json!({"plan_name": format!("Plan {n}"), "plan_duration": duration,
                "initial_version": version(dice, &metrics, &seats)});
            make("/api/plans/", &body, "plan_id")
        });
        let plans = plans.collect();
        let addons = ["recurring", "recurring", "one_time"].iter().enumerate().map(|(n, frequency)| {
            let mut body = json!({"addon_name": format!("Add-on {n}"), "currency_code": "USD", "billing_frequency": frequency,
                "invoice_when": dice.pick(&["invoice_on_attach", "invoice_on_subscription_end"]),
                "recurring_charges": [fee(dice)]});
            if n == 0 {
                body["components"] = json!([metered(dice, &extra)]);
            }
            make("/api/addons/", &body, "addon_id")
        });
        let addons = addons.collect();
        Self { seats, plans, addons }
    }
}

fn fee(dice: &mut Dice) -> Value {
    let mut fee = json!({"name": "base", "amount": format!("{}.99", dice.roll(90)),
        "charge_timing": dice.pick(&["in_advance", "in_arrears"]), "charge_behavior": dice.pick(&["prorate", "full"])});
    set_intervals(dice, &mut fee);
    fee
}

/// Perhaps intervals of its own, not shorter than a week.
fn set_intervals(dice: &mut Dice, charge: &mut Value) {
    for name in ["reset_interval", "invoicing_interval"] {
        if dice.roll(3) == 0 {
            charge[format!("{name}_unit")] = json!(dice.pick(&["week", "month"]));
            charge[format!("{name}_count")] = json!(dice.roll(2) + 1);
        }
    }
}

fn metered(dice: &mut Dice, metric: &str) -> Value {
    let free = dice.roll(5) + 1;
    let price = format!("0.{}", dice.roll(900) + 37);
    let rounding = dice.pick(&["round_up", "round_down", "round_nearest", "no_rounding"]);
    let mut component = json!({"metric_id": metric, "tiers": [
        {"type": "free", "range_start": 0, "range_end": free},
        {"type": "per_unit", "range_start": free, "range_end": free + 20, "cost_per_batch": price,
            "metric_units_per_batch": dice.roll(3) + 1, "batch_rounding_type": rounding},
        {"type": "flat", "range_start": free + 20, "cost_per_batch": "7.5"}]});
    set_intervals(dice, &mut component);
    component
}

/// A random version: fees, one to three metered components of random metrics, and prepaid seats; perhaps aligned to the end of
/// the month, and adjusted.
fn version(dice: &mut Dice, metrics: &[String], seats: &str) -> Value {
    let mut chosen: Vec<&String> = Vec::new();
    for _ in 0..dice.roll(3) + 1 {
        let metric = &metrics[dice.roll(metrics.len() as u64) as usize];
        if !chosen.contains(&metric) {
            chosen.push(metric);
        }
    }
    let mut components: Vec<_> = chosen.into_iter().map(|metric| metered(dice, metric)).collect();
    components.push(json!({"metric_id": seats,
        "prepaid_charge": {"charge_behavior": dice.pick(&["prorate", "full"]), "units": dice.roll(5) + 1},
        "tiers": [{"type": "per_unit", "range_start": 0, "cost_per_batch": "1.25", "metric_units_per_batch": 1}]}));
    let mut version = json!({"currency_code": "USD", "recurring_charges": [fee(dice)], "components": components});
    if dice.roll(3) == 0 {
        version["day_anchor"] = json!(dice.roll(4) + 28);
    }
    if dice.roll(2) == 0 {
        let kind = dice.pick(&["percentage", "fixed", "price_override"]);
        let amount = dice.roll(9) as i64;
        let amount = match (kind, dice.roll(3)) {
            ("price_override", _) => amount * 10,
            (_, 0) => amount,
            _ => -amount,
        };
        version["price_adjustment"] = json!({"price_adjustment_name": "deal", "price_adjustment_type": kind,
            "price_adjustment_amount": amount});
    }
    version
}
