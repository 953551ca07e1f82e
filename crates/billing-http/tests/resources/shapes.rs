//! The objects that clients read, field by field.

use serde_json::{Value, json};

use crate::support::{Field, World, event, version_body};

/// `actual` with what differs from run to run replaced by `expected`'s placeholders: `<metric_>` stands for any text
/// that begins so, `<time>` for an instant.
fn matches(actual: &Value, expected: &Value, path: &str) {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            let names = |fields: &serde_json::Map<String, Value>| fields.keys().cloned().collect::<Vec<_>>();
            let (mut found, mut wanted) = (names(actual), names(expected));
            found.sort();
            wanted.sort();
            assert_eq!(found, wanted, "fields of {path}");
            for (name, value) in expected {
                matches(&actual[name], value, &format!("{path}.{name}"));
            }
        }
        (Value::Array(actual), Value::Array(expected)) => {
            assert_eq!(actual.len(), expected.len(), "length of {path}");
            for (i, value) in expected.iter().enumerate() {
                matches(&actual[i], value, &format!("{path}.{i}"));
            }
        }
        (Value::String(actual), Value::String(expected)) if expected == "<time>" => {
            assert!(actual.len() >= 20 && actual.ends_with('Z') && actual.contains('T'), "{path}: {actual}");
        }
        (Value::String(actual), Value::String(expected)) if expected.starts_with('<') => {
            assert!(actual.starts_with(expected.trim_matches(['<', '>'])), "{path}: {actual}");
        }
        _ => assert_eq!(actual, expected, "{path}"),
    }
}

fn currency() -> Value {
    json!({"code": "USD", "name": "US Dollar", "symbol": "$"})
}

fn metric_object() -> Value {
    json!({"metric_id": "<metric_>", "metric_name": "count of api_call", "event_name": "api_call", "metric_type": "counter",
        "aggregation_type": "count", "usage_aggregation_type": "count", "billable_aggregation_type": "sum", "property_name": null, "event_type": null, "granularity": null, "proration": null,
        "custom_sql": null, "is_cost_metric": false, "categorical_filters": [], "numeric_filters": []})
}

fn version_object() -> Value {
    json!({
        "version_id": "<plan_version_>", "version": 1, "plan_name": "First", "localized_name": "First",
        "description": "A plan", "status": "active", "active_subscriptions": 0, "replace_with": null, "transition_to": null, "currency": currency(),
        "components": [{
            "billable_metric": metric_object(),
            "tiers": [
                {"type": "free", "range_start": 0, "range_end": 10, "cost_per_batch": null, "metric_units_per_batch": null, "batch_rounding_type": null},
                {"type": "per_unit", "range_start": 10, "range_end": 1000, "cost_per_batch": 0.01, "metric_units_per_batch": 1, "batch_rounding_type": "no_rounding"},
            ],
            "pricing_unit": currency(), "invoicing_interval_unit": "week", "invoicing_interval_count": 1,
            "reset_interval_unit": null, "reset_interval_count": null,
            "prepaid_charge": {"units": 5, "charge_behavior": "full"}, "bulk_pricing_enabled": false,
        }],
        "recurring_charges": [{"name": "base", "amount": 9, "charge_timing": "in_advance", "charge_behavior": "prorate",
            "pricing_unit": currency(), "invoicing_interval_unit": null, "invoicing_interval_count": null,
            "reset_interval_unit": null, "reset_interval_count": null}],
        "features": [{"feature_id": "<feature_>", "feature_name": "sso", "feature_description": null}],
        "price_adjustment": {"price_adjustment_name": "Launch", "price_adjustment_description": null,
            "price_adjustment_type": "percentage", "price_adjustment_amount": -10},
        "target_customers": [], "active_from": "<time>", "active_to": null, "created_on": "<time>",
        "usage_billing_frequency": null, "flat_fee_billing_type": "in_advance", "flat_rate": 9,
    })
}

#[test]
fn catalogue_objects() {
    let world = World::new();
    let metric = world.post("/api/metrics/", &json!({"event_name": "api_call"})).ok(201);
    matches(&metric, &metric_object(), "metric");
    let feature = world.post("/api/features/", &json!({"feature_name": "sso"})).ok(201);
    let mut version = version_body(&metric.id("metric_id"));
    version["localized_name"] = json!("First");
    version["features"] = json!([feature.id("feature_id")]);
    version["price_adjustment"] = json!({"price_adjustment_name": "Launch", "price_adjustment_type": "percentage",
        "price_adjustment_amount": "-10.00"});
    version["components"][0]["invoicing_interval_unit"] = json!("week");
    version["components"][0]["prepaid_charge"] = json!({"units": "5", "charge_behavior": "full"});
    let body = json!({"plan_name": "Starter", "plan_description": "A plan", "plan_duration": "monthly", "tags": ["paid"],
        "external_links": [{"source": "stripe", "external_plan_id": "price_1"}], "initial_version": version});
    let plan = world.post("/api/plans/", &body).ok(201);
    let expected = json!({
        "plan_id": "<plan_>", "plan_name": "Starter", "plan_description": "A plan", "plan_duration": "monthly", "tags": ["paid"],
        "external_links": [{"source": "stripe", "external_plan_id": "price_1"}], "num_versions": 1, "active_version": 1,
        "active_subscriptions": 0, "versions": [version_object()], "display_version": version_object(),
        "parent_plan": null, "target_customer": null, "status": "active",
    });
    matches(&plan, &expected, "plan");
    assert_eq!(world.get(&format!("/api/plans/{}/", plan.id("plan_id"))).ok(200), plan);
    assert_eq!(world.get("/api/plans/").ok(200), json!([plan]));
}

fn customer_object() -> Value {
    let address = json!({"city": "Bern", "country": "CH", "line1": "Gasse 1", "line2": null, "postal_code": "3000", "state": null});
    json!({
        "customer_id": "acme", "email": "a@acme.io", "customer_name": "Acme", "invoices": [], "total_amount_due": 0, "total_amounts_due": [],
        "subscriptions": [], "integrations": {"stripe": {"stripe_id": "cus_1", "has_payment_method": false}, "braintree": null},
        "default_currency": currency(), "payment_provider": "stripe", "payment_provider_id": "cus_1",
        "has_payment_method": false, "address": address, "billing_address": address, "shipping_address": null,
        "tax_rate": 7.7, "timezone": "Europe/Zurich", "tax_failure": null, "tax_providers": [], "test_clock_id": "<test_clock_>", "catching_up": false,
    })
}

fn invoice_line(metric_plan: &Value) -> Value {
    json!({"line_id": "<line_>", "name": "Starter Flat Fee", "charge_name": "base", "start_date": "2024-01-01T00:00:00Z", "end_date": "2024-01-31T23:59:59.999999Z",
        "quantity": null, "billing_type": "in_advance", "metadata": {}, "plan": metric_plan, "subscription_filters": [],
        "base": 9, "adjustments": [{"amount": "0.69", "account": "41100", "adjustment_type": "sales_tax"}],
        "amount": 9.69, "subtotal": 9})
}

#[test]
fn customers_subscriptions_and_invoices() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-01-01");
    let address = json!({"city": "Bern", "country": "CH", "line1": "Gasse 1", "line2": "", "postal_code": "3000"});
    let body = json!({"customer_id": "acme", "email": "a@acme.io", "customer_name": "Acme", "payment_provider": "stripe",
        "payment_provider_id": "cus_1", "address": address, "tax_rate": "7.70", "timezone": "Europe/Zurich",
        "test_clock_id": clock, "properties": {"crm": 42}});
    let customer = world.post("/api/customers/", &body).ok(201);
    matches(&customer, &customer_object(), "customer");

    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-01", "metadata": {"n": 1.50, "list": [1]}});
    let subscription = world.post("/api/subscriptions/", &body).ok(200);
    let brief = json!({"customer_name": "Acme", "email": "a@acme.io", "customer_id": "acme"});
    let billing_plan = json!({"plan_name": "Starter", "plan_id": plan, "version_id": "<plan_version_>", "version": 1});
    let expected = json!({
        "subscription_id": "<sub_>", "start_date": "2024-01-01T00:00:00Z", "end_date": "2024-01-31T23:59:59.999999Z",
        "auto_renew": true, "is_new": true, "subscription_filters": [], "customer": brief, "billing_plan": billing_plan,
        "fully_billed": false, "addons": [], "metadata": {"n": 1.50, "list": [1]},
    });
    matches(&subscription, &expected, "subscription");
    let path = format!("/api/subscriptions/{}/", subscription.id("subscription_id"));
    assert_eq!(world.get(&path).ok(200), subscription);
    assert_eq!(world.get("/api/subscriptions/?customer_id=acme").ok(200), json!([subscription]));

    let invoice = world.get("/api/invoices/").ok(200)[0].clone();
    let address = json!({"city": "Bern", "country": "CH", "line1": "Gasse 1", "line2": null, "postal_code": "3000", "state": null});
    let expected = json!({
        "invoice_id": "<invoice_>", "invoice_number": "240101-000001", "cost_due": 9.69, "amount": 9.69, "amount_due": 9.69, "currency": currency(),
        "issue_date": "2024-01-01T00:00:00Z", "replaces": null, "replaced_by": null, "payment_status": "unpaid", "external_payment_obj_id": null,
        "external_payment_obj_type": null, "external_payment_obj_status": null, "line_items": [invoice_line(&billing_plan)],
        "credit_notes": [],
        "customer": {"customer_name": "Acme", "email": "a@acme.io", "customer_id": "acme", "address": address},
        "due_date": null, "start_date": "2024-01-01", "end_date": "2024-01-31",
        "seller": {"name": "Acme", "address": null, "phone": null, "email": null}, "invoice_pdf": null,
    });
    matches(&invoice, &expected, "invoice");
    for name in ["invoice_id", "invoice_number"] {
        assert_eq!(world.get(&format!("/api/invoices/{}/", invoice.id(name))).ok(200), invoice);
    }

    let customer = world.get("/api/customers/acme/").ok(200);
    let mut brief_invoice = expected;
    brief_invoice.as_object_mut().expect("an object").retain(|name, _| {
        !["line_items", "credit_notes", "customer", "replaces", "replaced_by"].contains(&name.as_str())
    });
    let mut expected = customer_object();
    expected["invoices"] = json!([brief_invoice]);
    expected["total_amount_due"] = json!(9.69);
    expected["total_amounts_due"] = json!([{"currency": currency(), "amount": 9.69}]);
    expected["subscriptions"] = json!([subscription]);
    matches(&customer, &expected, "customer");
    assert_eq!(world.get("/api/customers/").ok(200), json!([customer]));
}

#[test]
fn previews_and_explanations() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-01-01");
    world.customer_at("acme", &clock);
    world
        .post("/api/subscriptions/", &json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-01"}))
        .ok(200);
    world.advance(&clock, "2024-01-02");
    let events: Vec<Value> = (0..25).map(|i| event("acme", &format!("e{i}"), "2024-01-01T12:00:00Z")).collect();
    world.post("/api/track/", &json!({"batch": events})).ok(201);

    let preview = world.get("/api/customers/acme/draft_invoice/?include_next_period=false").ok(200);
    let brief = json!({"plan_name": "Starter", "plan_id": "<plan_>", "version_id": "<plan_version_>", "version": 1});
    let line = json!({"name": "count of api_call", "charge_name": null, "start_date": "2024-01-01T00:00:00Z", "end_date": "2024-01-31T23:59:59.999999Z",
        "quantity": 25, "billing_type": "intermediate", "metadata": {}, "plan": brief, "subscription_filters": [],
        "base": 0.15, "adjustments": [], "amount": 0.15, "subtotal": 0.15});
    let expected = json!({"invoices": [{
        "invoice_id": "<invoice_>", "cost_due": 0.15, "amount": 0.15, "currency": currency(), "issue_date": "2024-01-02T00:00:00Z",
        "due_date": null, "start_date": "2024-01-01", "end_date": "2024-01-31", "external_payment_obj_status": null,
        "external_payment_obj_url": null, "crm_provider": null, "crm_provider_id": null, "crm_provider_url": null,
        "line_items": [{"plan_name": "Starter", "subscription_filters": [], "base": 0.15, "start_date": "2024-01-01T00:00:00Z",
            "end_date": "2024-01-31T23:59:59.999999Z", "sub_items": [line]}],
    }]});
    matches(&preview, &expected, "preview");

    world.advance(&clock, "2024-02-02");
    let next = world.get("/api/customers/acme/draft_invoice/").ok(200);
    let names: Vec<_> = next["invoices"][0]["line_items"]
        .as_array()
        .expect("groups")
        .iter()
        .flat_map(|group| group["sub_items"].as_array().expect("lines"))
        .map(|line| line.id("name"))
        .collect();
    assert!(names.iter().any(|name| name.contains("Next Period")), "{names:?}");

    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    let invoice = &invoices[0];
    assert_eq!(invoice["amount"], json!(9.15), "a new month's fee, and 15 calls beyond the free ones");
    let explanation = world.get(&format!("/api/invoices/{}/explain/", invoice.id("invoice_number"))).ok(200);
    assert_eq!(explanation["amount"], invoice["amount"]);
    let lines = explanation["line_items"].as_array().expect("lines");
    let usage = lines.iter().find(|line| line["trace"]["kind"] == "usage_charge").expect("a usage line");
    assert_eq!((&usage["trace"]["quantity"], &usage["trace"]["event_count"]), (&json!(25), &json!(25)));
    assert_eq!(usage["trace"]["rating"]["walk"].as_array().map(Vec::len), Some(2));
    assert_eq!(usage["amount"], json!(0.15));
    let fee = lines.iter().find(|line| line["trace"]["kind"] == "recurring_charge").expect("a fee line");
    assert_eq!((&fee["amount"], &fee["trace"]["unit_amount"]), (&json!(9), &json!(9)));
}

#[test]
fn access_and_credits() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-01-01");
    world.customer_at("acme", &clock);
    let grant = json!({"customer_id": "acme", "amount": 20, "currency_code": "USD", "amount_paid": 5,
        "amount_paid_currency_code": "USD", "description": "promo", "expires_at": "2025-01-01"});
    let credit = world.post("/api/credits/", &grant).ok(201).id("credit_id");
    let filters = json!([{"property_name": "env", "value": "prod"}]);
    let body =
        json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-01", "subscription_filters": filters});
    world.post("/api/subscriptions/", &body).ok(200);

    let customer = json!({"customer_name": null, "email": "acme@acme.io", "customer_id": "acme"});
    let subscription = json!({
        "start_date": "2024-01-01T00:00:00Z", "end_date": "2024-01-31T23:59:59.999999Z", "subscription_filters": filters,
        "plan": {"plan_name": "Starter", "plan_id": plan, "version_id": "<plan_version_>", "version": 1},
    });
    let metric_brief = json!({"metric_id": metric, "event_name": "api_call", "metric_name": "count of api_call"});
    let expected = json!({
        "customer": customer, "access": true, "metric": metric_brief,
        "access_per_subscription": [{"subscription": subscription, "has_metric": true, "metric_usage": 0, "metric_free_limit": 10, "metric_total_limit": 1000}],
    });
    let path = format!("/api/metric_access/?customer_id=acme&metric_id={metric}");
    matches(&world.get(&path).ok(200), &expected, "metric access");

    let expected = json!({
        "credit_id": credit, "customer": customer, "amount": 20, "amount_remaining": 11, "currency": currency(),
        "description": "promo", "effective_at": "2024-01-01T00:00:00Z", "expires_at": "2025-01-01T00:00:00Z",
        "status": "active", "amount_paid": 5, "amount_paid_currency": currency(),
        "drawdowns": [{"credit_id": "<baladj_>", "amount": -9, "description": "<>", "applied_at": "2024-01-01T00:00:00Z", "invoice_id": "<invoice_>"}],
    });
    let shown = world.get(&format!("/api/credits/{credit}/")).ok(200);
    matches(&shown, &expected, "credit");
    assert_eq!(world.get("/api/credits/?customer_id=acme").ok(200), json!([shown]));
}

#[test]
fn attached_addons() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-01-01");
    world.customer_at("acme", &clock);
    let addon = json!({"addon_name": "Support", "currency_code": "USD", "billing_frequency": "recurring",
        "recurring_charges": [{"name": "fee", "amount": 5, "charge_timing": "in_advance"}]});
    let addon = world.post("/api/addons/", &addon).ok(201).id("addon_id");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-01", "metadata": {"crm": 1}});
    let id = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
    let attach = json!({"addon_id": addon, "quantity": 2, "metadata": {"seat": "b"}});
    let attached = world.post(&format!("/api/subscriptions/{id}/addons/attach/"), &attach).ok(200);

    let customer = json!({"customer_name": null, "email": "acme@acme.io", "customer_id": "acme"});
    let billing_plan = json!({"plan_name": "Starter", "plan_id": plan, "version_id": "<plan_version_>", "version": 1});
    let brief = json!({
        "addon_subscription_id": "<addon_sub_>", "start_date": "2024-01-01T00:00:00Z", "end_date": "2024-01-31T23:59:59.999999Z",
        "addon": {"addon_name": "Support", "addon_id": addon, "addon_type": "flat", "billing_frequency": "recurring"},
        "fully_billed": false, "metadata": {"seat": "b"},
    });
    let parent = json!({
        "subscription_id": id, "start_date": "2024-01-01T00:00:00Z", "end_date": "2024-01-31T23:59:59.999999Z",
        "auto_renew": true, "is_new": true, "subscription_filters": [], "customer": customer, "billing_plan": billing_plan,
        "fully_billed": false, "addons": [brief], "metadata": {"crm": 1},
    });
    matches(&world.get(&format!("/api/subscriptions/{id}/")).ok(200), &parent, "parent");
    let mut in_full = brief.clone();
    let mut parent_in_full = parent;
    parent_in_full["plan_detail"] = billing_plan;
    for (name, value) in
        [("customer", customer), ("parent", parent_in_full), ("auto_renew", json!(true)), ("quantity", json!(2))]
    {
        in_full[name] = value;
    }
    matches(&attached, &in_full, "attached");
    let path = format!("/api/subscriptions/{id}/addons/{addon}/cancel/");
    let canceled = world.post(&path, &json!({"flat_fee_behavior": "charge_full"})).ok(200);
    assert_eq!((&canceled["metadata"], &canceled["auto_renew"]), (&json!({"seat": "b"}), &json!(false)));
}

#[test]
fn lines_of_usage_with_an_adjustment_and_tax() {
    let world = World::new();
    let metric = world.metric();
    let mut version = version_body(&metric);
    version["recurring_charges"] = json!([]);
    version["components"][0]["tiers"] =
        json!([{"type": "per_unit", "range_start": 0, "cost_per_batch": 2, "metric_units_per_batch": 1}]);
    version["price_adjustment"] = json!({"price_adjustment_name": "Launch", "price_adjustment_type": "percentage",
        "price_adjustment_amount": -10});
    let body = json!({"plan_name": "Starter", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &body).ok(201).id("plan_id");
    let clock = world.clock("2024-01-01");
    let customer = json!({"customer_id": "acme", "email": "a@acme.io", "tax_rate": 10, "test_clock_id": clock});
    world.post("/api/customers/", &customer).ok(201);
    let filters = json!([{"property_name": "env", "value": "prod"}]);
    let body =
        json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-01", "subscription_filters": filters});
    world.post("/api/subscriptions/", &body).ok(200);
    for (id, env) in [("a", "prod"), ("b", "prod"), ("c", "test")] {
        let mut call = event("acme", id, "2024-01-01T12:00:00Z");
        call["properties"] = json!({"env": env});
        world.post("/api/track/", &call).ok(201);
    }
    world.advance(&clock, "2024-02-01T01:00:00Z");
    let billing_plan = json!({"plan_name": "Starter", "plan_id": plan, "version_id": "<plan_version_>", "version": 1});
    let expected = json!([{
        "line_id": "<line_>", "name": "count of api_call", "charge_name": null, "start_date": "2024-01-01T00:00:00Z", "end_date": "2024-01-31T23:59:59.999999Z",
        "quantity": 2, "billing_type": "in_arrears", "metadata": {}, "plan": billing_plan, "subscription_filters": filters,
        "base": 4, "amount": 3.96, "subtotal": 4,
        "adjustments": [{"amount": "-0.4", "account": "21000", "adjustment_type": "plan_adjustment"},
            {"amount": "0.36", "account": "41100", "adjustment_type": "sales_tax"}],
    }]);
    let invoice = world.get("/api/invoices/").ok(200)[0].clone();
    matches(&invoice["line_items"], &expected, "lines");
    assert_eq!(invoice["amount"], json!(3.96));
}
