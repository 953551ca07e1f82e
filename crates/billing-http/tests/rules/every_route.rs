//! Rules that hold for every route, tried on every route of the table.

use std::collections::BTreeSet;

use billing_http::endpoint::{Access, Endpoint};
use billing_http::error::CHALLENGE;
use billing_http::message::webhooks;
use billing_http::openapi;
use billing_http::openapi::calls;
use billing_http::routes;
use billing_http::unknown_field::UnknownFields;
use billing_http::wire::DecimalForm;
use billing_store::testing::{count_statements, fingerprint};
use serde_json::{Value, json};

use crate::samples::{Fixture, Fixtures, Position, Sample, samples};
use crate::support::{Answer, World};

/// Body fields that hold an id and refer to nothing: they name what is made.
const NEW_NAMES: &[(&str, &str)] = &[
    ("/api/customers/", "/customer_id"),
    ("/api/track/", "/batch/*/customer_id"),
    ("/api/events/", "/batch/*/customer_id"),
];
/// Fields that the service decides: a caller who sends them along changes nothing.
const NOT_FOR_CALLERS: &[&str] = &[
    "id",
    "organization_id",
    "organization",
    "customer_key",
    "status",
    "created_at",
    "amount_remaining",
    "fully_billed",
    "payment_status",
    "invoice_number",
    "prefix",
    "key",
    "digest",
    "is_renewed",
    "billed_given",
    "archived_at",
    "last_instant",
    "test_clock",
];

pub fn protected() -> Vec<Endpoint> {
    routes::table().into_iter().filter(|endpoint| endpoint.access == Access::Key).collect()
}

pub fn state(world: &World, fixture: &Fixture) -> String {
    fingerprint(world.url(), fixture.organization)
}

/// An error of a call is one of those that its documentation lists.
pub fn assert_listed(endpoint: &Endpoint, answer: &Answer) {
    if answer.header("content-type") == "application/problem+json" {
        let code = answer.error();
        assert!(
            calls::of_call(endpoint).contains(&code.as_str()),
            "{} {}: list {code} in openapi/calls.rs",
            endpoint.method,
            endpoint.path
        );
    }
}

/// Status and text, without what tells apart two requests that are answered alike.
fn masked(answer: &Answer, id: &str) -> (u16, Value) {
    let mut body = serde_json::from_str(&answer.text.replace(id, "ID")).unwrap_or(Value::String(answer.text.clone()));
    if let Some(request_id) = body.get_mut("request_id") {
        *request_id = Value::Null;
    }
    (answer.status, body)
}

/// An id that nobody has ever had, of the kind of `id`.
fn never(name: &str, id: &str) -> String {
    match name {
        "customer" | "only_customer" => "nobody anywhere".to_owned(),
        "event" => "no event".to_owned(),
        "key_prefix" | "token_prefix" => "zzzzzzzz".to_owned(),
        "line" => format!("line_{}_1", "0".repeat(32)),
        _ => format!("{}{}", &id[..id.rfind('_').map_or(0, |i| i + 1)], "0".repeat(32)),
    }
}

/// The same kind of object at another organization, by an id that the caller's own organization does not have.
fn foreign<'f>(name: &str, theirs: &'f Fixture) -> &'f str {
    theirs.id(if name == "customer" { "only_customer" } else { name })
}

#[test]
fn no_organization_can_see_or_touch_another() {
    count_statements();
    let world = World::new();
    let theirs = Fixture::new(&world, "theirs");
    let before = state(&world, &theirs);
    let mut fixtures = Fixtures::new(&world, "ours");
    let (mut cells, mut routes) = (0, 0);
    for endpoint in protected() {
        routes += 1;
        for sample in samples(&endpoint) {
            let what = format!("{} {}", sample.method, sample.path);
            let ours = fixtures.take();
            let mut untouched = state(&world, &ours);
            for (position, name) in sample.positions() {
                let (id, nobodys) = (foreign(&name, &theirs), never(&name, ours.id(&name)));
                let send = |id: &str| sample.with(&position, Value::from(id)).send(&world, &ours);
                let (foreign, absent, malformed) = (send(id), send(&nobodys), send("\u{1}"));
                assert_eq!(masked(&foreign, id), masked(&absent, &nobodys), "{what} {position:?}");
                assert!(malformed.status < 500, "{what} {position:?}: {}", malformed.text);
                [&foreign, &absent, &malformed].into_iter().for_each(|answer| assert_listed(&endpoint, answer));
                if foreign.status >= 400 {
                    assert!(matches!(foreign.status, 400 | 404), "{what} {position:?}: {}", foreign.text);
                    assert_eq!(state(&world, &ours), untouched, "{what} {position:?}: a refusal leaves no trace");
                    let once = |id: &str| world.statements_once(|| send(id));
                    let (mut theirs, mut others) = (once(id), once(&nobodys));
                    // What workers do meanwhile is counted too: with nodes that is much, and only ever more.
                    for _ in 0..10 {
                        if theirs == others {
                            break;
                        }
                        theirs = theirs.min(world.statements(|| send(id)));
                        others = others.min(world.statements(|| send(&nobodys)));
                    }
                    assert!(theirs > 0, "{what} {position:?}: statements are counted");
                    assert_eq!(theirs, others, "{what} {position:?}: nor does the time it takes tell them apart");
                } else {
                    untouched = state(&world, &ours);
                }
                cells += 3;
            }
            let answer = sample.send(&world, &ours);
            assert_eq!(answer.status, sample.status, "{what}, own ids: {}", answer.text);
            assert_eq!(state(&world, &theirs), before, "{what}: the other organization's rows");
            cells += 1;
            if sample.method == "GET" {
                fixtures.give_back(ours);
            }
        }
    }
    assert!(cells > 3 * routes, "{routes} routes, {cells} cells");
}

/// Pointers, with `*` for places in lists, of the fields of a schema that hold ids.
fn id_fields(schema: &Value, document: &Value, pointer: &str, depth: u32, found: &mut BTreeSet<String>) {
    if depth > 8 {
        return;
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).expect("a schema");
        return id_fields(target, document, pointer, depth + 1, found);
    }
    let description = schema["description"].as_str().unwrap_or_default();
    if description.contains("The id of a ") || description.contains("The caller's own id of a customer") {
        found.insert(pointer.to_owned());
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        id_fields(field, document, &format!("{pointer}/{name}"), depth + 1, found);
    }
    if schema.get("items").is_some() {
        id_fields(&schema["items"], document, &format!("{pointer}/*"), depth + 1, found);
    }
    for choice in schema["oneOf"].as_array().into_iter().flatten() {
        id_fields(choice, document, pointer, depth + 1, found);
    }
}

/// Places in lists as `*`.
fn generalized(pointer: &str) -> String {
    let is_index = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    pointer.split('/').map(|part| if is_index(part) { "*" } else { part }).collect::<Vec<_>>().join("/")
}

#[test]
fn samples_have_every_place_that_an_id_can_be_in() {
    let table = protected();
    let document = openapi::document(&table, &webhooks(), DecimalForm::Number);
    for endpoint in &table {
        let (method, path) = (endpoint.method.as_str().to_lowercase(), endpoint.path);
        let all: Vec<Sample> = samples(endpoint);
        let covered: BTreeSet<Position> =
            all.iter().flat_map(Sample::positions).map(|(position, _)| position).collect();
        for name in endpoint.path_parameters() {
            assert!(covered.contains(&Position::Path(name)), "{method} {path}: {name}");
        }
        for parameter in endpoint.parameters.iter().filter(|parameter| parameter.name.ends_with("_id")) {
            assert!(covered.contains(&Position::Query(parameter.name)), "{method} {path}: {}", parameter.name);
        }
        let schema = &document["paths"][path][&method]["requestBody"]["content"]["application/json"]["schema"];
        let mut fields = BTreeSet::new();
        id_fields(schema, &document, "", 0, &mut fields);
        let in_bodies: BTreeSet<String> = covered
            .iter()
            .filter_map(|position| match position {
                Position::Body(pointer) => Some(generalized(pointer)),
                _ => None,
            })
            .collect();
        let missing: Vec<_> = fields
            .iter()
            .filter(|field| !in_bodies.contains(*field) && !NEW_NAMES.contains(&(path, field.as_str())))
            .collect();
        assert!(missing.is_empty(), "{method} {path}: no sample has an id at {missing:?}");
    }
}

#[test]
fn without_credentials_nothing_is_read_or_written() {
    let world = World::new();
    let ours = Fixture::new(&world, "ours");
    let wrong = format!("{}.{}", &ours.key[..8], "a".repeat(32));
    let other = world.other_key();
    let before = state(&world, &ours);
    for endpoint in protected() {
        for sample in samples(&endpoint) {
            let target = sample.target(&ours);
            let foreign = format!("Token {other}");
            let credentials: [&[(&str, &str)]; 4] = [
                &[],
                &[("X-API-KEY", &wrong)],
                &[("Authorization", &foreign)],
                &[("X-API-KEY", &ours.key), ("Authorization", &foreign)],
            ];
            for headers in credentials {
                let headers: Vec<_> = [("Content-Type", "application/json")].iter().chain(headers).copied().collect();
                // Were the body read, it would be a 400.
                let answer = world.send(&sample.method, &target, &headers, b"{");
                assert_eq!(answer.status, 401, "{} {target}: {}", sample.method, answer.text);
                assert_eq!(answer.header("www-authenticate"), CHALLENGE);
            }
        }
    }
    assert_eq!(state(&world, &ours), before);
}

/// What a body holds by name, at its top.
pub fn field_names(endpoint: &Endpoint, document: &Value) -> BTreeSet<String> {
    let operation = &document["paths"][endpoint.path][endpoint.method.as_str().to_lowercase()];
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let reference = schema["$ref"].as_str().unwrap_or("#").trim_start_matches('#');
    let fields = document.pointer(reference).and_then(|schema| schema["properties"].as_object());
    fields.into_iter().flat_map(|fields| fields.keys().cloned()).collect()
}

/// An answer with everything blanked that differs between two runs of the same request.
fn shape(text: &str) -> Value {
    fn blank(value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(blank),
            Value::Object(fields) => fields.values_mut().for_each(blank),
            Value::String(text) if is_made_up(text) => *value = Value::Null,
            _ => {}
        }
    }
    /// Ids, instants, keys, invoice numbers.
    fn is_made_up(text: &str) -> bool {
        let hexadecimal =
            text.rsplit('_').next().is_some_and(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()));
        let instant = text.len() > 10 && text.ends_with('Z') && text.as_bytes()[4] == b'-';
        let key =
            text.len() == 41 && text.as_bytes()[8] == b'.' || text.starts_with("whsec_") || text.starts_with("whpk_");
        hexadecimal || instant || key || text.len() == 8 && text.bytes().all(|b| b.is_ascii_alphanumeric())
    }
    let mut value = serde_json::from_str(text).unwrap_or(Value::Null);
    blank(&mut value);
    value
}

#[test]
fn fields_that_are_not_for_callers_change_nothing() {
    let world = World::new();
    let theirs = Fixture::new(&world, "theirs");
    let table = protected();
    let document = openapi::document(&table, &webhooks(), DecimalForm::Number);
    let mut fixtures = Fixtures::new(&world, "one");
    for endpoint in table.iter().filter(|endpoint| endpoint.request.is_some()) {
        let known = field_names(endpoint, &document);
        for sample in samples(endpoint) {
            let what = format!("{} {}", sample.method, sample.path);
            let mut more = sample.clone();
            for name in NOT_FOR_CALLERS.iter().filter(|name| !known.contains(**name)) {
                let value = if name.starts_with("organization") { json!(theirs.organization) } else { json!("paid") };
                more.body.as_mut().expect("a body")[*name] = value;
            }
            let extended = fixtures.take();
            if endpoint.unknown_fields() == UnknownFields::Refused {
                let before = state(&world, &extended);
                let refused = more.send(&world, &extended);
                assert!(refused.faults().iter().all(|(_, code)| code == "unknown_field"), "{what}: {}", refused.text);
                assert_eq!(state(&world, &extended), before, "{what}");
                fixtures.give_back(extended);
                continue;
            }
            let plain = fixtures.take();
            let (plain, extended) = (sample.send(&world, &plain), more.send(&world, &extended));
            assert_eq!((plain.status, extended.status), (sample.status, sample.status), "{what}: {}", extended.text);
            assert_eq!(shape(&extended.text), shape(&plain.text), "{what}");
        }
    }
}

#[test]
fn every_post_is_done_once_under_one_key() {
    let world = World::new();
    for endpoint in protected().iter().filter(|endpoint| endpoint.takes_key) {
        for sample in samples(endpoint) {
            let ours = Fixture::new(&world, "ours");
            let target = sample.target(&ours);
            let body = sample.body.as_ref().map(|body| ours.filled(body).to_string()).unwrap_or_default();
            let send = || {
                let headers =
                    [("X-API-KEY", ours.key.as_str()), ("Content-Type", "application/json"), ("Idempotency-Key", "k")];
                world.send("POST", &target, &headers, body.as_bytes())
            };
            let first = send();
            assert_eq!(first.status, sample.status, "{target}: {}", first.text);
            if sample.path.ends_with("/advance/") {
                world.clock_stands(&ours.key, ours.id("clock"));
            }
            let before = state(&world, &ours);
            let again = send();
            assert_eq!((again.status, again.header("idempotency-replayed")), (first.status, "true"), "{target}");
            let mut expected = first.json();
            if let Some(secret) = endpoint.secret {
                assert!(expected[secret].is_string(), "{target} reveals {secret}");
                expected.as_object_mut().expect("an object").remove(secret);
                assert_eq!(again.json(), expected, "{target}");
            } else {
                assert_eq!(again.text, first.text, "{target}");
            }
            assert_eq!(state(&world, &ours), before, "{target}: nothing is done twice");
        }
    }
}
