//! One question to a provider: what it is told, and what may come back. `docs/api.md`, "Tax providers".

use std::time::Duration;

use billing_domain::address::Address;
use billing_domain::tax::TaxOutcome;
use billing_domain::workflow::{TaxAnswer, TaxQuestion};
use billing_outbound::{Answer, Client, Destination, Failure, Message, Secret};
use serde_json::{Value, json};
use time::OffsetDateTime;
use uuid::Uuid;

use super::PATIENCE;
use crate::wire::{AddressView, FromJson, Instant, Number};

/// Asks, and makes of whatever comes back an answer; and whether the provider was reached: one that says what is no rate may say
/// otherwise of the next customer.
pub fn ask(client: &Client, question: &TaxQuestion) -> (TaxAnswer, bool) {
    let failed = |reason| TaxAnswer { outcome: TaxOutcome::Failed(reason), valid_until: None };
    match send(client, question, PATIENCE) {
        Ok(Ok(answer)) => (read(&answer).unwrap_or_else(failed), true),
        Ok(Err(failure)) => (failed(failure.to_string()), false),
        Err(reason) => (failed(reason), true),
    }
}

/// What came back.
///
/// # Errors
/// Why nothing can be sent.
fn send(client: &Client, question: &TaxQuestion, patience: Duration) -> Result<Result<Answer, Failure>, String> {
    let hook = &question.hook;
    let to = Destination::parse(&hook.url, client.reach()).map_err(|error| error.to_string())?;
    let secret = Secret::parse(&hook.secret).map_err(|error| error.to_string())?;
    let (now, id) = (OffsetDateTime::now_utc(), format!("tax_{}", Uuid::now_v7().simple()));
    let body = body(question, now).to_string();
    let signed = secret.sign(&Message { id: &id, timestamp: now.unix_timestamp(), body: body.as_bytes() });
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(signed.as_pairs());
    Ok(client.post(&to, &headers, body.as_bytes(), patience))
}

fn body(question: &TaxQuestion, now: OffsetDateTime) -> Value {
    let customer = &question.customer;
    let shown = |address: &Option<Address>| json!(address.as_ref().map(AddressView::from));
    json!({
        "type": "tax_rate.requested",
        "timestamp": Instant(now),
        "data": {
            "organization_id": customer.organization.to_string(),
            "customer_id": customer.id.as_str(),
            "customer_name": customer.fields.name,
            "email": customer.email,
            "billing_address": shown(&customer.fields.billing_address),
            "shipping_address": shown(&customer.fields.shipping_address),
            "issue_date": Instant(question.at),
        },
    })
}

/// What an answer says; otherwise what is wrong with it.
fn read(answer: &Answer) -> Result<TaxAnswer, String> {
    match answer.status {
        200 => {}
        204 => return Ok(TaxAnswer { outcome: TaxOutcome::NoRate, valid_until: None }),
        status => return Err(format!("it answered with status {status}")),
    }
    if answer.is_cut {
        return Err("its answer is too long".to_owned());
    }
    let no_answer = || "its answer is not {\"tax_rate\": number or null}".to_owned();
    let value: Value = serde_json::from_slice(&answer.body).map_err(|_| no_answer())?;
    let valid_until = match value.get("valid_until") {
        None | Some(Value::Null) => None,
        Some(text) => {
            let read = Instant::from_json(text.clone()).map_err(|_| "its valid_until is not a date".to_owned())?;
            Some(read.0)
        }
    };
    match value.get("tax_rate").ok_or_else(no_answer)? {
        Value::Null => Ok(TaxAnswer { outcome: TaxOutcome::NoRate, valid_until }),
        number => {
            let Number(rate) = Number::from_json(number.clone()).map_err(|_| no_answer())?;
            TaxAnswer::of_rate(rate, valid_until).map_err(|error| format!("its tax_rate is none: {}", error.detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rate_or_none_is_an_answer() {
        let rate = |text: &str| Ok(TaxOutcome::Rate(text.parse().expect("a number")));
        let none = || Ok(TaxOutcome::NoRate);
        #[rustfmt::skip]
        let cases = [
            // status, body,                                                     outcome,      why
            (200,      r#"{"tax_rate": 20}"#,                                    rate("20"),   "a rate"),
            (200,      r#"{"tax_rate": "8.875", "more": true}"#,                 rate("8.875"), "as text, and more beside it"),
            (200,      r#"{"tax_rate": 0}"#,                                     rate("0"),    "exempt"),
            (200,      r#"{"tax_rate": 7, "valid_until": "2026-12-31"}"#,        rate("7"),    "good for a while"),
            (200,      r#"{"tax_rate": null}"#,                                  none(),       "it knows none"),
            (204,      "",                                                       none(),       "it says nothing"),
            (200,      r#"{"rate": 20}"#,                                        Err(()),      "under another name"),
            (200,      r#"{"tax_rate": -1}"#,                                    Err(()),      "below nothing"),
            (200,      r#"{"tax_rate": 1000}"#,                                  Err(()),      "above everything"),
            (200,      r#"{"tax_rate": 1e999999999}"#,                           Err(()),      "a bomb"),
            (200,      r#"{"tax_rate": 1.23456}"#,                               Err(()),      "finer than any rate"),
            (200,      r#"{"tax_rate": 20, "valid_until": "soon"}"#,             Err(()),      "nobody knows until when"),
            (200,      r#"[20]"#,                                                Err(()),      "a list"),
            (200,      "<html>",                                                 Err(()),      "not JSON"),
            (200,      "",                                                       Err(()),      "nothing at all"),
            (500,      r#"{"tax_rate": 20}"#,                                    Err(()),      "it failed"),
            (302,      r#"{"tax_rate": 20}"#,                                    Err(()),      "it is elsewhere"),
        ];
        for (status, body, expected, why) in cases {
            let answer = Answer { status, body: body.as_bytes().to_vec(), is_cut: false, retry_after: None };
            assert_eq!(read(&answer).map(|said| said.outcome).map_err(drop), expected, "{body}: {why}");
        }
        let cut = Answer { status: 200, body: br#"{"tax_rate": 20}"#.to_vec(), is_cut: true, retry_after: None };
        assert!(read(&cut).is_err(), "who knows what came behind it");
    }
}
