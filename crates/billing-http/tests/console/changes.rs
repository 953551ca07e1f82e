//! What subscriptions are changed to by pages: looked at first, then done, once.

use billing_domain::BigDecimal;
use billing_domain::user::Role;
use serde_json::{Value, json};

use super::{Browser, hidden, token, user};
use crate::support::{Answer, Field, World, plan_body};

const SUPPORT: &str = "support@acme.example";

/// A third into a paid month of `acme`, on a plan with prepaid units: the subscription, the metric, another plan, an add-on.
fn world() -> (World, [String; 4]) {
    let world = World::new();
    let metric = world.metric();
    let plan = |name: &str, fee: u32| {
        let mut body = plan_body(name, &metric);
        body["initial_version"]["recurring_charges"] =
            json!([{"name": "base", "amount": fee, "charge_timing": "in_advance"}]);
        body["initial_version"]["components"][0]["prepaid_charge"] = json!({"units": 200, "charge_behavior": "full"});
        world.post("/api/plans/", &body).ok(201).id("plan_id")
    };
    let (base, other) = (plan("Base", 20), plan("More <b>", 51));
    let addon = json!({"addon_name": "Support", "currency_code": "USD", "billing_frequency": "one_time",
        "recurring_charges": [{"name": "fee", "amount": "7.01", "charge_timing": "in_advance"}]});
    let addon = world.post("/api/addons/", &addon).ok(201).id("addon_id");
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": base, "start_date": "2024-04-01"});
    let subscription = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
    world.advance(&clock, "2024-04-11");
    user(&world, SUPPORT, world.organization, Role::Support);
    (world, [subscription, metric, other, addon])
}

fn invoices(world: &World) -> Vec<Value> {
    world.get("/api/invoices/?customer_id=acme").ok(200).as_array().expect("a list").clone()
}

/// Looks at a change, and then makes it by the form that is shown with it, twice. What was looked at, and what the first came to.
fn change(world: &World, browser: &Browser, path: &str, fields: &[(&str, &str)]) -> (Answer, Answer) {
    let form = browser.get(path);
    assert_eq!(form.status, 200, "{path}: {}", form.text);
    assert!(!form.text.contains("name=\"once\""), "{path}: nothing can be done before it was looked at");
    for (name, _) in fields {
        assert!(form.text.contains(&format!("name=\"{name}\"")), "{path} has no field {name}: {}", form.text);
    }
    let escaped = |(name, value): &(&str, &str)| format!("&{name}={}", billing_console::visit::escaped(value));
    let query: String = fields.iter().map(escaped).collect();
    let before = world.snapshot();
    let shown = browser.get(&format!("{path}?preview=1{query}"));
    assert_eq!(shown.status, 200, "{path}: {}", shown.text);
    assert!(world.snapshot() == before, "{path}: looking writes nothing");
    let (token, once) = (token(&shown), hidden(&shown, "once"));
    let mut sent = vec![("form_token", token), ("once", once)];
    // What the form carries, and not what was asked for.
    sent.extend(fields.iter().map(|(name, _)| (*name, hidden(&shown, name))));
    let sent: Vec<(&str, &str)> = sent.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let done = browser.post(path, &sent);
    browser.post(path, &sent);
    (shown, done)
}

#[test]
fn a_plan_is_switched_as_it_was_shown() {
    let (world, [subscription, _, other, _]) = world();
    let support = Browser::signed_in(&world, SUPPORT);
    let path = format!("/console/subscriptions/{subscription}/switch_plan/");
    let fields = [
        ("switch_plan_id", other.as_str()),
        ("usage_behavior", "keep_separate"),
        ("invoicing_behavior", "invoice_now"),
    ];
    let (shown, done) = change(&world, &support, &path, &fields);
    assert_eq!(done.header("location"), "/console/customers/acme/");
    let new = invoices(&world);
    assert_eq!(new.len(), 2, "once");
    let amount = new[0]["amount"].to_string();
    assert!(shown.text.contains(&amount) && shown.text.contains("More &lt;b&gt;"), "{amount}: {}", shown.text);
    assert!(support.get("/console/customers/acme/").text.contains("More &lt;b&gt;"));
}

#[test]
fn units_addons_and_another_plan_come_as_they_were_shown() {
    let (world, [subscription, metric, other, addon]) = world();
    let support = Browser::signed_in(&world, SUPPORT);
    let of = |act: &str| format!("/console/subscriptions/{subscription}/{act}/");
    let begins = [("plan_id", other.as_str()), ("start_date", "2024-04-11"), ("end_date", ""), ("auto_renew", "true")];
    #[rustfmt::skip]
    let cases = [
        // page,                                              fields,                                                                      come to, why
        (of("prepaid_units"),                                 vec![("metric_id", metric.as_str()), ("units", "301"), ("invoice_now", "true")], "1.01", "a cent for each more"),
        (of("addons"),                                        vec![("addon_id", addon.as_str()), ("quantity", "3")],                       "21.03",   "three times its fee"),
        ("/console/customers/acme/subscribe/".to_owned(),     begins[..2].to_vec(),                                                        "52.90",   "its fee and its units"),
    ];
    for (path, fields, amount, why) in cases {
        let before = invoices(&world).len();
        let (shown, done) = change(&world, &support, &path, &fields);
        assert_eq!(done.header("location"), "/console/customers/acme/", "{why}: {}", done.text);
        let new = invoices(&world);
        assert_eq!(new.len(), before + 1, "{why}: once");
        let come: BigDecimal = new[0]["amount"].to_string().parse().expect("an amount");
        assert_eq!(Ok(come), amount.parse(), "{why}");
        assert!(shown.text.contains(&format!(">{amount} <")), "{why}: {}", shown.text);
    }
}

#[test]
fn an_addon_is_cancelled_and_an_end_moved_as_they_were_shown() {
    let (world, [subscription, _, _, addon]) = world();
    let support = Browser::signed_in(&world, SUPPORT);
    let call = format!("/api/subscriptions/{subscription}/");
    let attach = || world.post(&format!("{call}addons/attach/"), &json!({"addon_id": addon})).ok(200);
    let (kept, gone) = (attach().id("addon_subscription_id"), attach().id("addon_subscription_id"));
    let page = support.get("/console/customers/acme/").text;
    let path = format!("/console/subscriptions/{subscription}/addons/cancel/");
    assert!(page.contains(&format!("href=\"{path}?addon_subscription_id={gone}\"")), "{page}");
    let fields = [
        ("addon_subscription_id", gone.as_str()),
        ("flat_fee_behavior", "refund"),
        ("usage_behavior", "bill_full"),
        ("invoicing_behavior", "invoice_now"),
    ];
    let (shown, done) = change(&world, &support, &path, &fields);
    assert_eq!(done.header("location"), "/console/customers/acme/", "{}", done.text);
    assert!(shown.text.contains("7.01 <"), "what comes back: {}", shown.text);
    let given_back = world.get("/api/credits/?customer_id=acme").ok(200);
    assert_eq!((given_back[0]["amount"].to_string().as_str(), &given_back[1]), ("7.01", &Value::Null), "once");
    let left = world.get(&call).ok(200)["addons"].clone();
    assert!(left.to_string().contains(&kept), "another of the same add-on stays: {left}");

    let path = format!("/console/subscriptions/{subscription}/update/");
    let fields = [("end_date", "2024-04-21"), ("turn_off_auto_renew", "true")];
    let (shown, done) = change(&world, &support, &path, &fields);
    assert_eq!(done.header("location"), "/console/customers/acme/", "{}", done.text);
    assert!(shown.text.contains("2024-04-21"), "{}", shown.text);
    let updated = world.get(&call).ok(200);
    let end = updated["end_date"].as_str().expect("an end");
    assert!(end.starts_with("2024-04-21") && updated["auto_renew"] == false, "{updated}");
    let nothing =
        support.get(&format!("/console/subscriptions/{subscription}/addons/cancel/?preview=1&addon_subscription_id=x"));
    assert!(nothing.status == 200 && nothing.text.contains("notice bad"), "{}", nothing.text);
}

#[test]
fn what_is_wrong_with_a_form_is_said_beside_it() {
    let (world, [subscription, metric, ..]) = world();
    let support = Browser::signed_in(&world, SUPPORT);
    let path = format!("/console/subscriptions/{subscription}/prepaid_units/");
    for units in ["-1", "x", "", "1e999999999"] {
        let shown = support.get(&format!("{path}?preview=1&metric_id={metric}&units={units}"));
        assert!(shown.status == 200 && shown.text.contains("class=\"notice bad\""), "{units}: {}", shown.text);
        assert!(!shown.text.contains("name=\"once\""), "{units}: there is nothing to confirm");
        assert!(shown.text.contains(&format!("value=\"{units}\"")), "{units}: what was typed stays");
    }
    let page = support.get(&format!("{path}?preview=1&metric_id=metric_00&units=1"));
    assert!(page.text.contains("notice bad"), "another metric: {}", page.text);
    let cancel = format!("/console/subscriptions/{subscription}/cancel/");
    world.post(&format!("/api/subscriptions/{subscription}/cancel/"), &json!({})).ok(200);
    let late = support.get(&format!("{cancel}?preview=1"));
    assert!(late.status == 200 && late.text.contains("notice bad"), "somebody was faster: {}", late.text);
}

#[test]
fn a_change_can_be_looked_at_by_nobody_else() {
    let (world, [subscription, metric, other, addon]) = world();
    user(&world, "reader@acme.example", world.organization, Role::Reader);
    let reader = Browser::signed_in(&world, "reader@acme.example");
    for query in [
        format!("switch_plan/?preview=1&switch_plan_id={other}"),
        format!("addons/?preview=1&addon_id={addon}"),
        format!("prepaid_units/?preview=1&metric_id={metric}&units=1"),
        "cancel/?preview=1".to_owned(),
        "update/?preview=1".to_owned(),
        "addons/cancel/?preview=1&addon_subscription_id=x".to_owned(),
    ] {
        assert_eq!(reader.get(&format!("/console/subscriptions/{subscription}/{query}")).status, 403, "{query}");
    }
}
