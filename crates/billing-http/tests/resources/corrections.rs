//! Events that were wrong, amended and voided over the wire, with the money they change.

use std::thread;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::sql_types::BigInt;
use diesel::{RunQueryDsl, dsl};
use serde_json::{Value, json};

use crate::support::{Answer, Field, World, ago, event, now};

const CALLS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The call that voids events.
fn void_body(ids: &[&str]) -> Value {
    json!({"customer_id": "acme", "idempotency_ids": ids, "reason": "sent by a test run"})
}

fn void(world: &World, ids: &[&str]) -> Answer {
    world.post("/api/events/void/", &void_body(ids))
}

/// The same with `beyond_window`.
fn void_beyond(world: &World, ids: &[&str]) -> Answer {
    let mut body = void_body(ids);
    body["beyond_window"] = json!(true);
    world.post("/api/events/void/", &body)
}

fn amend(world: &World, id: &str, change: Value) -> Answer {
    let mut amended = json!({"idempotency_id": id});
    amended.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
    world.post("/api/events/amend/", &json!({"customer_id": "acme", "events": [amended]}))
}

/// A customer under a test clock, with six calls of 2 MB each in January at half a dollar a MB: the clock.
fn with_six_calls(world: &World) -> String {
    let metric = json!({"event_name": "api_call", "aggregation_type": "sum", "property_name": "mb"});
    let metric = world.post("/api/metrics/", &metric).ok(201).id("metric_id");
    let component = json!({"metric_id": metric, "tiers": [
        {"type": "per_unit", "range_start": 0, "cost_per_batch": "0.5", "metric_units_per_batch": 1},
    ]});
    let version = json!({"currency_code": "USD", "components": [component]});
    let plan = json!({"plan_name": "Metered", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    let clock = world.clock("2024-01-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    world.advance(&clock, "2024-01-20");
    let calls: Vec<Value> = CALLS.iter().map(|id| call(id)).collect();
    assert_eq!(world.post("/api/track/", &json!({"batch": calls})).ok(201)["success"], "all");
    clock
}

fn call(id: &str) -> Value {
    let mut call = event("acme", id, "2024-01-10T00:00:00Z");
    call["properties"] = json!({"mb": 2});
    call
}

/// Issue day, name and amount of every line that is not zero, oldest invoice first.
fn lines(world: &World) -> Vec<String> {
    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    let invoices = invoices.as_array().expect("a list").iter().rev();
    let lines = invoices.flat_map(|invoice| {
        let lines = invoice["line_items"].as_array().expect("lines").iter().filter(|line| line["amount"] != 0);
        lines.map(|line| format!("{} {} {}", &invoice.id("issue_date")[..10], line.id("name"), line["amount"]))
    });
    lines.collect()
}

fn drafted(world: &World) -> String {
    world.get("/api/customers/acme/draft_invoice/").ok(200)["invoices"][0]["amount"].to_string()
}

#[test]
fn an_open_period_is_right_at_once_and_the_events_say_what_became_of_them() {
    let world = World::new();
    let clock = with_six_calls(&world);
    assert_eq!(drafted(&world), "6", "six calls of 2 MB");
    let voided = void(&world, &["a", "b"]).ok(200);
    let states: Vec<_> = voided["events"].as_array().expect("a list").iter().map(|event| event.id("state")).collect();
    assert_eq!(states, ["voided", "voided"]);
    assert_eq!(drafted(&world), "4", "two less");
    let amended = amend(&world, "c", json!({"properties": {"mb": "7.5"}})).ok(200);
    assert_eq!(
        (&amended["events"][0]["state"], amended["events"][0]["properties"].to_string()),
        (&json!("amended"), r#"{"mb":"7.5"}"#.to_owned())
    );
    assert_eq!(drafted(&world), "6.75", "7.5 + 3 x 2 MB");
    amend(&world, "d", json!({"time_created": "2023-12-31T23:59:59.999999Z"})).ok(200);
    assert_eq!(drafted(&world), "5.75", "before the subscription");

    assert_eq!(world.post("/api/track/", &call("a")).ok(201)["success"], "all", "as any event that was sent before");
    assert_eq!(drafted(&world), "5.75", "a voided id that is sent again is a duplicate");
    let listed = world.get("/api/events/?customer_id=acme").ok(200);
    let states: Vec<_> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|event| {
            format!(
                "{} {} {}",
                event.id("idempotency_id"),
                event.id("state"),
                event["counts_for"].as_array().expect("a list").len()
            )
        })
        .collect();
    assert_eq!(states, ["f counted 1", "e counted 1", "c amended 1", "b voided 0", "a voided 0", "d amended 1"]);
    world.advance(&clock, "2024-02-02");
    assert_eq!(lines(&world), ["2024-02-01 figure 5.75".replace("figure", "sum of mb of api_call")]);
}

#[test]
fn what_was_invoiced_is_put_right_by_one_explained_line_of_the_next_invoice() {
    let world = World::new();
    let clock = with_six_calls(&world);
    world.advance(&clock, "2024-02-02");
    void(&world, &["a", "b"]).ok(200);
    amend(&world, "c", json!({"properties": {"mb": 3}})).ok(200);
    amend(&world, "d", json!({"time_created": "2024-02-01T00:00:00Z"})).ok(200);
    world.advance(&clock, "2024-03-02");
    let name = "sum of mb of api_call";
    #[rustfmt::skip]
    let expected = [
        format!("2024-02-01 {name} 6"),
        format!("2024-03-01 {name} - Late Usage -2.5"),
        format!("2024-03-01 {name} 1"),
        "2024-03-01 Granted Credit 1.5".to_owned(),
    ];
    assert_eq!(lines(&world), expected, "7 of 12 MB are January's, 2 MB are February's");
    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    let explained = world.get(&format!("/api/invoices/{}/explain/", invoices[0].id("invoice_id"))).ok(200);
    let trace = &explained["line_items"][0]["trace"];
    let figures = ["billed_before", "quantity", "event_count"].map(|name| trace[name].to_string());
    assert_eq!(figures, ["12", "7", "3"], "what was billed, what it is now: {trace}");
    world.advance(&clock, "2024-06-02");
    assert_eq!(lines(&world).len(), expected.len(), "once");
}

#[test]
fn what_is_older_than_the_window_is_corrected_only_where_that_is_asked_for() {
    let world = World::new();
    let clock = with_six_calls(&world);
    world.advance(&clock, "2024-05-10");
    let before = (lines(&world), world.get("/api/events/?customer_id=acme").text);
    assert_eq!(void(&world, &["a", "b"]).error(), "beyond_window");
    let later = amend(&world, "c", json!({"time_created": "2024-05-09T00:00:00Z"}));
    assert_eq!(later.error(), "beyond_window", "the old time is beyond it");
    let earlier = event("acme", "new", "2024-05-09T00:00:00Z");
    world.post("/api/track/", &earlier).ok(201);
    let earlier = amend(&world, "new", json!({"time_created": "2024-01-10T00:00:00Z"}));
    assert_eq!(earlier.error(), "beyond_window", "so is a new time");
    void(&world, &["new"]).ok(200);
    assert_eq!(
        (lines(&world), world.get("/api/events/?customer_id=acme&to=2024-05-01").text),
        before,
        "nothing was done"
    );
    let voided = void_beyond(&world, &["a", "b"]).ok(200);
    assert_eq!(voided["events"][1]["state"], "voided");
    world.advance(&clock, "2024-06-02");
    let name = "sum of mb of api_call - Late Usage";
    assert_eq!(lines(&world)[1..], [format!("2024-06-01 {name} -2"), "2024-06-01 Granted Credit 2".to_owned()]);
    world.advance(&clock, "2024-09-02");
    assert_eq!(lines(&world).len(), 3, "and nothing else");
}

/// The ids of the events of a line, oldest first.
fn ids_of(world: &World, line: &str) -> String {
    let listed = world.get(&format!("/api/events/?line={line}")).ok(200);
    let ids = listed.as_array().expect("a list").iter().rev().map(|event| event.id("idempotency_id"));
    ids.collect::<Vec<_>>().concat()
}

/// The lines that a receipt names in a list.
fn named(receipt: &Value, list: &str) -> Vec<String> {
    receipt[list].as_array().expect("a list").iter().map(|billed| billed.id("line_id")).collect()
}

#[test]
fn a_receipt_names_the_lines_and_a_line_its_events() {
    let world = World::new();
    let clock = with_six_calls(&world);
    world.advance(&clock, "2024-02-02");
    void(&world, &["a", "b"]).ok(200);
    amend(&world, "c", json!({"properties": {"mb": 3}})).ok(200);
    amend(&world, "d", json!({"time_created": "2024-02-01T00:00:00Z"})).ok(200);
    let draft = world.get("/api/events/a/?customer_id=acme").ok(200);
    assert_eq!((named(&draft, "billed_on").len(), named(&draft, "taken_back_on").len()), (1, 0), "no line yet");
    world.advance(&clock, "2024-03-02");
    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    let january = invoices[1]["line_items"][0].id("line_id");
    let (late, february) = (invoices[0]["line_items"][0].id("line_id"), invoices[0]["line_items"][1].id("line_id"));
    let receipt = |id: &str| world.get(&format!("/api/events/{id}/?customer_id=acme")).ok(200);
    #[rustfmt::skip]
    let cases = [
        // event, state,     billed on,                                  taken back on,       why
        ("a",     "voided",  vec![january.clone()],                      vec![late.clone()],  "it came back with the next invoice"),
        ("c",     "amended", vec![january.clone(), late.clone()],        vec![],              "the difference came with the next invoice"),
        ("d",     "amended", vec![january.clone(), february.clone()],    vec![late.clone()],  "it belongs to another month"),
        ("f",     "counted", vec![january.clone(), late.clone()],        vec![],              "it was priced again with the others"),
    ];
    for (id, state, billed_on, taken_back_on, why) in cases {
        let receipt = receipt(id);
        assert_eq!(receipt["state"], state, "{id}: {why}");
        assert_eq!(named(&receipt, "billed_on"), billed_on, "{id}: {why}");
        assert_eq!(named(&receipt, "taken_back_on"), taken_back_on, "{id}: {why}");
        let is_counted = state != "voided";
        assert_eq!(receipt["counts_for_nothing"], if is_counted { Value::Null } else { json!("voided") });
        let subscriptions = receipt["counts_for"][0]["subscription_ids"].as_array().map(Vec::len);
        assert_eq!(subscriptions, is_counted.then_some(1), "{id}: {receipt}");
    }
    assert_eq!(
        [&january, &late, &february].map(|line| ids_of(&world, line)),
        ["abcdef", "cef", "d"].map(str::to_owned)
    );

    let c = receipt("c");
    let correction = &c["corrections"][0];
    assert_eq!(
        (&correction["before"]["properties"], &correction["after"]["properties"]),
        (&json!({"mb": 2}), &json!({"mb": 3}))
    );
    assert_eq!(correction["after"]["time_created"], "2024-01-10T00:00:00Z");
    assert_eq!(
        (&correction["state"], correction["reason"].is_null(), correction["by"].is_string()),
        (&json!("amended"), true, true)
    );
    assert_eq!(correction["arrival"], c["arrival"]);
    let seen: Vec<&Value> =
        c["billed_on"].as_array().expect("a list").iter().map(|on| &on["event"]["properties"]["mb"]).collect();
    assert_eq!(seen, [&json!(2), &json!(3)], "each line as it saw it");
    assert_eq!(c["billed_on"][0]["invoice_number"], invoices[1]["invoice_number"]);
    let as_it_was = world.get(&format!("/api/events/?line={january}&property=mb%3D2")).ok(200);
    assert_eq!(as_it_was.as_array().map(Vec::len), Some(6), "what was corrected since is as it was");
    assert_eq!(receipt("a")["corrections"][0]["reason"], "sent by a test run");
}

/// `void` and `amend` are words of the interface, and ids like any other.
#[test]
fn an_event_whose_id_is_a_word_of_the_interface_has_a_receipt() {
    let world = World::new();
    world.customer("acme");
    for word in ["void", "amend"] {
        let path = |slash: &str| format!("/api/events/{word}{slash}?customer_id=acme");
        assert_eq!(world.get(&path("/")).error(), "not_found", "{word}: there is none yet");
        let put = world.send("PUT", &path("/"), &[("X-API-KEY", &world.key)], b"");
        assert_eq!((put.status, put.header("allow")), (405, "POST"), "{word}");
        world.post("/api/track/", &event("acme", word, &now())).ok(201);
        for path in [path("/"), path("")] {
            assert_eq!(world.get(&path).ok(200)["idempotency_id"], word, "{path}");
            assert_eq!(world.send("HEAD", &path, &[("X-API-KEY", &world.key)], b"").status, 200, "{path}");
        }
    }
    void(&world, &["amend"]).ok(200);
    assert_eq!(world.get("/api/events/amend/?customer_id=acme").ok(200)["state"], "voided");
}

#[test]
fn a_receipt_says_why_an_event_counts_for_nothing() {
    let world = World::new();
    let received = ago(time::Duration::SECOND);
    let clock = with_six_calls(&world);
    let mut sent = [
        event("acme", "other name", "2024-01-10T00:00:00Z"),
        event("acme", "no mb", "2024-01-10T00:00:00Z"),
        event("nobody", "x", &received),
    ];
    sent[0]["event_name"] = json!("apicall");
    for event in &sent {
        world.post("/api/track/", event).ok(201);
    }
    void(&world, &["a"]).ok(200);
    #[rustfmt::skip]
    let cases = [
        // customer, event,          reason
        ("acme",     "a",            json!("voided")),
        ("acme",     "other%20name", json!("unknown_event_name")),
        ("acme",     "no%20mb",      json!("unusable_for_all")),
        ("nobody",   "x",            json!("unknown_customer")),
        ("acme",     "b",            Value::Null),
    ];
    for (customer, id, reason) in cases {
        let receipt = world.get(&format!("/api/events/{id}/?customer_id={customer}")).ok(200);
        assert_eq!(receipt["counts_for_nothing"], reason, "{id}");
        assert_eq!(receipt["counts_for"] == json!([]), !reason.is_null(), "{id}");
        assert!(receipt.id("received_at") >= received, "by the clock of the service: {receipt}");
        assert_eq!((&receipt["billed_on"], &receipt["others"]), (&json!([]), &json!([])), "{id}");
    }
    let metric = json!({"event_name": "api_call", "metric_name": "calls"});
    let calls = world.post("/api/metrics/", &metric).ok(201).id("metric_id");
    let receipt = world.get("/api/events/no%20mb/?customer_id=acme").ok(200);
    assert_eq!(
        receipt["counts_for"],
        json!([{"metric_id": calls, "subscription_ids": []}]),
        "measured, and not billed"
    );
    let other = world.other_key();
    #[rustfmt::skip]
    let missing = [
        // key,       target,                                                              why
        (&world.key,  "/api/events/zzz/?customer_id=acme",                                 "no such id"),
        (&world.key,  "/api/events/b/?customer_id=nobody",                                 "another customer's"),
        (&world.key,  "/api/events/b/?customer_id=acme&time_created=2024-01-11T00:00:00Z", "at another time"),
        (&other,      "/api/events/b/?customer_id=acme",                                   "another organization's"),
    ];
    for (key, target, why) in missing {
        assert_eq!(world.get_as(key, target).error(), "not_found", "{why}");
    }
    world.get("/api/events/b/?customer_id=acme&time_created=2024-01-10T00:00:00Z").ok(200);

    world.advance(&clock, "2024-02-02");
    let voided = || world.get("/api/events/b/?customer_id=acme").ok(200)["billed_on"][0]["voided"].clone();
    assert_eq!(voided(), false);
    let invoice = world.get("/api/invoices/?customer_id=acme").ok(200)[0].id("invoice_id");
    world.post(&format!("/api/invoices/{invoice}/void/"), &json!({})).ok(200);
    assert_eq!(voided(), true, "the receipt says that nobody owes it any more");
}

#[test]
fn events_are_listed_by_state_property_metric_and_line() {
    let world = World::new();
    let clock = with_six_calls(&world);
    void(&world, &["a"]).ok(200);
    amend(&world, "b", json!({"properties": {"mb": 3, "region": "eu,west"}})).ok(200);
    amend(&world, "c", json!({"properties": {"region": "eu,west"}})).ok(200);
    let metric = world.get("/api/metrics/").ok(200)[0].id("metric_id");
    world.advance(&clock, "2024-02-02");
    let invoices = world.get("/api/invoices/?customer_id=acme").ok(200);
    let line = invoices[0]["line_items"][0].id("line_id");
    let found = |query: &str| {
        let (mut ids, mut target) = (String::new(), Some(format!("/api/events/?limit=2&{query}")));
        while let Some(next) = target {
            let page = world.get(&next);
            let page_ids: Vec<String> =
                page.ok(200).as_array().expect("a list").iter().map(|event| event.id("idempotency_id")).collect();
            ids += &page_ids.concat();
            target = page.next(&world);
        }
        ids
    };
    #[rustfmt::skip]
    let cases = [
        // query,                                                                      found,    why
        ("customer_id=acme&state=voided".to_owned(),                                   "a",      "of one state"),
        ("customer_id=acme&state=counted".to_owned(),                                  "fed",    "of another"),
        ("customer_id=acme&property=mb=2".to_owned(),                                  "feda",   "a property's text"),
        ("customer_id=acme&property=region=eu%2Cwest".to_owned(),                      "cb",     "with a comma in it"),
        ("customer_id=acme&property=region=eu%2Cwest&property=mb=3".to_owned(),        "b",      "both"),
        (format!("customer_id=acme&metric_id={metric}"),                               "fedba",  "what it can be used for, voided or not"),
        (format!("line={line}"),                                                       "fedb",   "what the line stands on"),
        (format!("line={line}&customer_id=acme&property=mb=3"),                        "b",      "and more"),
        (format!("line={line}&customer_id=other"),                                     "",       "another customer's"),
        (format!("line={line}&event_name=other"),                                      "",       "of another name"),
        (format!("line={line}&from=2024-01-11"),                                       "",       "at another time"),
        (format!("line={line}&state=amended"),                                         "b",      "as it was then"),
    ];
    for (query, expected, why) in cases {
        assert_eq!(found(&query), expected, "{query}: {why}");
    }
    #[rustfmt::skip]
    let faults = [
        // query,                                            fault,                        why
        ("".to_owned(),                                      "customer_id required",       "of whom"),
        ("line=line_1".to_owned(),                           "line invalid",               "no id of a line"),
        (format!("line={}_9", line.rsplit_once('_').expect("a place").0), "line does_not_exist", "no such line"),
        ("customer_id=acme&property=mb".to_owned(),          "property invalid",           "half a pair"),
        ("customer_id=acme&property=mb=2&property=mb=3".to_owned(), "property unique",     "twice"),
        ("customer_id=acme&state=gone".to_owned(),           "state invalid_choice",       "no such state"),
    ];
    for (query, fault, why) in faults {
        let told: Vec<String> = world
            .get(&format!("/api/events/?{query}"))
            .faults()
            .into_iter()
            .map(|(attr, code)| format!("{attr} {code}"))
            .collect();
        assert_eq!(told, [fault], "{query}: {why}");
    }
    let other = world.other_key();
    let foreign = world.get_as(&other, &format!("/api/events/?line={line}")).faults();
    assert_eq!(foreign, [("line".to_owned(), "does_not_exist".to_owned())], "another organization has no such line");
}

#[test]
fn access_follows_corrections_at_once() {
    let world = World::new();
    let metric = world.metric();
    let mut plan = crate::support::plan_body("Tiny", &metric);
    plan["initial_version"]["components"][0]["tiers"] = json!([{"type": "free", "range_start": 0, "range_end": 3}]);
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]});
    world.post("/api/subscriptions/", &body).ok(200);
    let path = format!("/api/metric_access/?customer_id=acme&metric_id={metric}");
    let access = || {
        let answer = world.get(&path).ok(200);
        (answer["access"] == true, answer["access_per_subscription"][0]["metric_usage"].to_string())
    };
    for id in &CALLS[..3] {
        world.post("/api/track/", &event("acme", id, &now())).ok(201);
    }
    assert_eq!(access(), (false, "3".to_owned()), "the limit is reached");
    void(&world, &["b"]).ok(200);
    assert_eq!(access(), (true, "2".to_owned()), "one less");
    world.post("/api/track/", &event("acme", "d", &now())).ok(201);
    assert_eq!(access(), (false, "3".to_owned()));
    let before = (time::OffsetDateTime::now_utc() - time::Duration::days(2)).date();
    amend(&world, "a", json!({"time_created": format!("{before}T00:00:00Z")})).ok(200);
    assert_eq!(access(), (true, "2".to_owned()), "before the subscription began");
    world.post("/api/track/", &event("acme", "b", &now())).ok(201);
    assert_eq!(access(), (true, "2".to_owned()), "a voided id stays known");
}

#[test]
fn another_organization_sees_and_corrects_nothing() {
    let world = World::new();
    with_six_calls(&world);
    let other = world.other_key();
    let headers = [("X-API-KEY", other.as_str()), ("Content-Type", "application/json")];
    let send = |path: &str, body: &Value| world.send("POST", path, &headers, body.to_string().as_bytes());
    assert_eq!(send("/api/events/void/", &void_body(&["a"])).error(), "does_not_exist");
    send("/api/customers/", &json!({"customer_id": "acme", "email": "acme@other.io"})).ok(201);
    let unknown = [("idempotency_ids.0".to_owned(), "does_not_exist".to_owned())];
    assert_eq!(send("/api/events/void/", &void_body(&["a"])).faults(), unknown, "a customer of the same name");
    send("/api/track/", &event("acme", "a", &now())).ok(201);
    send("/api/events/void/", &void_body(&["a"])).ok(200);
    assert_eq!(drafted(&world), "6", "the two have nothing to do with each other");
    assert_eq!(world.get("/api/events/?customer_id=acme&idempotency_id=a").ok(200)[0]["state"], "counted");
}

#[test]
fn what_cannot_be_corrected_is_told_with_its_place() {
    let world = World::new();
    with_six_calls(&world);
    void(&world, &["f"]).ok(200);
    let many: Vec<String> = (0..1_001).map(|id| id.to_string()).collect();
    let amendments = |events: Value| json!({"customer_id": "acme", "events": events});
    let (void, amend) = ("/api/events/void/", "/api/events/amend/");
    #[rustfmt::skip]
    let cases = [
        // call, body,                                                                    faults,                                                     why
        (void,  json!({"customer_id": "acme", "idempotency_ids": []}),                    vec!["idempotency_ids invalid"],                            "at least one"),
        (void,  json!({"customer_id": "acme", "idempotency_ids": many, "reason": " "}),   vec!["idempotency_ids invalid", "reason blank"],            "at most a thousand, and all faults together"),
        (void,  json!({"customer_id": "acme", "idempotency_ids": ["a", "z", "a"]}),       vec!["idempotency_ids.1 does_not_exist", "idempotency_ids.2 invalid"], "unknown, and named twice"),
        (amend, amendments(json!([{"idempotency_id": "a"}])),                             vec!["events.0 required"],                                  "nothing to change"),
        (amend, amendments(json!([{"idempotency_id": "f", "properties": {}}])),           vec!["events.0.idempotency_id invalid"],                    "voided for good"),
        (amend, amendments(json!([{"idempotency_id": "a", "time_created": "2024-01-21T00:00:00.000001Z"}])), vec!["events.0.idempotency_id max_value"], "more than a day ahead of the customer's now"),
    ];
    for (path, body, expected, why) in cases {
        let faults = world.post(path, &body).faults();
        let faults: Vec<String> = faults.into_iter().map(|(attr, code)| format!("{attr} {code}")).collect();
        assert_eq!(faults, expected, "{why}");
    }
    assert_eq!(drafted(&world), "5", "one was voided, and nothing else changed");
}

#[test]
fn what_arrives_while_an_hour_is_counted_again_counts() {
    let world = World::new();
    with_six_calls(&world);
    // Whoever stores events of the customer waits, and behind them whoever has already read the hour.
    let mut other = world.pg();
    other
        .batch_execute("BEGIN; SELECT pg_advisory_xact_lock(1, key_range) FROM generate_series(0, 255) key_range")
        .expect("locked");
    let until_waiting = |count: i64| {
        let sql = "(SELECT count(*) FROM pg_locks lock JOIN pg_database database ON database.oid = lock.database
            WHERE database.datname = current_database() AND lock.locktype = 'advisory' AND NOT lock.granted)";
        let mut pg = world.pg();
        while dsl::select(dsl::sql::<BigInt>(sql)).get_result::<i64>(&mut pg).expect("a number") < count {
            thread::sleep(Duration::from_millis(2));
        }
    };
    thread::scope(|scope| {
        let sent = scope.spawn(|| world.post("/api/track/", &json!({"batch": [call("g"), call("h")]})).ok(201));
        until_waiting(1);
        let voided = scope.spawn(|| void(&world, &["a"]).ok(200));
        until_waiting(2);
        other.batch_execute("COMMIT").expect("released");
        assert_eq!(sent.join().expect("no panic")["success"], "all");
        voided.join().expect("no panic");
    });
    let metric = world.get("/api/metrics/").ok(200)[0].id("metric_id");
    let access = world.get(&format!("/api/metric_access/?customer_id=acme&metric_id={metric}")).ok(200);
    let used = access["access_per_subscription"][0]["metric_usage"].as_u64();
    assert_eq!(used, Some(14), "seven calls of 2 MB: {access:#}");
}
