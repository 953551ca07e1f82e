//! Everything that is wrong with a request is said at once: faults of form, of rules, and of what does not exist.

use serde_json::{Value, json};

use crate::support::{Field, World, now, version_body};

#[test]
fn every_bad_field_is_named_at_once() {
    let world = World::new();
    let metric = world.metric();
    let mut version = version_body(&metric);
    version["currency_code"] = json!(7);
    version["recurring_charges"][0]["charge_timing"] = json!("later");
    version["components"][0]["tiers"][0]["range_end"] = json!(20);
    let components = version["components"].as_array_mut().expect("a list");
    components.push(json!({"metric_id": "x", "tiers": [{"type": "flat", "range_start": 0}]}));
    let body = json!({"plan_name": null, "plan_duration": "never", "initial_version": version});
    let faults = world.post("/api/plans/", &body).faults();
    let expected = [
        ("plan_name", "null"),
        ("plan_duration", "invalid_choice"),
        ("initial_version.currency_code", "incorrect_type"),
        ("initial_version.components.0.tiers.1.range_start", "invalid"),
        ("initial_version.components.1.metric_id", "invalid"),
        ("initial_version.components.1.tiers.0.cost_per_batch", "required"),
        ("initial_version.recurring_charges.0.charge_timing", "invalid_choice"),
    ];
    let expected: Vec<_> = expected.iter().map(|(attr, code)| (attr.to_string(), code.to_string())).collect();
    assert_eq!(faults, expected);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn faults_of_form_and_of_rules_are_named_together() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    world.customer("acme");
    let start = now()[..10].to_owned();
    let subscription = json!({"customer_id": "acme", "plan_id": plan, "start_date": start});
    let subscription = world.post("/api/subscriptions/", &subscription).ok(200).id("subscription_id");
    let addon = json!({"addon_name": "A", "currency_code": "USD", "billing_frequency": "one_time"});
    let addon = world.post("/api/addons/", &addon).ok(201).id("addon_id");
    let version = world.get(&format!("/api/plans/{plan}/")).ok(200)["versions"][0]["version_id"].clone();
    let version = version.as_str().expect("an id").to_owned();
    let before = world.snapshot();
    let nobodys_plan = format!("plan_{}", "0".repeat(32));
    let of = |path: &str| format!("/api/subscriptions/{subscription}/{path}/");
    #[rustfmt::skip]
    let cases: Vec<(&str, String, Value, &[(&str, &str)], &str)> = vec![
        ("POST", "/api/customers/".into(),
            json!({"email": "nobody", "default_currency_code": "XXX", "tax_rate": "much", "timezone": "Mars",
                "billing_address": {"city": "", "country": "XX", "line1": 7, "postal_code": "1"}, "shipping_address": 7,
                "payment_provider": "nope", "payment_provider_id": "x", "test_clock_id": format!("test_clock_{}", "0".repeat(32))}),
            &[("customer_id", "required"), ("payment_provider", "invalid_choice"), ("billing_address.line1", "incorrect_type"),
              ("shipping_address", "incorrect_type"), ("tax_rate", "invalid"), ("email", "invalid"), ("timezone", "invalid_choice"),
              ("billing_address.city", "blank"), ("billing_address.country", "invalid_choice"),
              ("default_currency_code", "does_not_exist"), ("test_clock_id", "does_not_exist")],
            "types, formats and references"),
        ("POST", "/api/customers/".into(),
            json!({"customer_id": "c", "email": 7, "payment_provider_id": "x"}),
            &[("email", "incorrect_type"), ("payment_provider", "required")],
            "a rule about two fields while a third is bad"),
        ("PATCH", "/api/customers/acme/".into(),
            json!({"email": "nobody", "timezone": null, "tax_rate": [], "default_currency_code": "XXX", "billing_address": {"city": "B"}}),
            &[("billing_address.country", "required"), ("billing_address.line1", "required"), ("billing_address.postal_code", "required"),
              ("tax_rate", "incorrect_type"), ("timezone", "null"), ("email", "invalid"), ("default_currency_code", "does_not_exist")],
            "changes of a customer"),
        ("PATCH", "/api/organization/".into(),
            json!({"organization_name": "", "timezone": 7, "event_window_days": 0, "access_policy": null, "default_currency_code": "XXX"}),
            &[("timezone", "incorrect_type"), ("access_policy", "null"), ("organization_name", "blank"), ("event_window_days", "invalid"),
              ("default_currency_code", "does_not_exist")],
            "settings"),
        ("POST", "/api/plans/".into(),
            json!({"plan_duration": "never", "tags": [""], "initial_version": {"currency_code": "XXX", "day_anchor": 40,
                "features": [format!("feature_{}", "0".repeat(32))], "active_to": "2001-01-01",
                "recurring_charges": [{"name": "", "amount": -1, "charge_timing": "later"}],
                "components": [{"metric_id": metric, "tiers": [{"type": "per_unit", "range_start": 5}]}, {"metric_id": metric, "tiers": 7}]}}),
            &[("plan_name", "required"), ("plan_duration", "invalid_choice"),
              ("initial_version.components.0.tiers.0.cost_per_batch", "required"), ("initial_version.components.0.tiers.0.range_start", "invalid"),
              ("initial_version.components.1.tiers", "not_a_list"), ("initial_version.recurring_charges.0.charge_timing", "invalid_choice"),
              ("initial_version.day_anchor", "invalid"), ("tags.0", "blank"), ("initial_version.recurring_charges.0.name", "blank"),
              ("initial_version.recurring_charges.0.amount", "min_value"), ("initial_version.currency_code", "does_not_exist"),
              ("initial_version.features.0", "does_not_exist"), ("initial_version.components.1.metric_id", "unique"),
              ("initial_version.active_to", "min_value")],
            "a plan with its version, four levels deep"),
        ("POST", format!("/api/plans/{plan}/versions/"),
            json!({"components": [{"tiers": []}], "target_customers": ["nobody", 7], "active_from": "soon", "active_to": "2001-01-01"}),
            &[("currency_code", "required"), ("components.0.metric_id", "required"), ("components.0.tiers", "empty"),
              ("target_customers.1", "incorrect_type"), ("active_from", "invalid"), ("target_customers.0", "does_not_exist")],
            "what hangs on a bad field is not guessed at: the end may well be after the start that was meant"),
        ("PATCH", format!("/api/plans/{plan}/"),
            json!({"plan_name": "", "tags": 7, "plan_description": "x".repeat(6_000)}),
            &[("tags", "not_a_list"), ("plan_name", "blank"), ("plan_description", "max_length")],
            "changes of a plan"),
        ("PATCH", format!("/api/plans/{plan}/"),
            json!({"plan_name": "", "plan_duration": "yearly"}),
            &[("plan_name", "blank"), ("plan_duration", "invalid")],
            "its duration, which never changes, and its name"),
        ("PATCH", format!("/api/plan_versions/{version}/"),
            json!({"localized_name": "", "active_to": "later", "transition_to": nobodys_plan, "target_customers": ["nobody"]}),
            &[("active_to", "invalid"), ("localized_name", "blank"), ("transition_to", "does_not_exist"), ("target_customers.0", "does_not_exist")],
            "changes of a version"),
        ("PATCH", format!("/api/plan_versions/{version}/"),
            json!({"active_from": "2030-01-01", "active_to": "2029-01-01", "transition_to": plan}),
            &[("transition_to", "invalid"), ("active_to", "min_value")],
            "what only the version itself can tell"),
        ("POST", "/api/addons/".into(),
            json!({"addon_name": "", "currency_code": "XXX", "components": [{"metric_id": "x", "tiers": [{"type": "free", "range_start": 0}]}]}),
            &[("billing_frequency", "required"), ("components.0.metric_id", "invalid"), ("addon_name", "blank"), ("currency_code", "does_not_exist")],
            "an add-on"),
        ("POST", "/api/subscriptions/".into(),
            json!({}),
            &[("customer_id", "required"), ("start_date", "required"), ("plan_id", "required")],
            "nothing at all"),
        ("POST", "/api/subscriptions/".into(),
            json!({"customer_id": "nobody", "plan_id": nobodys_plan, "start_date": "soon", "end_date": "2001-01-01", "auto_renew": 1,
                "component_fixed_charges_initial_units": [{"metric_id": metric, "units": -1}, {"metric_id": metric}]}),
            &[("start_date", "invalid"), ("auto_renew", "incorrect_type"), ("component_fixed_charges_initial_units.1.units", "required"),
              ("customer_id", "does_not_exist"), ("plan_id", "does_not_exist"), ("end_date", "invalid"),
              ("component_fixed_charges_initial_units.0.units", "min_value"), ("component_fixed_charges_initial_units.1.metric_id", "unique")],
            "form, references, dates and units"),
        ("POST", "/api/subscriptions/".into(),
            json!({"customer_id": "nobody", "plan_id": nobodys_plan, "start_date": "2024-02-01", "end_date": "2024-01-01"}),
            &[("customer_id", "does_not_exist"), ("plan_id", "does_not_exist"), ("end_date", "invalid")],
            "nothing wrong with its form"),
        ("POST", of("switch_plan"),
            json!({"switch_plan_id": nobodys_plan, "usage_behavior": "lost", "component_fixed_charges_initial_units": [{"metric_id": metric, "units": -1}]}),
            &[("usage_behavior", "invalid_choice"), ("switch_plan_id", "does_not_exist"), ("component_fixed_charges_initial_units.0.units", "min_value")],
            "a switch"),
        ("POST", of("update"),
            json!({"end_date": "2001-01-01", "turn_off_auto_renew": "maybe", "metadata": 7}),
            &[("turn_off_auto_renew", "invalid"), ("metadata", "incorrect_type"), ("end_date", "invalid")],
            "a change of one subscription, and an end that has passed"),
        ("POST", of("update"),
            json!({"end_date": "soon", "metadata": 7}),
            &[("end_date", "invalid"), ("metadata", "incorrect_type")],
            "of an end that is no date nothing more is said"),
        ("POST", format!("/api/subscriptions/update/?customer_id=nobody&plan_id={nobodys_plan}&subscription_filters=7"),
            json!({"replace_plan_id": nobodys_plan, "usage_behavior": "lost", "invoicing_behavior": 7}),
            &[("subscription_filters", "invalid"), ("invoicing_behavior", "incorrect_type"), ("usage_behavior", "invalid_choice"),
              ("customer_id", "does_not_exist"), ("plan_id", "does_not_exist"), ("replace_plan_id", "does_not_exist")],
            "a change of all that match: query, body and what neither finds"),
        ("POST", "/api/subscriptions/update/?plan_id=7".into(),
            json!({"replace_plan_id": nobodys_plan}),
            &[("customer_id", "required"), ("plan_id", "invalid"), ("replace_plan_id", "does_not_exist")],
            "nobody in particular"),
        ("POST", format!("/api/subscriptions/update/?customer_id=acme&plan_id={plan}"),
            json!({"end_date": "2001-01-01", "turn_off_auto_renew": 7}),
            &[("turn_off_auto_renew", "incorrect_type"), ("end_date", "invalid")],
            "an end that has passed, of all that match"),
        ("POST", format!("/api/subscriptions/cancel/?customer_id=nobody&plan_id={nobodys_plan}"),
            json!({"flat_fee_behavior": "half", "usage_behavior": "lost", "invoicing_behavior": "soon"}),
            &[("flat_fee_behavior", "invalid_choice"), ("usage_behavior", "invalid_choice"), ("invoicing_behavior", "invalid_choice"),
              ("customer_id", "does_not_exist"), ("plan_id", "does_not_exist")],
            "a cancellation of all that match"),
        ("POST", "/api/verify_idems_received/".into(),
            json!({"idempotency_ids": [], "customer_id": 7, "number_days_lookback": 0}),
            &[("customer_id", "incorrect_type"), ("idempotency_ids", "empty"), ("number_days_lookback", "min_value")],
            "ids to look for"),
        ("POST", "/api/verify_idems_received/".into(),
            json!({"number_days_lookback": 366}),
            &[("idempotency_ids", "required"), ("number_days_lookback", "max_value")],
            "no ids, and too far back"),
        ("POST", of("addons/attach"),
            json!({"quantity": 0, "metadata": 7}),
            &[("metadata", "incorrect_type"), ("addon_id", "required")],
            "an attachment of nothing"),
        ("POST", of("addons/attach"),
            json!({"quantity": 0, "metadata": 7, "addon_id": addon}),
            &[("metadata", "incorrect_type"), ("quantity", "min_value")],
            "an attachment"),
        ("POST", of("addons/attach"),
            json!({"quantity": 0, "addon_id": format!("addon_{}", "0".repeat(32))}),
            &[("addon_id", "does_not_exist"), ("quantity", "min_value")],
            "nothing wrong with its form either"),
        ("POST", of(&format!("components/{metric}/change_prepaid_units")),
            json!({"units": -1, "invoice_now": "soon"}),
            &[("invoice_now", "invalid"), ("units", "min_value")],
            "prepaid units"),
        ("POST", "/api/credits/".into(),
            json!({"customer_id": "nobody", "amount": 0, "expires_at": 7, "amount_paid": -1, "amount_paid_currency_code": "XXX"}),
            &[("currency_code", "required"), ("expires_at", "incorrect_type"), ("customer_id", "does_not_exist"), ("amount", "min_value"),
              ("amount_paid", "min_value"), ("amount_paid_currency_code", "does_not_exist")],
            "a credit"),
        ("POST", "/api/metrics/".into(),
            json!({"metric_name": "", "metric_type": "histogram", "granularity": "days", "numeric_filters": [{"property_name": "", "operator": "gt", "comparison_value": 1}]}),
            &[("metric_type", "invalid_choice"), ("metric_name", "blank"), ("numeric_filters.0.property_name", "blank")],
            "whether a granularity belongs to it cannot be told"),
        ("POST", "/api/metrics/".into(),
            json!({"is_cost_metric": "x", "aggregation_type": "sum"}),
            &[("is_cost_metric", "invalid"), ("property_name", "required"), ("event_name", "required")],
            "a metric"),
        ("POST", "/api/api_keys/".into(),
            json!({"expires_at": "2001-01-01"}),
            &[("name", "required"), ("expires_at", "invalid")],
            "a key"),
        ("POST", "/api/currencies/".into(),
            json!({"code": "FAR TOO LONG", "symbol": "x", "decimals": -1}),
            &[("name", "required"), ("decimals", "min_value"), ("code", "max_length")],
            "a unit"),
        ("POST", "/api/test_clocks/".into(),
            json!({"name": ""}),
            &[("frozen_time", "required"), ("name", "blank")],
            "a clock"),
        ("POST", "/api/features/".into(),
            json!({"feature_description": "x".repeat(6_000)}),
            &[("feature_name", "required"), ("feature_description", "max_length")],
            "a feature"),
    ];
    for (method, path, body, expected, why) in cases {
        let answer = world.write(method, &path, body.to_string().as_bytes());
        let expected: Vec<_> = expected.iter().map(|(attr, code)| (attr.to_string(), code.to_string())).collect();
        assert_eq!((answer.status, answer.faults()), (400, expected), "{method} {path}: {why}");
        let first = answer.json()["validation_errors"][0]["code"].clone();
        assert_eq!(answer.error(), first, "the title is the first field's code");
    }
    assert_eq!(world.snapshot(), before, "nothing was written");
}
