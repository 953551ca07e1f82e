//! Changing and deleting customers over HTTP.

use serde_json::{Value, json};

use crate::support::{Answer, Field, World};

fn patch(world: &World, body: &Value) -> Answer {
    world.write("PATCH", "/api/customers/acme/", body.to_string().as_bytes())
}

#[test]
fn a_customer_changes_field_by_field() {
    let world = World::new();
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    world.customer_at("other", &clock);
    let home = json!({"city": "Bern", "country": "CH", "line1": "1 Street", "line2": null, "postal_code": "3000", "state": null});
    let body = json!({
        "customer_name": "Acme Inc.", "email": "new@acme.io", "billing_address": home, "shipping_address": home,
        "tax_rate": 7.7, "timezone": "Europe/Zurich", "payment_provider": "stripe", "payment_provider_id": "cus_1",
        "has_payment_method": true,
    });
    let changed = patch(&world, &body).ok(200);
    for (name, value) in body.as_object().expect("an object") {
        assert_eq!(&changed[name], value);
    }
    assert_eq!((&changed["address"], &changed["integrations"]["stripe"]["stripe_id"]), (&home, &json!("cus_1")));
    assert_eq!(world.get("/api/customers/acme/").ok(200), changed);
    assert_eq!(patch(&world, &json!({"default_currency_code": "EUR"})).ok(200)["default_currency"]["code"], "EUR");
    let cleared = json!({"customer_name": null, "address": null, "tax_rate": null, "payment_provider": null, "payment_provider_id": null});
    let cleared = patch(&world, &cleared).ok(200);
    assert_eq!(
        (&cleared["customer_name"], &cleared["billing_address"], &cleared["tax_rate"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!(cleared["shipping_address"], home, "what is left out stays");

    let before = world.snapshot();
    let bad = json!({"email": "nonsense", "tax_rate": -1, "timezone": "Mars/Base", "default_currency_code": "XXX",
        "payment_provider": "stripe", "billing_address": {"city": "B", "country": "ZZ", "line1": "1", "postal_code": "3"}});
    let faults: Vec<_> = patch(&world, &bad).faults().into_iter().map(|(attr, _)| attr).collect();
    let all =
        ["email", "tax_rate", "timezone", "payment_provider_id", "billing_address.country", "default_currency_code"];
    assert_eq!(faults, all, "all at once");
    let nulls = json!({"email": null, "timezone": null, "has_payment_method": null});
    assert_eq!(patch(&world, &nulls).faults().len(), 3);
    assert_eq!(patch(&world, &json!({"email": "other@acme.io"})).error(), "duplicate_resource");
    assert_eq!(world.snapshot(), before);
    assert_eq!(world.write("PATCH", "/api/customers/nobody/", b"{}").error(), "not_found");
}

#[test]
fn a_deleted_customer_leaves_its_books() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    let addon = json!({"addon_name": "x", "currency_code": "USD", "billing_frequency": "recurring",
        "recurring_charges": [{"name": "fee", "amount": 3, "charge_timing": "in_advance"}]});
    let addon = world.post("/api/addons/", &addon).ok(201).id("addon_id");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-04-01"});
    let id = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
    world.post(&format!("/api/subscriptions/{id}/addons/attach/"), &json!({"addon_id": addon})).ok(200);
    let grant = json!({"customer_id": "acme", "amount": 4, "currency_code": "USD"});
    let credit = world.post("/api/credits/", &grant).ok(201).id("credit_id");
    let invoices = world.get("/api/invoices/").ok(200);
    world.advance(&clock, "2024-04-11");

    let deleted = world.post("/api/customers/acme/delete/", &json!({})).ok(200);
    let expected = json!({"customer_id": "acme", "deleted": "2024-04-11T00:00:00Z", "email": "acme@acme.io",
        "num_subscriptions_deleted": 1, "num_addons_deleted": 1});
    assert_eq!(deleted, expected);
    assert_eq!(world.get("/api/customers/acme/").error(), "not_found");
    assert_eq!(world.post("/api/customers/acme/delete/", &json!({})).error(), "not_found");
    assert_eq!(world.get("/api/customers/").ok(200), json!([]));
    assert_eq!(world.get("/api/subscriptions/?customer_id=acme").faults()[0].1, "does_not_exist");
    for taken in
        [json!({"customer_id": "acme", "email": "b@acme.io"}), json!({"customer_id": "b", "email": "acme@acme.io"})]
    {
        assert_eq!(world.post("/api/customers/", &taken).error(), "duplicate_resource", "{taken}");
    }

    world.advance(&clock, "2024-07-01");
    assert_eq!(world.get("/api/invoices/").ok(200), invoices, "nothing is billed any more");
    let invoice = invoices[0].id("invoice_id");
    assert_eq!(world.get(&format!("/api/invoices/{invoice}/")).ok(200), invoices[0]);
    assert_eq!(world.get(&format!("/api/credits/{credit}/")).ok(200)["amount_remaining"], json!(4));
    let paid = world.write("PATCH", &format!("/api/invoices/{invoice}/"), br#"{"payment_status": "paid"}"#).ok(200);
    assert_eq!(paid["payment_status"], "paid", "what they owed can still be settled");
}

#[test]
fn customers_are_found_by_what_is_remembered_of_them() {
    let world = World::new();
    for (id, name, email) in
        [("c-1", "Acme", "old@acme.io"), ("c-2", "acme & Sons", "acme"), ("acme", "Zebra", "z@acme.io")]
    {
        let email = if email.contains('@') { email.to_owned() } else { format!("{email}@acme.io") };
        world.post("/api/customers/", &json!({"customer_id": id, "customer_name": name, "email": email})).ok(201);
    }
    #[rustfmt::skip]
    let cases = [
        // query,                            found,                          why
        ("search=ACME",                      vec!["acme", "c-1", "c-2"],     "ids before names"),
        ("search=acme%20%26",                vec!["c-2"],                    "more of a name"),
        ("search=%20zebra%20",               vec!["acme"],                   "without space around it"),
        ("search=z%40acme.io",               vec!["acme"],                   "an address, whole"),
        ("search=z%40acme.i",                vec![],                         "and no part of one"),
        ("search=acme&limit=1",              vec!["acme"],                   "as many as asked for"),
        ("search=acme&email=old%40acme.io",  vec!["c-1"],                    "both"),
        ("search=sons",                      vec![],                         "not what is inside"),
    ];
    for (query, expected, why) in cases {
        let found = world.get(&format!("/api/customers/?{query}")).ok(200);
        let ids: Vec<&str> =
            found.as_array().expect("a list").iter().filter_map(|one| one["customer_id"].as_str()).collect();
        assert_eq!(ids, expected, "{query}: {why}");
    }
    let long = "x".repeat(101);
    for (text, code) in [("%20", "blank"), (&*long, "max_length")] {
        let refused = world.get(&format!("/api/customers/?search={text}"));
        assert_eq!(refused.faults(), [("search".to_owned(), code.to_owned())], "{text}");
    }
}

#[test]
fn a_customer_is_found_by_its_email() {
    let world = World::new();
    let (_, other_key) = world.opened.create_organization("Other", None).expect("an organization");
    for (id, email) in [("acme", "old@acme.io"), ("other", "other@acme.io"), ("gone", "gone@acme.io")] {
        world.post("/api/customers/", &json!({"customer_id": id, "email": email})).ok(201);
    }
    patch(&world, &json!({"email": "a+b@acme.io"})).ok(200);
    world.post("/api/customers/gone/delete/", &json!({})).ok(200);
    let theirs = json!({"customer_id": "theirs", "email": "theirs@acme.io"}).to_string();
    let headers = [("X-API-KEY", other_key.reveal()), ("Content-Type", "application/json")];
    world.send("POST", "/api/customers/", &headers, theirs.as_bytes()).ok(201);
    #[rustfmt::skip]
    let cases = [
        // sent,               found,           why
        ("a%2Bb%40acme.io",    vec!["acme"],    "since it was changed"),
        ("old%40acme.io",      vec![],          "until then"),
        ("other@acme.io",      vec!["other"],   "another one's"),
        ("OTHER@acme.io",      vec![],          "written otherwise"),
        ("gone@acme.io",       vec![],          "of one who was deleted"),
        ("theirs@acme.io",     vec![],          "of another organization's"),
    ];
    for (sent, found, why) in cases {
        let list = world.get(&format!("/api/customers/?email={sent}")).ok(200);
        let ids: Vec<_> = list.as_array().expect("a list").iter().map(|one| one.id("customer_id")).collect();
        assert_eq!(ids, found, "{sent}: {why}");
    }
    assert_eq!(
        world.get("/api/customers/?email=").ok(200),
        world.get("/api/customers/").ok(200),
        "nothing is no address"
    );
}
