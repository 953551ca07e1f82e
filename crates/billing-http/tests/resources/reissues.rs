//! What an invoice owes the truth over the wire: shown, credited at once, and settled by issuing the invoice anew.

use billing_audit::audit_database;
use serde_json::{Value, json};

use crate::support::{Field, World, event};

/// A customer under a test clock with a fee of 20 and calls at half a dollar, ten of them in January, and 10 percent of tax: the clock.
pub(crate) fn with_calls(world: &World) -> String {
    world.write("PATCH", "/api/organization/", br#"{"tax_rate": 10}"#).ok(200);
    let component = json!({"metric_id": world.metric(), "tiers": [
        {"type": "per_unit", "range_start": 0, "cost_per_batch": "0.5", "metric_units_per_batch": 1},
    ]});
    let fee = json!({"name": "base", "amount": 20, "charge_timing": "in_advance"});
    let version = json!({"currency_code": "USD", "recurring_charges": [fee], "components": [component]});
    let plan = json!({"plan_name": "Metered", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    let clock = world.clock("2024-01-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    world.advance(&clock, "2024-01-20");
    let calls: Vec<Value> = (0..10).map(|n| event("acme", &format!("call-{n}"), "2024-01-20T00:00:00Z")).collect();
    world.post("/api/track/", &json!({"batch": calls})).ok(201);
    world.advance(&clock, "2024-02-02");
    clock
}

pub(crate) fn void_calls(world: &World, numbers: std::ops::Range<u32>) {
    let ids: Vec<String> = numbers.map(|n| format!("call-{n}")).collect();
    let body = json!({"customer_id": "acme", "idempotency_ids": ids, "reason": "a test run"});
    world.post("/api/events/void/", &body).ok(200);
}

pub(crate) fn newest(world: &World) -> Value {
    world.get("/api/invoices/?customer_id=acme").ok(200)[0].clone()
}

fn preview(world: &World, invoice: &Value) -> Value {
    world.post(&format!("/api/invoices/{}/corrections/preview/", invoice.id("invoice_id")), &json!({})).ok(200)
}

fn assert_sound(world: &World) {
    let report = audit_database(world.url(), &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn what_is_owed_is_shown_and_credited_at_once() {
    let world = World::new();
    let clock = with_calls(&world);
    let invoice = newest(&world);
    assert_eq!(invoice["amount"], 27.5, "the fee of February, ten calls, and tax");
    void_calls(&world, 0..4);
    let before = world.snapshot();
    let owed = preview(&world, &invoice);
    assert!(world.snapshot() == before, "a preview writes nothing");
    assert_eq!((&owed["next_invoice"], &owed["credit_note"]), (&json!(-2.2), &json!(2.2)));
    let lines = owed["line_items"].as_array().expect("lines");
    let usage = lines.iter().find(|line| line["usage"] != Value::Null).expect("a line of usage");
    assert_eq!(
        usage["usage"],
        json!({"outlook": "next_invoice", "quantity_billed": 10, "quantity": 6, "billed": 5, "waived": 0, "price": 3,
            "difference": -2, "difference_with_tax": -2.2})
    );
    assert_eq!((&usage["amount"], &usage["left"], &usage["credit_note"]), (&json!(5.5), &json!(5.5), &json!(2.2)));
    let foreign = format!("/api/invoices/{}/corrections/preview/", invoice.id("invoice_id"));
    let other = world.other_key();
    assert_eq!(world.send("POST", &foreign, &[("X-API-KEY", &other)], b"{}").status, 404, "another tenant's");

    let body = json!({"invoice_id": invoice["invoice_id"], "corrections": true, "reason": "a test run", "settlement": "balance"});
    let note = world.post("/api/credit_notes/", &body).ok(201);
    assert_eq!((&note["amount"], &note["tax"], &note["corrections"]), (&json!(2.2), &json!(0.2), &json!(true)));
    assert_eq!(preview(&world, &invoice)["credit_note"], 0);
    let again = world.post("/api/credit_notes/", &body);
    assert_eq!((again.status, again.error()), (409, "invalid_state".to_owned()));
    assert_sound(&world);
    world.advance(&clock, "2024-03-02");
    assert_eq!(newest(&world)["amount"], 22, "a fee, and no late line");
    assert_sound(&world);
    world.post(&format!("/api/credit_notes/{}/void/", note.id("credit_note_id")), &json!({})).ok(200);
    assert_sound(&world);
    world.advance(&clock, "2024-04-02");
    assert_eq!(newest(&world)["amount"], 19.8, "less what the voided note had given back");
    assert_sound(&world);
}

#[test]
fn an_invoice_is_issued_anew() {
    let world = World::new();
    let clock = with_calls(&world);
    let invoice = newest(&world);
    void_calls(&world, 0..4);
    let path = format!("/api/invoices/{}/void/", invoice.id("invoice_id"));
    let paid = world.post(&path.replace("void", "payments"), &json!({"amount": 5})).ok(201);
    let refused = world.post(&path, &json!({"rebill": true}));
    assert_eq!((refused.status, refused.error()), (409, "invalid_state".to_owned()), "while a payment stands");
    let reverse = path.replace("void", &format!("payments/{}/reverse", paid.id("payment_id")));
    world.post(&reverse, &json!({})).ok(200);
    world.write("PATCH", "/api/customers/acme/", br#"{"tax_rate": 0}"#).ok(200);
    let voided = world.post(&path, &json!({"rebill": true})).ok(200);
    assert_eq!((&voided["forgiven"], &voided["owed_again"]), (&json!([]), &json!([])));
    let new = &voided["reissue"];
    assert_eq!(
        (&new["amount"], &new["payment_status"]),
        (&json!(23), &json!("unpaid")),
        "20 and six calls, without tax"
    );
    assert_eq!((&voided["replaced_by"], &new["replaces"]), (&new["invoice_id"], &invoice["invoice_id"]));
    assert_eq!(&newest(&world), new);
    let again = world.post(&path, &json!({"rebill": true}));
    assert_eq!((again.status, again.error()), (409, "invalid_state".to_owned()), "once");
    assert_eq!(preview(&world, new)["next_invoice"], 0);
    let statement = world.get("/api/customers/acme/statement/").ok(200);
    assert_eq!(statement["balances"][0]["closing_balance"], 45, "22 for January, and the new one: {statement}");
    assert_sound(&world);

    // What a cancellation gave back stays given back, where a plain void is refused.
    world.advance(&clock, "2024-02-15");
    let body = json!({"flat_fee_behavior": "refund", "usage_behavior": "bill_full"});
    world.post("/api/subscriptions/cancel/?customer_id=acme", &body).ok(200);
    let path = format!("/api/invoices/{}/void/", new.id("invoice_id"));
    assert_eq!(world.post(&path, &json!({})).status, 409);
    let third = world.post(&path, &json!({"rebill": true})).ok(200)["reissue"].clone();
    assert_eq!(third["amount"], 3, "23 of which the credit of the refund pays 20");
    assert_sound(&world);
    let plain = world.post(&format!("/api/invoices/{}/void/", third.id("invoice_id")), &json!({}));
    assert_eq!(plain.status, 409, "20 of it came back");
    world.advance(&clock, "2024-04-02");
    assert_sound(&world);
}

#[test]
fn a_voided_invoice_owes_nothing_to_the_truth() {
    let world = World::new();
    with_calls(&world);
    let invoice = newest(&world).id("invoice_id");
    world.post(&format!("/api/invoices/{invoice}/void/"), &json!({})).ok(200);
    let refused = world.post(&format!("/api/invoices/{invoice}/corrections/preview/"), &json!({}));
    assert_eq!((refused.status, refused.error()), (409, "invalid_state".to_owned()));
}
