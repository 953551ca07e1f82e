//! Usage alerts: which figures they look at, when they fire, and that they do so once.

use serde_json::{Value, json};
use time::Duration;

use crate::receiver::until;
use crate::support::{Field, World, ago, event, now, plan_body, version_body};

const ALERTS: &str = "/api/usage_alerts/";

pub fn alert(world: &World, body: Value) -> Value {
    world.post(ALERTS, &body).ok(201)
}

/// What was told of alerts, in its order.
pub fn fired(world: &World) -> Vec<Value> {
    let path = "/api/feed/?types=usage_alert.triggered&limit=1000";
    world.get(path).ok(200)["results"].as_array().expect("a list").clone()
}

pub fn wait_for(world: &World, count: usize) -> Vec<Value> {
    until(&format!("{count} alerts fire"), || fired(world).len() >= count);
    fired(world)
}

/// Waits until nobody is to be looked at any more and all that was told of it has its place in the feed: what has not fired
/// by then does not. The server gives the places: whoever asks the store for them while it does so is sent away.
pub fn settle(world: &World) {
    use diesel::prelude::*;
    #[derive(QueryableByName)]
    struct Left {
        #[diesel(sql_type = diesel::sql_types::BigInt)]
        left: i64,
    }
    let mut pg = world.pg();
    let mut is_none_left = |left: &str| diesel::sql_query(left).get_result::<Left>(&mut pg).expect("a count").left == 0;
    let marked = "SELECT (SELECT count(*) FROM usage_alert_marks) + (SELECT count(*) FROM usage_alerts WHERE NOT is_introduced) AS left";
    until("everybody was looked at", || is_none_left(marked));
    let unplaced = "SELECT count(*) AS left FROM messages WHERE NOT is_placed";
    until("what was told has its place", || is_none_left(unplaced));
}

/// Whether calls of the customer may come that leave no mark.
pub fn has_headroom(world: &World, customer: &str) -> bool {
    use diesel::prelude::*;
    use diesel::sql_types::{Text, Uuid};
    #[derive(QueryableByName)]
    struct Found {
        #[diesel(sql_type = diesel::sql_types::Bool)]
        found: bool,
    }
    let found = "SELECT EXISTS (SELECT FROM usage_alert_headroom headroom JOIN customers USING (customer_key)
        JOIN event_arrivals arrived ON arrived.organization_id = headroom.organization_id
        WHERE headroom.organization_id = $1 AND customers.customer_id = $2 AND headroom.holds_from < headroom.holds_until
            AND coalesce((headroom.until_arrivals->>'api_call')::bigint, 9223372036854775807) > arrived.last_arrival
            AND arrived.key_range = get_byte(uuid_send(customers.customer_key), 0) >> (8 - (SELECT range_bits FROM ingest_key_ranges))) AS found";
    let query = diesel::sql_query(found).bind::<Uuid, _>(world.organization.uuid()).bind::<Text, _>(customer);
    query.get_result::<Found>(&mut world.pg()).expect("an answer").found
}

pub fn track(world: &World, customer: &str, ids: std::ops::Range<u32>, time: &str) {
    let batch: Vec<Value> = ids.map(|id| event(customer, &format!("{customer}-{id}"), time)).collect();
    world.post("/api/track/", &json!({"batch": batch})).ok(201);
}

pub fn subscribe(world: &World, customer: &str, plan: &str) -> String {
    let body = json!({"customer_id": customer, "plan_id": plan, "start_date": ago(Duration::HOUR)});
    world.post("/api/subscriptions/", &body).ok(200).id("subscription_id")
}

/// The usage that the access check answers.
fn usage(world: &World, customer: &str, metric: &str) -> Value {
    let path = format!("/api/metric_access/?customer_id={customer}&metric_id={metric}");
    world.get(&path).ok(200)["access_per_subscription"][0]["metric_usage"].clone()
}

#[test]
fn an_alert_is_kept_shown_and_deleted() {
    let world = World::new();
    let metric = world.metric();
    world.customer("acme");
    let body = json!({"kind": "metric_usage", "metric_id": metric, "threshold": "80.5", "unit": "percent_of_limit",
        "customer_id": "acme"});
    let made = alert(&world, body);
    let id = made.id("usage_alert_id");
    let expected = json!({"usage_alert_id": id, "kind": "metric_usage", "metric_id": metric, "threshold": 80.5,
        "unit": "percent_of_limit", "currency_code": null, "customer_id": "acme", "plan_version_id": null,
        "created_on": made["created_on"]});
    assert_eq!(made, expected);
    let spend = alert(&world, json!({"kind": "spend", "threshold": 100}));
    assert_eq!((&spend["currency_code"], &spend["unit"]), (&json!("USD"), &json!("absolute")), "what is not said");
    assert_eq!(world.get(ALERTS).ok(200), json!([made, spend]));
    let one = format!("{ALERTS}{id}/");
    assert_eq!(world.get(&one).ok(200), made);
    let other = world.other_key();
    let as_other = |method: &str| world.send(method, &one, &[("X-API-KEY", &other)], b"").status;
    assert_eq!((as_other("GET"), as_other("DELETE")), (404, 404), "another tenant's");
    assert_eq!(world.send("GET", ALERTS, &[("X-API-KEY", &other)], b"").ok(200), json!([]));
    assert_eq!(world.write("DELETE", &one, b"").status, 204);
    assert_eq!(world.write("DELETE", &one, b"").status, 404);
    assert_eq!(world.get(ALERTS).ok(200), json!([spend]));
}

#[test]
fn every_wrong_body_is_told_by_its_field() {
    let world = World::new();
    let metric = world.metric();
    world.customer("acme");
    let unknown = format!("metric_{}", "0".repeat(32));
    let version = format!("plan_version_{}", "0".repeat(32));
    let usage = |more: Value| {
        let mut body = json!({"kind": "metric_usage", "metric_id": metric, "threshold": 5});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    #[rustfmt::skip]
    let cases = [
        // body,                                                                  field,             code,                   why
        (json!({"kind": "metric_usage", "threshold": 5}),                         "metric_id",       "required",             "of which metric"),
        (json!({"kind": "prepaid_units", "threshold": 5}),                        "metric_id",       "required",             "of which metric"),
        (json!({"kind": "spend", "threshold": 5, "metric_id": metric}),           "metric_id",       "invalid_choice",       "spend is of no metric"),
        (usage(json!({"metric_id": unknown})),                                    "metric_id",       "does_not_exist",       "no such metric"),
        (usage(json!({"threshold": 0})),                                          "threshold",       "min_value",            "always reached"),
        (usage(json!({"threshold": -1})),                                         "threshold",       "min_value",            "always reached"),
        (json!({"kind": "credit_balance", "threshold": -1}),                      "threshold",       "min_value",            "never reached"),
        (usage(json!({"threshold": "many"})),                                     "threshold",       "invalid",              "no number"),
        (usage(json!({"unit": "percent"})),                                       "unit",            "invalid_choice",       "percent of what"),
        (json!({"kind": "spend", "threshold": 5, "unit": "percent_of_limit"}),    "unit",            "invalid_choice",       "spend has no limit"),
        (json!({"kind": "prepaid_units", "metric_id": metric, "threshold": 5, "unit": "percent_of_free"}), "unit", "invalid_choice", "nor have prepaid units"),
        (usage(json!({"currency_code": "USD"})),                                  "currency_code",   "invalid_choice",       "usage is no amount"),
        (json!({"kind": "spend", "threshold": 5, "currency_code": "QQQ"}),        "currency_code",   "does_not_exist",       "no such currency"),
        (usage(json!({"customer_id": "nobody"})),                                 "customer_id",     "does_not_exist",       "no such customer"),
        (usage(json!({"plan_version_id": version})),                              "plan_version_id", "does_not_exist",       "no such version"),
        (usage(json!({"plan_version_id": version, "customer_id": "acme"})),       "plan_version_id", "not_allowed_together", "one of both"),
        (usage(json!({"kind": "usage"})),                                         "kind",            "invalid_choice",       "no such figure"),
    ];
    for (body, field, code, why) in cases {
        assert_eq!(world.post(ALERTS, &body).faults(), [(field.to_owned(), code.to_owned())], "{why}: {body}");
    }
    assert_eq!(world.get(ALERTS).ok(200), json!([]), "nothing of it is kept");
}

#[test]
fn an_alert_fires_once_for_an_interval_with_the_figure_that_is_then_read() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let version = world.get(&format!("/api/plans/{plan}/")).ok(200)["versions"][0].id("version_id");
    for customer in ["a", "bb", "ccc"] {
        world.customer(customer);
    }
    let subscription = subscribe(&world, "a", &plan);
    subscribe(&world, "bb", &plan);
    #[rustfmt::skip]
    let alerts = [
        // alert,                                                                                      fires for, why
        (json!({"metric_id": metric, "threshold": 5}),                                                  2, "everybody"),
        (json!({"metric_id": metric, "threshold": 5, "customer_id": "a"}),                              1, "one customer"),
        (json!({"metric_id": metric, "threshold": 5, "plan_version_id": version}),                      2, "whoever holds it"),
        (json!({"metric_id": metric, "threshold": 50, "unit": "percent_of_free"}),                      2, "half of ten"),
        (json!({"metric_id": metric, "threshold": "0.5", "unit": "percent_of_limit"}),                  2, "five of a thousand"),
        (json!({"metric_id": metric, "threshold": 6}),                                                  0, "not reached"),
        (json!({"metric_id": metric, "threshold": 5, "customer_id": "ccc"}),                            0, "another customer"),
    ];
    let made = alerts.clone().map(|(mut body, ..)| {
        body["kind"] = json!("metric_usage");
        alert(&world, body)
    });
    track(&world, "a", 0..4, &now());
    track(&world, "ccc", 0..9, &now());
    settle(&world);
    assert_eq!(fired(&world), Vec::<Value>::new(), "below, and without a plan there is no interval");
    track(&world, "a", 4..5, &now());
    track(&world, "bb", 0..5, &now());
    wait_for(&world, 9);
    settle(&world);
    let all = fired(&world);
    for ((_, times, why), made) in alerts.iter().zip(&made) {
        let of_alert = all.iter().filter(|message| message["data"]["usage_alert"] == *made);
        assert_eq!(of_alert.count(), *times, "{why}");
    }
    let of_a = all.iter().find(|message| message["data"]["customer"]["customer_id"] == "a").expect("told");
    assert_eq!(of_a["data"]["value"], usage(&world, "a", &metric));
    assert_eq!(of_a["data"]["subscription_id"], subscription);
    assert_eq!(of_a["livemode"], true);

    // Deleted alerts and deleted customers do not fire.
    let sixth =
        alert(&world, json!({"kind": "metric_usage", "metric_id": metric, "threshold": 7})).id("usage_alert_id");
    settle(&world);
    assert_eq!(world.write("DELETE", &format!("{ALERTS}{sixth}/"), b"").status, 204);
    world.post("/api/customers/bb/delete/", &json!({})).ok(200);
    track(&world, "a", 10..15, &now());
    track(&world, "bb", 10..15, &now());
    settle(&world);
    let new = fired(&world).split_off(all.len());
    assert_eq!(new.len(), 1, "only of the one that was not reached before: {new:?}");
    assert_eq!(new[0]["data"]["usage_alert"], made[5]);
}

#[test]
fn an_alert_that_is_made_above_its_threshold_fires_once() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    for customer in ["a", "bb", "ccc"] {
        world.customer(customer);
        subscribe(&world, customer, &plan);
    }
    track(&world, "a", 0..8, &now());
    track(&world, "bb", 0..8, &now());
    track(&world, "ccc", 0..1, &now());
    let made = alert(&world, json!({"kind": "metric_usage", "metric_id": metric, "threshold": 5}));
    wait_for(&world, 2);
    track(&world, "a", 8..9, &now());
    settle(&world);
    assert_eq!(fired(&world).len(), 2);
    assert!(fired(&world).iter().all(|message| message["data"]["usage_alert"] == made));
}

#[test]
fn a_figure_that_cannot_be_told_keeps_no_other_back() {
    let world = World::new();
    let sql = "SELECT SUM((properties ->> 'n')::numeric) AS usage_qty FROM events";
    let body = json!({"metric_type": "custom", "metric_name": "Sum of n", "custom_sql": sql});
    let (counted, broken) = (world.metric(), world.post("/api/metrics/", &body).ok(201).id("metric_id"));
    let mut plan = plan_body("Both", &counted);
    let tiers = json!([{"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1}]);
    let components = plan["initial_version"]["components"].as_array_mut().expect("a list");
    components.push(json!({"metric_id": broken, "tiers": tiers}));
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    world.customer("acme");
    subscribe(&world, "acme", &plan);
    for metric in [&broken, &counted] {
        alert(&world, json!({"kind": "metric_usage", "metric_id": metric, "threshold": 1}));
    }
    alert(&world, json!({"kind": "spend", "threshold": "0.01"}));
    settle(&world);
    let mut event = event("acme", "1", &now());
    event["properties"] = json!({"n": "seven"});
    world.post("/api/track/", &json!({"batch": [event]})).ok(201);
    track(&world, "acme", 0..10, &now());
    settle(&world);
    let told = fired(&world);
    let told: Vec<_> = told.iter().map(|message| &message["data"]["usage_alert"]["metric_id"]).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.contains(&&json!(counted)) && told.contains(&&json!(null)), "{told:?}");
}

#[test]
fn it_arms_again_with_the_next_interval_and_late_events_are_of_none() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-01-10");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-10"});
    world.post("/api/subscriptions/", &body).ok(200);
    alert(&world, json!({"kind": "metric_usage", "metric_id": metric, "threshold": 3}));
    track(&world, "acme", 0..3, "2024-01-10T00:00:00Z");
    // Not waited for: what is reached in an interval is told though it is over when somebody looks.
    world.advance(&clock, "2024-02-11");
    let first = wait_for(&world, 1).remove(0);
    assert_eq!(first["livemode"], false);
    assert_eq!(first["data"]["interval_start"], "2024-01-10T00:00:00Z");
    track(&world, "acme", 3..5, "2024-02-11T00:00:00Z");
    settle(&world);
    assert_eq!(fired(&world).len(), 1, "two of three in the new interval");
    track(&world, "acme", 5..9, "2024-01-20T00:00:00Z");
    settle(&world);
    assert_eq!(fired(&world).len(), 1, "late events are of an interval that has passed");
    track(&world, "acme", 9..10, "2024-02-11T00:00:00Z");
    let second = wait_for(&world, 2).remove(1);
    assert_eq!(second["data"]["interval_start"], "2024-02-10T00:00:00Z");
    assert_eq!(second["data"]["value"], 3);
}

#[test]
fn a_switch_goes_on_with_the_interval() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let other = world.post("/api/plans/", &plan_body("Pro", &metric)).ok(201).id("plan_id");
    world.customer("acme");
    let subscription = subscribe(&world, "acme", &plan);
    alert(&world, json!({"kind": "metric_usage", "metric_id": metric, "threshold": 3}));
    track(&world, "acme", 0..3, &now());
    wait_for(&world, 1);
    let body = json!({"switch_plan_id": other});
    world.post(&format!("/api/subscriptions/{subscription}/switch_plan/"), &body).ok(200);
    track(&world, "acme", 3..4, &now());
    settle(&world);
    assert_eq!(fired(&world).len(), 1, "it is the same interval");
}

#[test]
fn spend_credit_and_prepaid_units_are_looked_at() {
    let world = World::new();
    let metric = world.metric();
    let mut version = version_body(&metric);
    version["components"][0]["prepaid_charge"] = json!({"units": 20, "charge_behavior": "full"});
    let body = json!({"plan_name": "Prepaid", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &body).ok(201).id("plan_id");
    world.customer("acme");
    let spend = alert(&world, json!({"kind": "spend", "threshold": "0.05"}));
    let low = alert(&world, json!({"kind": "credit_balance", "threshold": 2}));
    let prepaid = alert(&world, json!({"kind": "prepaid_units", "metric_id": metric, "threshold": 5}));
    let other = alert(&world, json!({"kind": "credit_balance", "threshold": 2, "currency_code": "EUR"}));
    settle(&world);
    assert_eq!(fired(&world), Vec::<Value>::new(), "nothing was granted, nothing is held");
    let credit = json!({"customer_id": "acme", "amount": 50, "currency_code": "USD"});
    world.post("/api/credits/", &credit).ok(201);
    subscribe(&world, "acme", &plan);
    track(&world, "acme", 0..16, &now());
    let told = wait_for(&world, 1).remove(0);
    assert_eq!((&told["data"]["usage_alert"], &told["data"]["value"]), (&prepaid, &json!(4)), "20 less 16");
    track(&world, "acme", 16..40, &now());
    let told = wait_for(&world, 2).remove(1);
    assert_eq!(told["data"]["usage_alert"], spend);
    let draft = world.get("/api/customers/acme/draft_invoice/?include_next_period=false").ok(200);
    assert_eq!(told["data"]["value"], draft["invoices"][0]["cost_due"], "{draft}");
    let credits = world.get("/api/credits/?customer_id=acme").ok(200);
    let id = credits[0].id("credit_id");
    world.post(&format!("/api/credits/{id}/void/"), &json!({})).ok(200);
    let told = wait_for(&world, 3).remove(2);
    assert_eq!((&told["data"]["usage_alert"], &told["data"]["value"]), (&low, &json!(0)));
    settle(&world);
    assert_eq!(fired(&world).len(), 3, "nor {other}");
    world.post("/api/credits/", &json!({"customer_id": "acme", "amount": 1, "currency_code": "USD"})).ok(201);
    wait_for(&world, 4);
    settle(&world);
    assert_eq!(fired(&world).len(), 4, "each grant begins anew");
}

/// They cross it with headroom in force, which was found just before. `BILLING_ROUNDS` says how often.
#[test]
fn eight_writers_cross_one_threshold_and_it_fires_once() {
    let rounds: u32 = std::env::var("BILLING_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    alert(&world, json!({"kind": "metric_usage", "metric_id": metric, "threshold": 18}));
    for round in 0..rounds {
        let customer = format!("c{round}");
        world
            .post("/api/customers/", &json!({"customer_id": customer, "email": format!("{customer}@acme.io")}))
            .ok(201);
        subscribe(&world, &customer, &plan);
        track(&world, &customer, 0..10, &now());
        settle(&world);
        assert!(has_headroom(&world, &customer), "{customer} is at 10 of 18");
        std::thread::scope(|scope| {
            for writer in 5..13 {
                let (world, customer) = (&world, &customer);
                scope.spawn(move || track(world, customer, writer * 2..writer * 2 + 2, &now()));
            }
        });
        wait_for(&world, round as usize + 1);
    }
    settle(&world);
    let all = fired(&world);
    assert_eq!(all.len(), rounds as usize, "one each");
    for message in &all {
        let value = message["data"]["value"].as_f64().expect("a number");
        assert!((18.0..=26.0).contains(&value), "it was so: {message}");
    }
}
