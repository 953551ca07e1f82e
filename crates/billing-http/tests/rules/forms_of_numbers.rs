//! Decimals as text, for whoever asks: the same answers, as the description of that form says.

use billing_http::message::webhooks;
use billing_http::openapi;
use billing_http::wire::DecimalForm;
use serde_json::{Value, json};

use super::every_route::protected;
use super::poison::fits;
use crate::samples::{Fixture, samples};
use crate::support::{Field, World};

const TEXT: &str = "application/json; numbers=text";

/// Every number of a value as text.
fn with_texts(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.to_string()),
        Value::Array(items) => items.iter().map(with_texts).collect(),
        Value::Object(fields) => fields.iter().map(|(name, field)| (name.clone(), with_texts(field))).collect(),
        other => other.clone(),
    }
}

#[test]
fn every_answer_to_reading_has_its_decimals_as_text_when_asked() {
    let world = World::new();
    let ours = Fixture::new(&world, "ours");
    let table = protected();
    let document = openapi::document(&table, &webhooks(), DecimalForm::Text);
    let mut changed = 0;
    for endpoint in table.iter().filter(|endpoint| endpoint.method == "GET") {
        let schema = &document["paths"][endpoint.path]["get"]["responses"]["200"];
        let schema = schema.pointer("/content/application~1json/schema").expect("an answer");
        for sample in samples(endpoint) {
            let target = sample.target(&ours);
            let ask = |accept| world.send("GET", &target, &[("X-API-KEY", ours.key.as_str()), ("Accept", accept)], b"");
            let (plain, of_texts) = (ask("*/*"), ask(TEXT));
            assert_eq!(of_texts.status, 200, "{target}: {}", of_texts.text);
            assert_eq!(of_texts.header("content-type"), TEXT, "{target}");
            let told = of_texts.ok(200);
            fits(&told, schema, &document).unwrap_or_else(|fault| panic!("{target}: {fault}: {told}"));
            // A draft has an id of its own each time, and usage goes on until now.
            if !["draft_invoice", "/usage/"].iter().any(|changing| target.contains(changing)) {
                // What is at work meanwhile, such as events that are counted by minute, may come between the two.
                let is_same = |_| with_texts(&ask("*/*").ok(200)) == with_texts(&ask(TEXT).ok(200));
                let is_same = with_texts(&plain.ok(200)) == with_texts(&told) || (0..20).any(is_same);
                assert!(is_same, "{target}: all else is the same: {} {told}", plain.text);
            }
            changed += u32::from(plain.text != of_texts.text);
        }
    }
    assert!(changed > 10, "{changed} answers have decimals");
}

#[test]
fn a_kept_answer_is_told_in_the_form_that_is_asked_for() {
    let world = World::new();
    world.customer("acme");
    let body = json!({"customer_id": "acme", "amount": "12345678901234567.25", "currency_code": "USD"}).to_string();
    let ask = |accept: &str| {
        let headers =
            [("X-API-KEY", world.key.as_str()), ("Content-Type", "application/json"), ("Idempotency-Key", "1")];
        let headers = [&headers[..], &[("Accept", accept)]].concat();
        world.send("POST", "/api/credits/", &headers, body.as_bytes())
    };
    let (first, again) = (ask("application/json"), ask(TEXT));
    assert!(first.text.contains(r#""amount":12345678901234567.25,"#), "{}", first.text);
    assert_eq!(
        (again.ok(201)["amount"].clone(), again.header("idempotency-replayed")),
        (json!("12345678901234567.25"), "true")
    );
    assert_eq!(ask("*/*").text, first.text, "and in the usual one again");
    let id = first.ok(201).id("credit_id");
    let refused = world.send("GET", "/api/credits/", &[("X-API-KEY", &world.key), ("Accept", TEXT)], b"");
    assert_eq!(refused.error(), "required", "an error has no decimals");
    let head = world.send("HEAD", &format!("/api/credits/{id}/"), &[("X-API-KEY", &world.key), ("Accept", TEXT)], b"");
    assert_eq!((head.status, head.header("content-type")), (200, TEXT));
}
