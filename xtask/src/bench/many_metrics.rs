//! `cargo xtask bench many-metrics`: how fast events come in by file and by call, and how fast roll-ups are filled in, where
//! very many metrics count one event name. A bound on what one transaction writes is all that keeps one of the three from
//! starving the others, so nothing may be refused.

use std::fmt::Write as _;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::json;
use time::OffsetDateTime;
use time::macros::format_description;

use super::batch::{Batch, Spread};
use super::report::{Report, Row};
use super::stage::Stage;
use super::{Options, create, load, none_refused};

/// Metrics on one event name.
const METRICS: [u32; 3] = [1, 26, 100];
/// Events of a file: old ones, of this many customers, each of another hour, so that they share as few rows as can be.
const IMPORTED: u64 = 5_000;
const CUSTOMERS: u64 = 100;
const CLIENTS: usize = 8;
/// Events in a request.
const EVENTS: u64 = 20;
/// For roll-ups to be filled in.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs everything.
///
/// # Errors
/// What does not build, start or answer, and whatever is refused.
pub fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let options = Options::read(arguments)?;
    let stage = Stage::set(&options.profile)?;
    let mut report = Report::default();
    super::machine(&stage, &mut report)?;
    for metrics in METRICS {
        let (name, late) = (format!("event_{metrics}"), format!("late_{metrics}"));
        make_metrics(&stage, &name, metrics)?;
        let of = format!("{metrics} metrics on one name");
        let rate = import(&stage, &name)?;
        report.add(Row::rate(format!("an import, {of}"), rate, "events"));
        let tracked = track(&stage, &options, metrics)?;
        let rate = tracked.rate() * EVENTS as f64;
        report.add(Row::rate(format!("{EVENTS} events in a request, {of}"), rate, "events").with_latency(&tracked));
        let (imported, tracked) = thread::scope(|scope| {
            let beside = scope.spawn(|| import(&stage, &late));
            let tracked = track(&stage, &options, metrics);
            (beside.join().expect("no panic"), tracked)
        });
        report.add(Row::rate(format!("an import without metrics beside the next, {of}"), imported?, "events"));
        report.add(Row::rate(format!("requests beside an import, {of}"), tracked?.rate() * EVENTS as f64, "events"));
        report.add(Row::rate(format!("filling in, {of}"), fill_in(&stage, &late, metrics)?, "events"));
    }
    report.write(&options.output)?;
    stage.clear()
}

fn make_metrics(stage: &Stage, event_name: &str, metrics: u32) -> anyhow::Result<()> {
    for number in 0..metrics {
        let body = json!({
            "metric_name": format!("{event_name} {number}"), "event_name": event_name, "metric_type": "counter",
            "usage_aggregation_type": "sum", "property_name": "amount",
        });
        create(stage, "/api/metrics/", &body)?;
    }
    Ok(())
}

/// Has a file of old events imported, beside the service; events a second.
fn import(stage: &Stage, event_name: &str) -> anyhow::Result<f64> {
    let file = stage.folder().join(format!("{event_name}.jsonl"));
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    let first = OffsetDateTime::now_utc() - time::Duration::days(60);
    let mut lines = String::new();
    for number in 0..IMPORTED {
        let time = (first - time::Duration::hours(i64::try_from(number / CUSTOMERS)?)).format(format)?;
        let customer = number % CUSTOMERS;
        writeln!(
            lines,
            r#"{{"idempotency_id":"{event_name}-{number}","customer_id":"customer-{customer}","event_name":"{event_name}","time_created":"{time}","properties":{{"amount":{number}}}}}"#
        )?;
    }
    fs::write(&file, lines)?;
    let start = Instant::now();
    let output = stage.program().arg("import-events").arg(&file).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !said.contains(&format!("{IMPORTED} events stored")) {
        bail!("the import said {said}{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(IMPORTED as f64 / start.elapsed().as_secs_f64())
}

/// Sends present events of a thousand customers.
fn track(stage: &Stage, options: &Options, metrics: u32) -> anyhow::Result<load::Outcome> {
    let batch = Batch::new(EVENTS, Spread::Uniform, metrics);
    none_refused(load::closed(stage.service.addr, CLIENTS, options.span, &|client, n, request: &mut Vec<u8>| {
        batch.make(client, n, request);
    })?)
}

/// Makes metrics of events that are there, and waits until their roll-ups are complete; events counted a second.
fn fill_in(stage: &Stage, event_name: &str, metrics: u32) -> anyhow::Result<f64> {
    make_metrics(stage, event_name, metrics)?;
    let start = Instant::now();
    while stage.sql("SELECT count(*) FROM metric_rollups WHERE rolled_up_from > '-infinity';")?.trim() != "0" {
        if start.elapsed() > PATIENCE {
            bail!("the roll-ups of {metrics} metrics are not filled in after {} s", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(50));
    }
    let counted = stage.sql(&format!(
        "SELECT coalesce(sum(event_count), 0) FROM counted_usage JOIN metrics ON metrics.id = metric_id
        WHERE bucket_hours = 1 AND event_name = '{event_name}';"
    ))?;
    let counted: u64 = counted.trim().parse().context("a count")?;
    if counted != IMPORTED * u64::from(metrics) {
        bail!("{counted} events were counted in place of {}", IMPORTED * u64::from(metrics));
    }
    Ok(counted as f64 / start.elapsed().as_secs_f64())
}
