//! Credit notes over HTTP: by line, amount and percent, to the balance and outside, listed, voided, told, and in the statement.

use serde_json::{Value, json};

use crate::receiver::until;
use crate::support::{Field, World};

/// A customer of a test clock's with an unpaid invoice of 9 and 20 percent of tax.
fn invoiced(world: &World) -> Value {
    world.write("PATCH", "/api/organization/", br#"{"tax_rate": 20}"#).ok(200);
    let plan = world.plan(&world.metric());
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-04-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    world.advance(&clock, "2024-04-10");
    world.get("/api/invoices/?customer_id=acme").ok(200)[0].clone()
}

fn note(invoice: &Value, what: Value) -> Value {
    let mut body = json!({"invoice_id": invoice["invoice_id"], "reason": "It was down", "settlement": "balance"});
    body.as_object_mut().expect("an object").extend(what.as_object().expect("an object").clone());
    body
}

#[test]
fn a_note_takes_back_shows_and_is_voided() {
    let world = World::new();
    let invoice = invoiced(&world);
    assert_eq!(invoice["amount_due"], 10.8);
    let line = &invoice["line_items"][0]["line_id"];
    let made =
        world.post("/api/credit_notes/", &note(&invoice, json!({"lines": [{"line_id": line, "percent": 50}]}))).ok(201);
    let expected = json!({
        "credit_note_id": made["credit_note_id"], "credit_note_number": "CN-240410-000001", "issue_date": "2024-04-10T00:00:00Z",
        "amount": 5.4, "settlement": "balance", "voided_at": null, "customer_id": "acme", "invoice_id": invoice["invoice_id"],
        "invoice_number": invoice["invoice_number"], "currency": invoice["currency"], "tax": 0.9, "amount_credited": 0,
        "credit_id": null, "corrections": false, "reason": "It was down", "reference": null,
        "line_items": [{"line_id": line, "name": invoice["line_items"][0]["name"], "amount": 5.4, "base": 4.5, "tax": 0.9}],
    });
    assert_eq!(made, expected);
    let path = format!("/api/credit_notes/{}/", made.id("credit_note_id"));
    assert_eq!(world.get(&path).ok(200), expected);
    let shown = world.get(&format!("/api/invoices/{}/", invoice.id("invoice_id"))).ok(200);
    assert_eq!((&shown["amount"], &shown["amount_due"]), (&json!(10.8), &json!(5.4)));
    assert_eq!(shown["credit_notes"][0]["credit_note_number"], "CN-240410-000001");

    let more = world.post("/api/credit_notes/", &note(&invoice, json!({"amount": 5.41})));
    assert_eq!((more.status, more.error()), (400, "max_value".to_owned()));
    let void = format!("/api/invoices/{}/void/", invoice.id("invoice_id"));
    let refused = world.post(&void, &json!({}));
    assert_eq!((refused.status, refused.error()), (409, "invalid_state".to_owned()));
    assert!(refused.text.contains("CN-240410-000001"), "{}", refused.text);

    world.post(&format!("/api/invoices/{}/payments/", invoice.id("invoice_id")), &json!({"amount": 5.4})).ok(201);
    let paid_back = world.post("/api/credit_notes/", &note(&invoice, json!({}))).ok(201);
    assert_eq!((&paid_back["amount"], &paid_back["amount_credited"]), (&json!(5.4), &json!(5.4)));
    let credit = world.get(&format!("/api/credits/{}/", paid_back.id("credit_id"))).ok(200);
    assert_eq!(credit["amount_remaining"], 5.4);
    let nothing = world.post("/api/credit_notes/", &note(&invoice, json!({})));
    assert_eq!((nothing.status, nothing.error()), (409, "invalid_state".to_owned()));

    let voided = world.post(&format!("{path}void/"), &json!({})).ok(200);
    assert_eq!(voided["voided_at"], "2024-04-10T00:00:00Z");
    assert_eq!(world.post(&format!("{path}void/"), &json!({})).status, 409, "once");
    let outside = note(&invoice, json!({"amount": 5, "settlement": "outside", "reference": "re_9"}));
    let outside = world.post("/api/credit_notes/", &outside).ok(201);
    assert_eq!((&outside["reference"], &outside["credit_id"]), (&json!("re_9"), &Value::Null));

    let listed = world.get(&format!("/api/credit_notes/?customer_id=acme&invoice_id={}", invoice.id("invoice_id")));
    let numbers: Vec<_> =
        listed.ok(200).as_array().expect("a list").iter().map(|note| note.id("credit_note_number")).collect();
    assert_eq!(numbers, ["CN-240410-000003", "CN-240410-000002", "CN-240410-000001"]);
    let page = world.get("/api/credit_notes/?limit=1");
    assert_eq!(page.ok(200)[0]["credit_note_id"], outside["credit_note_id"]);

    assert_told(&world);
    assert_stated(&world);
}

/// Three notes were issued, and the first of them voided.
fn assert_told(world: &World) {
    let expected = [("created", 1, true), ("created", 2, true), ("voided", 1, false), ("created", 3, true)];
    let expected =
        expected.map(|(verb, n, stands)| (format!("credit_note.{verb}"), format!("CN-240410-00000{n}"), stands));
    let mut told = Vec::new();
    until("four messages", || {
        let page = world.get("/api/feed/?types=credit_note.created&types=credit_note.voided").ok(200);
        let messages = page["results"].as_array().expect("messages").iter();
        let shown = messages
            .map(|told| (told.id("type"), told["data"].id("credit_note_number"), told["data"]["voided_at"].is_null()));
        told = shown.collect();
        told.len() >= expected.len()
    });
    assert_eq!(told, expected);
}

/// All of it is in the statement, and a refund outside moves nothing.
fn assert_stated(world: &World) {
    let statement = world.get("/api/customers/acme/statement/").ok(200);
    let entries: Vec<_> = statement["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|entry| {
            (entry.id("kind"), entry["due_change"].clone(), entry["credit_change"].clone(), entry["balance"].clone())
        })
        .collect();
    let entry = |kind: &str, due: Value, credit: Value, balance: Value| (kind.to_owned(), due, credit, balance);
    assert_eq!(
        entries,
        [
            entry("invoice", json!(10.8), json!(0), json!(10.8)),
            entry("credit_note", json!(-5.4), json!(0), json!(5.4)),
            entry("payment", json!(-5.4), json!(0), json!(0)),
            entry("credit_granted", json!(0), json!(5.4), json!(-5.4)),
            entry("credit_note", json!(0), json!(0), json!(-5.4)),
            entry("credit_note_voided", json!(5.4), json!(0), json!(0)),
            entry("credit_note", json!(0), json!(0), json!(0)),
        ]
    );
}

#[test]
fn what_is_wrong_with_a_note_is_told_together() {
    let world = World::new();
    let invoice = invoiced(&world);
    let line = invoice["line_items"][0]["line_id"].clone();
    #[rustfmt::skip]
    let cases = [
        // body,                                                                                          faults,                                  why
        (json!({"amount": 1, "percent": 1}),                                                              vec!["percent not_allowed_together"],    "one share"),
        (json!({"lines": []}),                                                                            vec!["lines empty"],                     "no line is not every line"),
        (json!({"lines": [{"line_id": line, "amount": 1, "percent": 1}, {"line_id": "line_1"}]}),         vec!["lines.1.line_id invalid"],         "faults of form first"),
        (json!({"lines": [{"line_id": line}], "amount": 1}),                                              vec!["lines not_allowed_together"],      "lines or the whole"),
        (json!({"lines": [{"line_id": line}, {"line_id": line}]}),                                        vec!["lines.1.line_id unique"],          "a line once"),
        (json!({"lines": [{"line_id": line, "amount": "0.001"}, {"line_id": format!("line_{}_9", "0".repeat(32))}], "reason": " "}),
            vec!["lines.0.amount max_decimal_places", "lines.1.line_id does_not_exist", "reason blank"],                                           "all of them"),
        (json!({"amount": -1}),                                                                           vec!["amount min_value"],                "above 0"),
        (json!({"percent": 101}),                                                                         vec!["percent max_value"],               "at most all of it"),
        (json!({"reference": "re_1"}),                                                                    vec!["reference not_allowed_together"],  "nothing is refunded to the balance"),
        (json!({"settlement": "cash"}),                                                                   vec!["settlement invalid_choice"],       "balance or outside"),
        (json!({"invoice_id": format!("invoice_{}", "0".repeat(32))}),                                    vec!["invoice_id does_not_exist"],       "there is no such invoice"),
    ];
    for (body, faults, why) in cases {
        let answer = world.post("/api/credit_notes/", &note(&invoice, body));
        let found: Vec<_> = answer.ok(400)["validation_errors"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|fault| format!("{} {}", fault.id("attr"), fault.id("code")))
            .collect();
        assert_eq!(found, faults, "{why}");
    }
    let refund = note(&invoice, json!({"amount": 1, "settlement": "outside"}));
    let refused = world.post("/api/credit_notes/", &refund);
    assert_eq!((refused.status, refused.error()), (409, "invalid_state".to_owned()), "nothing came that could go back");
}
