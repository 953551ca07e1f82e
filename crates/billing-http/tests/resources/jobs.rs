//! Events that are corrected by a filter, in the background.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Answer, Field, World, event};

/// The day of the events, and the day after.
const TIMES: [&str; 2] = ["2024-01-10T00:00:00Z", "2024-01-11T00:00:00Z"];

/// Customers under a clock in January 2024, each with `each` calls of the region eu and as many of us, at a dollar: the clock.
fn with_calls(world: &World, customers: &[&str], each: usize) -> String {
    let metric = world.metric();
    let tier = json!({"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1});
    let filters = json!([{"property_name": "region", "operator": "isin", "comparison_value": ["eu"]}]);
    let eu = json!({"metric_name": "eu", "event_name": "api_call", "categorical_filters": filters});
    let eu = world.post("/api/metrics/", &eu).ok(201).id("metric_id");
    let components = json!([{"metric_id": metric, "tiers": [tier]}, {"metric_id": eu, "tiers": [tier]}]);
    let version = json!({"currency_code": "USD", "components": components});
    let plan = json!({"plan_name": "Metered", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    let clock = world.clock("2024-01-01");
    for customer in customers {
        world.customer_at(customer, &clock);
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": "2024-01-01"});
        world.post("/api/subscriptions/", &body).ok(200);
    }
    world.advance(&clock, "2024-01-20");
    for customer in customers {
        let calls = ["eu", "us"].into_iter().flat_map(|region| {
            (0..each).map(move |n| {
                let mut call = event(customer, &format!("{region}{n}"), TIMES[n % 2]);
                call["properties"] = json!({"region": region});
                call
            })
        });
        for some in calls.collect::<Vec<_>>().chunks(500) {
            assert_eq!(world.post("/api/track/", &json!({"batch": some})).ok(201)["success"], "all");
        }
    }
    clock
}

fn ordered(answer: &Answer) -> String {
    let answer = answer.ok(200);
    assert_eq!((&answer["events"], &answer["job"]["state"]), (&json!([]), &json!("running")), "{answer}");
    answer["job"].id("job_id")
}

/// The job once it is at its end.
fn ended(world: &World, job: &str) -> Value {
    let began = Instant::now();
    loop {
        let job = world.get(&format!("/api/jobs/{job}/")).ok(200);
        if job["state"] != "running" {
            return job;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it does not end: {job}");
        std::thread::sleep(Duration::from_millis(30));
    }
}

fn drafted(world: &World, customer: &str) -> String {
    world.get(&format!("/api/customers/{customer}/draft_invoice/")).ok(200)["invoices"][0]["amount"].to_string()
}

fn states(world: &World, customer: &str) -> [usize; 3] {
    ["counted", "amended", "voided"].map(|state| {
        let target = format!("/api/events/?customer_id={customer}&state={state}");
        world.get(&target).ok(200).as_array().expect("a list").len()
    })
}

#[test]
fn all_events_of_a_filter_are_voided_whoever_sent_them() {
    let world = World::new();
    with_calls(&world, &["a", "b", "c"], 6);
    assert_eq!(drafted(&world, "a"), "18", "12 calls, 6 of them of eu");
    let filter = json!({"event_name": "api_call", "properties": {"region": "eu"}, "to": "2024-01-10"});
    let job = ordered(&world.post("/api/events/void/", &json!({"filter": filter, "reason": "a loop"})));
    let done = ended(&world, &job);
    assert_eq!(
        (&done["state"], &done["kind"], &done["failure"]),
        (&json!("done"), &json!("void_events"), &Value::Null)
    );
    assert_eq!(
        (&done["events_corrected"], &done["customers_done"], &done["reason"]),
        (&json!(9), &json!(3), &json!("a loop"))
    );
    assert_eq!(done["filter"]["properties"], json!({"region": "eu"}));
    for customer in ["a", "b", "c"] {
        assert_eq!(drafted(&world, customer), "12", "three of eu are gone");
        assert_eq!(states(&world, customer), [9, 0, 3]);
    }
    let receipt = world.get("/api/events/eu0/?customer_id=a").ok(200);
    assert_eq!(receipt["corrections"][0]["reason"], "a loop");
    let again = ordered(&world.post("/api/events/void/", &json!({"filter": filter})));
    assert_eq!(ended(&world, &again)["events_corrected"], 0, "what is voided stays as it is");
    let jobs = world.get("/api/jobs/").ok(200);
    let ids: Vec<String> = jobs.as_array().expect("a list").iter().map(|job| job.id("job_id")).collect();
    assert_eq!(ids, [again, job], "newest first");
}

#[test]
fn a_dry_run_says_what_changes_in_money_and_changes_nothing() {
    let world = World::new();
    let clock = with_calls(&world, &["a", "b"], 3);
    let eu = json!({"event_name": "api_call", "properties": {"region": "eu"}});
    let preview = |call: &str, body: &Value| {
        let before = world.snapshot();
        let answer = world.post(call, body).ok(200);
        assert!(world.snapshot() == before, "nothing is written");
        assert_eq!((&answer["events"], &answer["job"]), (&json!([]), &Value::Null));
        answer["preview"].clone()
    };
    let void = json!({"filter": eu, "dry_run": true});
    let change = |invoiced: i32, open: i32| json!([{"currency_code": "USD", "invoiced": invoiced, "open": open}]);
    let open = preview("/api/events/void/", &void);
    assert_eq!(open, json!({"events": 6, "customers": 2, "is_complete": true, "changes": change(0, -12)}));
    world.advance(&clock, "2024-02-02");
    let invoiced = preview("/api/events/void/", &void);
    assert_eq!(invoiced, json!({"events": 6, "customers": 2, "is_complete": true, "changes": change(-12, 0)}));
    let us = json!({"customer_id": "a", "properties": {"region": "us"}});
    let amended =
        preview("/api/events/amend/", &json!({"filter": us, "properties": {"region": "eu"}, "dry_run": true}));
    assert_eq!(amended, json!({"events": 3, "customers": 1, "is_complete": true, "changes": change(3, 0)}));
    for customer in ["a", "b"] {
        assert_eq!(states(&world, customer), [6, 0, 0]);
    }
    // What was said comes true.
    let job = ordered(&world.post("/api/events/void/", &json!({"filter": eu})));
    assert_eq!(ended(&world, &job)["events_corrected"], 6);
    assert_eq!([drafted(&world, "a"), drafted(&world, "b")], ["-6", "-6"]);
    let named = json!({"customer_id": "a", "idempotency_ids": ["us0"], "dry_run": true});
    let refused = world.post("/api/events/void/", &named).ok(400);
    assert_eq!(refused["validation_errors"][0]["attr"], "dry_run");
    world.advance(&clock, "2024-06-02");
    let late = world.post("/api/events/void/", &json!({"filter": us, "dry_run": true}));
    assert_eq!((late.status, late.error()), (409, "beyond_window".to_owned()), "as the job would be");
    let beyond = preview("/api/events/void/", &json!({"filter": us, "dry_run": true, "beyond_window": true}));
    assert_eq!(beyond, json!({"events": 3, "customers": 1, "is_complete": true, "changes": change(-3, 0)}));
}

#[test]
fn a_dry_run_does_not_vouch_for_custom_metrics() {
    let world = World::new();
    with_calls(&world, &["a", "b"], 3);
    let query = "SELECT COUNT(*) AS usage_qty FROM events";
    let metric = json!({"metric_type": "custom", "metric_name": "All", "custom_sql": query});
    let metric = world.post("/api/metrics/", &metric).ok(201).id("metric_id");
    let tier = json!({"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1});
    let version = json!({"currency_code": "USD", "components": [{"metric_id": metric, "tiers": [tier]}]});
    let plan = json!({"plan_name": "Custom", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    world
        .post("/api/subscriptions/", &json!({"customer_id": "a", "plan_id": plan, "start_date": "2024-01-01"}))
        .ok(200);
    for (customer, is_complete) in [("a", false), ("b", true)] {
        let body = json!({"filter": {"customer_id": customer, "event_name": "api_call"}, "dry_run": true});
        let preview = world.post("/api/events/void/", &body).ok(200)["preview"].clone();
        assert_eq!((&preview["events"], &preview["is_complete"]), (&json!(6), &json!(is_complete)), "{customer}");
    }
}

#[test]
fn properties_are_set_and_what_was_billed_is_put_right() {
    let world = World::new();
    let clock = with_calls(&world, &["a", "b"], 300);
    world.advance(&clock, "2024-02-02");
    let metric = world.get("/api/metrics/").ok(200);
    let eu = metric
        .as_array()
        .expect("a list")
        .iter()
        .find(|metric| metric["metric_name"] == "eu")
        .expect("eu")
        .id("metric_id");
    let body = json!({"customer_id": "a", "filter": {"metric_id": eu}, "properties": {"region": "us", "moved": true}});
    let done = ended(&world, &ordered(&world.post("/api/events/amend/", &body)));
    assert_eq!(
        (&done["state"], &done["events_corrected"], &done["filter"]["customer_id"]),
        (&json!("done"), &json!(300), &json!("a"))
    );
    assert_eq!((states(&world, "a"), states(&world, "b")), ([300, 300, 0], [600, 0, 0]));
    let receipt = world.get("/api/events/eu7/?customer_id=a").ok(200);
    assert_eq!(receipt["properties"], json!({"moved": true, "region": "us"}));
    world.advance(&clock, "2024-03-02");
    let late = world.get("/api/invoices/?customer_id=a").ok(200)[0]["line_items"][0].clone();
    assert_eq!((late["name"].as_str(), late["amount"].to_string()), (Some("eu - Late Usage"), "-300".to_owned()));
    let amounts = world.get("/api/invoices/?customer_id=b").ok(200);
    assert_eq!(amounts[0]["amount"], 0, "another customer's are as they were");
}

#[test]
fn a_job_that_is_stopped_leaves_what_it_has_done() {
    let world = World::new();
    with_calls(&world, &["a"], 1_500);
    let job = ordered(&world.post("/api/events/void/", &json!({"filter": {"customer_id": "a"}})));
    let path = format!("/api/jobs/{job}/");
    let began = Instant::now();
    while world.get(&path).ok(200)["events_corrected"] == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not begin");
    }
    world.send("DELETE", &path, &[("X-API-KEY", &world.key)], b"");
    let stopped = world.get(&path).ok(200);
    assert_eq!(stopped["state"], "cancelled");
    std::thread::sleep(Duration::from_millis(800));
    let after = world.get(&path).ok(200);
    let corrected = after["events_corrected"].as_u64().expect("a number");
    assert!((1..3_000).contains(&corrected), "some of it was done: {after}");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(world.get(&path).ok(200), after, "and nothing since");
    assert!(after["finished_at"].is_string(), "{after}");
}

#[test]
fn what_is_beyond_the_window_ends_the_job_unless_it_is_asked_for() {
    let world = World::new();
    let clock = with_calls(&world, &["a"], 2);
    world.advance(&clock, "2024-05-10");
    let filter = json!({"customer_id": "a", "from": "2024-01-01"});
    let failed = ended(&world, &ordered(&world.post("/api/events/void/", &json!({"filter": filter}))));
    assert_eq!((&failed["state"], &failed["events_corrected"]), (&json!("failed"), &json!(0)), "{failed}");
    assert!(failed["failure"].is_string(), "{failed}");
    let body = json!({"filter": filter, "beyond_window": true});
    let done = ended(&world, &ordered(&world.post("/api/events/void/", &body)));
    assert_eq!((&done["state"], &done["events_corrected"]), (&json!("done"), &json!(4)));
    world.advance(&clock, "2024-06-02");
    let invoices = world.get("/api/invoices/?customer_id=a").ok(200);
    let lines: Vec<_> = invoices
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(|invoice| invoice["line_items"].as_array().expect("lines").clone())
        .collect();
    let back: i64 = lines
        .iter()
        .filter(|line| line["name"].as_str().is_some_and(|name| name.contains("Late Usage")))
        .map(|line| line["amount"].as_i64().expect("whole"))
        .sum();
    assert_eq!(back, -6, "four calls, two of them of eu");
}

#[test]
fn another_organization_has_no_such_job_and_faults_are_told() {
    let world = World::new();
    with_calls(&world, &["a"], 1);
    let job = ordered(&world.post("/api/events/void/", &json!({"filter": {"event_name": "nothing"}})));
    let other = world.other_key();
    assert_eq!(world.get_as(&other, &format!("/api/jobs/{job}/")).error(), "not_found");
    assert_eq!(world.send("DELETE", &format!("/api/jobs/{job}/"), &[("X-API-KEY", &other)], b"").error(), "not_found");
    assert_eq!(world.get_as(&other, "/api/jobs/").ok(200), json!([]));
    let (void, amend) = ("/api/events/void/", "/api/events/amend/");
    #[rustfmt::skip]
    let cases = [
        // call, body,                                                                             fault,                                why
        (void,  json!({"customer_id": "a"}),                                                       "idempotency_ids required",           "neither"),
        (void,  json!({"customer_id": "a", "idempotency_ids": ["eu0"], "filter": {"event_name": "x"}}), "filter not_allowed_together",   "both"),
        (void,  json!({"filter": {}}),                                                             "filter required",                    "everything"),
        (void,  json!({"idempotency_ids": ["eu0"]}),                                               "customer_id required",               "of whom"),
        (void,  json!({"customer_id": "a", "filter": {"customer_id": "b"}}),                       "filter.customer_id invalid",         "of two"),
        (void,  json!({"filter": {"customer_id": "nobody"}}),                                      "filter.customer_id does_not_exist",  "of nobody"),
        (void,  json!({"filter": {"metric_id": format!("metric_{}", "0".repeat(32))}}),            "filter.metric_id does_not_exist",    "no such metric"),
        (void,  json!({"filter": {"from": "2024-02-01", "to": "2024-01-01"}}),                     "filter.to min_value",                "an end before the start"),
        (amend, json!({"filter": {"customer_id": "a"}}),                                           "properties invalid",                 "nothing to set"),
    ];
    for (path, body, fault, why) in cases {
        let answer = world.write("POST", path, body.to_string().as_bytes());
        let faults: Vec<String> = answer.faults().into_iter().map(|(attr, code)| format!("{attr} {code}")).collect();
        assert_eq!(faults, [fault], "{why}");
    }
    assert_eq!(ended(&world, &job)["events_corrected"], 0);
}
