//! Changing and ending subscriptions over HTTP.

use serde_json::json;

use crate::support::{Field, World, plan_body};

/// A customer on a fee of 9 from the first of a month of 30 days, and the id of the subscription.
fn subscribed(world: &World) -> (String, String) {
    let metric = world.metric();
    let plan = world.post("/api/plans/", &plan_body("Starter", &metric)).ok(201).id("plan_id");
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-04-01"});
    let id = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
    world.advance(&clock, "2024-04-11");
    (id, plan)
}

fn amounts(world: &World) -> Vec<String> {
    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    invoices.as_array().expect("a list").iter().map(|invoice| invoice["amount"].to_string()).collect()
}

fn credit(world: &World) -> String {
    let credits = world.get("/api/credits/?customer_id=acme").ok(200);
    credits.as_array().expect("a list").iter().map(|credit| credit["amount_remaining"].to_string()).collect()
}

#[test]
fn a_cancelled_subscription_gives_back_what_was_not_used() {
    #[rustfmt::skip]
    let cases = [
        // body,                                     credit, why
        (json!({}),                                  "6",    "two thirds of 9 by default"),
        (json!({"flat_fee_behavior": null}),         "6",    "null is the default"),
        (json!({"flat_fee_behavior": "prorate"}),    "6",    "as some clients write it"),
        (json!({"flat_fee_behavior": "refund"}),     "9",    "all of it"),
        (json!({"flat_fee_behavior": "charge_full", "usage_behavior": "bill_none"}), "", "nothing"),
    ];
    for (body, left, why) in cases {
        let world = World::new();
        let (id, _) = subscribed(&world);
        let canceled = world.post(&format!("/api/subscriptions/{id}/cancel/"), &body).ok(200);
        assert_eq!(canceled["end_date"], "2024-04-10T23:59:59.999999Z", "{why}");
        assert_eq!((&canceled["auto_renew"], &canceled["fully_billed"]), (&json!(false), &json!(true)), "{why}");
        assert_eq!(credit(&world), left, "{why}");
        let again = world.post(&format!("/api/subscriptions/{id}/cancel/"), &body);
        assert_eq!((again.status, again.error()), (409, "invalid_state".to_owned()), "{why}");
    }
}

#[test]
fn a_cancellation_can_wait_for_the_next_invoice() {
    let world = World::new();
    let (id, _) = subscribed(&world);
    let body = json!({"invoicing_behavior": "add_to_next_invoice"});
    let canceled = world.post(&format!("/api/subscriptions/{id}/cancel/"), &body).ok(200);
    assert_eq!((&canceled["fully_billed"], amounts(&world).len()), (&json!(false), 1));
    let clock = world.get("/api/test_clocks/").ok(200)[0].id("test_clock_id");
    world.advance(&clock, "2024-05-02");
    assert_eq!((amounts(&world), credit(&world)), (vec!["0".to_owned(), "9".to_owned()], "6".to_owned()));
}

#[test]
fn end_renewal_and_metadata_change() {
    let world = World::new();
    let (id, plan) = subscribed(&world);
    let path = format!("/api/subscriptions/{id}/update/");
    let updated = world.post(&path, &json!({"metadata": {"crm": "42"}})).ok(200);
    assert_eq!((&updated["metadata"], &updated["auto_renew"]), (&json!({"crm": "42"}), &json!(true)));
    let updated = world.post(&path, &json!({"turn_off_auto_renew": true, "end_date": "2024-04-15"})).ok(200);
    assert_eq!((&updated["end_date"], &updated["auto_renew"]), (&json!("2024-04-15T23:59:59.999999Z"), &json!(false)));
    assert_eq!(
        world.post(&path, &json!({"end_date": "2024-04-10"})).faults(),
        [("end_date".to_owned(), "invalid".to_owned())]
    );
    let clock = world.get("/api/test_clocks/").ok(200)[0].id("test_clock_id");
    world.advance(&clock, "2024-05-02");
    assert_eq!(credit(&world), "4.5", "half of the fee comes back");
    let late = world.post(&path, &json!({"turn_off_auto_renew": true}));
    assert_eq!((late.status, late.error()), (409, "invalid_state".to_owned()));
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-05-02"});
    assert!(
        world.post("/api/subscriptions/add/", &body).ok(200).id("subscription_id") != id,
        "the deprecated call creates too"
    );
}

#[test]
fn bad_choices_name_their_field() {
    let world = World::new();
    let (id, _) = subscribed(&world);
    let body = json!({"flat_fee_behavior": "half", "usage_behavior": "sometimes", "invoicing_behavior": "maybe"});
    let faults = world.post(&format!("/api/subscriptions/{id}/cancel/"), &body).faults();
    let expected = ["flat_fee_behavior", "usage_behavior", "invoicing_behavior"]
        .map(|attr| (attr.to_owned(), "invalid_choice".to_owned()));
    assert_eq!(faults, expected);
    let absent = world.post(&format!("/api/subscriptions/sub_{:032x}/cancel/", 7), &json!({}));
    assert_eq!((absent.status, absent.error()), (404, "resource_not_found".to_owned()));
}

#[test]
fn prepaid_units_change_in_both_directions() {
    let world = World::new();
    let metric = world.metric();
    let plan = json!({"plan_name": "Seats", "plan_duration": "monthly", "initial_version": {"currency_code": "USD", "components": [
        {"metric_id": metric, "prepaid_charge": {"units": null, "charge_behavior": "full"}, "tiers": [
            {"type": "per_unit", "range_start": 0, "cost_per_batch": 2, "metric_units_per_batch": 1}]}]}});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    world.customer("acme");
    let mut body = json!({"customer_id": "acme", "plan_id": plan, "start_date": crate::support::now()});
    let refused = world.post("/api/subscriptions/", &body);
    assert_eq!((refused.status, refused.error()), (400, "prepayment_cant_determine_units".to_owned()));
    assert_eq!(world.get("/api/subscriptions/?customer_id=acme").ok(200), json!([]), "nothing is left of it");
    body["component_fixed_charges_initial_units"] = json!([{"metric_id": metric, "units": 15}]);
    let id = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
    assert_eq!(amounts(&world), ["30"]);

    let path = format!("/api/subscriptions/{id}/components/{metric}/change_prepaid_units/");
    world.post(&path, &json!({"units": 20})).ok(200);
    assert_eq!((amounts(&world), credit(&world)), (vec!["10".to_owned(), "30".to_owned()], String::new()));
    world.post(&path, &json!({"units": "12.5", "invoice_now": false})).ok(200);
    assert_eq!(credit(&world), "15", "fewer come back at once");
    assert_eq!(world.post(&path, &json!({})).faults(), [("units".to_owned(), "required".to_owned())]);
    let of = |metric: &str| format!("/api/subscriptions/{id}/components/{metric}/change_prepaid_units/");
    let unused = world.post("/api/metrics/", &json!({"event_name": "unused"})).ok(201).id("metric_id");
    let refused = world.post(&of(&unused), &json!({"units": 1})).faults();
    assert_eq!(refused, [("metric_id".to_owned(), "invalid".to_owned())], "a metric that the plan does not have");
    let absent = world.post(&of(&format!("metric_{:032x}", 7)), &json!({"units": 1}));
    assert_eq!((absent.status, absent.error()), (404, "not_found".to_owned()), "no metric at all");
}

#[test]
fn a_switch_bills_the_difference_and_retires_the_old_id() {
    let world = World::new();
    let (old, _) = subscribed(&world);
    let metric = world.get("/api/metrics/").ok(200)[0].id("metric_id");
    let mut body = plan_body("Business", &metric);
    body["initial_version"]["recurring_charges"][0]["amount"] = json!(30);
    let plan = world.post("/api/plans/", &body).ok(201).id("plan_id");
    let path = format!("/api/subscriptions/{old}/switch_plan/");
    // Some clients send an object where the units should be.
    let body =
        json!({"switch_plan_id": plan, "component_fixed_charges_initial_units": {"invoicing_behavior": "invoice_now"}});
    let new = world.post(&path, &body).ok(200);
    assert_eq!(
        (&new["start_date"], &new["end_date"]),
        (&json!("2024-04-11T00:00:00Z"), &json!("2024-04-30T23:59:59.999999Z"))
    );
    assert_eq!(new["billing_plan"]["plan_id"], json!(plan));
    assert_eq!(amounts(&world), ["14", "9"], "two thirds of 30 less two thirds of 9");

    for answer in [
        world.get(&format!("/api/subscriptions/{old}/")),
        world.post(&path, &body),
        world.post(&format!("/api/subscriptions/{old}/cancel/"), &json!({})),
        world.post(&format!("/api/subscriptions/{old}/update/"), &json!({"turn_off_auto_renew": true})),
    ] {
        assert_eq!((answer.status, answer.error()), (404, "resource_not_found".to_owned()));
    }
    let list = world.get("/api/subscriptions/?customer_id=acme&status=active,ended,not_started").ok(200);
    assert_eq!(list.as_array().map(Vec::len), Some(1), "absent from lists");
    let path = format!("/api/subscriptions/{}/switch_plan/", new.id("subscription_id"));
    assert_eq!(
        world.post(&path, &body).faults(),
        [("switch_plan_id".to_owned(), "invalid".to_owned())],
        "the same plan"
    );
    assert_eq!(world.post(&path, &json!({})).faults(), [("switch_plan_id".to_owned(), "required".to_owned())]);
    for (attr, absent) in
        [("switch_plan_id", format!("plan_{:032x}", 7)), ("switch_plan_version_id", format!("{:032x}", 7))]
    {
        assert_eq!(
            world.post(&path, &json!({ attr: absent })).faults(),
            [(attr.to_owned(), "does_not_exist".to_owned())]
        );
    }
}
