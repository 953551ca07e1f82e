//! A job whose process is killed again and again corrects every event once, and its count is of those.
//!
//! `BILLING_JOB_KILLS` says how often it is killed.

use std::thread;
use std::time::{Duration, Instant};

use billing_audit::audit_database;
use postgres_local::Cluster;
use serde_json::{Value, json};

use super::acknowledged::Process;
use crate::support::{Field, ago};

const EVENTS: usize = 2_400;

fn kills() -> u32 {
    std::env::var("BILLING_JOB_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

#[test]
fn a_job_goes_on_where_a_kill_left_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::persistent(&folder.path().join("postgres")).expect("a durable cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let (url, data_dir) = (cluster.url("billing"), folder.path().join("server"));
    let start = || Process::start_with(&url, &data_dir, &[]);
    let mut server = start();
    let metric = server.post("/api/metrics/", &json!({"event_name": "call"})).id("metric_id");
    let tiers = json!([{"type": "free", "range_start": 0}]);
    let version = json!({"currency_code": "USD", "components": [{"metric_id": metric, "tiers": tiers}]});
    let plan = json!({"plan_name": "Pro", "plan_duration": "monthly", "initial_version": version});
    let plan = server.post("/api/plans/", &plan).id("plan_id");
    server.post("/api/customers/", &json!({"customer_id": "acme", "email": "a@acme.io"}));
    let start_date = ago(time::Duration::days(3));
    server.post("/api/subscriptions/", &json!({"customer_id": "acme", "plan_id": plan, "start_date": start_date}));
    let numbers: Vec<usize> = (0..EVENTS).collect();
    for some in numbers.chunks(1_000) {
        let call = |n: &usize| {
            let time = ago(time::Duration::minutes((n % 3_000) as i64));
            let region = if n.is_multiple_of(3) { "eu" } else { "us" };
            json!({"customer_id": "acme", "event_name": "call", "idempotency_id": n.to_string(), "time_created": time, "properties": {"region": region}})
        };
        let batch: Vec<Value> = some.iter().map(call).collect();
        assert_eq!(server.post("/api/track/", &json!({"batch": batch}))["success"], "all");
    }
    let filter = json!({"customer_id": "acme", "properties": {"region": "us"}});
    let job = server.post("/api/events/void/", &json!({"filter": filter}))["job"].id("job_id");
    let (mut seen, all) = (0, EVENTS as u64 * 2 / 3);
    for _ in 0..kills() {
        let began = Instant::now();
        loop {
            let corrected = server.get(&format!("/api/jobs/{job}/"))["events_corrected"].as_u64().expect("a number");
            assert!(corrected >= seen && corrected <= all, "{corrected} after {seen}");
            if corrected > seen || corrected == all {
                seen = corrected;
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "nobody goes on with it");
            thread::sleep(Duration::from_millis(20));
        }
        server.kill();
        server = start();
    }
    let began = Instant::now();
    while server.get(&format!("/api/jobs/{job}/"))["state"] == "running" {
        assert!(began.elapsed() < Duration::from_secs(120), "it does not end");
        thread::sleep(Duration::from_millis(50));
    }
    let done = server.get(&format!("/api/jobs/{job}/"));
    assert_eq!((&done["state"], &done["events_corrected"]), (&json!("done"), &json!(all)), "each once");
    let access = server.get(&format!("/api/metric_access/?customer_id=acme&metric_id={metric}"));
    assert_eq!(access["access_per_subscription"][0]["metric_usage"].as_u64(), Some(EVENTS as u64 - all));
    server.kill();
    let report = audit_database(&url, &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "{report}");
}
