//! Fields and parameters that a call does not know: refused by name, or ignored and named.

use std::io::Write;

use billing_http::endpoint::Endpoint;
use billing_http::unknown_field::UnknownFields;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::every_route::{protected, state};
use crate::samples::{Fixture, Fixtures, Sample, samples};
use crate::support::{Answer, World, event, now};

const STRICT: (&str, &str) = ("Prefer", "handling=strict");
/// What clients of the interface add to every body.
const ADDED: [&str; 4] = ["$type", "library", "library_version", "sentAt"];

/// Sends a sample with more in its query, and its body changed.
fn send(world: &World, ours: &Fixture, sample: &Sample, query: &str, body: Option<&Value>, strict: bool) -> Answer {
    let target = sample.target(ours);
    let target = match (query, target.contains('?')) {
        ("", _) => target,
        (query, true) => format!("{target}&{query}"),
        (query, false) => format!("{target}?{query}"),
    };
    let mut headers = vec![("X-API-KEY", ours.key.as_str())];
    headers.extend(body.map(|_| ("Content-Type", "application/json")));
    headers.extend(strict.then_some(STRICT));
    let text = body.map(|body| ours.filled(body).to_string()).unwrap_or_default();
    world.send(&sample.method, &target, &headers, text.as_bytes())
}

/// The unknown fields that an answer refuses.
fn unknown(answer: &Answer) -> Vec<String> {
    let faults = answer.faults().into_iter();
    faults.filter(|(_, code)| code == "unknown_field").map(|(attr, _)| attr).collect()
}

fn refused(world: &World, ours: &Fixture, sample: &Sample, query: &str, body: Option<&Value>, strict: bool) {
    let what = format!("{} {}, strict: {strict}", sample.method, sample.path);
    let before = state(world, ours);
    let answer = send(world, ours, sample, query, body, strict);
    let mut expected: Vec<String> = Vec::new();
    expected.extend((!query.is_empty()).then(|| "made_up_parameter".to_owned()));
    let has_field = body.is_some_and(|body| body.get("made_up_field").is_some());
    expected.extend(has_field.then(|| "made_up_field".to_owned()));
    assert_eq!((answer.status, unknown(&answer)), (400, expected), "{what}: {}", answer.text);
    assert_eq!(answer.header("preference-applied"), if strict { "handling=strict" } else { "" }, "{what}");
    assert_eq!(state(world, ours), before, "{what}: nothing was done");
}

/// One more field at the top of a body; where there is none, a body of that field alone.
fn with_field(body: Option<&Value>) -> Value {
    let mut body = body.cloned().unwrap_or_else(|| json!({}));
    body["made_up_field"] = json!(7);
    body
}

fn try_sample(world: &World, fixtures: &mut Fixtures<'_>, endpoint: &Endpoint, sample: &Sample) {
    let what = format!("{} {}", sample.method, sample.path);
    let writes = sample.method != "GET";
    let query = "made_up_parameter=1";
    let body = writes.then(|| with_field(sample.body.as_ref()));
    let ours = fixtures.take();
    for strict in [false, true] {
        if !strict && endpoint.unknown_fields() == UnknownFields::Ignored {
            continue;
        }
        refused(world, &ours, sample, query, sample.body.as_ref(), strict);
        if writes {
            refused(world, &ours, sample, "", body.as_ref(), strict);
            refused(world, &ours, sample, query, body.as_ref(), strict);
        }
    }
    let answer = match endpoint.unknown_fields() {
        UnknownFields::Refused => send(world, &ours, sample, "", sample.body.as_ref(), true),
        UnknownFields::Ignored => {
            let mut body = body;
            for name in ADDED {
                body.iter_mut().for_each(|body| body[name] = json!("x"));
            }
            send(world, &ours, sample, query, body.as_ref(), false)
        }
    };
    assert_eq!(answer.status, sample.status, "{what}: {}", answer.text);
    let (ignored, applied) = match endpoint.unknown_fields() {
        UnknownFields::Refused => ("", "handling=strict"),
        UnknownFields::Ignored if writes => ("made_up_parameter, made_up_field", ""),
        UnknownFields::Ignored => ("made_up_parameter", ""),
    };
    assert_eq!((answer.header("ignored-fields"), answer.header("preference-applied")), (ignored, applied), "{what}");
    if !writes {
        fixtures.give_back(ours);
    }
}

/// Every route is tried with an unknown parameter and, where it changes anything, an unknown field.
#[test]
fn every_route_refuses_or_names_what_it_does_not_know() {
    let world = World::new();
    let mut fixtures = Fixtures::new(&world, "ours");
    let mut tried = 0;
    for endpoint in protected() {
        for sample in samples(&endpoint).iter().take(1) {
            try_sample(&world, &mut fixtures, &endpoint, sample);
            tried += 1;
        }
    }
    assert_eq!(tried, protected().len());
}

/// Each of these made something else than was meant, without a word.
#[test]
fn what_was_misspelt_is_told_by_its_path_and_the_nearest_name() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let version = world.get(&format!("/api/plans/{plan}/")).ok(200)["versions"][0]["version_id"].clone();
    let version = version.as_str().expect("an id");
    let tier = json!({"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "range_ends": 5});
    #[rustfmt::skip]
    let cases = [
        // call, body, the faults, what the last of them says
        ("POST", "/api/metrics/".to_owned(), json!({"event_name": "e", "agregation_type": "sum"}),
            vec![("agregation_type", "unknown_field")], "Did you mean `aggregation_type`?"),
        ("POST", "/api/api_keys/".to_owned(), json!({"name": "k", "expiry_date": "2030-01-01"}),
            vec![("expiry_date", "unknown_field")], "Known are `expires_at`, `name`, `scopes`."),
        ("POST", "/api/access_tokens/".to_owned(), json!({"scopes": ["read"]}),
            vec![("name", "required"), ("scopes", "unknown_field")], "Known are `expires_at`, `name`."),
        ("POST", "/api/addons/".to_owned(), json!({"addon_name": "A", "currency_code": 7, "billing_frequency": "one_time", "flat_rate": 7}),
            vec![("currency_code", "incorrect_type"), ("flat_rate", "unknown_field")], ""),
        ("POST", "/api/plans/".to_owned(), json!({"plan_name": "P", "plan_duration": "monthly", "initial_version": {"currency_code": "USD",
                "components": [{"metric_id": metric, "tiers": [tier], "foo": 1}], "recurring_charge": []}}),
            vec![("initial_version.components.0.foo", "unknown_field"), ("initial_version.components.0.tiers.0.range_ends", "unknown_field"),
                ("initial_version.recurring_charge", "unknown_field")], "Did you mean `recurring_charges`?"),
        ("PATCH", format!("/api/plan_versions/{version}/"), json!({"active_two": "2030-01-01"}),
            vec![("active_two", "unknown_field")], "Did you mean `active_to`?"),
        ("POST", format!("/api/plans/{plan}/delete/?force=1"), json!({"plan": plan}),
            vec![("force", "unknown_field"), ("plan", "unknown_field")], "Nothing has this name here, nor any other."),
        ("GET", "/api/usage/?customer_id=acme&metric=x&limit[]=7".to_owned(), Value::Null,
            vec![("metric_id", "required"), ("start", "required"), ("metric", "unknown_field"), ("limit[]", "unknown_field")], ""),
        ("GET", "/api/metrics/?limit=0&serach=x".to_owned(), Value::Null,
            vec![("limit", "min_value"), ("serach", "unknown_field")], "Known are `limit`, `cursor`."),
    ];
    let before = world.snapshot();
    for (method, path, body, expected, detail) in cases {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = world.write(method, &path, body.as_bytes());
        let expected: Vec<_> = expected.into_iter().map(|(attr, code)| (attr.to_owned(), code.to_owned())).collect();
        assert_eq!(answer.faults(), expected, "{method} {path}: {}", answer.text);
        let faults = answer.json()["validation_errors"].clone();
        let last = faults.as_array().and_then(|all| all.last()).expect("a fault")["detail"].clone();
        assert!(last.as_str().expect("text").ends_with(detail), "{method} {path}: {last}");
    }
    assert_eq!(world.snapshot(), before, "nothing was written");
    let theirs = Fixture::new(&world, "an invoice");
    let before = state(&world, &theirs);
    let paid = json!({"payment_status": "paid", "amount_paid": 3});
    let answer = theirs.send(&world, "PATCH", &format!("/api/invoices/{}/", theirs.id("invoice")), Some(&paid));
    assert_eq!(unknown(&answer), ["amount_paid"]);
    assert_eq!(state(&world, &theirs), before, "it is not paid");
}

#[test]
fn spellings_of_what_is_known_are_known() {
    let world = World::new();
    let metric = world.metric();
    world.customer("acme");
    let usage = format!("/api/usage/?customer_id=acme&metric_id={metric}&start=2024-01-01");
    #[rustfmt::skip]
    let cases = [
        // query,                                                                                       why
        (format!("{usage}&subscription_filters[0]property_name=a&subscription_filters[0]value=b"),      "parts of a filter"),
        (format!("{usage}&subscription_filters[0][property_name]=a&subscription_filters[0].value=b"),   "parts, otherwise"),
        (format!("{usage}&subscription_filters=[]"),                                                    "a list as JSON"),
        ("/api/events/?customer_id=acme&limit=1&cursor=".to_owned(),                                    "a part of a list"),
    ];
    for (path, why) in cases {
        let answer = world.send("GET", &path, &[("X-API-KEY", &world.key), STRICT], b"");
        assert_eq!(
            (answer.status, answer.header("preference-applied")),
            (200, "handling=strict"),
            "{why}: {}",
            answer.text
        );
    }
    for spelling in ["status=active&status=ended", "status[]=active", "status[0]=active", "status=active,ended"] {
        let path = format!("/api/subscriptions/?customer_id=acme&{spelling}");
        assert_eq!(world.send("GET", &path, &[("X-API-KEY", &world.key), STRICT], b"").status, 200, "{spelling}");
    }
}

#[test]
fn what_is_ignored_is_named_shortly() {
    let world = World::new();
    let body = json!({"customer_id": "acme", "email": "a@acme.io", "is_new": true, "$type": "x", "library": "y", "n\u{e9},m": 1,
        "billing_address": {"city": "B", "country": "DE", "line1": "1", "postal_code": "1", "floor": 3},
        "properties": {"any": 1}});
    let answer = world.post("/api/customers/", &body);
    assert_eq!(answer.status, 201, "{}", answer.text);
    let mut names: Vec<&str> = answer.header("ignored-fields").split(", ").collect();
    names.sort_unstable();
    assert_eq!(names, ["billing_address.floor", "is_new", "n??m"]);
    let mut many = json!({"customer_id": "globex", "email": "g@globex.io"});
    for i in 0..100 {
        many[format!("a_made_up_field_{i}")] = json!(1);
    }
    let answer = world.post("/api/customers/", &many);
    let named = answer.header("ignored-fields");
    assert!(answer.status == 201 && named.len() < 520 && named.ends_with(", ..."), "{named}");
    let answer = world.get("/api/invoices/?issue_date_after=2024-01-01");
    assert_eq!((answer.status, answer.header("ignored-fields")), (200, "issue_date_after"));
}

#[test]
fn events_stand_for_themselves_here_too() {
    let world = World::new();
    let mut odd = event("acme", "odd", &now());
    odd["propertys"] = json!({"a": 1});
    odd["library"] = json!("x");
    let plain = event("acme", "plain", &now());
    let send = |body: &Value, strict: bool| {
        let mut headers = vec![("X-API-KEY", world.key.as_str()), ("Content-Type", "application/json")];
        headers.extend(strict.then_some(STRICT));
        world.send("POST", "/api/track/", &headers, body.to_string().as_bytes())
    };
    let answer = send(&json!({"batch": [odd, plain]}), true);
    assert_eq!(answer.json(), json!({"success": "some", "failed_events": {"odd": "Unknown field"}}));
    assert_eq!((answer.status, answer.header("preference-applied")), (201, "handling=strict"));
    let answer = send(&odd, true);
    assert_eq!((answer.status, answer.json()["success"].clone()), (400, json!("none")));
    let answer = send(&json!({"batch": [plain], "bach": []}), true);
    assert_eq!((answer.status, unknown(&answer)), (400, vec!["bach".to_owned()]));
    let answer = send(&json!({"batch": [plain, odd], "sentAt": "x", "bach": []}), false);
    assert_eq!((answer.status, answer.header("ignored-fields")), (201, "bach, batch.1.propertys"));
    assert_eq!(send(&json!([plain, odd]), false).header("ignored-fields"), "1.propertys");
    assert_eq!(send(&odd, false).header("ignored-fields"), "propertys");
    assert_eq!(send(&json!({"batch": [plain]}), false).header("ignored-fields"), "");
}

#[test]
fn an_answer_that_is_given_again_is_not_held_to_a_preference() {
    let world = World::new();
    let body = json!({"customer_id": "acme", "email": "a@acme.io", "is_new": true}).to_string();
    let send = |more: &[(&str, &str)]| {
        let headers =
            [("X-API-KEY", world.key.as_str()), ("Content-Type", "application/json"), ("Idempotency-Key", "k")];
        world.send("POST", "/api/customers/", &[&headers, more].concat(), body.as_bytes())
    };
    assert_eq!(unknown(&send(&[STRICT])), ["is_new"], "nothing is kept of a refusal");
    assert_eq!(send(&[]).status, 201);
    let again = send(&[STRICT]);
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, "true"), "{}", again.text);
    assert_eq!(again.header("preference-applied"), "");
}

/// A key that is made anew keeps its expiry: whoever sends another is told.
#[test]
fn a_call_that_takes_no_body_knows_no_field() {
    let world = World::new();
    let made = world.post("/api/api_keys/", &json!({"name": "k"})).ok(201);
    let path = format!("/api/api_keys/{}/regenerate/", made["prefix"].as_str().expect("text"));
    let body = br#"{"expires_at": "2030-01-01"}"#;
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(body).expect("packed");
    let packed = packer.finish().expect("packed");
    let large = [b"{\"a\":\"".as_slice(), &[b'x'; 70_000], b"\"}"].concat();
    let (json, form) = (("Content-Type", "application/json"), ("Content-Type", "application/x-www-form-urlencoded"));
    #[rustfmt::skip]
    let cases: [(&[u8], (&str, &str), u16, &str); 7] = [
        (body,                 json, 400, "a field"),
        (&packed,              json, 400, "a field, compressed"),
        (body,                 form, 400, "a field, as another media type"),
        (&large,               json, 413, "more than any body may have"),
        (b"",                  json, 201, "nothing"),
        (b"{}",                json, 201, "no field"),
        (b"no JSON at all",    form, 201, "nothing that could be meant"),
    ];
    for (body, media_type, status, why) in cases {
        let key = made["prefix"].as_str().expect("text");
        let path = if status == 201 {
            let made = world.post("/api/api_keys/", &json!({"name": "k"})).ok(201);
            path.replace(key, made["prefix"].as_str().expect("text"))
        } else {
            path.clone()
        };
        let answer = world.send("POST", &path, &[("X-API-KEY", &world.key), media_type], body);
        assert_eq!(answer.status, status, "{why}: {}", answer.text);
        if status == 400 {
            assert_eq!(unknown(&answer), ["expires_at"], "{why}");
        }
    }
}
