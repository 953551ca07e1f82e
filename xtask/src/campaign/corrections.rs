//! `cargo xtask campaign corrections`: 100,000 events of one customer voided by a filter in one job, and what whoever sends events
//! meanwhile feels of it: the very customer, whose key range the job takes again and again.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::tenant::{CUSTOMER, Tenant};
use super::{EVENTS, eager};
use crate::bench::load::{self, Client};
use crate::bench::stage::Stage;

/// Clients who send an event each time, and how often each does.
const CLIENTS: u32 = 4;
const CALLS_PER_SECOND: u32 = 25;
/// How long they are measured without the job, before it and behind it.
const QUIET_SPAN: Duration = Duration::from_secs(10);
/// How many times the p99 without the job the p99 beside it may be.
const TIMES_MAX: f64 = 1.5;
/// How often the job is looked at, and for how long at most.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(2_400);

/// Runs it.
///
/// # Errors
/// What is not answered, events that the job has left, and a p99 that is too long.
pub fn run(stage: &Stage) -> anyhow::Result<()> {
    let (addr, tenant) = (stage.service.addr, eager(stage)?);
    let rest = || {
        thread::sleep(QUIET_SPAN);
        Ok(())
    };
    let before = beside(addr, &tenant, rest)?;
    let mut job = Value::Null;
    let began = Instant::now();
    let during = beside(addr, &tenant, || {
        job = work(&tenant, addr)?;
        Ok(())
    })?;
    let took = began.elapsed().as_secs_f64();
    let after = beside(addr, &tenant, rest)?;
    let corrected = job["events_corrected"].as_u64().context("a number of events")?;
    println!("| without the job, before and after: p99, ms | beside it | times | events corrected | a second |");
    println!("|---:|---:|---:|---:|---:|");
    let times = during / before.min(after);
    println!("| {before:.1}, {after:.1} | {during:.1} | {times:.2} | {corrected} | {:.0} |", corrected as f64 / took);
    ensure!(job["state"] == "done", "the job ended as {}", job["state"]);
    ensure!(corrected == EVENTS, "{corrected} of {EVENTS} events were corrected");
    ensure!(times <= TIMES_MAX, "whoever sends events feels the job: its p99 is {times:.2} times what it is without");
    Ok(())
}

/// Has all events voided and waits for the job's end; what it says then.
fn work(tenant: &Tenant, addr: SocketAddr) -> anyhow::Result<Value> {
    let order = json!({"filter": {"customer_id": CUSTOMER, "event_name": "call"}, "reason": "a campaign"});
    let ordered = tenant.post("/api/events/void/", &order)?;
    let id = ordered["job"]["job_id"].as_str().context("no job was ordered")?;
    let began = Instant::now();
    loop {
        let (_, answer) = load::call(addr, &tenant.getting(&format!("/api/jobs/{id}/")))?;
        let job: Value = serde_json::from_slice(&answer)?;
        if !job["finished_at"].is_null() {
            return Ok(job);
        }
        ensure!(began.elapsed() < PATIENCE, "the job does not end: {job}");
        thread::sleep(LOOK_EVERY);
    }
}

/// Does `work` while clients send events of the customer; their p99 in milliseconds, each from the
/// instant at which it was due.
fn beside(addr: SocketAddr, tenant: &Tenant, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let (done, start) = (AtomicBool::new(false), Instant::now());
    let mut all = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| send(addr, tenant, start, &done))).collect();
        let worked = work();
        done.store(true, Ordering::Relaxed);
        let sent = clients.into_iter().map(|client| client.join().expect("no panic"));
        let sent: anyhow::Result<Vec<Vec<f64>>> = sent.collect();
        worked.and(sent).map(|sent| sent.concat())
    })?;
    all.sort_by(f64::total_cmp);
    Ok(all[((all.len() - 1) as f64 * 0.99).round() as usize])
}

/// Sends an event of the customer again and again, of a name that no metric counts and the job leaves alone.
fn send(addr: SocketAddr, tenant: &Tenant, start: Instant, done: &AtomicBool) -> anyhow::Result<Vec<f64>> {
    let mut client = Client::connect(addr)?;
    let mut latencies_ms = Vec::new();
    for n in 0.. {
        let due = start + Duration::from_secs(1) / CALLS_PER_SECOND * n;
        if done.load(Ordering::Relaxed) {
            break;
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let event = tenant.event().replace("\"call\"", "\"beside\"");
        let status = client.call(&tenant.posting("/api/track/", &format!("{{\"batch\":[{event}]}}")))?;
        ensure!(status == 201, "an event was answered by {status}");
        latencies_ms.push(due.elapsed().as_secs_f64() * 1_000.0);
    }
    Ok(latencies_ms)
}
