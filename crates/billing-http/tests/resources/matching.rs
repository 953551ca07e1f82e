//! Cancelling and changing all subscriptions of a customer that match.

use serde_json::{Value, json};

use crate::support::{Field, World};

/// `env` is one of these.
fn filters(env: &str) -> Value {
    json!([{"property_name": "env", "value": env}])
}

/// The same as a parameter.
fn filters_in_query(env: &str) -> String {
    format!("subscription_filters=%5B%7B%22property_name%22%3A%22env%22%2C%22value%22%3A%22{env}%22%7D%5D")
}

/// A subscription of a customer, to a plan, for the month of thirty days that has just begun: its id.
fn subscribe(world: &World, customer: &str, plan: &str, env: &str) -> String {
    let body = json!({"customer_id": customer, "plan_id": plan, "start_date": "2024-04-01", "subscription_filters": filters(env)});
    world.post("/api/subscriptions/", &body).ok(200).id("subscription_id")
}

fn ids(answer: &Value) -> Vec<String> {
    answer.as_array().expect("a list").iter().map(|subscription| subscription.id("subscription_id")).collect()
}

/// The amounts of a customer's invoices, newest first, and then what is left on their credits.
fn books(world: &World, customer: &str) -> String {
    let amounts = |list: &str, field: &str| {
        let list = world.get(&format!("/api/{list}/?customer_id={customer}")).ok(200);
        let amounts = list.as_array().expect("a list").iter().map(|invoice| invoice[field].to_string());
        amounts.collect::<Vec<_>>().join(" ")
    };
    format!("{} | {}", amounts("invoices", "amount"), amounts("credits", "amount_remaining"))
}

#[test]
fn subscriptions_are_cancelled_by_customer_plan_and_filters() {
    let world = World::new();
    let metric = world.metric();
    let (plan, other) = (world.plan(&metric), world.plan(&metric));
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    world.customer_at("other", &clock);
    let of_other = subscribe(&world, "other", &plan, "test");
    let (prod, test, last) = (
        subscribe(&world, "acme", &plan, "prod"),
        subscribe(&world, "acme", &plan, "test"),
        subscribe(&world, "acme", &other, "prod"),
    );
    world.advance(&clock, "2024-04-11");

    let path = format!("/api/subscriptions/cancel/?customer_id=acme&plan_id={plan}&{}", filters_in_query("test"));
    assert_eq!(ids(&world.post(&path, &json!({})).ok(200)), [test], "by plan and filters");
    assert_eq!(books(&world, "acme"), "0 9 9 9 | 6");
    let all = "/api/subscriptions/cancel/?customer_id=acme";
    assert_eq!(ids(&world.post(all, &json!({})).ok(200)), [prod, last], "all that is left");
    assert_eq!(books(&world, "acme"), "0 0 9 9 9 | 12 6", "on one invoice");
    assert_eq!(world.post(all, &json!({})).ok(200), json!([]), "nothing is left");
    let left = world.get("/api/subscriptions/?customer_id=other").ok(200);
    assert_eq!(ids(&left), [of_other], "another customer's go on");
    assert_eq!(world.post("/api/subscriptions/cancel/", &json!({})).faults()[0].0, "customer_id");
    assert_eq!(world.post("/api/subscriptions/cancel/?customer_id=ghost", &json!({})).faults()[0].1, "does_not_exist");
}

#[test]
fn all_that_match_are_cancelled_as_is_asked() {
    #[rustfmt::skip]
    let cases = [
        // body,                                                                           books,        fully billed, why
        (json!({}),                                                                        "15 9 | ",    true,  "two thirds of 9 come back, 30 calls are billed, now"),
        (json!({"flat_fee_behavior": "charge_prorated"}),                                  "15 9 | ",    true,  "the same, said aloud"),
        (json!({"flat_fee_behavior": "refund"}),                                           "12 9 | ",    true,  "all of the fee comes back"),
        (json!({"flat_fee_behavior": "charge_full"}),                                      "21 9 | ",    true,  "nothing of it does"),
        (json!({"usage_behavior": "bill_none"}),                                           "0 9 | 6",    true,  "no calls are billed"),
        (json!({"flat_fee_behavior": "refund", "usage_behavior": "bill_none"}),            "0 9 | 9",    true,  "neither"),
        (json!({"invoicing_behavior": "add_to_next_invoice"}),                             "9 | ",       false, "nothing yet"),
    ];
    for (body, expected, fully_billed, why) in cases {
        let world = World::new();
        let metric = world.metric();
        let mut plan = crate::support::plan_body("Calls", &metric);
        plan["initial_version"]["components"][0]["tiers"] = json!([{"type": "free", "range_start": 0, "range_end": 9},
            {"type": "per_unit", "range_start": 9, "cost_per_batch": 1, "metric_units_per_batch": 1}]);
        let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
        let clock = world.clock("2024-04-01");
        world.customer_at("acme", &clock);
        subscribe(&world, "acme", &plan, "prod");
        let call = |n: usize| {
            let mut call = crate::support::event("acme", &format!("e{n}"), "2024-04-01T12:00:00Z");
            call["properties"] = json!({"env": "prod"});
            call
        };
        world.post("/api/track/", &json!((0..30).map(call).collect::<Vec<_>>())).ok(201);
        world.advance(&clock, "2024-04-11");
        let canceled = world.post("/api/subscriptions/cancel/?customer_id=acme", &body).ok(200);
        assert_eq!(canceled[0]["fully_billed"], json!(fully_billed), "{why}");
        assert_eq!(books(&world, "acme"), expected, "{why}");
    }
}

#[test]
fn all_that_match_get_another_end_and_stop_renewing() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    let (prod, test) = (subscribe(&world, "acme", &plan, "prod"), subscribe(&world, "acme", &plan, "test"));
    world.advance(&clock, "2024-04-11");
    let path = format!("/api/subscriptions/update/?customer_id=acme&plan_id={plan}");

    let one = world.post(&format!("{path}&{}", filters_in_query("test")), &json!({"end_date": "2024-04-20"})).ok(200);
    assert_eq!(ids(&one), std::slice::from_ref(&test), "those with the filter alone");
    assert_eq!((&one[0]["end_date"], &one[0]["auto_renew"]), (&json!("2024-04-20T23:59:59.999999Z"), &json!(true)));
    let both = world.post(&path, &json!({"turn_off_auto_renew": true})).ok(200);
    assert_eq!(ids(&both), [prod.clone(), test]);
    assert!(
        both.as_array().is_some_and(|all| all.iter().all(|subscription| subscription["auto_renew"] == json!(false))),
        "{both}"
    );
    assert_eq!(both[0]["end_date"], "2024-04-30T23:59:59.999999Z", "its end stays");
    assert_eq!(ids(&world.post(&path, &json!({})).ok(200)).len(), 2, "nothing to change is no fault");
    let past = world.post(&path, &json!({"end_date": "2024-04-10"})).faults();
    assert_eq!(past, [("end_date".to_owned(), "invalid".to_owned())]);
}

#[test]
fn all_that_match_are_switched_as_is_asked() {
    #[rustfmt::skip]
    let cases = [
        // body,                                                                                     now,        a month later, why
        (json!({}),                                                                                  "14 9 | ",  "72 14 9 | ",   "20 less 6 now; then 30, and 21 calls at 2"),
        (json!({"invoicing_behavior": "invoice_now", "usage_behavior": "transfer_to_new_subscription"}), "14 9 | ", "72 14 9 | ", "the same, said aloud"),
        (json!({"usage_behavior": "keep_separate"}),                                                 "14 9 | ",  "51 14 9 | ",   "21 calls at 1"),
        (json!({"invoicing_behavior": "add_to_next_invoice"}),                                       "9 | ",     "86 9 | ",      "all of it later"),
        (json!({"invoicing_behavior": "add_to_next_invoice", "usage_behavior": "keep_separate"}),    "9 | ",     "65 9 | ",      "all of it later, at 1"),
    ];
    for (mut body, now, later, why) in cases {
        let world = World::new();
        let metric = world.metric();
        let plan = |fee: u32, price: u32| {
            let mut plan = crate::support::plan_body("Calls", &metric);
            plan["initial_version"]["recurring_charges"][0]["amount"] = json!(fee);
            plan["initial_version"]["components"][0]["tiers"] = json!([{"type": "free", "range_start": 0, "range_end": 9},
                {"type": "per_unit", "range_start": 9, "cost_per_batch": price, "metric_units_per_batch": 1}]);
            world.post("/api/plans/", &plan).ok(201).id("plan_id")
        };
        let (old, new) = (plan(9, 1), plan(30, 2));
        let clock = world.clock("2024-04-01");
        world.customer_at("acme", &clock);
        subscribe(&world, "acme", &old, "prod");
        let call = |n: usize| {
            let mut call = crate::support::event("acme", &format!("e{n}"), "2024-04-01T12:00:00Z");
            call["properties"] = json!({"env": "prod"});
            call
        };
        world.post("/api/track/", &json!((0..30).map(call).collect::<Vec<_>>())).ok(201);
        world.advance(&clock, "2024-04-11");
        body["replace_plan_id"] = json!(new);
        let path = format!("/api/subscriptions/update/?customer_id=acme&plan_id={old}&{}", filters_in_query("prod"));
        let switched = world.post(&path, &body).ok(200);
        assert_eq!(switched[0]["subscription_filters"], filters("prod"), "{why}: they go along");
        assert_eq!(books(&world, "acme"), now, "{why}");
        world.advance(&clock, "2024-05-02");
        assert_eq!(books(&world, "acme"), later, "{why}");
    }
}

#[test]
fn matching_subscriptions_are_switched_or_updated() {
    let world = World::new();
    let metric = world.metric();
    let (plan, other) = (world.plan(&metric), world.plan(&metric));
    world.customer_at("acme", &world.clock("2024-04-01"));
    let old = subscribe(&world, "acme", &plan, "prod");
    let path = format!("/api/subscriptions/update/?customer_id=acme&plan_id={plan}");
    let updated = world.post(&path, &json!({"turn_off_auto_renew": true})).ok(200);
    assert_eq!((updated[0].id("subscription_id"), &updated[0]["auto_renew"]), (old.clone(), &json!(false)));
    let body = json!({"replace_plan_id": other, "invoicing_behavior": "add_to_next_invoice"});
    let switched = world.post(&path, &body).ok(200);
    assert_eq!((switched.as_array().map(Vec::len), &switched[0]["billing_plan"]["plan_id"]), (Some(1), &json!(other)));
    assert!(switched[0].id("subscription_id") != old, "the new subscription is answered");
    let none = world.post(&path, &body);
    assert_eq!((none.status, none.error()), (404, "resource_not_found".to_owned()), "nothing matches any more");
    let missing = ["customer_id", "plan_id"].map(|attr| (attr.to_owned(), "required".to_owned()));
    assert_eq!(world.post("/api/subscriptions/update/", &body).faults(), missing);
    let path = format!("/api/subscriptions/update/?customer_id=acme&plan_id={other}");
    for (plan, code) in [(format!("plan_{:032x}", 7), "does_not_exist"), (other, "invalid")] {
        let refused = world.post(&path, &json!({"replace_plan_id": plan})).faults();
        assert_eq!(refused, [("replace_plan_id".to_owned(), code.to_owned())], "named as it was sent");
    }
}
