//! Payments over HTTP: in parts, by a bank's references, too much, taken back, and another tenant's.

use serde_json::{Value, json};

use crate::support::{Field, World, now};

/// A customer of a test clock's with an unpaid invoice of 9.
fn invoiced(world: &World) -> Value {
    let plan = world.plan(&world.metric());
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-04-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    world.advance(&clock, "2024-04-10");
    world.get("/api/invoices/?customer_id=acme").ok(200)[0].clone()
}

fn path(invoice: &Value) -> String {
    format!("/api/invoices/{}/payments/", invoice.id("invoice_id"))
}

#[test]
fn payments_are_noted_listed_and_taken_back() {
    let world = World::new();
    let invoice = invoiced(&world);
    assert_eq!(invoice["amount_due"], 9);
    let body = json!({"amount": "2.50", "at": "2024-04-03", "method": "bank", "reference": "line 1"});
    let part = world.post(&path(&invoice), &body).ok(201);
    let expected = json!({
        "payment_id": part["payment_id"], "invoice_id": invoice["invoice_id"], "kind": "payment", "reverses": null, "amount": 2.5,
        "amount_credited": 0, "credit_id": null, "credit_note_id": null, "at": "2024-04-03T00:00:00Z", "method": "bank", "reference": "line 1",
        "reason": null, "noted_at": "2024-04-10T00:00:00Z", "invoice_number": invoice["invoice_number"],
        "payment_status": "unpaid", "amount_due": 6.5,
    });
    assert_eq!(part, expected);
    assert_eq!(world.get("/api/customers/acme/").ok(200)["total_amount_due"], 6.5);
    let over = world
        .post(
            "/api/payments/",
            &json!({"invoice_number": format!("Invoice {}!", invoice.id("invoice_number")), "amount": 10}),
        )
        .ok(201);
    assert_eq!(
        (&over["payment_status"], &over["amount_due"], &over["amount_credited"]),
        (&json!("paid"), &json!(0), &json!(3.5))
    );
    let credit = world.get(&format!("/api/credits/{}/", over.id("credit_id"))).ok(200);
    assert_eq!((&credit["amount_remaining"], &credit["amount_paid"]), (&json!(3.5), &json!(0)));
    assert_eq!(credit["description"], format!("Overpayment of invoice {}", invoice.id("invoice_number")));
    let void = world.post(&format!("/api/invoices/{}/void/", invoice.id("invoice_id")), &json!({}));
    assert_eq!((void.status, void.error()), (409, "invalid_state".to_owned()));
    assert!(void.text.contains("reverse them first"), "{}", void.text);

    let reverse = format!("{}{}/reverse/", path(&invoice), over.id("payment_id"));
    let back = world.post(&reverse, &json!({"reason": "bounced"})).ok(200);
    assert_eq!(
        (&back["kind"], &back["reverses"], &back["reason"]),
        (&json!("reversal"), &over["payment_id"], &json!("bounced"))
    );
    assert_eq!(
        (&back["amount"], &back["amount_credited"], &back["amount_due"]),
        (&json!(10), &json!(3.5), &json!(6.5))
    );
    let again = world.post(&reverse, &json!({}));
    assert_eq!((again.status, again.error()), (409, "invalid_state".to_owned()));
    let credit = world.get(&format!("/api/credits/{}/", over.id("credit_id"))).ok(200);
    assert_eq!((&credit["amount_remaining"], &credit["status"]), (&json!(0), &json!("inactive")));

    let listed = world.get(&path(&invoice)).ok(200);
    let kinds: Vec<_> = listed.as_array().expect("a list").iter().map(|entry| entry.id("kind")).collect();
    assert_eq!(kinds, ["payment", "payment", "reversal"], "nothing is erased");
    assert_eq!(world.get(&format!("{}?limit=1&cursor=2", path(&invoice))).ok(200), json!([listed[2]]));
    let show = |path: &str| world.get(path).ok(200)["amount_due"].clone();
    assert_eq!(show(&format!("/api/invoices/{}/", invoice.id("invoice_id"))), 6.5);
    world.post(&format!("{}{}/reverse/", path(&invoice), part.id("payment_id")), &json!({})).ok(200);
    let voided = world.post(&format!("/api/invoices/{}/void/", invoice.id("invoice_id")), &json!({})).ok(200);
    assert_eq!((&voided["payment_status"], &voided["amount_due"]), (&json!("voided"), &json!(0)));
    let late = world.post(&path(&invoice), &json!({"amount": 1}));
    assert_eq!((late.status, late.error()), (409, "invalid_state".to_owned()));
    let numbered = json!({"invoice_number": invoice["invoice_number"], "amount": 1});
    let late = world.post("/api/payments/", &numbered);
    assert_eq!((late.status, late.error()), (409, "invalid_state".to_owned()), "by its number neither");
}

#[test]
fn a_line_of_a_bank_counts_once() {
    let world = World::new();
    let invoice = invoiced(&world);
    let line = json!({"invoice_number": invoice["invoice_number"], "amount": 4, "method": "bank", "reference": "2024-04-05/7"});
    world.post("/api/payments/", &line).ok(201);
    let again = world.post("/api/payments/", &line);
    assert_eq!((again.status, again.error()), (400, "duplicate_resource".to_owned()));
    let due = || world.get(&format!("/api/invoices/{}/", invoice.id("invoice_id"))).ok(200)["amount_due"].clone();
    assert_eq!(due(), 5);
    // A key that comes twice is one request, with the answer of the first.
    let send = |key: &str| {
        let headers =
            [("X-API-KEY", world.key.as_str()), ("Content-Type", "application/json"), ("Idempotency-Key", key)];
        world.send("POST", &path(&invoice), &headers, br#"{"amount": 1}"#).ok(201)
    };
    assert_eq!(send("one"), send("one"));
    assert_eq!(due(), 4);
}

#[test]
fn what_cannot_be_a_payment_is_refused() {
    let world = World::new();
    let invoice = invoiced(&world);
    let numbered = |number: &str| json!({"invoice_number": number, "amount": 1});
    let of_invoice = path(&invoice);
    #[rustfmt::skip]
    let cases = [
        // path,              body,                                              field,            code,                   why
        (&*of_invoice,        json!({}),                                         "amount",         "required",             "nothing"),
        (&of_invoice,         json!({"amount": 0}),                              "amount",         "min_value",            "nothing came"),
        (&of_invoice,         json!({"amount": 0.001}),                          "amount",         "max_decimal_places",   "no coin is that small"),
        (&of_invoice,         json!({"amount": 1, "at": "2024-04-11"}),          "at",             "max_value",            "the customer's future"),
        (&of_invoice,         json!({"amount": 1, "currency": "USD"}),           "currency",       "unknown_field",        "it is the invoice's"),
        ("/api/payments/",    json!({"amount": 1}),                              "invoice_number", "required",             "for what?"),
        ("/api/payments/",    numbered("thanks"),                                "invoice_number", "invalid",              "no number"),
        ("/api/payments/",    numbered("240401-000001 and 240401-000002"),       "invoice_number", "invalid",              "two"),
        ("/api/payments/",    numbered("240401-999999"),                         "invoice_number", "does_not_exist",       "nobody's"),
    ];
    for (path, body, field, code, why) in cases {
        assert_eq!(world.post(path, &body).faults(), [(field.to_owned(), code.to_owned())], "{why}");
    }
    assert_eq!(world.get(&of_invoice).ok(200), json!([]));
}

#[test]
fn nobody_pays_another_tenants_invoice() {
    let world = World::new();
    let invoice = invoiced(&world);
    let noted = world.post(&path(&invoice), &json!({"amount": 1})).ok(201);
    let theirs = world.other_key();
    let headers = [("X-API-KEY", theirs.as_str()), ("Content-Type", "application/json")];
    let reverse = format!("{}{}/reverse/", path(&invoice), noted.id("payment_id"));
    for (method, target) in [("POST", path(&invoice)), ("GET", path(&invoice)), ("POST", reverse)] {
        let body: &[u8] = if method == "POST" && target.ends_with("payments/") { br#"{"amount": 1}"# } else { b"" };
        let answer = world.send(method, &target, &headers, body);
        assert_eq!((answer.status, answer.error()), (404, "not_found".to_owned()), "{method} {target}");
    }
    let body = json!({"invoice_number": invoice["invoice_number"], "amount": 1}).to_string();
    let answer = world.send("POST", "/api/payments/", &headers, body.as_bytes());
    assert_eq!(answer.faults(), [("invoice_number".to_owned(), "does_not_exist".to_owned())]);
    assert_eq!(world.get(&path(&invoice)).ok(200).as_array().map(Vec::len), Some(1));
}

/// Billing looks at credits, so nobody gets one whose past is still to be billed.
#[test]
fn who_catches_up_pays_what_is_due_and_no_more() {
    let world = World::new();
    let plan = world.plan(&world.metric());
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]});
    world.post("/api/subscriptions/", &body).ok(200);
    let invoice = world.get("/api/invoices/?customer_id=acme").ok(200)[0].clone();
    // Without a place in the queue nobody ends it meanwhile.
    world.sql("UPDATE customers SET catching_up = true; DELETE FROM billing_due");
    let numbered = json!({"invoice_number": invoice["invoice_number"], "amount": 10});
    for (path, body) in [(path(&invoice), json!({"amount": 10})), ("/api/payments/".to_owned(), numbered)] {
        let answer = world.post(&path, &body);
        assert_eq!(
            (answer.status, answer.error()),
            (409, "catching_up".to_owned()),
            "{path}: a credit of 1 would come of it"
        );
    }
    let paid = world.post(&path(&invoice), &json!({"amount": 9})).ok(201);
    assert_eq!((&paid["payment_status"], &paid["amount_due"]), (&json!("paid"), &json!(0)), "{paid}");
}
