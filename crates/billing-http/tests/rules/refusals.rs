//! What rules refuse, call by call, as far as other tests do not come by it.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, Field, World, plan_body, version_body};

fn assert_refused(answer: &Answer, status: u16, code: &str, what: &str) {
    assert_eq!((answer.status, answer.error().as_str()), (status, code), "{what}: {}", answer.text);
}

/// A plan whose component wants prepaid units and does not say how many.
fn prepaid_plan(world: &World, metric: &str) -> String {
    let mut plan = plan_body("Prepaid", metric);
    plan["initial_version"]["components"][0]["prepaid_charge"] = json!({"charge_behavior": "full"});
    world.post("/api/plans/", &plan).ok(201).id("plan_id")
}

#[test]
fn while_a_clock_advances_nothing_of_its_customers_changes() {
    let mut world = World::new();
    let metric = world.metric();
    let (plan, other) = (prepaid_plan(&world, &metric), world.plan(&metric));
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-04-01",
        "component_fixed_charges_initial_units": [{"metric_id": metric, "units": 20}]});
    let id = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
    let addon = json!({"addon_name": "Support", "currency_code": "USD", "billing_frequency": "recurring",
        "recurring_charges": [{"name": "fee", "amount": 5, "charge_timing": "in_advance"}]});
    let addon = world.post("/api/addons/", &addon).ok(201).id("addon_id");
    let of_subscription = |act: &str| format!("/api/subscriptions/{id}/{act}/");
    world.post(&of_subscription("addons/attach"), &json!({"addon_id": addon})).ok(200);
    let credit = json!({"customer_id": "acme", "amount": 5, "currency_code": "USD"});
    let of_credit = format!("/api/credits/{}/", world.post("/api/credits/", &credit).ok(201).id("credit_id"));
    let of_invoice = format!("/api/invoices/{}/", world.get("/api/invoices/").ok(200)[0].id("invoice_id"));
    let subscribe = json!({"customer_id": "acme", "plan_id": other, "start_date": "2024-04-01"});
    let by_query = format!("?customer_id=acme&plan_id={plan}");
    let newcomer = json!({"customer_id": "new", "email": "new@acme.io", "test_clock_id": clock});
    #[rustfmt::skip]
    let calls = [
        ("POST",  "/api/customers/".to_owned(),                        newcomer),
        ("PATCH", "/api/customers/acme/".to_owned(),                   json!({"customer_name": "Acme"})),
        ("POST",  "/api/customers/acme/delete/".to_owned(),            json!({})),
        ("POST",  "/api/subscriptions/".to_owned(),                    subscribe.clone()),
        ("POST",  "/api/subscriptions/add/".to_owned(),                subscribe),
        ("POST",  format!("/api/subscriptions/cancel/{by_query}"),     json!({})),
        ("POST",  format!("/api/subscriptions/update/{by_query}"),     json!({"turn_off_auto_renew": true})),
        ("POST",  of_subscription("update"),                           json!({"metadata": {}})),
        ("POST",  of_subscription("cancel"),                           json!({})),
        ("POST",  of_subscription("switch_plan"),                      json!({"switch_plan_id": other})),
        ("POST",  of_subscription(&format!("components/{metric}/change_prepaid_units")), json!({"units": 30})),
        ("POST",  of_subscription("addons/attach"),                    json!({"addon_id": addon})),
        ("POST",  of_subscription(&format!("addons/{addon}/cancel")),  json!({})),
        ("POST",  "/api/credits/".to_owned(),                          credit),
        ("POST",  format!("{of_credit}update/"),                       json!({"description": "x"})),
        ("POST",  format!("{of_credit}void/"),                         json!({})),
        ("PATCH", of_invoice.clone(),                                  json!({"payment_status": "paid"})),
        ("POST",  format!("{of_invoice}void/"),                        json!({})),
        ("POST",  format!("/api/test_clocks/{clock}/advance/"),        json!({"frozen_time": "2024-05-01"})),
    ];
    // The worker looks for clocks that are on their way when it starts, until there are none, and again in half a minute.
    world.stop();
    world.sql("UPDATE test_clocks SET status = 'advancing'");
    world.start();
    while world.get(&format!("/api/test_clocks/{clock}/")).ok(200)["status"] != "ready" {
        thread::sleep(Duration::from_millis(20));
    }
    thread::sleep(Duration::from_secs(1));
    let before = world.snapshot();
    world.sql("UPDATE test_clocks SET status = 'advancing', frozen_time = frozen_time + interval '1 hour'");
    for (method, path, body) in &calls {
        let answer = world.write(method, path, body.to_string().as_bytes());
        assert_refused(&answer, 409, "test_clock_advancing", path);
    }
    world.sql("UPDATE test_clocks SET status = 'ready', frozen_time = frozen_time - interval '1 hour'");
    assert_eq!(world.snapshot(), before);
}

#[test]
fn another_plan_is_refused_as_a_first_one_is() {
    let world = World::new();
    let metric = world.metric();
    let held = world.plan(&metric);
    let clock = world.clock("2024-04-01");
    ["acme", "other"].iter().for_each(|customer| world.customer_at(customer, &clock));
    let subscribe = |plan: &str| {
        let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-04-01"});
        world.post("/api/subscriptions/", &body).ok(200).id("subscription_id")
    };
    let id = subscribe(&held);
    let taken = world.plan(&metric);
    subscribe(&taken);
    let made_for = |customers: &[&str]| {
        let mut version = version_body(&metric);
        version["target_customers"] = json!(customers);
        version
    };
    let plan = |versions: &[Value]| {
        let body = json!({"plan_name": "P", "plan_duration": "monthly"});
        let plan = world.post("/api/plans/", &body).ok(201).id("plan_id");
        for version in versions {
            world.post(&format!("/api/plans/{plan}/versions/"), version).ok(201);
        }
        plan
    };
    let before = world.snapshot();
    #[rustfmt::skip]
    let cases = [
        // plan,                                                        status, code,                              why
        (plan(&[]),                                                     400,    "no_matching_plan_version",        "there is no version"),
        (plan(&[made_for(&["other"])]),                                 400,    "plan_not_available_to_customer",  "it is made for another"),
        (plan(&[made_for(&["acme"]), made_for(&["acme", "other"])]),    400,    "ambiguous_plan_version",          "two are made for the customer"),
        (prepaid_plan(&world, &metric),                                 400,    "prepayment_cant_determine_units", "nobody says how many units"),
        (taken,                                                         409,    "overlapping_plans",               "the customer holds that one too"),
    ];
    let subscriptions = |snapshot: Vec<(String, String)>| {
        snapshot.into_iter().filter(|(path, _)| path.contains("subscriptions")).collect::<Vec<_>>()
    };
    for (plan, status, code, why) in &cases {
        let switch = world.post(&format!("/api/subscriptions/{id}/switch_plan/"), &json!({"switch_plan_id": plan}));
        assert_refused(&switch, *status, code, why);
        let shown =
            world.post(&format!("/api/subscriptions/{id}/switch_plan/preview/"), &json!({"switch_plan_id": plan}));
        assert_refused(&shown, *status, code, why);
        let path = format!("/api/subscriptions/update/?customer_id=acme&plan_id={held}");
        assert_refused(&world.post(&path, &json!({"replace_plan_id": plan})), *status, code, why);
    }
    let (prepaid, ..) = &cases[3];
    let add = json!({"customer_id": "acme", "plan_id": prepaid, "start_date": "2024-04-01"});
    let code = "prepayment_cant_determine_units";
    assert_refused(&world.post("/api/subscriptions/add/", &add), 400, code, "the older call");
    assert_eq!(subscriptions(world.snapshot()), subscriptions(before), "everything is as it was");
}

#[test]
fn what_is_in_the_way_is_said() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    let subscribe = |start: &str| {
        let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": start, "auto_renew": false});
        world.post("/api/subscriptions/", &body).ok(200)
    };
    let first = subscribe("2024-04-01");
    subscribe("2024-06-01");
    let path = format!("/api/subscriptions/{}/", first.id("subscription_id"));
    let longer = world.post(&format!("{path}update/"), &json!({"end_date": "2024-06-15"}));
    assert_refused(&longer, 409, "overlapping_plans", "June is taken");
    let by_query = format!("/api/subscriptions/update/?customer_id=acme&plan_id={plan}");
    let longer = world.post(&by_query, &json!({"end_date": "2024-06-15"}));
    assert_refused(&longer, 409, "overlapping_plans", "April may not grow into June");

    let mails = world.post("/api/metrics/", &json!({"event_name": "mail"})).ok(201).id("metric_id");
    let tiers = json!([{"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1}]);
    let addon = json!({"addon_name": "Mails", "currency_code": "USD", "billing_frequency": "recurring", "components": [
        {"metric_id": mails, "tiers": tiers, "prepaid_charge": {"charge_behavior": "full"}}]});
    let addon = world.post("/api/addons/", &addon).ok(201).id("addon_id");
    let attach = world.post(&format!("{path}addons/attach/"), &json!({"addon_id": addon}));
    assert_refused(&attach, 400, "prepayment_cant_determine_units", "an add-on must say how many units itself");

    let version = first["billing_plan"].id("version_id");
    let delete = world.post(&format!("/api/plan_versions/{version}/delete/"), &json!({}));
    assert_refused(&delete, 400, "invalid_operation", "somebody holds it");
}
