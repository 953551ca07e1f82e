//! A billing run whose process is killed again and again bills everybody once.
//!
//! `BILLING_KILLS` says how often it is killed.

use std::thread;
use std::time::{Duration, Instant};

use billing_audit::audit_database;
use diesel::connection::SimpleConnection;
use diesel::sql_types::BigInt;
use diesel::{Connection, PgConnection, RunQueryDsl, sql_query};
use postgres_local::Cluster;
use serde_json::json;

use super::acknowledged::Process;
use crate::rules::catching_up::daily_plan;
use crate::support::LEAVE_TEST_CLOCKS;

/// Customers whose billing is due when the first process starts: enough to be in the middle of at every kill.
const CUSTOMERS_PER_KILL: u64 = 25;

#[derive(diesel::QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

pub fn count(pg: &mut PgConnection, query: &str) -> i64 {
    sql_query(query).get_result::<Count>(pg).expect(query).count
}

/// Customers whose last three months nobody has billed yet.
fn neglected_customers(server: &Process, pg: &mut PgConnection, customers: u64) {
    let metric = server.post("/api/metrics/", &json!({"event_name": "call"}))["metric_id"].clone();
    let plan = json!({"plan_name": "Pro", "plan_duration": "monthly", "initial_version": {"currency_code": "USD",
        "recurring_charges": [{"name": "base", "amount": 9, "charge_timing": "in_advance"}],
        "components": [{"metric_id": metric, "tiers": [{"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1}]}]}});
    let plan = server.post("/api/plans/", &plan)["plan_id"].clone();
    let start = (time::OffsetDateTime::now_utc() - time::Duration::days(100)).date().to_string();
    let clock =
        server.post("/api/test_clocks/", &json!({"name": "past", "frozen_time": start}))["test_clock_id"].clone();
    for n in 0..customers {
        let id = format!("customer-{n}");
        let email = format!("{n}@acme.io");
        server.post("/api/customers/", &json!({"customer_id": id, "email": email, "test_clock_id": clock}));
        server.post("/api/subscriptions/", &json!({"customer_id": id, "plan_id": plan, "start_date": start}));
        let events: Vec<_> = (0..3)
            .map(|e| json!({"customer_id": id, "event_name": "call", "idempotency_id": format!("{n}-{e}"), "time_created": start}))
            .collect();
        server.post("/api/track/", &json!({"batch": events}));
        server.post(&format!("/api/customers/{id}/one_off_lines/"), &json!({"name": "set-up", "amount": 5}));
    }
    // They leave their clock, and find that it is late.
    pg.batch_execute(LEAVE_TEST_CLOCKS).expect("neglected");
}

#[test]
fn every_invoice_exists_once_however_often_the_run_is_killed() {
    let kills: u64 = std::env::var("BILLING_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::persistent(&folder.path().join("postgres")).expect("a durable cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let (url, data_dir) = (cluster.url("billing"), folder.path().join("server"));
    let customers = CUSTOMERS_PER_KILL * kills;

    let mut server = Process::start(&url, &data_dir);
    let mut pg = PgConnection::establish(&url).expect("a connection");
    neglected_customers(&server, &mut pg, customers);
    let done = "SELECT count(*) FROM billing_due WHERE due_at > now()";
    let mut in_the_middle = 0;
    for kill in 0..kills {
        let before = count(&mut pg, done);
        let deadline = Instant::now() + Duration::from_secs(20);
        while count(&mut pg, done) < before + 2 + i64::try_from(kill % 5).expect("small") && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        server.kill();
        let billed = count(&mut pg, done);
        in_the_middle += u64::from(billed > before && billed < i64::try_from(customers).expect("small"));
        // What the dead process had leased is nobody's for a while; the test does not wait for that.
        pg.batch_execute("UPDATE billing_due SET claimed_until = NULL").expect("leases run out");
        server = Process::start(&url, &data_dir);
    }
    assert!(in_the_middle * 2 >= kills, "the run was killed in the middle: {in_the_middle} of {kills}");
    let deadline = Instant::now() + Duration::from_secs(120 + customers);
    while count(&mut pg, "SELECT count(*) FROM billing_due WHERE due_at <= now()") > 0 {
        assert!(Instant::now() < deadline, "the run does not end");
        thread::sleep(Duration::from_millis(50));
    }
    let unlike = "SELECT count(*) FROM (
            SELECT customer.customer_key FROM customers customer JOIN invoices USING (customer_key)
            GROUP BY customer.customer_key HAVING count(*) <> 4 OR count(DISTINCT issued_at) <> 4 OR sum(amount) <> 44
        ) wrong";
    assert_eq!(
        count(&mut pg, unlike),
        0,
        "three months of fees in advance, the running one, three calls, and a set-up"
    );
    assert_eq!(count(&mut pg, "SELECT count(*) FROM invoices"), i64::try_from(customers * 4).expect("small"));
    let report = audit_database(&url, &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "{report}");
    server.kill();
}

#[test]
fn whoever_is_catching_up_is_billed_once_however_often_the_process_is_killed() {
    const CUSTOMERS: i64 = 6;
    const DAYS: i64 = 400;
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::persistent(&folder.path().join("postgres")).expect("a durable cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let (url, data_dir) = (cluster.url("billing"), folder.path().join("server"));
    let mut server = Process::start(&url, &data_dir);
    let mut pg = PgConnection::establish(&url).expect("a connection");
    let plan = daily_plan(&|path, body| server.post(path, body));
    let now = time::OffsetDateTime::now_utc();
    let start = (now - time::Duration::days(DAYS)).date().to_string();
    let clock = json!({"name": "now", "frozen_time": format!("{}T12:00:00Z", now.date())});
    let clock = server.post("/api/test_clocks/", &clock)["test_clock_id"].clone();
    for n in 0..CUSTOMERS {
        let id = format!("customer-{n}");
        let mut customer = json!({"customer_id": id, "email": format!("{n}@acme.io")});
        if n % 2 == 0 {
            customer["test_clock_id"] = clock.clone();
        }
        server.post("/api/customers/", &customer);
        server.post("/api/subscriptions/", &json!({"customer_id": id, "plan_id": plan, "start_date": start}));
    }
    let mut in_the_middle = 0;
    for _ in 0..2 {
        let before = count(&mut pg, "SELECT count(*) FROM invoices");
        let deadline = Instant::now() + Duration::from_secs(20);
        while count(&mut pg, "SELECT count(*) FROM invoices") == before && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        server.kill();
        in_the_middle += count(&mut pg, "SELECT count(*) FROM customers WHERE catching_up");
        let report = audit_database(&url, &mut |_| {}).expect("an audit");
        assert!(report.is_clean(), "in the middle: {report}");
        pg.batch_execute("UPDATE billing_due SET claimed_until = NULL").expect("leases run out");
        server = Process::start(&url, &data_dir);
    }
    assert!(in_the_middle > 0, "it was killed in the middle");
    let deadline = Instant::now() + Duration::from_secs(180);
    while count(&mut pg, "SELECT count(*) FROM customers WHERE catching_up") > 0 {
        assert!(Instant::now() < deadline, "they do not catch up");
        thread::sleep(Duration::from_millis(50));
    }
    // In real time the last day waits for late events around midnight.
    let unlike = format!(
        "SELECT count(*) FROM (
            SELECT customer_key FROM customers JOIN invoice_lines USING (customer_key) GROUP BY customer_key
            HAVING count(*) <> count(DISTINCT start_at) OR count(*) NOT BETWEEN {} AND {DAYS}
        ) wrong",
        DAYS - 1
    );
    assert_eq!(count(&mut pg, &unlike), 0, "each day once");
    assert_eq!(count(&mut pg, "SELECT count(DISTINCT customer_key) FROM invoice_lines"), CUSTOMERS);
    let report = audit_database(&url, &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "{report}");
    server.kill();
}
