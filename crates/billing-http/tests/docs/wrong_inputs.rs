//! What a newcomer gets wrong on the first day, and what the service says: to the letter, since the text is all there is.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{World, event, now};

/// Texts of a refusal by the place of each: of bad fields, or of an answer as a whole at "".
fn told(answer: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    if let Some(events) = answer["failed_events"].as_object() {
        return events.iter().map(|(id, reason)| (id.clone(), text(reason))).collect();
    }
    let faults = answer["validation_errors"].as_array().expect("a list");
    match faults.as_slice() {
        [] => vec![(String::new(), text(&answer["detail"]))],
        faults => faults.iter().map(|fault| (text(&fault["attr"]), text(&fault["detail"]))).collect(),
    }
}

#[test]
fn what_is_sent_wrong_is_told_with_what_would_be_right() {
    let world = World::new();
    world.customer("acme");
    let address = |country: &str| json!({"city": "Bern", "country": country, "line1": "1", "postal_code": "3000"});
    let customer = |more: Value| {
        let mut body = json!({"customer_id": "new", "email": "new@acme.io"});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    let mut no_time = event("acme", "a", "");
    no_time.as_object_mut().expect("an object").remove("time_created");
    let mut unix = event("acme", "b", "");
    unix["time_created"] = json!(1_705_740_815);
    let several = json!({"idempotency_id": "c", "event_name": 7, "properties": []});
    let plan = |currency: &str| json!({"plan_name": "A", "plan_duration": "monthly", "initial_version": {"currency_code": currency}});
    let time = "send a date and time, as 2024-01-31T12:00:00Z";
    let no_event = "No idempotency_id provided: this is no event; send an event, a list of events, or {\"batch\": [..]} with a \
        list of them";
    #[rustfmt::skip]
    let cases: Vec<(&str, Value, Vec<(&str, String)>)> = vec![
        // path,            body,                                           place and text
        ("/api/track/",     no_time,                                        vec![("a", "Invalid time_created: it is missing; send when it happened, as 2024-01-31T12:00:00Z".into())]),
        ("/api/track/",     unix,                                           vec![("b", format!("Invalid time_created: Unix times are not taken; {time}"))]),
        ("/api/track/",     event("acme", "d", "01/31/2024"),               vec![("d", format!("Invalid time_created: {time}"))]),
        ("/api/track/",     several,                                        vec![("c", "No customer_id provided; Invalid event_name; Invalid time_created: it is missing; send when it happened, as 2024-01-31T12:00:00Z; Invalid properties".into())]),
        ("/api/track/",     json!({"events": []}),                          vec![("no_idempotency_id", no_event.into())]),
        ("/api/track/",     json!({"batch": [{"customer_id": "acme", "event_name": "e", "time_created": now()}, {}]}),
                                                                            vec![("no_idempotency_id", format!("No idempotency_id provided (batch.0); {no_event} (batch.1)"))]),
        ("/api/plans/",     plan("usd"),                                    vec![("initial_version.currency_code", "There is no currency `usd`. Did you mean USD?".into())]),
        ("/api/plans/",     plan("EURO"),                                   vec![("initial_version.currency_code", "There is no currency `EURO`. Did you mean EUR?".into())]),
        ("/api/plans/",     plan("dollars"),                                vec![("initial_version.currency_code", "There is no currency `dollars`.".into())]),
        ("/api/customers/", customer(json!({"default_currency_code": "eur"})), vec![("default_currency_code", "There is no currency `eur`. Did you mean EUR?".into())]),
        ("/api/customers/", customer(json!({"timezone": "CET+1"})),         vec![("timezone", "`CET+1` is not a known time zone. Did you mean Europe/Berlin, Europe/Paris or Europe/Madrid?".into())]),
        ("/api/customers/", customer(json!({"timezone": "new york"})),      vec![("timezone", "`new york` is not a known time zone. Did you mean America/New_York?".into())]),
        ("/api/customers/", customer(json!({"billing_address": address("Germany")})),
                                                                            vec![("billing_address.country", "`Germany` is not an ISO 3166-1 alpha-2 country code. Did you mean DE (Germany)?".into())]),
        ("/api/customers/", json!({"customer_id": "acme", "email": "b@b.io"}),
                                                                            vec![("", "A customer with this customer_id exists: GET /api/customers/{customer_id}/ shows it, PATCH changes it.".into())]),
        ("/api/credits/",   json!({"customer_id": "acme", "amount": 1, "currency_code": "US"}),
                                                                            vec![("currency_code", "There is no currency `US`. Did you mean USD, USN or UZS?".into())]),
        ("/api/metrics/",   json!({"event_name": "e", "agregation_type": "sum"}),
                                                                            vec![("agregation_type", "Nothing has this name here. Did you mean `aggregation_type`?".into())]),
    ];
    for (path, body, expected) in cases {
        let answer = world.post(path, &body);
        assert_eq!(answer.status, 400, "{path} {body}: {}", answer.text);
        let expected: Vec<_> = expected.into_iter().map(|(place, text)| (place.to_owned(), text)).collect();
        assert_eq!(told(&answer.json()), expected, "{path} {body}");
    }
    let zone = world.get("/api/organization/").ok(200)["timezone"].clone();
    let changed = world.write("PATCH", "/api/organization/", br#"{"timezone": "Zurich"}"#);
    let expected = "`Zurich` is not a known time zone. Did you mean Europe/Zurich?".to_owned();
    assert_eq!(told(&changed.json()), [("timezone".to_owned(), expected)], "it was {zone}");
}

#[test]
fn a_request_without_a_right_key_is_told_how_to_send_one() {
    let world = World::new();
    let (key, bearer) = (world.key.as_str(), format!("Bearer {}", world.key));
    let token = format!("Token {}", world.key);
    let (prefix, _) = key.split_once('.').expect("a key");
    let wrong = format!("{prefix}.{}", "a".repeat(32));
    let invalid = "The API key in X-API-KEY is not valid: it is unknown, wrong or expired.";
    #[rustfmt::skip]
    let cases: &[(&[(&str, &str)], &str)] = &[
        // headers,                                          what is told
        (&[],                                                "Send an API key in the header X-API-KEY."),
        (&[("Authorization", &bearer)],                      "Send the API key in the header X-API-KEY, not in Authorization; only `Authorization: Token <token>` may stand beside it."),
        (&[("Authorization", &token)],                       "A token opens nothing by itself: send an API key in the header X-API-KEY beside Authorization."),
        (&[("X-API-KEY", "")],                               invalid),
        (&[("X-API-KEY", &wrong)],                           invalid),
        (&[("X-API-KEY", key), ("Authorization", &bearer)],  "Authorization may hold `Token <token>` beside X-API-KEY and nothing else; leave it out, the key is enough."),
        (&[("X-API-KEY", key), ("Authorization", "Token x")], "Invalid token."),
    ];
    // Keys are looked at in two ways: by most calls at once, by these two with what they ask.
    for path in ["/api/customers/", "/api/metric_access/", "/api/track/"] {
        let method = if path == "/api/track/" { "POST" } else { "GET" };
        for (headers, expected) in cases {
            let answer = world.send(method, path, headers, b"");
            assert_eq!(answer.status, 401, "{path}: {}", answer.text);
            assert_eq!(answer.json()["detail"], *expected, "{path} {headers:?}");
            assert_eq!(answer.header("www-authenticate"), "ApiKey header=\"X-API-KEY\", Token", "{path}");
        }
    }
}

#[test]
fn what_is_typed_wrong_is_told_with_what_would_be_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let data_dir = folder.path().join("new");
    let nothing = format!("Error: no database here, in {0}: {0} has no Postgres cluster\n", data_dir.display());
    let formats = |given: &str| {
        format!(
            "error: invalid value '{given}' for '--until <UNTIL>': Use one of these formats: YYYY-MM-DD, YYYY-MM-DDThh:mm:ss with an \
            optional fraction and offset.\n\nFor more information, try '--help'.\n"
        )
    };
    let ahead = "Error: --until lies in the future: customers in real time are billed up to now at most; those of a test clock go ahead \
        with it\n";
    #[rustfmt::skip]
    let cases: [(&[&str], String); 6] = [
        // what is typed,                      what is told
        (&["audit"],                           nothing.clone()),
        (&["list-organizations"],              nothing.clone()),
        (&["bill-run"],                        nothing),
        (&["bill-run", "--until", "2099-03-01"], ahead.to_owned()),
        (&["bill-run", "--until", "2026-13-01"], formats("2026-13-01")),
        (&["bill-run", "--until", "tomorrow"], formats("tomorrow")),
    ];
    for (typed, expected) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_billing-http"));
        command.args(typed).env("BILLING_DATA_DIR", &data_dir).env_remove("DATABASE_URL").env_remove("RUST_LOG");
        let output = command.output().expect("it runs");
        assert!(!output.status.success() && output.stdout.is_empty(), "{typed:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected, "{typed:?}");
        assert!(!data_dir.exists(), "{typed:?} makes nothing");
    }
}
