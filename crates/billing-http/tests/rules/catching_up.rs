//! A start long ago is billed in two parts: what one call does, and the rest in turns, while the customer says so.

use std::time::{Duration, Instant};

use billing_audit::audit_database;
use billing_store::testing::fingerprint;
use diesel::sql_types::BigInt;
use diesel::{RunQueryDsl, sql_query};
use serde_json::{Value, json};

use crate::support::{Field, World, ago};

/// More than a call does, and more than is done before anybody has looked.
const DAYS: i64 = 900;

#[derive(diesel::QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

fn count(world: &World, query: &str) -> i64 {
    let mut pg = world.pg();
    sql_query(query).get_result::<Count>(&mut pg).expect(query).count
}

/// A plan with an invoice for each day.
pub fn daily_plan(send: &dyn Fn(&str, &Value) -> Value) -> String {
    let fee = json!({"name": "base", "amount": 1, "charge_timing": "in_arrears", "reset_interval_unit": "day",
        "reset_interval_count": 1, "invoicing_interval_unit": "day", "invoicing_interval_count": 1});
    let version = json!({"currency_code": "USD", "recurring_charges": [fee]});
    let body = json!({"plan_name": "Daily", "plan_duration": "monthly", "initial_version": version});
    send("/api/plans/", &body).id("plan_id")
}

fn days_ago(days: i64) -> String {
    ago(time::Duration::days(days))[..10].to_owned()
}

fn is_catching_up(world: &World, customer: &str) -> bool {
    world.get(&format!("/api/customers/{customer}/")).ok(200)["catching_up"] == json!(true)
}

fn wait_for(world: &World, customer: &str) {
    let began = Instant::now();
    while is_catching_up(world, customer) {
        assert!(began.elapsed() < Duration::from_secs(240), "{customer} does not catch up");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn assert_audited(world: &World) {
    let report = audit_database(world.url(), &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_long_past_is_billed_in_turns_and_every_day_once() {
    let mut world = World::new();
    let plan = daily_plan(&|path, body| world.post(path, body).ok(201));
    let clock = world.clock(&format!("{}T12:00:00Z", days_ago(0)));
    world.customer("real");
    world.customer_at("clocked", &clock);
    let key = world.key.clone();
    let headers =
        [("X-API-KEY", key.as_str()), ("Content-Type", "application/json"), ("Idempotency-Key", "begins long ago")];
    for customer in ["real", "clocked"] {
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": days_ago(DAYS)}).to_string();
        let headers = if customer == "real" { &headers[..] } else { &headers[..2] };
        let created = world.send("POST", "/api/subscriptions/", headers, body.as_bytes());
        created.ok(200);
        assert!(is_catching_up(&world, customer), "{customer}");
        if customer == "real" {
            let again = world.send("POST", "/api/subscriptions/", headers, body.as_bytes());
            assert_eq!(again.text, created.text, "a replay says what was said");
        }
    }
    let begun = |customer| {
        let of_customer = format!("FROM invoices JOIN customers USING (customer_key) WHERE customer_id = '{customer}'");
        count(&world, &format!("SELECT count(*) {of_customer}"))
    };
    assert!(begun("real") > 31 && begun("clocked") > 31, "a month of days is in the call");
    for customer in ["real", "clocked"] {
        let credit = json!({"customer_id": customer, "amount": 1, "currency_code": "USD"});
        assert_eq!(world.post("/api/credits/", &credit).error(), "catching_up", "{customer}");
        world.get(&format!("/api/customers/{customer}/draft_invoice/?include_next_period=true")).ok(200);
    }

    world.stop();
    assert_eq!(count(&world, "SELECT count(*) FROM customers WHERE catching_up"), 2, "it is not done");
    assert_audited(&world);
    world.start();
    for customer in ["real", "clocked"] {
        wait_for(&world, customer);
        let lines = format!("FROM invoice_lines JOIN customers USING (customer_key) WHERE customer_id = '{customer}'");
        let days = count(&world, &format!("SELECT count(DISTINCT start_at) {lines}"));
        assert_eq!(count(&world, &format!("SELECT count(*) {lines}")), days, "{customer}: each day once");
        // Around midnight the last day waits for late events.
        assert!((DAYS - 1..=DAYS).contains(&days), "{customer}: {days}");
    }
    assert_audited(&world);
    let credit = json!({"customer_id": "real", "amount": 1, "currency_code": "USD"});
    world.post("/api/credits/", &credit).ok(201);
}

#[test]
fn a_start_too_long_ago_is_refused_before_anything_is_written() {
    let world = World::new();
    let plan = daily_plan(&|path, body| world.post(path, body).ok(201));
    world.customer("acme");
    let before = fingerprint(world.url(), world.organization);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2010-01-01"});
    let refused = world.post("/api/subscriptions/", &body);
    assert_eq!(refused.faults(), [("start_date".to_owned(), "min_value".to_owned())]);
    assert!(refused.text.contains("1200"), "{}", refused.text);
    assert_eq!(fingerprint(world.url(), world.organization), before);
}

#[test]
fn an_advance_takes_those_along_who_are_catching_up() {
    let world = World::new();
    let plan = daily_plan(&|path, body| world.post(path, body).ok(201));
    let clock = world.clock("2024-06-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2022-01-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    assert!(is_catching_up(&world, "acme"));
    world.advance(&clock, "2024-06-11");
    assert!(!is_catching_up(&world, "acme"), "up to where the clock stands");
    let days = "SELECT count(DISTINCT start_at) FROM invoice_lines";
    assert_eq!(count(&world, days), 365 + 365 + 152 + 10 - 1, "but for the last, which waits for late events");
    assert_audited(&world);
}
