//! `cargo xtask campaign fairness`: whatever one tenant does, another one is answered as if it were hardly there.
//!
//! The other tenant makes its ordinary calls at a steady rate, and an answer's time counts from the instant at which its call
//! was due. Load, service and Postgres share the machine's processors, where the clients of a load would be on machines of
//! their own: so they run at the lowest priority, which leaves them what nobody else wants. A small part of what is lost is
//! their work all the same: therefore quiet times below [`QUIET_MS_MIN`] count as that. A machine is faster or slower from minute
//! to minute, and the p99 of some hundred calls is the third longest of them: of two quiet times one is up to four times the other. So
//! each load comes in turns with quiet times, and the median of its p99s is held against the median of those around them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::setpriority_process;
use serde_json::json;

use super::attack::{Attack, Tally};
use super::loads::{self, Named};
use super::tenant::{CUSTOMER, Tenant};
use super::{eager, modest};
use crate::bench::beside::median;
use crate::bench::load::Client;
use crate::bench::stage::Stage;

/// How often each load comes.
const TURNS: usize = 3;
/// How long the other tenant's calls are measured under a load each time.
const SPAN: Duration = Duration::from_secs(8);
/// How long they are measured quiet before each, and behind the last.
const QUIET_SPAN: Duration = Duration::from_secs(6);
/// How long a load goes on before, and how long everything rests after it.
const LEAD: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_secs(2);
/// Calls of each kind in a second.
const CALLS_PER_SECOND: u32 = 8;
/// How many times its quiet p99 the other tenant's p99 may be.
const TIMES_MAX: f64 = 3.0;
/// What a shorter quiet p99 counts as.
const QUIET_MS_MIN: f64 = 10.0;

/// The lowest priority there is.
const LOAD_NICENESS: i32 = 19;

/// What the other tenant calls.
const KINDS: [&str; 6] = ["track", "metric_access", "usage", "draft_invoice", "credits", "subscriptions"];

/// Its calls of one run.
#[derive(Default)]
struct Measured {
    /// In milliseconds, with the kind.
    latencies: Vec<(f64, &'static str)>,
    refused: u64,
}

impl Measured {
    fn p99(&mut self) -> f64 {
        self.latencies.sort_by(|one, other| one.0.total_cmp(&other.0));
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get((last as f64 * 0.99).round() as usize).map_or(0.0, |(ms, _)| *ms)
    }

    /// The slowest call and its kind.
    fn worst(&self) -> (f64, &'static str) {
        self.latencies.iter().copied().max_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or_default()
    }
}

/// Runs every load whose name has one of the texts in it that `matching` names with commas between them.
///
/// # Errors
/// What does not answer, and loads that another tenant feels more than it may.
pub fn run(stage: &Stage, matching: &str) -> anyhow::Result<()> {
    let (eager, modest) = (eager(stage)?, modest(stage)?);
    let addr = stage.service.addr;
    println!(
        "wanted: p99 within {TIMES_MAX} times the quiet one, or {QUIET_MS_MIN} ms where that is more, by medians; 0 refused\n"
    );
    println!("| load | quiet p99s, ms | p99s, ms | medians | refused | slowest, ms | the load: answered, refused | |");
    println!("|---|---|---|---:|---:|---|---|---|");
    let (mut broken, mut refused_quiet) = (Vec::new(), 0);
    let mut quiet = || {
        let mut measured = measure(addr, &modest, QUIET_SPAN);
        refused_quiet += measured.refused;
        measured.p99()
    };
    let mut before = quiet();
    for (name, attack) in
        all(stage, &eager)?.iter().filter(|(name, _)| matching.split(',').any(|text| name.contains(text)))
    {
        let (mut all, mut quiet_p99s, mut p99s) = (Measured::default(), vec![before], Vec::new());
        let tally = Tally::default();
        for _ in 0..TURNS {
            let mut measured = under(addr, &modest, attack, &tally)?;
            ensure!(loads::is_alive(addr), "the service does not answer after {name}");
            thread::sleep(REST);
            p99s.push(measured.p99());
            quiet_p99s.push(quiet());
            all.latencies.extend(measured.latencies);
            all.refused += measured.refused;
        }
        before = quiet_p99s.last().copied().unwrap_or_default();
        let times = median(&p99s) / median(&quiet_p99s).max(QUIET_MS_MIN);
        let holds = times <= TIMES_MAX && all.refused == 0;
        let (worst_ms, worst) = all.worst();
        println!(
            "| {name} | {} | {} | {times:.1} | {} | {worst_ms:.0} {worst} | {}, {} | {} |",
            listed(&quiet_p99s),
            listed(&p99s),
            all.refused,
            tally.answered.load(Ordering::Relaxed),
            tally.refused.load(Ordering::Relaxed),
            if holds { "holds" } else { "BROKEN" },
        );
        if !holds {
            broken.push(*name);
        }
    }
    ensure!(refused_quiet == 0, "{refused_quiet} calls were refused although nobody else was there");
    ensure!(broken.is_empty(), "another tenant feels {}: {}", broken.len(), broken.join(", "));
    Ok(())
}

/// Everything that one tenant does here.
fn all<'l>(stage: &'l Stage, tenant: &'l Tenant) -> anyhow::Result<Vec<Named<'l>>> {
    let access = format!("/api/metric_access/?customer_id={CUSTOMER}&metric_id={}", tenant.calls);
    let lists = ["events", "credits", "invoices"].map(|list| format!("/api/{list}/?customer_id={CUSTOMER}&limit=1000"));
    let metrics = [&tenant.users, &tenant.rate].map(|metric| tenant.usage(metric, 29));
    let drafts = vec![format!("/api/customers/{CUSTOMER}/draft_invoice/")];
    Ok(vec![
        ("events, one at a time", loads::track(tenant, 32, 1)),
        ("events, 1,000 at a time", loads::track(tenant, 8, 1_000)),
        ("2,000 slow bodies", loads::slow_bodies(2_000)),
        ("4,500 slow heads", loads::slow_heads(4_500)),
        ("usage of 29 days, unique and rate", loads::gets(tenant, 24, metrics.to_vec())),
        ("back-dated subscriptions", loads::back_dated(tenant, 18, 20 * TURNS as u64)?),
        ("draft invoices", loads::gets(tenant, 16, drafts)),
        ("a heavy custom metric", loads::gets(tenant, 8, vec![tenant.usage(&tenant.custom, 29)])),
        ("a long advance", loads::long_advance(tenant)),
        ("an import beside", loads::import(stage, tenant)),
        ("access checks", loads::gets(tenant, 64, vec![access])),
        ("idempotent doubles", loads::doubles(tenant, 32)),
        ("lists with large pages", loads::gets(tenant, 16, lists.to_vec())),
        ("subscription creations", loads::creations(tenant, 16)),
        ("gzip bombs", loads::gzip_bombs(tenant, 16)?),
        ("empty gzip members", loads::empty_members(tenant, 8)?),
        ("audits of the books", loads::audits(tenant)),
    ])
}

fn listed(p99s: &[f64]) -> String {
    p99s.iter().map(|p99| format!("{p99:.1}")).collect::<Vec<_>>().join(", ")
}

fn under(addr: SocketAddr, tenant: &Tenant, attack: &Attack<'_>, tally: &Tally) -> anyhow::Result<Measured> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let attacking = scope.spawn(|| {
            // Of this thread, and of those that it begins.
            setpriority_process(None, LOAD_NICENESS).context("no lower priority")?;
            attack.run(addr, &done, tally)
        });
        thread::sleep(LEAD);
        let measured = measure(addr, tenant, SPAN);
        done.store(true, Ordering::Relaxed);
        attacking.join().expect("no panic").map(|()| measured)
    })
}

/// The tenant's calls, each kind by a client of its own.
fn measure(addr: SocketAddr, tenant: &Tenant, span: Duration) -> Measured {
    let start = Instant::now();
    let mut all = Measured::default();
    thread::scope(|scope| {
        let clients = KINDS.map(|kind| scope.spawn(move || steady(addr, tenant, kind, start, span)));
        for client in clients {
            let measured = client.join().expect("no panic");
            all.latencies.extend(measured.latencies);
            all.refused += measured.refused;
        }
    });
    all
}

fn steady(addr: SocketAddr, tenant: &Tenant, kind: &'static str, start: Instant, span: Duration) -> Measured {
    let mut measured = Measured::default();
    let mut open = None;
    for n in 0.. {
        let due = start + Duration::from_secs(1) / CALLS_PER_SECOND * n;
        if due.duration_since(start) >= span {
            break;
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let request = ordinary(tenant, kind);
        let connection = open.take().map_or_else(|| Client::connect(addr), Ok);
        match connection.and_then(|mut connection| Ok((connection.call(&request)?, connection))) {
            Ok((status, connection)) => {
                measured.refused += u64::from(status >= 300);
                open = Some(connection);
            }
            Err(_) => measured.refused += 1,
        }
        measured.latencies.push((due.elapsed().as_secs_f64() * 1_000.0, kind));
    }
    measured
}

fn ordinary(tenant: &Tenant, kind: &str) -> Vec<u8> {
    match kind {
        "track" => tenant.posting("/api/track/", &format!("{{\"batch\":[{}]}}", tenant.event())),
        "metric_access" => {
            tenant.getting(&format!("/api/metric_access/?customer_id={CUSTOMER}&metric_id={}", tenant.calls))
        }
        "usage" => tenant.getting(&tenant.usage(&tenant.calls, 7)),
        "draft_invoice" => tenant.getting(&format!("/api/customers/{CUSTOMER}/draft_invoice/")),
        "credits" => {
            let body = json!({"customer_id": CUSTOMER, "amount": 1, "currency_code": "USD"});
            tenant.posting("/api/credits/", &body.to_string())
        }
        _ => tenant.getting(&format!("/api/subscriptions/?customer_id={CUSTOMER}")),
    }
}
