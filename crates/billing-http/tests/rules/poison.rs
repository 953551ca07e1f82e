//! Values that something may choke on, in every place of every call: refused without a trace, and never a fault.
//!
//! A place gets every third of them, its neighbour others; with `BILLING_POISON=all` each gets all.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use billing_domain::BigDecimal;
use billing_http::endpoint::Endpoint;
use billing_http::message::webhooks;
use billing_http::openapi;
use billing_http::wire::DecimalForm;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::every_route::{assert_listed, field_names, protected, state};
use crate::samples::{Fixture, Fixtures, Position, Sample, escaped, samples};
use crate::support::World;

/// Values that something may choke on.
fn poison() -> Vec<Value> {
    let raw = |text: &str| serde_json::from_str::<Value>(text).expect("json");
    let deep = (0..30).fold(json!(1), |inner, _| json!([inner]));
    vec![
        Value::Null,
        json!(true),
        json!(""),
        json!(" "),
        json!("\u{1}\u{7f}"),
        json!("';DROP TABLE customers;--"),
        json!("\u{202e}\u{1f600}é"),
        json!("x".repeat(5_000)),
        json!(-1),
        json!(0),
        raw("1e400"),
        raw("1e-400"),
        raw("123456789012345678901234567890.1234567890123456789"),
        raw("0.0000000000000001"),
        json!("1e999999999"),
        json!("NaN"),
        json!("0001-01-01"),
        json!("9999-12-31T23:59:60Z"),
        json!("2024-02-30"),
        json!([]),
        json!([null]),
        json!({}),
        json!({"": {"a": []}}),
        deep,
    ]
}

/// Every value in a body, holders too, by pointer.
fn places(value: &Value, pointer: &str, found: &mut Vec<String>) {
    found.push(pointer.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| places(item, &format!("{pointer}/{i}"), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, item)| places(item, &format!("{pointer}/{name}"), found));
        }
        _ => {}
    }
}

/// Requests around a sample: poison in every place of its body, in every field it could have, in its query and path.
fn poisoned(sample: &Sample, endpoint: &Endpoint, fields: &BTreeSet<String>) -> Vec<Sample> {
    let mut all = Vec::new();
    let poison = poison();
    let gets_all = std::env::var("BILLING_POISON").is_ok_and(|text| text == "all");
    let gets = |value: usize, place: usize| gets_all || (value + place).is_multiple_of(3);
    if let Some(body) = &sample.body {
        let mut pointers = Vec::new();
        places(body, "", &mut pointers);
        // Everything that is a list, with all that it holds twice.
        all.extend(pointers.iter().filter_map(|pointer| {
            let list = body.pointer(pointer)?.as_array()?;
            Some(sample.with(&Position::Body(pointer.clone()), json!([list.as_slice(), list].concat())))
        }));
        let absent: Vec<&String> = fields.iter().filter(|field| body.get(field.as_str()).is_none()).collect();
        for (number, value) in poison.iter().enumerate() {
            let there = pointers.iter().enumerate().filter(|(place, _)| gets(number, *place));
            all.extend(there.map(|(_, pointer)| sample.with(&Position::Body(pointer.clone()), value.clone())));
            for (_, field) in absent.iter().enumerate().filter(|(place, _)| gets(number, *place)) {
                let mut more = sample.clone();
                more.body.as_mut().expect("a body")[field.as_str()] = value.clone();
                all.push(more);
            }
        }
    }
    for (number, value) in poison.iter().enumerate() {
        for (_, parameter) in endpoint.parameters.iter().enumerate().filter(|(place, _)| gets(number, *place)) {
            let mut more = sample.clone();
            more.query.insert(parameter.name, value.clone());
            all.push(more);
        }
        // An empty path parameter makes another path of it.
        if !escaped(value).is_empty() {
            let there = sample.ids.keys().enumerate().filter(|(place, _)| gets(number, *place));
            all.extend(there.map(|(_, name)| sample.with(&Position::Path(name), value.clone())));
        }
    }
    all
}

/// Waits until nothing is done in the background any more that a call has ordered.
fn end_of_jobs(world: &World, ours: &Fixture) {
    let is_running = |jobs: &Value| jobs.as_array().expect("jobs").iter().any(|job| job["state"] == "running");
    while is_running(&world.get_as(&ours.key, "/api/jobs/").ok(200)) {
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn poison_is_refused_without_a_trace_and_never_a_fault() {
    let world = World::new();
    let table = protected();
    let document = openapi::document(&table, &webhooks(), DecimalForm::Number);
    let (mut sent, mut accepted) = (0_u32, 0_u32);
    let mut fixtures = Fixtures::new(&world, "ours");
    for endpoint in &table {
        let operation = &document["paths"][endpoint.path][endpoint.method.as_str().to_lowercase()];
        let fields = field_names(endpoint, &document);
        for sample in samples(endpoint) {
            let ours = fixtures.take();
            let mut before = state(&world, &ours);
            for (i, request) in poisoned(&sample, endpoint, &fields).into_iter().enumerate() {
                let answer = request.send(&world, &ours);
                let what =
                    || format!("{} {} {:?}: {}", request.method, request.target(&ours), request.body, answer.text);
                sent += 1;
                assert!(answer.status < 500, "{}", what());
                if answer.status < 300 {
                    accepted += 1;
                    if let Some(schema) =
                        operation["responses"][answer.status.to_string()].pointer("/content/application~1json/schema")
                    {
                        let body =
                            serde_json::from_str(&answer.text).unwrap_or_else(|error| panic!("{error}: {}", what()));
                        fits(&body, schema, &document).unwrap_or_else(|fault| panic!("{fault}: {}", what()));
                    }
                    end_of_jobs(&world, &ours);
                    before = state(&world, &ours);
                } else {
                    // These have an answer of their own for events that are refused.
                    let takes_events = ["/api/track/", "/api/events/"].contains(&sample.path);
                    assert!(takes_events || !answer.error().is_empty());
                    assert_listed(endpoint, &answer);
                }
                if i % 40 == 0 {
                    assert_eq!(state(&world, &ours), before, "one of the last refused left a trace: {}", what());
                }
            }
            assert_eq!(state(&world, &ours), before, "{} {}: a refusal left a trace", sample.method, sample.path);
            if sample.method == "GET" {
                fixtures.give_back(ours);
            }
        }
    }
    assert!(sent > 1_000 && accepted > 0 && accepted < sent / 2, "{sent} requests, {accepted} accepted");
}

/// Whether a value is as its schema says.
pub(crate) fn fits(value: &Value, schema: &Value, document: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).ok_or_else(|| format!("no {reference}"))?;
        return fits(value, target, document);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fitting = choices.iter().any(|choice| fits(value, choice, document).is_ok());
        return if fitting { Ok(()) } else { Err(format!("{value} is none of {schema}")) };
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let text = value.as_str().unwrap_or_default();
    let is_formatted = match schema["format"].as_str() {
        Some("date-time") if kind == "string" => OffsetDateTime::parse(text, &Rfc3339).is_ok(),
        Some("date") if kind == "string" => {
            text.len() == 10 && OffsetDateTime::parse(&format!("{text}T00:00:00Z"), &Rfc3339).is_ok()
        }
        Some("decimal") if kind == "string" => text.parse::<BigDecimal>().is_ok(),
        Some("email") if kind == "string" => text.contains('@'),
        _ => true,
    };
    if !is_formatted {
        return Err(format!("{value} is no {}", schema["format"]));
    }
    let is_integer = kind == "number" && kinds.contains(&"integer") && !value.to_string().contains(['.', 'e', 'E']);
    if !kinds.is_empty() && !kinds.contains(&kind) && !is_integer {
        return Err(format!("{value} is not {kinds:?}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        return Err(format!("{value} is not one of {words:?}"));
    }
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| fits(item, &schema["items"], document)),
        Value::Object(fields) => {
            let Some(known) = schema["properties"].as_object() else { return Ok(()) };
            if let Some(missing) = schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|name| name.as_str().is_none_or(|name| !fields.contains_key(name)))
            {
                return Err(format!("{missing} is missing in {value}"));
            }
            fields.iter().try_for_each(|(name, field)| {
                let schema = known.get(name).ok_or_else(|| format!("{name} is not declared"))?;
                fits(field, schema, document).map_err(|fault| format!("{name}: {fault}"))
            })
        }
        _ => Ok(()),
    }
}
