//! Tiers that do not fit together are refused, every fault at its field; those that do come back as they were sent.

use serde_json::{Value, json};

use crate::support::World;

/// A tier of `kind` from `start` to `end`, at 1 for each unit where it has a price.
fn tier(kind: &str, start: Value, end: Value) -> Value {
    let price = if kind == "free" { Value::Null } else { json!(1) };
    let (units, rounding) = if kind == "per_unit" { (json!(1), json!("no_rounding")) } else { Default::default() };
    json!({"type": kind, "range_start": start, "range_end": end, "cost_per_batch": price,
        "metric_units_per_batch": units, "batch_rounding_type": rounding})
}

fn free(start: impl Into<Value>, end: impl Into<Value>) -> Value {
    tier("free", start.into(), end.into())
}

fn flat(start: impl Into<Value>, end: impl Into<Value>) -> Value {
    tier("flat", start.into(), end.into())
}

fn unit(start: impl Into<Value>, end: impl Into<Value>) -> Value {
    tier("per_unit", start.into(), end.into())
}

/// A tier with one field set to something else.
fn with(mut tier: Value, name: &str, value: impl Into<Value>) -> Value {
    tier[name] = value.into();
    tier
}

fn version(metric: &str, tiers: &Value) -> Value {
    json!({"currency_code": "USD", "components": [{"metric_id": metric, "tiers": tiers}]})
}

const OPEN: Value = Value::Null;

#[test]
fn bad_schedules_are_refused_at_their_fields() {
    let world = World::new();
    let metric = world.metric();
    let before = world.snapshot();
    let many: Vec<Value> = (0..101).map(|start| free(start, start + 1)).collect();
    #[rustfmt::skip]
    let cases: Vec<(Value, &[(&str, &str)], &str)> = vec![
        (json!([]),                                         &[("", "empty")],                          "no tier"),
        (json!(7),                                          &[("", "not_a_list")],                     "no list"),
        (json!(many),                                       &[("", "list_too_long")],                  "too many"),
        (json!([null]),                                     &[(".0", "null")],                         "null for a tier"),
        (json!(["free"]),                                   &[(".0", "incorrect_type")],               "a word for a tier"),
        (json!([{}]),                                       &[(".0.type", "required"), (".0.range_start", "required")], "an empty one"),
        (json!([free(0, 0), unit(0, OPEN)]),                &[(".0.range_end", "invalid")],            "nothing is free"),
        (json!([free(0, 0)]),                               &[(".0.range_end", "invalid")],            "and nothing else"),
        (json!([unit(0, 0), free(1, OPEN)]),                &[(".0.range_end", "invalid")],            "no unit has the price"),
        (json!([free(0, 5), unit(5, 5), unit(5, OPEN)]),    &[(".1.range_end", "invalid")],            "one without units between two"),
        (json!([free(0, 5), unit(6, 5)]),                   &[(".1.range_end", "invalid")],            "ends where the one before does"),
        (json!([free(0, -1)]),                              &[(".0.range_end", "invalid")],            "ends before it starts"),
        (json!([free(0, 10), unit(10, 4)]),                 &[(".1.range_end", "invalid")],            "the second does"),
        (json!([free(-1, OPEN)]),                           &[(".0.range_start", "invalid")],          "starts below zero"),
        (json!([free(1, OPEN)]),                            &[(".0.range_start", "invalid")],          "starts behind zero"),
        (json!([free(0, 5), unit(7, OPEN)]),                &[(".1.range_start", "invalid")],          "a gap"),
        (json!([free(0, 5), unit(5.5, OPEN)]),              &[(".1.range_start", "invalid")],          "a gap of half a unit"),
        (json!([free(0, 5), unit(4, OPEN)]),                &[(".1.range_start", "invalid")],          "an overlap"),
        (json!([free(0, 5), unit(0, OPEN)]),                &[(".1.range_start", "invalid")],          "both from zero"),
        (json!([unit(5, OPEN), free(0, 5)]),                &[(".0.range_start", "invalid"), (".0.range_end", "invalid")], "the wrong way round"),
        (json!([free(0, OPEN), unit(5, OPEN)]),             &[(".0.range_end", "invalid")],            "two without an end"),
        (json!([with(free(0, 5), "range_start", OPEN)]),    &[(".0.range_start", "null")],             "no start"),
        (json!([with(free(0, 5), "range_end", true)]),      &[(".0.range_end", "incorrect_type")],     "no number"),
        (json!([with(free(0, 5), "range_end", "inf")]),     &[(".0.range_end", "invalid")],            "no finite number"),
        (json!([with(unit(0, 5), "type", OPEN)]),           &[(".0.type", "null")],                    "no type"),
        (json!([with(unit(0, 5), "type", "volume")]),       &[(".0.type", "invalid_choice")],          "no known type"),
        (json!([with(unit(0, 5), "cost_per_batch", OPEN)]), &[(".0.cost_per_batch", "required")],      "a price by the unit without price"),
        (json!([with(flat(0, 5), "cost_per_batch", OPEN)]), &[(".0.cost_per_batch", "required")],      "a flat price without price"),
        (json!([with(flat(0, 5), "cost_per_batch", -1)]),   &[(".0.cost_per_batch", "min_value")],     "pays the customer"),
        (json!([with(unit(0, 5), "metric_units_per_batch", 0)]),  &[(".0.metric_units_per_batch", "min_value")], "an empty batch"),
        (json!([with(unit(0, 5), "metric_units_per_batch", -2)]), &[(".0.metric_units_per_batch", "min_value")], "less than that"),
        (json!([with(unit(0, 5), "batch_rounding_type", "up")]),  &[(".0.batch_rounding_type", "invalid_choice")], "no known rounding"),
        (json!([free(1, 5), with(flat(9, 8), "cost_per_batch", -1)]),
            &[(".0.range_start", "invalid"), (".1.range_start", "invalid"), (".1.range_end", "invalid"), (".1.cost_per_batch", "min_value")],
            "everything at once"),
    ];
    for (tiers, expected, why) in cases {
        let body = json!({"plan_name": "P", "initial_version": version(&metric, &tiers)});
        let expected: Vec<_> = expected
            .iter()
            .map(|(attr, code)| (format!("initial_version.components.0.tiers{attr}"), code.to_string()))
            .collect();
        assert_eq!(world.post("/api/plans/", &body).faults(), expected, "{why}: {tiers}");
    }
    assert_eq!(world.snapshot(), before, "nothing was written");
}

#[test]
fn schedules_that_fit_come_back_as_they_were_sent() {
    let world = World::new();
    let metric = world.metric();
    #[rustfmt::skip]
    let cases = [
        (json!([free(0, OPEN)]),                                      "everything is free"),
        (json!([unit(0, 10)]),                                        "up to a limit"),
        (json!([free(0, 5), unit(5, 10.5), flat(10.5, OPEN)]),        "they touch"),
        (json!([free(0, 3), unit(4, 4), unit(5, OPEN)]),              "in whole units: the fourth has a price of its own"),
        (json!([flat(0, 0), unit(0, OPEN)]),                          "a price for having it at all, and one for each unit"),
        (json!([free(0, 5), unit(6, OPEN)]),                          "in whole units"),
    ];
    for (tiers, why) in cases {
        let body = json!({"plan_name": "P", "initial_version": version(&metric, &tiers)});
        let made = world.post("/api/plans/", &body).ok(201);
        let shown = &made["versions"][0]["components"][0]["tiers"];
        assert_eq!(*shown, tiers, "{why}");
        assert_eq!(world.get(&format!("/api/plans/{}/", made["plan_id"].as_str().expect("an id"))).ok(200), made);
    }
}
