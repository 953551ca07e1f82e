//! One-off lines: charged with the next invoice or at once, shown, and taken away until they are billed.

use billing_audit::audit_database;
use billing_outbound::Reach;
use serde_json::{Value, json};

use super::tax_providers::{Provider, rate};
use crate::receiver::until;
use crate::support::{Field, World};

const LINES: &str = "/api/customers/acme/one_off_lines/";

/// A customer under a test clock, 20 percent of tax, and a plan of 30 a month in advance: the clock and the plan.
fn acme(world: &World) -> (String, String) {
    world.write("PATCH", "/api/organization/", br#"{"tax_rate": 20}"#).ok(200);
    let fee = json!({"name": "base", "amount": 30, "charge_timing": "in_advance"});
    let version = json!({"currency_code": "USD", "recurring_charges": [fee]});
    let plan = json!({"plan_name": "Monthly", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    let clock = world.clock("2024-01-01");
    world.customer_at("acme", &clock);
    (clock, plan)
}

fn subscribe(world: &World, plan: &str) {
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-01"});
    world.post("/api/subscriptions/", &body).ok(200);
}

fn newest(world: &World) -> Value {
    world.get("/api/invoices/?customer_id=acme").ok(200)[0].clone()
}

fn listed(world: &World, query: &str) -> Vec<String> {
    let lines = world.get(&format!("{LINES}{query}")).ok(200);
    lines.as_array().expect("a list").iter().map(|line| line.id("one_off_line_id")).collect()
}

/// Waits until so many messages of this type are in the feed, and no more.
fn wait_for_messages(world: &World, message_type: &str, count: usize) {
    let path = format!("/api/feed/?types={message_type}");
    let told = || world.get(&path).ok(200)["results"].as_array().expect("messages").len();
    until(message_type, || told() >= count);
    assert_eq!(told(), count, "{message_type}");
}

fn assert_sound(world: &World) {
    let report = audit_database(world.url(), &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn what_waits_is_on_the_next_invoice() {
    let world = World::new();
    let (clock, plan) = acme(&world);
    // Nothing is invoiced yet: it waits for the first invoice.
    let body = json!({"name": "Set-up", "quantity": 3, "unit_amount": "12.345"});
    let set_up = world.post(LINES, &body).ok(201);
    assert_eq!((&set_up["amount"], &set_up["is_taxed"]), (&json!(37.04), &json!(true)));
    assert_eq!((&set_up["invoice_id"], &set_up["line_id"]), (&Value::Null, &Value::Null));
    let body = json!({"name": "Hours", "amount": 100, "is_taxed": false, "start_date": "2023-12-01T00:00:00Z", "end_date": "2023-12-31T23:59:59Z"});
    let hours = world.post(LINES, &body).ok(201);
    assert_eq!((&hours["start_date"], &hours["end_date"]), (&body["start_date"], &body["end_date"]));
    let other = world.post(LINES, &json!({"name": "Other", "amount": 7, "currency_code": "EUR"})).ok(201);
    let [set_up, hours, other] = [set_up, hours, other].map(|line| line.id("one_off_line_id"));
    assert_eq!(listed(&world, ""), [set_up.clone(), hours.clone(), other.clone()]);
    let drafts = world.get("/api/customers/acme/draft_invoice/").ok(200);
    let amounts: Vec<_> = drafts["invoices"].as_array().expect("drafts").iter().map(|draft| &draft["amount"]).collect();
    assert_eq!(amounts, [&json!(144.45), &json!(8.4)], "one for each currency: {drafts}");

    subscribe(&world, &plan);
    let first = newest(&world);
    assert_eq!(first["amount"], 180.45, "36 with tax, 37.04 and 7.41 of tax, 100");
    let lines: Vec<_> = first["line_items"].as_array().expect("lines").iter().map(|line| &line["name"]).collect();
    assert_eq!(lines[1..], [&json!("Set-up"), &json!("Hours")]);
    assert_eq!(listed(&world, ""), [other.as_str()], "of another currency");
    assert_eq!(listed(&world, "?billed=true"), [set_up.clone(), hours.clone()]);
    let shown = world.get(&format!("{LINES}{set_up}/")).ok(200);
    assert_eq!((&shown["invoice_id"], &shown["line_id"]), (&first["invoice_id"], &first["line_items"][1]["line_id"]));
    let explained = world.get(&format!("/api/invoices/{}/explain/", first.id("invoice_id"))).ok(200);
    assert!(explained.to_string().contains(&set_up), "the trace names it: {explained}");
    assert_sound(&world);

    let refused = world.send("DELETE", &format!("{LINES}{set_up}/"), &[("X-API-KEY", &world.key)], b"");
    assert_eq!((refused.status, refused.error()), (409, "one_off_line_billed".to_owned()));
    let removed = |id: &str| world.send("DELETE", &format!("{LINES}{id}/"), &[("X-API-KEY", &world.key)], b"").status;
    assert_eq!([removed(&other), removed(&other)], [204, 404], "once");
    wait_for_messages(&world, "one_off_line.created", 3);
    wait_for_messages(&world, "one_off_line.removed", 1);
    world.advance(&clock, "2024-02-02");
    assert_eq!(newest(&world)["amount"], 36, "and no more");
    assert_sound(&world);
}

#[test]
fn an_invoice_of_its_own_is_credited_voided_and_issued_anew() {
    let world = World::new();
    let (_, plan) = acme(&world);
    let credit = json!({"customer_id": "acme", "amount": 15, "currency_code": "USD"});
    world.post("/api/credits/", &credit).ok(201);
    let device = world.post(LINES, &json!({"name": "Device", "amount": 50, "invoice_now": true})).ok(201);
    let invoice = newest(&world);
    assert_eq!(device["invoice_id"], invoice["invoice_id"]);
    assert_eq!(invoice["amount"], 45, "60 with tax, less the credit");
    let path = format!("/api/invoices/{}/void/", invoice.id("invoice_id"));
    let anew = world.post(&path, &json!({"rebill": true})).ok(200)["reissue"].clone();
    assert_eq!(anew["amount"], 45);
    let shown = world.get(&format!("{LINES}{}/", device.id("one_off_line_id"))).ok(200);
    assert_eq!(shown["invoice_id"], anew["invoice_id"], "it is on the new one");
    assert_eq!(listed(&world, "?billed=true").len(), 1);
    assert_sound(&world);

    let body = json!({"invoice_id": anew["invoice_id"], "lines": [{"line_id": shown["line_id"], "amount": 12}],
        "reason": "late", "settlement": "balance"});
    let note = world.post("/api/credit_notes/", &body).ok(201);
    assert_eq!((&note["amount"], &note["tax"]), (&json!(12), &json!(2)));
    assert_sound(&world);
    world.post(&format!("/api/credit_notes/{}/void/", note.id("credit_note_id")), &json!({})).ok(200);
    let voided = world.post(&path.replace(&invoice.id("invoice_id"), &anew.id("invoice_id")), &json!({})).ok(200);
    assert_eq!(voided["forgiven"][0]["amount"], 60, "what is forgiven: {voided}");
    subscribe(&world, &plan);
    assert_eq!(newest(&world)["amount"], 21, "36 less the credit of 15 that came back: it is not charged again");
    let statement = world.get("/api/customers/acme/statement/").ok(200);
    assert_eq!(statement["balances"][0]["closing_balance"], 21, "{statement}");
    assert_sound(&world);
}

#[test]
fn a_line_has_the_rate_of_the_organizations_own_provider() {
    let (world, provider) = (World::with(|settings| settings.reach = Reach::Anywhere), Provider::new());
    let (clock, plan) = acme(&world);
    let settings = json!({"tax_providers": ["http"], "tax_provider_url": provider.url});
    world.write("PATCH", "/api/organization/", settings.to_string().as_bytes()).ok(200);
    provider.answers(rate("10"));
    world.post(LINES, &json!({"name": "Set-up", "amount": 50})).ok(201);
    assert_eq!(provider.asked().len(), 0, "what waits has no tax yet");
    subscribe(&world, &plan);
    let first = newest(&world);
    assert_eq!((&first["amount"], provider.asked().len()), (&json!(88), 1), "asked once for fee and line");
    let explained = world.get(&format!("/api/invoices/{}/explain/", first.id("invoice_id"))).ok(200);
    assert_eq!(explained["line_items"][1]["adjustments"][0]["trace"]["provider"], "http", "{explained}");
    world.post(LINES, &json!({"name": "Hours", "amount": 10})).ok(201);
    provider.answers(rate("5"));
    world.advance(&clock, "2024-02-02");
    assert_eq!(newest(&world)["amount"], 42, "30 and 10 at the rate of the new invoice's day");
    world.post(LINES, &json!({"name": "Device", "amount": 20, "invoice_now": true})).ok(201);
    assert_eq!(newest(&world)["amount"], 21);
    assert_sound(&world);
}

#[test]
fn what_is_wrong_with_a_line_is_said() {
    let world = World::new();
    acme(&world);
    #[rustfmt::skip]
    let cases = [
        // body,                                                                   field,           code,                   why
        (json!({"name": " ", "amount": 1}),                                        "name",          "blank",                "it says nothing"),
        (json!({"name": "x".repeat(1_001), "amount": 1}),                          "name",          "max_length",           "too long"),
        (json!({"name": "x", "amount": 0}),                                        "amount",        "min_value",            "nothing"),
        (json!({"name": "x", "amount": -1}),                                       "amount",        "min_value",            "credits exist for that"),
        (json!({"name": "x", "amount": "1.001"}),                                  "amount",        "max_decimal_places",   "finer than a cent"),
        (json!({"name": "x"}),                                                     "amount",        "required",             "no price"),
        (json!({"name": "x", "quantity": 2}),                                      "amount",        "required",             "half of one"),
        (json!({"name": "x", "amount": 1, "quantity": 2}),                         "amount",        "not_allowed_together", "two"),
        (json!({"name": "x", "quantity": -2, "unit_amount": 1}),                   "quantity",      "min_value",            "less than nothing"),
        (json!({"name": "x", "quantity": "0.001", "unit_amount": 1}),              "unit_amount",   "min_value",            "less than half a cent"),
        (json!({"name": "x", "quantity": "1e19", "unit_amount": "1e19"}),          "unit_amount",   "max_value",            "no amount"),
        (json!({"name": "x", "amount": 1, "currency_code": "XXY"}),                "currency_code", "does_not_exist",       "no currency"),
        (json!({"name": "x", "amount": 1, "start_date": "2024-01-02T00:00:00Z"}),  "end_date",      "required",             "until when"),
        (json!({"name": "x", "amount": 1, "start_date": "2024-01-02T00:00:00Z", "end_date": "2024-01-01T00:00:00Z"}), "end_date", "invalid", "backwards"),
    ];
    let before = world.snapshot();
    for (body, field, code, why) in cases {
        let answer = world.post(LINES, &body);
        let error = answer.ok(400);
        let errors = error["validation_errors"].as_array().expect("errors");
        let is_said = errors.iter().any(|error| error["attr"] == field && error["code"] == code);
        assert!(is_said, "{why}: {body} {error}");
    }
    assert!(world.snapshot() == before, "nothing is written");
    let last = json!({"name": "x", "amount": 1, "start_date": "2024-01-01T00:00:00Z", "end_date": "2199-12-31T23:59:59.999999Z"});
    world.post(LINES, &last).ok(201);
    for _ in 1..100 {
        world.post(LINES, &json!({"name": "x", "amount": 1})).ok(201);
    }
    let full = world.post(LINES, &json!({"name": "x", "amount": 1})).ok(400);
    assert_eq!(
        (&full["validation_errors"][0]["attr"], &full["validation_errors"][0]["code"]),
        (&json!("invoice_now"), &json!("max_length"))
    );
    assert_eq!(listed(&world, "?limit=60").len(), 60);
    let foreign = world.other_key();
    assert_eq!(world.send("GET", LINES, &[("X-API-KEY", &foreign)], b"").status, 404);
    world.post("/api/customers/acme/delete/", &json!({})).ok(200);
    // What waits is gone with the customer.
    wait_for_messages(&world, "one_off_line.removed", 100);
    assert_sound(&world);
}
