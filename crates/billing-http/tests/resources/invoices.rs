//! Paying and voiding invoices over HTTP.

use serde_json::{Value, json};

use crate::support::{Field, World, event, plan_body};

fn invoiced(world: &World) -> Value {
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-04-01");
    world.write("PATCH", "/api/organization/", br#"{"payment_grace_period": 14}"#).ok(200);
    world.customer_at("acme", &clock);
    let credit = json!({"customer_id": "acme", "amount": 4, "currency_code": "USD"});
    world.post("/api/credits/", &credit).ok(201);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-04-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    world.get("/api/invoices/?status=unpaid&customer_id=acme").ok(200)[0].clone()
}

fn remaining(world: &World) -> Value {
    world.get("/api/credits/?customer_id=acme").ok(200)[0]["amount_remaining"].clone()
}

#[test]
fn an_invoice_is_paid_by_id_or_number_and_stays_paid() {
    let world = World::new();
    let invoice = invoiced(&world);
    assert_eq!((&invoice["amount"], &invoice["due_date"]), (&json!(5), &json!("2024-04-15T00:00:00Z")));
    let path = format!("/api/invoices/{}/", invoice.id("invoice_number"));
    let set = |status: &str| world.write("PATCH", &path, json!({"payment_status": status}).to_string().as_bytes());
    for bad in ["voided", "draft", "bogus"] {
        assert_eq!(set(bad).faults(), [("payment_status".to_owned(), "invalid_choice".to_owned())], "{bad}");
    }
    assert_eq!(world.write("PATCH", &path, b"{}").faults(), [("payment_status".to_owned(), "required".to_owned())]);
    assert_eq!(set("unpaid").ok(200)["payment_status"], "unpaid");
    assert_eq!(set("paid").ok(200)["payment_status"], "paid");
    assert_eq!(world.get(&format!("/api/invoices/{}/", invoice.id("invoice_id"))).ok(200)["payment_status"], "paid");
    let again = set("unpaid");
    assert_eq!((again.status, again.error()), (400, "invalid_operation".to_owned()));
    let void = world.post(&format!("{path}void/"), &json!({}));
    assert_eq!((void.status, void.error()), (409, "invalid_state".to_owned()));
    assert_eq!(world.get("/api/invoices/?payment_status=paid").ok(200).as_array().map(Vec::len), Some(1));
    assert_eq!(world.get("/api/invoices/?status=draft").ok(200), json!([]));
    assert_eq!(world.get("/api/invoices/?status=paid&status=voided").ok(200).as_array().map(Vec::len), Some(1));
    assert_eq!(world.get("/api/invoices/?status=unpaid,paid").ok(200), world.get("/api/invoices/").ok(200));
    assert_eq!(world.get("/api/invoices/?status=lost").faults()[0].1, "invalid_choice");
}

#[test]
fn a_list_keeps_a_customers_and_those_of_a_status() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-04-01");
    // One invoice of each status, and one of another customer.
    for customer in ["acme", "other"] {
        world.customer_at(customer, &clock);
    }
    let invoice = |customer: &str, env: &str| {
        let filters = json!([{"property_name": "env", "value": env}]);
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": "2024-04-01", "subscription_filters": filters});
        world.post("/api/subscriptions/", &body).ok(200);
        world.get("/api/invoices/").ok(200)[0].id("invoice_number")
    };
    let (voided, paid, unpaid, other) =
        (invoice("acme", "a"), invoice("acme", "b"), invoice("acme", "c"), invoice("other", "a"));
    world.post(&format!("/api/invoices/{voided}/void/"), &json!({})).ok(200);
    world.write("PATCH", &format!("/api/invoices/{paid}/"), br#"{"payment_status": "paid"}"#).ok(200);
    #[rustfmt::skip]
    let cases = [
        // query,                                          kept,                              why
        ("",                                               vec![&other, &unpaid, &paid, &voided], "all that were issued, newest first"),
        ("customer_id=acme",                               vec![&unpaid, &paid, &voided],     "one customer's"),
        ("customer_id=other",                              vec![&other],                      "another's"),
        ("status=unpaid",                                  vec![&other, &unpaid],             "of one status"),
        ("status=paid",                                    vec![&paid],                       "of another"),
        ("status=voided",                                  vec![&voided],                     "of the third"),
        ("status=draft",                                   vec![],                            "drafts are previews"),
        ("status=draft,voided,paid,unpaid",                vec![&other, &unpaid, &paid, &voided], "of all"),
        ("status=paid&status=voided",                      vec![&paid, &voided],              "of either, repeated"),
        ("status[]=paid&status[]=voided",                  vec![&paid, &voided],              "with brackets"),
        ("payment_status=voided",                          vec![&voided],                     "by the field's name"),
        ("customer_id=acme&status=unpaid",                 vec![&unpaid],                     "both"),
        ("customer_id=other&status=voided",                vec![],                            "both, and none is left"),
    ];
    for (query, expected, why) in cases {
        let list = world.get(&format!("/api/invoices/?{}", query.replace('[', "%5B").replace(']', "%5D"))).ok(200);
        let shown: Vec<_> =
            list.as_array().expect("a list").iter().map(|invoice| invoice.id("invoice_number")).collect();
        assert_eq!(shown.iter().collect::<Vec<_>>(), expected, "{query}: {why}");
    }
}

#[test]
fn a_voided_invoice_gives_credits_back() {
    let world = World::new();
    let invoice = invoiced(&world);
    assert_eq!(remaining(&world), json!(0));
    let path = format!("/api/invoices/{}/", invoice.id("invoice_id"));
    assert_eq!(world.post(&format!("{path}void/"), &json!({})).ok(200)["payment_status"], "voided");
    assert_eq!(remaining(&world), json!(4));
    let credit = world.get("/api/credits/?customer_id=acme").ok(200)[0].clone();
    let applied: Vec<_> =
        credit["drawdowns"].as_array().expect("a list").iter().map(|drawdown| drawdown["amount"].clone()).collect();
    assert_eq!(applied, [json!(-4), json!(4)]);
    assert_eq!(world.get("/api/invoices/?status=voided").ok(200)[0]["invoice_id"], invoice["invoice_id"]);
    let customer = world.get("/api/customers/acme/").ok(200);
    assert_eq!((&customer["invoices"], &customer["total_amount_due"]), (&json!([]), &json!(0)));
    let again = world.post(&format!("{path}void/"), &json!({}));
    assert_eq!((again.status, again.error()), (409, "invalid_state".to_owned()));
    let paid = world.write("PATCH", &path, br#"{"payment_status": "paid"}"#);
    assert_eq!((paid.status, paid.error()), (400, "invalid_operation".to_owned()));
    let unknown = world.post("/api/invoices/990101-000009/void/", &json!({}));
    assert_eq!((unknown.status, unknown.error()), (404, "not_found".to_owned()));
}

#[test]
fn a_void_says_what_it_forgives_and_cannot_follow_what_took_it_back() {
    let world = World::new();
    let plan = |name: &str, amount: u32| {
        let fee = json!({"name": "base", "amount": amount, "charge_timing": "in_advance"});
        let version = json!({"currency_code": "USD", "recurring_charges": [fee]});
        let body = json!({"plan_name": name, "plan_duration": "monthly", "initial_version": version});
        world.post("/api/plans/", &body).ok(201).id("plan_id")
    };
    let (small, large) = (plan("Small", 30), plan("Large", 60));
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": small, "start_date": "2024-04-01"});
    let subscription = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
    world.advance(&clock, "2024-04-16");
    let switch = format!("/api/subscriptions/{subscription}/switch_plan/");
    world.post(&switch, &json!({"switch_plan_id": large})).ok(200);
    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    let (switched, first) = (&invoices[0], &invoices[1]);
    let void = |invoice: &Value| world.post(&format!("/api/invoices/{}/void/", invoice.id("invoice_id")), &json!({}));

    let refused = void(first);
    assert_eq!((refused.status, refused.error()), (409, "invalid_state".to_owned()));
    let named = refused.json()["detail"].as_str().expect("a text").contains(&switched.id("invoice_number"));
    assert!(named, "the document that took half of it back: {}", refused.text);

    let line = |list: &Value| {
        let lines = list.as_array().expect("lines").iter();
        lines.map(|line| (line.id("name"), line["amount"].clone())).collect::<Vec<_>>()
    };
    let voided = void(switched).ok(200);
    assert_eq!(voided["payment_status"], "voided");
    assert_eq!(line(&voided["forgiven"]), [("Large Flat Fee".to_owned(), json!(30))]);
    assert_eq!(line(&voided["owed_again"]), [("Small Flat Fee".to_owned(), json!(15))]);
    assert_eq!(voided["forgiven"][0]["start_date"], "2024-04-16T00:00:00Z");
    let id_of = |amount: i64| {
        let lines = voided["line_items"].as_array().expect("lines");
        lines.iter().find(|line| line["amount"] == amount).expect("the line").id("line_id")
    };
    let named = [voided["forgiven"][0].id("line_id"), voided["owed_again"][0].id("line_id")];
    assert_eq!(named, [id_of(30), id_of(-15)], "one of the two is not the first line of the invoice");
    let voided = void(first).ok(200);
    assert_eq!((line(&voided["forgiven"]).len(), line(&voided["owed_again"]).len()), (1, 0));

    let current = world.get("/api/subscriptions/?customer_id=acme").ok(200)[0].id("subscription_id");
    world.post(&format!("/api/subscriptions/{current}/cancel/"), &json!({"flat_fee_behavior": "refund"})).ok(200);
    assert_eq!(world.get("/api/credits/?customer_id=acme").ok(200), json!([]), "nobody paid anything");
}

#[test]
fn what_is_due_is_told_by_currency() {
    let world = World::new();
    let currency = |code: &str, name: &str, symbol: &str| json!({"code": code, "name": name, "symbol": symbol});
    let (usd, eur, jpy) =
        (currency("USD", "US Dollar", "$"), currency("EUR", "Euro", "€"), currency("JPY", "Japanese Yen", "¥"));
    for id in ["acme", "globex"] {
        let body = json!({"customer_id": id, "email": format!("{id}@acme.io"), "default_currency_code": if id == "acme" { "USD" } else { "EUR" }});
        world.post("/api/customers/", &body).ok(201);
    }
    let due = |customer: &str| {
        let shown = world.get(&format!("/api/customers/{customer}/")).ok(200);
        let all = world.get("/api/customers/").ok(200);
        let listed = all.as_array().expect("a list").iter().find(|listed| listed["customer_id"] == customer).cloned();
        assert_eq!(listed, Some(shown.clone()));
        (shown["total_amount_due"].to_string(), shown["total_amounts_due"].clone())
    };
    let buy = |customer: &str, amount: &str, code: &str| {
        let body = json!({"customer_id": customer, "amount": amount, "currency_code": code, "amount_paid": amount,
            "amount_paid_currency_code": code, "effective_at": "2199-01-01"});
        world.post("/api/credits/", &body).ok(201);
        let invoices = world.get(&format!("/api/invoices/?customer_id={customer}")).ok(200);
        invoices[0].id("invoice_id")
    };
    assert_eq!(due("acme"), ("0".to_owned(), json!([])), "nothing is due in any currency");
    buy("acme", "10.50", "USD");
    let yen = buy("acme", "2000", "JPY");
    buy("acme", "4.50", "USD");
    buy("globex", "7", "USD");
    let expected = json!([{"currency": jpy, "amount": 2000}, {"currency": usd, "amount": 15}]);
    assert_eq!(due("acme"), ("15".to_owned(), expected), "dollars and yen are never added up");
    assert_eq!(due("globex"), ("0".to_owned(), json!([{"currency": usd, "amount": 7}])), "nothing in its own currency");
    buy("globex", "3.25", "EUR");
    let expected = json!([{"currency": eur, "amount": 3.25}, {"currency": usd, "amount": 7}]);
    assert_eq!(due("globex"), ("3.25".to_owned(), expected), "what is due in its own");
    world.write("PATCH", &format!("/api/invoices/{yen}/"), br#"{"payment_status": "paid"}"#).ok(200);
    assert_eq!(due("acme"), ("15".to_owned(), json!([{"currency": usd, "amount": 15}])), "what is paid is due no more");
}

#[test]
fn fees_of_one_plan_are_told_apart_by_their_names() {
    let world = World::new();
    let clock = world.clock("2025-01-01T00:00:00Z");
    world.customer_at("acme", &clock);
    let metric = world.metric();
    let mut plan = plan_body("A", &metric);
    plan["initial_version"]["recurring_charges"] = json!([
        {"name": "platform", "amount": 10, "charge_timing": "in_advance"},
        {"name": "support", "amount": 5, "charge_timing": "in_advance"},
    ]);
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2025-01-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    let of = |lines: &Value| {
        let line = |line: &Value| (line.id("name"), line["charge_name"].clone(), line["amount"].clone());
        lines.as_array().expect("a list").iter().map(line).collect::<Vec<_>>()
    };
    let fees = |sign: i64| {
        let fee = |charge: &str, amount: i64| ("A Flat Fee".to_owned(), json!(charge), json!(sign * amount));
        vec![fee("platform", 10), fee("support", 5)]
    };
    let invoice = world.get("/api/invoices/?customer_id=acme").ok(200)[0].clone();
    assert_eq!(of(&invoice["line_items"]), fees(1));
    let path = format!("/api/invoices/{}/", invoice.id("invoice_id"));
    assert_eq!(of(&world.get(&format!("{path}explain/")).ok(200)["line_items"]), fees(1));
    let draft = world.get("/api/customers/acme/draft_invoice/").ok(200);
    let mut drafted = of(&draft["invoices"][0]["line_items"][0]["sub_items"]);
    drafted.iter_mut().for_each(|(name, ..)| *name = name.replace(" - Next Period", ""));
    assert!(drafted.starts_with(&fees(1)), "{drafted:?}");
    assert_eq!(of(&world.post(&format!("{path}void/"), &json!({})).ok(200)["forgiven"]), fees(1));

    // What a cancellation gives back, and what is no fee.
    world.post("/api/track/", &event("acme", "1", "2025-01-01T00:00:00Z")).ok(201);
    world.advance(&clock, "2025-02-01T01:00:00Z");
    let lines = of(&world.get("/api/invoices/?customer_id=acme").ok(200)[0]["line_items"]);
    assert_eq!(lines.iter().filter(|(_, charge, _)| charge.is_null()).count(), 1, "usage: {lines:?}");
    let subscription = world.get("/api/subscriptions/?customer_id=acme").ok(200)[0].id("subscription_id");
    let cancel = json!({"flat_fee_behavior": "refund", "usage_behavior": "bill_none"});
    world.post(&format!("/api/subscriptions/{subscription}/cancel/"), &cancel).ok(200);
    let lines = of(&world.get("/api/invoices/?customer_id=acme").ok(200)[0]["line_items"]);
    assert!(lines.starts_with(&fees(-1)), "{lines:?}");
}

#[test]
fn a_line_has_one_id_wherever_it_is_shown() {
    let world = World::new();
    let clock = world.clock("2025-01-01T00:00:00Z");
    world.customer_at("acme", &clock);
    let mut plan = plan_body("A", &world.metric());
    let fee = |name: &str| json!({"name": name, "amount": 10, "charge_timing": "in_advance"});
    plan["initial_version"]["recurring_charges"] = json!([fee("platform"), fee("support")]);
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    let credit = json!({"customer_id": "acme", "amount": 4, "currency_code": "USD"});
    world.post("/api/credits/", &credit).ok(201);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2025-01-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    world.advance(&clock, "2025-02-01T01:00:00Z");

    let ids = |lines: &Value| {
        let lines = lines.as_array().expect("lines").iter();
        lines.map(|line| line.id("line_id")).collect::<Vec<_>>()
    };
    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    for invoice in invoices.as_array().expect("invoices") {
        let digits = invoice.id("invoice_id").replace("invoice_", "");
        let count = invoice["line_items"].as_array().map_or(0, Vec::len);
        let expected: Vec<_> = (1..=count).map(|place| format!("line_{digits}_{place}")).collect();
        assert_eq!(ids(&invoice["line_items"]), expected, "the invoice's digits and the place on it");
        let path = format!("/api/invoices/{}/", invoice.id("invoice_number"));
        assert_eq!(ids(&world.get(&path).ok(200)["line_items"]), expected);
        assert_eq!(ids(&world.get(&format!("{path}explain/")).ok(200)["line_items"]), expected);
    }

    let first = &invoices[1];
    let voided = world.post(&format!("/api/invoices/{}/void/", first.id("invoice_id")), &json!({})).ok(200);
    let charges = first["line_items"].as_array().expect("lines").iter().filter(|line| !line["charge_name"].is_null());
    assert_eq!(ids(&voided["line_items"]), ids(&first["line_items"]), "a void renames none");
    assert_eq!(ids(&voided["forgiven"]), charges.map(|line| line.id("line_id")).collect::<Vec<_>>());
    let draft = world.get("/api/customers/acme/draft_invoice/").ok(200);
    let drafted = &draft["invoices"][0]["line_items"][0]["sub_items"][0];
    assert!(
        drafted.get("name").is_some() && drafted.get("line_id").is_none(),
        "what was not issued has none: {drafted}"
    );
}
