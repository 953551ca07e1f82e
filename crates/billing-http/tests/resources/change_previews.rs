//! A preview of a change shows what the change then does, to the digit, and does nothing.

use billing_store::testing::fingerprint;
use serde_json::{Value, json};

use crate::support::{Answer, Field, World, event, plan_body};

/// What somebody holds and may change: a plan with a fee of 20 and prepaid units, another one, an add-on.
struct Held {
    world: World,
    metric: String,
    subscription: String,
    other_plan: String,
    addon: String,
}

fn plan(world: &World, name: &str, metric: &str, fee: u32) -> String {
    let mut body = plan_body(name, metric);
    body["initial_version"]["recurring_charges"] =
        json!([{"name": "base", "amount": fee, "charge_timing": "in_advance"}]);
    body["initial_version"]["components"][0]["prepaid_charge"] = json!({"units": 200, "charge_behavior": "prorate"});
    world.post("/api/plans/", &body).ok(201).id("plan_id")
}

/// A third into a month that is paid for, with usage, and a credit that the next invoice draws.
fn held() -> Held {
    let world = World::new();
    let metric = world.metric();
    let (base, other_plan) = (plan(&world, "Base", &metric, 20), plan(&world, "More", &metric, 50));
    let addon = json!({"addon_name": "Support", "currency_code": "USD", "billing_frequency": "recurring",
        "recurring_charges": [{"name": "fee", "amount": "7.01", "charge_timing": "in_advance", "charge_behavior": "prorate"}]});
    let addon = world.post("/api/addons/", &addon).ok(201).id("addon_id");
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": base, "start_date": "2024-04-01"});
    let subscription = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
    world.advance(&clock, "2024-04-11T07:00:00Z");
    let used: Vec<Value> = (0..70).map(|n| event("acme", &format!("e{n}"), "2024-04-05T00:00:00Z")).collect();
    world.post("/api/track/", &json!({"batch": used})).ok(201);
    world.post("/api/credits/", &json!({"customer_id": "acme", "amount": "3.21", "currency_code": "USD"})).ok(201);
    Held { world, metric, subscription, other_plan, addon }
}

impl Held {
    /// The add-on, attached now: its own id.
    fn attached(&self) -> String {
        let attach = format!("/api/subscriptions/{}/addons/attach/", self.subscription);
        self.world.post(&attach, &json!({"addon_id": self.addon})).ok(200).id("addon_subscription_id")
    }
}

/// Without the ids that a change makes anew each time it is tried.
fn without_new_ids(value: &Value) -> Value {
    let is_new = |name: &str| ["invoice_id", "subscription_id", "addon_subscription_id"].contains(&name);
    match value {
        Value::Array(items) => items.iter().map(without_new_ids).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !is_new(name));
            kept.map(|(name, value)| (name.clone(), without_new_ids(value))).collect()
        }
        other => other.clone(),
    }
}

/// The lines of an invoice or draft, in its order, as far as both show them alike.
fn lines(invoice: &Value) -> Vec<Value> {
    let items = invoice["line_items"].as_array().expect("lines");
    let of_group = |item: &Value| item["sub_items"].as_array().cloned().unwrap_or_else(|| vec![item.clone()]);
    let mut lines: Vec<Value> = items.iter().flat_map(of_group).collect();
    for line in &mut lines {
        let line = line.as_object_mut().expect("a line");
        line.retain(|name, _| {
            ["name", "amount", "quantity", "start_date", "end_date", "base"].contains(&name.as_str())
        });
    }
    lines.sort_by_key(Value::to_string);
    lines
}

fn invoices(world: &World) -> Vec<Value> {
    world.get("/api/invoices/?customer_id=acme").ok(200).as_array().expect("a list").clone()
}

fn drafts(world: &World) -> Value {
    without_new_ids(&world.get("/api/customers/acme/draft_invoice/").ok(200)["invoices"])
}

/// Previews a change twice and makes it: what was shown is what comes, and only then.
fn holds(held: &Held, path: &str, body: &Value, why: &str) {
    let Held { world, .. } = held;
    let (before, drafted) = (invoices(world), drafts(world));
    let untouched = fingerprint(world.url(), world.organization);
    let shown = world.post(&format!("{path}preview/"), body).ok(200);
    let again = world.post(&format!("{path}preview/"), body).ok(200);
    assert_eq!(without_new_ids(&shown), without_new_ids(&again), "{why}: it can be looked at again");
    assert_eq!(fingerprint(world.url(), world.organization), untouched, "{why}: looking writes nothing");
    assert_eq!(without_new_ids(&shown["next_invoices_before"]), drafted, "{why}: the draft as it is");

    world.post(path, body).ok(200);
    let after = invoices(world);
    let come = &after[..after.len() - before.len()];
    let announced = shown["invoices"].as_array().expect("a list");
    assert_eq!(announced.len(), come.len(), "{why}: {announced:?}");
    // Invoices are listed newest first.
    for (announced, invoice) in announced.iter().zip(come.iter().rev()) {
        for field in ["amount", "currency", "issue_date", "due_date"] {
            assert_eq!(announced[field], invoice[field], "{why}: {field}");
        }
        assert_eq!(lines(announced), lines(invoice), "{why}");
    }
    assert_eq!(without_new_ids(&shown["next_invoices"]), drafts(world), "{why}: what the draft becomes");
    assert_eq!(shown["is_complete"], true, "{why}");
    let sequence = |invoice: &Value| invoice.id("invoice_number").split('-').nth(1).expect("a sequence").to_owned();
    let numbers: Vec<String> = after.iter().rev().map(sequence).collect();
    let expected: Vec<String> = (1..=after.len()).map(|number| format!("{number:06}")).collect();
    assert_eq!(numbers, expected, "{why}: no number was taken by looking");
}

#[test]
fn what_is_previewed_comes_to_the_digit() {
    type Case = (fn(&Held) -> (String, Value), usize, &'static str);
    let of = |held: &Held, act: &str| format!("/api/subscriptions/{}/{act}/", held.subscription);
    #[rustfmt::skip]
    let cases: [Case; 16] = [
        // change, invoices at once, why
        (|_| ("cancel".to_owned(), json!({})),                                                             1, "usage is billed now"),
        (|_| ("cancel".to_owned(), json!({"flat_fee_behavior": "refund", "usage_behavior": "bill_none"})), 1, "a refund becomes a credit"),
        (|_| ("cancel".to_owned(), json!({"invoicing_behavior": "add_to_next_invoice"})),                  0, "it waits for the next invoice"),
        (|held| ("switch_plan".to_owned(), json!({"switch_plan_id": held.other_plan})),                    1, "the difference, credit drawn"),
        (|held| ("switch_plan".to_owned(), json!({"switch_plan_id": held.other_plan, "usage_behavior": "keep_separate"})), 1, "usage is settled with the old plan"),
        (|held| ("switch_plan".to_owned(), json!({"switch_plan_id": held.other_plan, "invoicing_behavior": "add_to_next_invoice"})), 0, "later"),
        (|held| ("addons/attach".to_owned(), json!({"addon_id": held.addon, "quantity": 3})),              1, "two thirds of it, three times"),
        (|held| (format!("components/{}/change_prepaid_units", held.metric), json!({"units": 300})),       1, "more units are paid now"),
        (|held| (format!("components/{}/change_prepaid_units", held.metric), json!({"units": 2})),         1, "fewer come back"),
        (|held| (format!("components/{}/change_prepaid_units", held.metric), json!({"units": 300, "invoice_now": false})), 0, "with the next"),
        (|held| (format!("components/{}/change_prepaid_units", held.metric), json!({"units": 200})),        0, "as they are"),
        (|held| (format!("addons/{}/cancel", held.attached()), json!({"flat_fee_behavior": "refund"})),     1, "an add-on's fee becomes a credit"),
        (|held| (format!("addons/{}/cancel", held.attached()), json!({"invoicing_behavior": "add_to_next_invoice"})), 0, "an add-on, later"),
        (|_| ("update".to_owned(), json!({"end_date": "2024-04-20"})),                                     0, "days less, taken back with the next"),
        (|_| ("update".to_owned(), json!({"end_date": "2024-05-09"})),                                     0, "days more, charged with the next"),
        (|_| ("update".to_owned(), json!({"turn_off_auto_renew": true})),                                  0, "no next period"),
    ];
    for (change, at_once, why) in cases {
        let held = held();
        let (act, body) = change(&held);
        let count = invoices(&held.world).len();
        holds(&held, &of(&held, &act), &body, why);
        assert_eq!(invoices(&held.world).len() - count, at_once, "{why}: the case is what it says");
    }
    let held = held();
    let body = json!({"customer_id": "acme", "plan_id": held.other_plan, "start_date": "2024-03-20",
        "end_date": "2024-06-01", "component_fixed_charges_initial_units": [{"metric_id": held.metric, "units": 40}]});
    holds(&held, "/api/subscriptions/", &body, "a second plan, from the past");
}

/// What is wrong, and where.
fn told(answer: &Answer) -> [Value; 3] {
    ["title", "detail", "validation_errors"].map(|field| answer.json()[field].clone())
}

#[test]
fn a_preview_is_refused_as_its_change_is() {
    let held = held();
    let Held { world, subscription, addon, other_plan, metric, .. } = &held;
    let of = |act: &str| format!("/api/subscriptions/{subscription}/{act}/");
    let units = of(&format!("components/{metric}/change_prepaid_units"));
    let version = |change: &dyn Fn(&mut Value)| {
        let mut body = plan_body("P", metric);
        change(&mut body["initial_version"]);
        world.post("/api/plans/", &body).ok(201).id("plan_id")
    };
    let nobody = json!({"plan_name": "P", "plan_duration": "monthly"});
    let nobody = world.post("/api/plans/", &nobody).ok(201).id("plan_id");
    world.customer("other");
    let others = version(&|version| version["target_customers"] = json!(["other"]));
    let two = version(&|version| version["target_customers"] = json!(["acme"]));
    let mut second = plan_body("P", metric)["initial_version"].clone();
    second["target_customers"] = json!(["acme", "other"]);
    world.post(&format!("/api/plans/{two}/versions/"), &second).ok(201);
    let asks = version(&|version| version["components"][0]["prepaid_charge"] = json!({"charge_behavior": "full"}));
    let mails = world.post("/api/metrics/", &json!({"event_name": "mail"})).ok(201).id("metric_id");
    let tiers = json!([{"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1}]);
    let asking = json!({"addon_name": "Mails", "currency_code": "USD", "billing_frequency": "recurring", "components": [
        {"metric_id": mails, "tiers": tiers, "prepaid_charge": {"charge_behavior": "full"}}]});
    let asking = world.post("/api/addons/", &asking).ok(201).id("addon_id");
    let create = |plan: &str| json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-04-11"});
    let base = world.get(&format!("/api/subscriptions/{subscription}/")).ok(200)["billing_plan"].id("plan_id");
    let switch = |plan: &str| json!({"switch_plan_id": plan});
    world.post("/api/subscriptions/", &create(other_plan)).ok(200);
    let mut later = create(&base);
    later["start_date"] = json!("2024-06-01");
    world.post("/api/subscriptions/", &later).ok(200);
    #[rustfmt::skip]
    let mut cases = vec![
        // call,                             body,                                     code
        (of("addons/attach"),                json!({"addon_id": asking}),              "prepayment_cant_determine_units"),
        (of("addons/attach"),                json!({"addon_id": addon, "quantity": 0}), "min_value"),
        (units.clone(),                      json!({"units": -1}),                     "min_value"),
        (units.clone(),                      json!({"units": 1, "nonsense": 1}),       "unknown_field"),
        ("/api/subscriptions/".to_owned(),   create(&base),                            "overlapping_plans"),
        (of("switch_plan"),                  switch(other_plan),                       "overlapping_plans"),
        (of("update"),                       json!({"end_date": "2024-06-02"}),        "overlapping_plans"),
        (of("update"),                       json!({"end_date": "2024-03-02"}),        "invalid"),
        (of(&format!("addons/{addon}/cancel")), json!({}),                             "resource_not_found"),
    ];
    for (plan, code) in [
        (&nobody, "no_matching_plan_version"),
        (&others, "plan_not_available_to_customer"),
        (&two, "ambiguous_plan_version"),
        (&asks, "prepayment_cant_determine_units"),
    ] {
        cases.push(("/api/subscriptions/".to_owned(), create(plan), code));
        // A plan that asks for units takes those of the old one.
        if plan != &asks {
            cases.push((of("switch_plan"), switch(plan), code));
        }
    }
    let untouched = fingerprint(world.url(), world.organization);
    for (path, body, code) in &cases {
        let shown = world.post(&format!("{path}preview/"), body);
        assert_eq!(shown.error(), *code, "{path} {body}: {}", shown.text);
        let is_of_preview_alone = body.get("nonsense").is_some();
        if !is_of_preview_alone {
            let made = world.post(path, body);
            assert_eq!((shown.status, told(&shown)), (made.status, told(&made)), "{path} {body}");
        }
    }
    let unknown = json!({"customer_id": "nobody", "plan_id": other_plan, "start_date": "2024-04-11"});
    let (shown, made) =
        (world.post("/api/subscriptions/preview/", &unknown), world.post("/api/subscriptions/", &unknown));
    assert_eq!((shown.status, told(&shown)), (made.status, told(&made)));
    assert_eq!(fingerprint(world.url(), world.organization), untouched, "nothing is left behind");
}

#[test]
fn of_what_has_ended_nothing_is_shown() {
    let held = held();
    let Held { world, subscription, addon, other_plan, metric, .. } = &held;
    let of = |act: &str| format!("/api/subscriptions/{subscription}/{act}/");
    let attached = held.attached();
    world.post(&of("cancel"), &json!({})).ok(200);
    let ended = [
        (of("cancel"), json!({})),
        (of("switch_plan"), json!({"switch_plan_id": other_plan})),
        (of("addons/attach"), json!({"addon_id": addon})),
        (of(&format!("components/{metric}/change_prepaid_units")), json!({"units": 1})),
        (of(&format!("addons/{attached}/cancel")), json!({})),
        (of("update"), json!({"turn_off_auto_renew": true})),
    ];
    for (path, body) in ended {
        let shown = world.post(&format!("{path}preview/"), &body);
        assert_eq!((shown.status, shown.error().as_str()), (409, "invalid_state"), "{path}: {}", shown.text);
    }
}

#[test]
fn a_subscription_from_long_ago_says_that_more_comes() {
    let world = World::new();
    let metric = world.metric();
    let plan = plan(&world, "Base", &metric, 20);
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2000-01-01"});
    let untouched = fingerprint(world.url(), world.organization);
    let shown = world.post("/api/subscriptions/preview/", &body).ok(200);
    assert_eq!(shown["is_complete"], false, "a quarter of a century is not invoiced in one call");
    assert!(shown["invoices"].as_array().is_some_and(|invoices| invoices.len() > 1));
    assert_eq!(fingerprint(world.url(), world.organization), untouched);
}
