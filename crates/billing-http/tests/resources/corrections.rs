//! Events that were wrong, amended and voided over the wire, with the money they change.

use serde_json::{Value, json};

use crate::support::{Answer, Field, World, event, now};

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
