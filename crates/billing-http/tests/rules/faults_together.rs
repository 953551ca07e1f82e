//! All faults of a request's form are told at once; then, once the form is right, all that rules and the store have to say.

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

/// A call, its body, the faults that are told, and why.
type Case = (&'static str, String, Value, &'static [(&'static str, &'static str)], &'static str);

/// What calls can be about.
struct Stage {
    world: World,
    metric: String,
    plan: String,
    version: String,
    subscription: String,
    addon: String,
}

impl Stage {
    fn new() -> Self {
        let world = World::new();
        let metric = world.metric();
        let plan = world.plan(&metric);
        world.customer("acme");
        let subscription = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]});
        let subscription = world.post("/api/subscriptions/", &subscription).ok(200).id("subscription_id");
        let addon = json!({"addon_name": "A", "currency_code": "USD", "billing_frequency": "one_time"});
        let addon = world.post("/api/addons/", &addon).ok(201).id("addon_id");
        let version = world.get(&format!("/api/plans/{plan}/")).ok(200)["versions"][0]["version_id"].clone();
        let version = version.as_str().expect("an id").to_owned();
        Self { world, metric, plan, version, subscription, addon }
    }

    /// The address of a call about the subscription.
    fn of(&self, path: &str) -> String {
        format!("/api/subscriptions/{}/{path}/", self.subscription)
    }

    fn check(&self, cases: Vec<Case>) {
        let before = self.world.snapshot();
        for (method, path, body, expected, why) in cases {
            let answer = self.world.write(method, &path, body.to_string().as_bytes());
            let expected: Vec<_> = expected.iter().map(|(attr, code)| (attr.to_string(), code.to_string())).collect();
            assert_eq!((answer.status, answer.faults()), (400, expected), "{method} {path}: {why}");
            let first = answer.json()["validation_errors"][0]["code"].clone();
            assert_eq!(answer.error(), first, "the title is the first field's code");
        }
        assert_eq!(self.world.snapshot(), before, "nothing was written");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn faults_of_form_are_told_together_and_before_those_of_rules() {
    let stage = Stage::new();
    let Stage { metric, plan, version, addon, .. } = &stage;
    let nobodys_plan = format!("plan_{}", "0".repeat(32));
    #[rustfmt::skip]
    let cases: Vec<Case> = vec![
        ("POST", "/api/customers/".into(),
            json!({"email": "nobody", "default_currency_code": "XXX", "tax_rate": "much",
                "billing_address": {"city": "", "country": "XX", "line1": 7, "postal_code": "1"}, "shipping_address": 7, "payment_provider": "nope"}),
            &[("customer_id", "required"), ("payment_provider", "invalid_choice"), ("billing_address.line1", "incorrect_type"),
              ("shipping_address", "incorrect_type"), ("tax_rate", "invalid")],
            "types, deep inside too; of the currency that does not exist nothing is said yet"),
        ("PATCH", "/api/customers/acme/".into(),
            json!({"email": "nobody", "timezone": null, "tax_rate": [], "billing_address": {"city": "B"}}),
            &[("billing_address.country", "required"), ("billing_address.line1", "required"), ("billing_address.postal_code", "required"),
              ("tax_rate", "incorrect_type"), ("timezone", "null")],
            "changes of a customer"),
        ("PATCH", "/api/organization/".into(),
            json!({"organization_name": "", "timezone": 7, "event_window_days": 0, "access_policy": null}),
            &[("timezone", "incorrect_type"), ("access_policy", "null")],
            "settings"),
        ("POST", "/api/plans/".into(),
            json!({"plan_duration": "never", "tags": [""], "initial_version": {"currency_code": "XXX",
                "recurring_charges": [{"name": "", "amount": -1, "charge_timing": "later"}],
                "components": [{"metric_id": metric, "tiers": [{"type": "per_unit", "range_start": 5}]}, {"metric_id": metric, "tiers": 7}]}}),
            &[("plan_name", "required"), ("plan_duration", "invalid_choice"), ("initial_version.components.0.tiers.0.cost_per_batch", "required"),
              ("initial_version.components.1.tiers", "not_a_list"), ("initial_version.recurring_charges.0.charge_timing", "invalid_choice")],
            "a plan with its version, four levels deep"),
        ("POST", "/api/plans/".into(),
            json!({"plan_name": 7, "initial_version": {"currency_code": "USD", "day_anchor": 40,
                "components": [{"metric_id": metric, "tiers": [{"type": "free", "range_start": 5}]}]}}),
            &[("plan_name", "incorrect_type"), ("initial_version.components.0.tiers.0.range_start", "invalid")],
            "tiers that do not fit are a fault of their component's form"),
        ("POST", format!("/api/plans/{plan}/versions/"),
            json!({"components": [{"tiers": []}], "target_customers": ["nobody", 7], "active_from": "soon", "active_to": "2001-01-01"}),
            &[("currency_code", "required"), ("components.0.metric_id", "required"), ("target_customers.1", "incorrect_type"), ("active_from", "invalid")],
            "what hangs on a bad field is not guessed at: the end may well be after the start that was meant"),
        ("PATCH", format!("/api/plans/{plan}/"), json!({"plan_name": null, "tags": 7, "plan_description": "x".repeat(6_000)}),
            &[("plan_name", "null"), ("tags", "not_a_list")], "changes of a plan"),
        ("PATCH", format!("/api/plan_versions/{version}/"), json!({"localized_name": "", "active_to": "later", "transition_to": nobodys_plan}),
            &[("active_to", "invalid")], "changes of a version"),
        ("POST", "/api/addons/".into(),
            json!({"addon_name": "", "currency_code": "XXX", "components": [{"metric_id": "x", "tiers": [{"type": "free", "range_start": 0}]}]}),
            &[("billing_frequency", "required"), ("components.0.metric_id", "invalid")], "an add-on"),
        ("POST", "/api/subscriptions/".into(), json!({}),
            &[("customer_id", "required"), ("start_date", "required"), ("plan_id", "required")], "nothing at all"),
        ("POST", "/api/subscriptions/".into(),
            json!({"customer_id": "nobody", "plan_id": nobodys_plan, "start_date": "soon", "end_date": "2001-01-01", "auto_renew": 1,
                "component_fixed_charges_initial_units": [{"metric_id": metric, "units": -1}, {"metric_id": metric}]}),
            &[("start_date", "invalid"), ("auto_renew", "incorrect_type"), ("component_fixed_charges_initial_units.1.units", "required")],
            "whether the customer exists is asked later"),
        ("POST", "/api/subscriptions/".into(),
            json!({"customer_id": 7, "plan_id": plan, "version_id": version, "start_date": "2024-01-01"}),
            &[("customer_id", "incorrect_type"), ("plan_id", "not_allowed_together")], "one of two, and a bad third"),
        ("POST", stage.of("switch_plan"), json!({"usage_behavior": "lost"}),
            &[("switch_plan_id", "required"), ("usage_behavior", "invalid_choice")], "a switch to nothing"),
        ("POST", stage.of("update"), json!({"end_date": "2001-01-01", "turn_off_auto_renew": "maybe", "metadata": 7}),
            &[("turn_off_auto_renew", "invalid"), ("metadata", "incorrect_type")], "a change of one subscription"),
        ("POST", format!("/api/subscriptions/update/?customer_id=nobody&plan_id={nobodys_plan}&subscription_filters=7"),
            json!({"replace_plan_id": nobodys_plan, "usage_behavior": "lost", "invoicing_behavior": 7}),
            &[("subscription_filters", "invalid"), ("invoicing_behavior", "incorrect_type"), ("usage_behavior", "invalid_choice")],
            "a change of all that match: query and body"),
        ("POST", "/api/subscriptions/update/?plan_id=7".into(), json!({"replace_plan_id": 7}),
            &[("customer_id", "required"), ("plan_id", "invalid"), ("replace_plan_id", "incorrect_type")], "nobody in particular"),
        ("POST", format!("/api/subscriptions/cancel/?customer_id=nobody&plan_id={nobodys_plan}"),
            json!({"flat_fee_behavior": "half", "usage_behavior": "lost", "invoicing_behavior": "soon"}),
            &[("flat_fee_behavior", "invalid_choice"), ("usage_behavior", "invalid_choice"), ("invoicing_behavior", "invalid_choice")],
            "a cancellation of all that match"),
        ("POST", "/api/verify_idems_received/".into(), json!({"idempotency_ids": 7, "customer_id": 7, "number_days_lookback": 0}),
            &[("idempotency_ids", "not_a_list"), ("customer_id", "incorrect_type")], "ids to look for"),
        ("POST", stage.of("addons/attach"), json!({"quantity": 0, "metadata": 7}),
            &[("addon_id", "required"), ("metadata", "incorrect_type")], "an attachment of nothing"),
        ("POST", stage.of("addons/attach"), json!({"quantity": 0, "metadata": 7, "addon_id": addon}),
            &[("metadata", "incorrect_type")], "an attachment"),
        ("POST", stage.of(&format!("components/{metric}/change_prepaid_units")), json!({"units": "x", "invoice_now": "soon"}),
            &[("units", "invalid"), ("invoice_now", "invalid")], "prepaid units"),
        ("POST", "/api/credits/".into(), json!({"customer_id": "nobody", "amount": 0, "expires_at": 7}),
            &[("currency_code", "required"), ("expires_at", "incorrect_type")], "a credit"),
        ("POST", "/api/metrics/".into(), json!({"metric_name": "", "metric_type": "histogram", "granularity": "days", "is_cost_metric": "x"}),
            &[("metric_type", "invalid_choice"), ("is_cost_metric", "invalid")], "a metric"),
        ("POST", "/api/currencies/".into(), json!({"code": "FAR TOO LONG", "symbol": "x", "decimals": -1}),
            &[("name", "required"), ("decimals", "min_value")], "a unit"),
        ("POST", "/api/test_clocks/".into(), json!({"name": ""}), &[("frozen_time", "required")], "a clock"),
    ];
    stage.check(cases);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn faults_of_rules_and_unknown_references_are_told_together() {
    let stage = Stage::new();
    let Stage { metric, plan, version, .. } = &stage;
    let nobodys_plan = format!("plan_{}", "0".repeat(32));
    let tiers = json!([{"type": "free", "range_start": 0}]);
    #[rustfmt::skip]
    let cases: Vec<Case> = vec![
        ("POST", "/api/customers/".into(),
            json!({"customer_id": "c", "email": "nobody", "default_currency_code": "XXX", "timezone": "Mars", "payment_provider_id": "x",
                "billing_address": {"city": "", "country": "XX", "line1": "1", "postal_code": "1"}, "test_clock_id": format!("test_clock_{}", "0".repeat(32))}),
            &[("email", "invalid"), ("timezone", "invalid_choice"), ("payment_provider", "required"), ("billing_address.city", "blank"),
              ("billing_address.country", "invalid_choice"), ("default_currency_code", "does_not_exist"), ("test_clock_id", "does_not_exist")],
            "formats, fields that go together, and references"),
        ("PATCH", "/api/customers/acme/".into(), json!({"email": "nobody", "payment_provider_id": "x", "default_currency_code": "XXX"}),
            &[("email", "invalid"), ("payment_provider", "required"), ("default_currency_code", "does_not_exist")],
            "whether an id of a provider is enough depends on what the customer has already"),
        ("PATCH", "/api/organization/".into(), json!({"organization_name": "", "event_window_days": 0, "default_currency_code": "XXX"}),
            &[("organization_name", "blank"), ("event_window_days", "invalid"), ("default_currency_code", "does_not_exist")], "settings"),
        ("POST", "/api/plans/".into(),
            json!({"plan_name": "", "tags": [""], "initial_version": {"currency_code": "XXX", "features": [format!("feature_{}", "0".repeat(32))],
                "active_to": "2001-01-01", "recurring_charges": [{"name": "", "amount": -1, "charge_timing": "in_advance"}],
                "components": [{"metric_id": metric, "tiers": tiers}, {"metric_id": metric, "tiers": tiers}]}}),
            &[("plan_name", "blank"), ("tags.0", "blank"), ("initial_version.recurring_charges.0.name", "blank"),
              ("initial_version.recurring_charges.0.amount", "min_value"), ("initial_version.currency_code", "does_not_exist"),
              ("initial_version.features.0", "does_not_exist"), ("initial_version.components.1.metric_id", "unique"),
              ("initial_version.active_to", "min_value")],
            "a plan with its version"),
        ("PATCH", format!("/api/plans/{plan}/"), json!({"plan_name": "", "plan_duration": "yearly", "plan_description": "x".repeat(6_000)}),
            &[("plan_name", "blank"), ("plan_description", "max_length"), ("plan_duration", "invalid")],
            "a plan's duration, which never changes, and its texts"),
        ("PATCH", format!("/api/plan_versions/{version}/"),
            json!({"localized_name": "", "active_from": "2030-01-01", "active_to": "2029-01-01", "transition_to": plan, "target_customers": ["nobody"]}),
            &[("localized_name", "blank"), ("target_customers.0", "does_not_exist"), ("transition_to", "invalid"), ("active_to", "min_value")],
            "what only the version itself can tell too"),
        ("POST", "/api/addons/".into(), json!({"addon_name": "", "currency_code": "XXX", "billing_frequency": "one_time"}),
            &[("addon_name", "blank"), ("currency_code", "does_not_exist")], "an add-on"),
        ("POST", "/api/subscriptions/".into(),
            json!({"customer_id": "nobody", "plan_id": nobodys_plan, "start_date": "2024-02-01", "end_date": "2024-01-01",
                "component_fixed_charges_initial_units": [{"metric_id": metric, "units": -1}, {"metric_id": metric, "units": 1}]}),
            &[("customer_id", "does_not_exist"), ("plan_id", "does_not_exist"), ("end_date", "invalid"),
              ("component_fixed_charges_initial_units.0.units", "min_value"), ("component_fixed_charges_initial_units.1.metric_id", "unique")],
            "references, dates and units"),
        ("POST", stage.of("switch_plan"),
            json!({"switch_plan_id": nobodys_plan, "component_fixed_charges_initial_units": [{"metric_id": metric, "units": -1}]}),
            &[("switch_plan_id", "does_not_exist"), ("component_fixed_charges_initial_units.0.units", "min_value")], "a switch"),
        ("POST", stage.of("update"), json!({"end_date": "2001-01-01"}), &[("end_date", "invalid")], "an end that has passed"),
        ("POST", format!("/api/subscriptions/update/?customer_id=nobody&plan_id={nobodys_plan}"), json!({"replace_plan_id": nobodys_plan}),
            &[("customer_id", "does_not_exist"), ("plan_id", "does_not_exist"), ("replace_plan_id", "does_not_exist")],
            "a change of all that match: query and body"),
        ("POST", format!("/api/subscriptions/update/?customer_id=acme&plan_id={plan}"), json!({"end_date": "2001-01-01"}),
            &[("end_date", "invalid")], "an end that has passed, of all that match"),
        ("POST", format!("/api/subscriptions/cancel/?customer_id=nobody&plan_id={nobodys_plan}"), json!({}),
            &[("customer_id", "does_not_exist"), ("plan_id", "does_not_exist")], "a cancellation of all that match"),
        ("POST", "/api/verify_idems_received/".into(), json!({"idempotency_ids": [], "number_days_lookback": 366}),
            &[("idempotency_ids", "empty"), ("number_days_lookback", "max_value")], "no ids, and too far back"),
        ("POST", stage.of("addons/attach"), json!({"quantity": 0, "addon_id": format!("addon_{}", "0".repeat(32))}),
            &[("addon_id", "does_not_exist"), ("quantity", "min_value")], "an attachment"),
        ("POST", stage.of(&format!("components/{metric}/change_prepaid_units")), json!({"units": -1}), &[("units", "min_value")], "prepaid units"),
        ("POST", "/api/credits/".into(),
            json!({"customer_id": "nobody", "amount": 0, "currency_code": "USD", "amount_paid": -1, "amount_paid_currency_code": "XXX"}),
            &[("customer_id", "does_not_exist"), ("amount", "min_value"), ("amount_paid", "min_value"), ("amount_paid_currency_code", "does_not_exist")],
            "a credit"),
        ("POST", "/api/metrics/".into(),
            json!({"metric_name": "", "event_name": "e", "numeric_filters": [{"property_name": "", "operator": "gt", "comparison_value": 1}]}),
            &[("metric_name", "blank"), ("numeric_filters.0.property_name", "blank")], "a metric"),
        ("POST", "/api/metrics/".into(), json!({"aggregation_type": "sum"}),
            &[("property_name", "required"), ("event_name", "required")], "what a metric of its kind needs"),
        ("POST", "/api/api_keys/".into(), json!({"name": "", "expires_at": "2001-01-01"}), &[("name", "blank"), ("expires_at", "invalid")], "a key"),
        ("POST", "/api/currencies/".into(), json!({"code": "FAR TOO LONG", "name": "", "symbol": "x", "decimals": 200}),
            &[("code", "max_length"), ("name", "blank"), ("decimals", "max_value")], "a unit"),
        ("POST", "/api/test_clocks/".into(), json!({"name": "", "frozen_time": "2024-01-01"}), &[("name", "blank")], "a clock"),
        ("POST", "/api/features/".into(), json!({"feature_name": "", "feature_description": "x".repeat(6_000)}),
            &[("feature_name", "blank"), ("feature_description", "max_length")], "a feature"),
    ];
    stage.check(cases);
}
