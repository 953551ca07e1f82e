//! Add-ons over HTTP.

use serde_json::{Value, json};

use crate::support::{Field, World};

/// A customer on a plan with a fee of 9 from the first of a month of 30 days; the clock and the subscription.
fn subscribed(world: &World) -> (String, String) {
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-04-01"});
    (clock, world.post("/api/subscriptions/", &body).ok(200).id("subscription_id"))
}

fn addon(name: &str, frequency: &str) -> Value {
    json!({
        "addon_name": name, "addon_description": "more", "currency_code": "USD", "billing_frequency": frequency,
        "invoice_when": "invoice_on_attach",
        "recurring_charges": [{"name": "fee", "amount": 15, "charge_timing": "in_advance"}],
    })
}

fn amounts(world: &World) -> Vec<String> {
    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    invoices.as_array().expect("a list").iter().map(|invoice| invoice["amount"].to_string()).collect()
}

#[test]
fn an_addon_is_made_shown_and_listed() {
    let world = World::new();
    let mails = world.post("/api/metrics/", &json!({"event_name": "mail"})).ok(201).id("metric_id");
    let feature = world.post("/api/features/", &json!({"feature_name": "sso"})).ok(201).id("feature_id");
    let mut body = addon("Mail", "recurring");
    body["features"] = json!([feature]);
    body["components"] = json!([{"metric_id": mails, "tiers": [
        {"type": "per_unit", "range_start": 0, "cost_per_batch": "0.25", "metric_units_per_batch": 1}]}]);
    let made = world.post("/api/addons/", &body).ok(201);
    assert!(made.id("addon_id").starts_with("addon_") && made.id("addon_version_id").starts_with("addon_version_"));
    assert_eq!((&made["addon_type"], &made["billing_frequency"]), (&json!("usage_based"), &json!("recurring")));
    assert_eq!((&made["invoice_when"], &made["active_instances"]), (&json!("invoice_on_attach"), &json!(0)));
    assert_eq!(made["components"][0]["billable_metric"]["metric_id"], json!(mails));
    assert_eq!((&made["features"][0]["feature_name"], &made["currency"]["code"]), (&json!("sso"), &json!("USD")));
    assert_eq!(world.get(&format!("/api/addons/{}/", made.id("addon_id"))).ok(200), made);
    assert_eq!(world.get("/api/addons/").ok(200), json!([made]));
    assert_eq!(world.get("/api/plans/").ok(200), json!([]), "an add-on is no plan");
    let archive = world.post(&format!("/api/metrics/{mails}/archive/"), &json!({}));
    assert_eq!((archive.status, archive.error()), (400, "invalid_operation".to_owned()), "the add-on meters it");

    let faults = world.post("/api/addons/", &json!({"addon_name": "", "billing_frequency": "twice"})).faults();
    let attrs: Vec<&str> = faults.iter().map(|(attr, _)| attr.as_str()).collect();
    assert_eq!(attrs, ["currency_code", "billing_frequency"], "of the blank name nothing is said yet");
    let bad = json!({"addon_name": "", "currency_code": "XXX", "billing_frequency": "one_time"});
    assert_eq!(world.post("/api/addons/", &bad).faults().len(), 2, "name and currency");
}

#[test]
fn an_addon_is_attached_billed_and_cancelled() {
    let world = World::new();
    let (clock, id) = subscribed(&world);
    let (once, again) = (
        world.post("/api/addons/", &addon("Support", "one_time")).ok(201),
        world.post("/api/addons/", &addon("Seats", "recurring")).ok(201),
    );
    world.advance(&clock, "2024-04-11");
    let attach = format!("/api/subscriptions/{id}/addons/attach/");
    let body = json!({"addon_id": once["addon_id"], "quantity": 2, "metadata": {"x": 1}});
    let attached = world.post(&attach, &body).ok(200);
    assert!(attached.id("addon_subscription_id").starts_with("addon_sub_"));
    let brief = json!({"addon_name": "Support", "addon_id": once["addon_id"], "addon_type": "flat",
        "billing_frequency": "one_time"});
    assert_eq!((&attached["addon"], &attached["quantity"]), (&brief, &json!(2)));
    assert_eq!(
        (&attached["start_date"], &attached["end_date"]),
        (&json!("2024-04-11T00:00:00Z"), &json!("2024-04-30T23:59:59.999999Z"))
    );
    assert_eq!((&attached["auto_renew"], &attached["metadata"]), (&json!(false), &json!({"x": 1})));
    assert_eq!(attached["parent"]["subscription_id"], json!(id));
    assert_eq!(attached["parent"]["plan_detail"], attached["parent"]["billing_plan"]);
    assert_eq!(attached["parent"]["addons"][0]["addon_subscription_id"], attached["addon_subscription_id"]);
    assert_eq!(amounts(&world), ["30", "9"], "twice 15: what is charged once is not cut");
    let line = world.get("/api/invoices/").ok(200)[0]["line_items"][0].clone();
    assert_eq!((&line["billing_type"], &line["name"]), (&json!("one_time"), &json!("Support Flat Fee")));

    let version = json!({"addon_version_id": again["addon_version_id"]});
    let second = world.post(&attach, &version).ok(200);
    let shown = world.get(&format!("/api/subscriptions/{id}/")).ok(200);
    assert_eq!(shown["addons"].as_array().map(Vec::len), Some(2));
    let listed = world.get("/api/subscriptions/?customer_id=acme").ok(200);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "lists show what add-ons are attached to");
    assert_eq!(world.get("/api/customers/acme/").ok(200)["subscriptions"], json!([shown]));
    let hidden = second.id("addon_subscription_id").replace("addon_sub_", "sub_");
    assert_eq!(world.get(&format!("/api/subscriptions/{hidden}/")).error(), "resource_not_found");

    world.advance(&clock, "2024-05-01T00:30:00Z");
    assert_eq!(amounts(&world)[0], "24", "9 for the plan and 15 for the one that recurs");
    let may = world.get("/api/subscriptions/?customer_id=acme").ok(200)[0].clone();
    assert_eq!(may["addons"].as_array().map(Vec::len), Some(1));
    let cancel = |named: &Value| {
        let path = format!(
            "/api/subscriptions/{}/addons/{}/cancel/",
            may.id("subscription_id"),
            named.as_str().expect("an id")
        );
        world.post(&path, &json!({"flat_fee_behavior": "refund"}))
    };
    let gone = cancel(&once["addon_id"]);
    assert_eq!((gone.status, gone.error()), (404, "resource_not_found".to_owned()), "it has not renewed");
    let ended = cancel(&again["addon_version_id"]).ok(200);
    assert_eq!((&ended["end_date"], &ended["auto_renew"]), (&json!("2024-05-01T00:29:59.999999Z"), &json!(false)));
    assert_eq!(world.get("/api/credits/?customer_id=acme").ok(200)[0]["amount"], json!(15));
    let twice = cancel(&may["addons"][0]["addon_subscription_id"]);
    assert_eq!((twice.status, twice.error()), (409, "invalid_state".to_owned()));
}

#[test]
fn what_is_charged_once_is_charged_in_full_unless_it_is_prorated() {
    #[rustfmt::skip]
    let cases = [
        // frequency,   charge_behavior,         shown,      invoice, why
        ("one_time",    None,                    "full",     "21",    "nothing is said: 3 x 7"),
        ("one_time",    Some(json!(null)),       "full",     "21",    "null says nothing"),
        ("one_time",    Some(json!("full")),     "full",     "21",    "it is said"),
        ("one_time",    Some(json!("prorate")),  "prorate",  "14",    "two thirds of it, as it is said"),
        ("recurring",   None,                    "prorate",  "14",    "what comes every period is cut"),
        ("recurring",   Some(json!("full")),     "full",     "21",    "unless it is said"),
    ];
    for (frequency, behavior, shown, invoice, why) in cases {
        let world = World::new();
        let (clock, id) = subscribed(&world);
        let mut body = addon("Set-up", frequency);
        body["recurring_charges"][0]["amount"] = json!(7);
        if let Some(behavior) = behavior {
            body["recurring_charges"][0]["charge_behavior"] = behavior;
        }
        let made = world.post("/api/addons/", &body).ok(201);
        assert_eq!(made["recurring_charges"][0]["charge_behavior"], shown, "{why}");
        assert_eq!(world.get("/api/addons/").ok(200)[0]["recurring_charges"][0]["charge_behavior"], shown, "{why}");
        world.advance(&clock, "2024-04-11");
        let attach = json!({"addon_id": made["addon_id"], "quantity": 3});
        world.post(&format!("/api/subscriptions/{id}/addons/attach/"), &attach).ok(200);
        assert_eq!(amounts(&world), [invoice, "9"], "{why}");
    }
}

/// What every answer that shows the attached add-on says of `fully_billed` and of `metadata`.
fn everywhere(world: &World, subscription: &str, at_once: &Value) -> Vec<(String, Value)> {
    let path = format!("/api/subscriptions/{subscription}/");
    let customers = world.get("/api/customers/").ok(200);
    let shown = [
        at_once.clone(),
        at_once["parent"]["addons"][0].clone(),
        world.get(&path).ok(200)["addons"][0].clone(),
        world.get("/api/subscriptions/?customer_id=acme").ok(200)[0]["addons"][0].clone(),
        world.get("/api/customers/acme/").ok(200)["subscriptions"][0]["addons"][0].clone(),
        customers[0]["subscriptions"][0]["addons"][0].clone(),
        world.post(&format!("{path}update/"), &json!({"metadata": {"crm": 1}})).ok(200)["addons"][0].clone(),
    ];
    shown.map(|subscription| (subscription["fully_billed"].to_string(), subscription["metadata"].clone())).to_vec()
}

#[test]
fn what_is_charged_once_is_fully_billed_once_it_is_billed() {
    let fee = |behavior: &str, timing: &str| json!([{"name": "fee", "amount": 15, "charge_behavior": behavior, "charge_timing": timing}]);
    #[rustfmt::skip]
    let cases = [
        // frequency,  invoiced,                      fees,                             usage, billed,  why
        ("one_time",   "invoice_on_attach",           fee("full", "in_advance"),        false, "true",  "its fee is invoiced"),
        ("one_time",   "invoice_on_attach",           fee("prorate", "in_advance"),     false, "true",  "all of what it comes to is"),
        ("one_time",   "invoice_on_attach",           json!([]),                        false, "true",  "it charges nothing"),
        ("one_time",   "invoice_on_subscription_end", fee("full", "in_advance"),        false, "false", "its fee waits"),
        ("one_time",   "invoice_on_attach",           fee("full", "in_arrears"),        false, "false", "its fee comes at the end"),
        ("one_time",   "invoice_on_attach",           fee("full", "in_advance"),        true,  "false", "its usage comes at the end"),
        ("recurring",  "invoice_on_attach",           fee("full", "in_advance"),        false, "false", "its next period comes, and what is cut comes back"),
    ];
    for (frequency, invoiced, fees, is_metered, billed, why) in cases {
        let world = World::new();
        let (clock, id) = subscribed(&world);
        let mut body = addon("Support", frequency);
        body["invoice_when"] = json!(invoiced);
        body["recurring_charges"] = fees;
        if is_metered {
            let mails = world.post("/api/metrics/", &json!({"event_name": "mail"})).ok(201).id("metric_id");
            body["components"] = json!([{"metric_id": mails, "tiers": [{"type": "free", "range_start": 0}]}]);
        }
        let made = world.post("/api/addons/", &body).ok(201);
        world.advance(&clock, "2024-04-11");
        let attach = json!({"addon_id": made["addon_id"], "metadata": {"seat": "b"}});
        let attached = world.post(&format!("/api/subscriptions/{id}/addons/attach/"), &attach).ok(200);
        for said in everywhere(&world, &id, &attached) {
            assert_eq!(said, (billed.to_owned(), json!({"seat": "b"})), "{why}");
        }
        assert_eq!(world.get(&format!("/api/subscriptions/{id}/")).ok(200)["fully_billed"], false, "{why}: the plan");
    }
}

#[test]
fn what_a_cancellation_gives_back_later_is_left_to_invoice() {
    #[rustfmt::skip]
    let cases = [
        // flat_fee_behavior, invoicing_behavior,      billed, why
        (json!(null),         "invoice_now",           true,   "nothing comes back of what is charged in full"),
        (json!(null),         "add_to_next_invoice",   true,   "nothing comes back later either"),
        (json!("refund"),     "invoice_now",           true,   "it came back at once"),
        (json!("refund"),     "add_to_next_invoice",   false,  "it comes back with the next invoice"),
    ];
    for (flat_fee, invoicing, billed, why) in cases {
        let world = World::new();
        let (clock, id) = subscribed(&world);
        let made = world.post("/api/addons/", &addon("Support", "one_time")).ok(201);
        let path = format!("/api/subscriptions/{id}/addons/");
        world.post(&format!("{path}attach/"), &json!({"addon_id": made["addon_id"], "metadata": {"a": 1}})).ok(200);
        world.advance(&clock, "2024-04-11");
        let cancel = json!({"flat_fee_behavior": flat_fee, "invoicing_behavior": invoicing});
        let ended = world.post(&format!("{path}{}/cancel/", made.id("addon_id")), &cancel).ok(200);
        assert_eq!((&ended["fully_billed"], &ended["metadata"]), (&json!(billed), &json!({"a": 1})), "{why}");
        let shown = world.get(&format!("/api/subscriptions/{id}/")).ok(200)["addons"][0].clone();
        assert_eq!((&shown["fully_billed"], &shown["metadata"]), (&json!(billed), &json!({"a": 1})), "{why}");
    }
}

#[test]
fn what_cannot_be_attached_is_refused_by_name() {
    let world = World::new();
    let (_, id) = subscribed(&world);
    let metric = world.get("/api/metrics/").ok(200)[0]["metric_id"].clone();
    let mut metered = addon("Calls", "recurring");
    metered["components"] = json!([{"metric_id": metric, "tiers": [{"type": "free", "range_start": 0}]}]);
    let metered = world.post("/api/addons/", &metered).ok(201);
    let flat = world.post("/api/addons/", &addon("Flat", "one_time")).ok(201);
    let nobody = format!("addon_{}", "0".repeat(32));
    let attach = format!("/api/subscriptions/{id}/addons/attach/");
    let before = world.snapshot();
    #[rustfmt::skip]
    let cases = [
        // body,                                                                          attr,       code,                   why
        (json!({}),                                                                       "addon_id", "required",             "nothing is named"),
        (json!({"addon_id": flat["addon_id"], "addon_version_id": flat["addon_version_id"]}), "addon_id", "not_allowed_together", "named twice"),
        (json!({"addon_id": nobody}),                                                     "addon_id", "does_not_exist",       "unknown"),
        (json!({"addon_id": metered["addon_id"]}),                                        "addon_id", "invalid",              "the plan meters calls"),
        (json!({"addon_id": flat["addon_id"], "quantity": 0}),                            "quantity", "min_value",            "none"),
        (json!({"addon_id": flat["addon_id"], "quantity": 1.5}),                          "quantity", "invalid",              "not whole"),
    ];
    for (body, attr, code, why) in cases {
        assert_eq!(world.post(&attach, &body).faults(), [(attr.to_owned(), code.to_owned())], "{why}");
    }
    let content = flat.id("addon_version_id").replace("addon_version_", "plan_version_");
    let subscribe = json!({"customer_id": "acme", "version_id": content, "start_date": "2024-04-01"});
    let refused = world.post("/api/subscriptions/", &subscribe).faults();
    assert_eq!(
        refused,
        [("version_id".to_owned(), "does_not_exist".to_owned())],
        "an add-on is attached, not subscribed to"
    );
    let plan = flat.id("addon_id").replace("addon_", "plan_");
    assert_eq!(world.get(&format!("/api/plans/{plan}/")).status, 404, "nor is it a plan");
    assert_eq!(world.snapshot(), before);
}
