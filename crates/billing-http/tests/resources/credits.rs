//! Credits: granting, paying invoices, changing, voiding, and which of them a list keeps.

use serde_json::{Value, json};

use crate::support::{Field, World, plan_body};

fn grant(world: &World, body: Value) -> Value {
    let mut whole = json!({"customer_id": "acme", "amount": 100, "currency_code": "USD"});
    for (name, value) in body.as_object().expect("an object") {
        whole[name] = value.clone();
    }
    world.post("/api/credits/", &whole).ok(201)
}

#[test]
fn a_credit_pays_the_invoices_to_come() {
    let world = World::new();
    let clock = world.clock("2024-01-01");
    world.customer_at("acme", &clock);
    let credit = grant(&world, json!({"amount": "20.50", "description": "promo", "expires_at": "2025-01-01"}));
    let expected = json!({
        "credit_id": credit["credit_id"],
        "customer": {"customer_id": "acme", "customer_name": null, "email": "acme@acme.io"},
        "amount": 20.5,
        "amount_remaining": 20.5,
        "currency": {"code": "USD", "name": "US Dollar", "symbol": "$"},
        "description": "promo",
        "effective_at": "2024-01-01T00:00:00Z",
        "expires_at": "2025-01-01T00:00:00Z",
        "status": "active",
        "amount_paid": 0,
        "amount_paid_currency": null,
        "drawdowns": [],
    });
    assert_eq!(credit, expected, "a credit as the interface shows it");

    let metric = world.metric();
    let plan = world.post("/api/plans/", &plan_body("Starter", &metric)).ok(201).id("plan_id");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    world.advance(&clock, "2024-03-02");
    let credit = world.get(&format!("/api/credits/{}/", credit.id("credit_id"))).ok(200);
    let drawn: Vec<_> =
        credit["drawdowns"].as_array().expect("a list").iter().map(|drawdown| drawdown["amount"].to_string()).collect();
    assert_eq!(drawn, ["-9", "-9", "-2.5"], "three fees of 9");
    assert_eq!((credit["amount_remaining"].to_string(), credit.id("status")), ("0".to_owned(), "inactive".to_owned()));
    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    let shown: Vec<_> = invoices
        .as_array()
        .expect("a list")
        .iter()
        .map(|invoice| (invoice["amount"].to_string(), invoice.id("payment_status")))
        .collect();
    assert_eq!(
        shown,
        [
            ("6.5".to_owned(), "unpaid".to_owned()),
            ("0".to_owned(), "paid".to_owned()),
            ("0".to_owned(), "paid".to_owned())
        ]
    );
}

#[test]
fn a_credit_that_is_paid_for_is_invoiced() {
    let world = World::new();
    world.customer("acme");
    let credit = grant(&world, json!({"amount_paid": 80, "amount_paid_currency_code": "EUR"}));
    assert_eq!(credit["amount_paid_currency"]["code"], "EUR");
    let invoice = &world.get("/api/invoices/").ok(200)[0];
    assert_eq!((invoice["amount"].to_string(), &invoice["currency"]["code"]), ("80".to_owned(), &json!("EUR")));
    assert_eq!(invoice["line_items"][0]["name"], "Credit Grant: €80");
}

#[test]
fn bad_credits_are_refused_field_by_field() {
    let world = World::new();
    world.customer("acme");
    let before = world.snapshot();
    #[rustfmt::skip]
    let cases = [
        // body,                                                                          fault,                                  why
        (json!({}),                                                                       ("customer_id", "required"),            "nothing"),
        (json!({"customer_id": "acme", "amount": 0, "currency_code": "USD"}),             ("amount", "min_value"),                "worth nothing"),
        (json!({"customer_id": "acme", "amount": -5, "currency_code": "USD"}),            ("amount", "min_value"),                "worth less than nothing"),
        (json!({"customer_id": "acme", "amount": "x", "currency_code": "USD"}),           ("amount", "invalid"),                  "no number"),
        (json!({"customer_id": "acme", "amount": 5, "currency_code": "ZZZ"}),             ("currency_code", "does_not_exist"),    "no currency"),
        (json!({"customer_id": "ghost", "amount": 5, "currency_code": "USD"}),            ("customer_id", "does_not_exist"),      "no customer"),
        (json!({"customer_id": "acme", "amount": 5, "currency_code": "USD", "expires_at": "2020-01-01"}), ("expires_at", "invalid"), "expired at birth"),
        (json!({"customer_id": "acme", "amount": 5, "currency_code": "USD", "amount_paid": 5}), ("amount_paid_currency_code", "required"), "paid in nothing"),
    ];
    for (body, (attr, code), why) in cases {
        let faults = world.post("/api/credits/", &body).faults();
        assert!(faults.contains(&(attr.to_owned(), code.to_owned())), "{why}: {faults:?}");
    }
    assert_eq!(world.snapshot(), before, "nothing was written");
    assert_eq!(world.get("/api/credits/?customer_id=acme").ok(200), json!([]));
}

#[test]
fn only_an_active_credit_changes() {
    let world = World::new();
    world.customer("acme");
    let credit = grant(&world, json!({"description": "promo"})).id("credit_id");
    let path = format!("/api/credits/{credit}/update/");
    let updated = world.post(&path, &json!({"expires_at": "2099-01-01T00:00:00Z"})).ok(200);
    assert_eq!((&updated["description"], &updated["expires_at"]), (&json!("promo"), &json!("2099-01-01T00:00:00Z")));
    let cleared = world.post(&path, &json!({"expires_at": null, "description": null})).ok(200);
    assert_eq!((&cleared["description"], &cleared["expires_at"]), (&Value::Null, &Value::Null));
    let refused = world.post(&path, &json!({"expires_at": "2020-01-01"}));
    assert_eq!((refused.status, refused.error()), (400, "credit_expiry_in_past".to_owned()));

    let voided = world.post(&format!("/api/credits/{credit}/void/"), &json!({})).ok(200);
    assert_eq!((voided["amount_remaining"].to_string(), voided.id("status")), ("0".to_owned(), "inactive".to_owned()));
    let again = world.post(&format!("/api/credits/{credit}/void/"), &json!({})).ok(200);
    assert_eq!(again, voided, "nothing happens the second time");
    let refused = world.post(&path, &json!({"description": "late"}));
    assert_eq!((refused.status, refused.error()), (400, "credit_not_active".to_owned()));
    let absent = format!("/api/credits/baladj_{:032x}/", 7);
    assert_eq!(world.get(&absent).status, 404);
    assert_eq!(world.post(&format!("{absent}void/"), &json!({})).status, 404);
}

#[test]
fn a_list_keeps_what_it_is_asked_for() {
    let world = World::new();
    let clock = world.clock("2024-06-15");
    world.customer_at("acme", &clock);
    grant(&world, json!({"description": "a", "effective_at": "2024-06-01", "expires_at": "2024-07-01"}));
    grant(&world, json!({"description": "b", "currency_code": "EUR", "effective_at": "2024-07-01"}));
    let voided = grant(&world, json!({"description": "c"})).id("credit_id");
    world.post(&format!("/api/credits/{voided}/void/"), &json!({})).ok(200);
    world.customer_at("other", &clock);
    grant(&world, json!({"customer_id": "other", "description": "another customer's"}));
    #[rustfmt::skip]
    let cases = [
        // query,                                 kept,                why
        ("",                                      vec!["c", "b", "a"], "newest first"),
        ("&currency_code=EUR",                    vec!["b"],           "by currency"),
        ("&status=active",                        vec!["b", "a"],      "with something left"),
        ("&status=inactive",                      vec!["c"],           "voided"),
        ("&status[]=active&status[]=inactive",    vec!["c", "b", "a"], "both, as when it is left out"),
        ("&effective_before=2024-06-01",          vec!["a"],           "a bound is inside"),
        ("&effective_after=2024-06-15",           vec!["c", "b"],      "effective then or later"),
        ("&expires_after=2024-08-01",             vec!["c", "b"],      "never is after every instant"),
        ("&expires_before=2024-07-01",            vec!["a"],           "expiring then or before"),
        ("&issued_after=2024-06-16",              vec![],              "granted later"),
        ("&issued_before=2024-06-15",             vec!["c", "b", "a"], "granted by then"),
    ];
    for (query, kept, why) in cases {
        let list = world.get(&format!("/api/credits/?customer_id=acme{query}")).ok(200);
        let shown: Vec<_> = list.as_array().expect("a list").iter().map(|credit| credit.id("description")).collect();
        assert_eq!(shown, kept, "{query}: {why}");
    }
    let required = world.get("/api/credits/").faults();
    assert_eq!(required, [("customer_id".to_owned(), "required".to_owned())]);
    assert_eq!(world.get("/api/credits/?customer_id=acme&status=bogus").faults()[0].1, "invalid_choice");
    assert_eq!(world.get("/api/credits/?customer_id=acme&issued_after=x").faults()[0].0, "issued_after");
    let unknown = world.get("/api/credits/?customer_id=acme&currency_code=QQQ").faults();
    assert_eq!(unknown, [("currency_code".to_owned(), "does_not_exist".to_owned())]);
}
