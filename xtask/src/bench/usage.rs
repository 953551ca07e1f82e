//! `cargo xtask bench usage`: usage of many days that no roll-up tells, read from the events and remembered.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::macros::format_description;

use super::report::Report;
use super::stage::{KEY, Stage};
use super::{Options, create, load, machine};

/// Events of the one customer, spread evenly over so many days.
const EVENTS: u64 = 100_000;
const DAYS: i64 = 29;
/// Different texts among them.
const TEXTS: u64 = 5_000;
/// How often a question is asked again.
const AGAIN: u32 = 20;

/// Runs everything.
///
/// # Errors
/// What does not build, start or answer, and answers that differ where nothing has changed.
pub fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let options = Options::read(arguments)?;
    let stage = Stage::set(&options.profile)?;
    let mut report = Report::default();
    machine(&stage, &mut report)?;
    let measures = [
        ("different texts", json!({"metric_type": "counter", "aggregation_type": "unique", "property_name": "user"})),
        ("a rate of a minute", json!({"metric_type": "rate", "aggregation_type": "count", "granularity": "minutes"})),
        (
            "a rate of a day",
            json!({"metric_type": "rate", "aggregation_type": "sum", "property_name": "amount", "granularity": "days"}),
        ),
    ];
    create(&stage, "/api/customers/", &json!({"customer_id": "acme", "email": "acme@bench.test"}))?;
    let mut metrics = Vec::new();
    for (name, measure) in measures {
        let mut body = json!({"metric_name": name, "event_name": "call"});
        body.as_object_mut().context("an object")?.extend(measure.as_object().context("an object")?.clone());
        let made = create(&stage, "/api/metrics/", &body)?;
        metrics.push((name, made["metric_id"].as_str().context("an id")?.to_owned()));
    }
    import(&stage, "call", EVENTS)?;
    let today = OffsetDateTime::now_utc().date();
    let start = today - time::Duration::days(DAYS);
    for (name, metric) in &metrics {
        let path = |end: &str| {
            format!("/api/usage/?customer_id=acme&metric_id={metric}&start={start}{end}&window=day&timezone=UTC")
        };
        let ended = path(&format!("&end={}", today - time::Duration::DAY));
        let (first, cold) = timed(&stage, &ended)?;
        report.note(&format!("{name}, {DAYS} days, read from the events, us"), micros(cold));
        let mut remembered = Duration::ZERO;
        for _ in 0..AGAIN {
            let (again, took) = timed(&stage, &ended)?;
            if again != first {
                bail!("{name} was {first} and is {again}");
            }
            remembered += took / AGAIN;
        }
        report.note(&format!("{name}, the same again, us"), micros(remembered));
        report.note(&format!("{name}, up to now, us"), micros(timed(&stage, &path(""))?.1));
        report.note(&format!("{name}, up to now again, us"), micros(timed(&stage, &path(""))?.1));
    }
    report.write(&options.output)?;
    stage.clear()
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

/// An answer and how long it took.
fn timed(stage: &Stage, path: &str) -> anyhow::Result<(Value, Duration)> {
    let start = Instant::now();
    let (status, answer) = load::call(stage.service.addr, &load::get(path, KEY))?;
    if status != 200 {
        bail!("GET {path} answered {status}: {}", String::from_utf8_lossy(&answer));
    }
    Ok((serde_json::from_slice(&answer)?, start.elapsed()))
}

/// Has events of one customer imported.
fn import(stage: &Stage, event_name: &str, count: u64) -> anyhow::Result<()> {
    let file = stage.folder().join("usage.jsonl");
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    let first = OffsetDateTime::now_utc() - time::Duration::days(DAYS);
    let mut lines = String::new();
    for number in 0..count {
        let time = first + time::Duration::seconds(i64::try_from(number)? * DAYS * 86_400 / i64::try_from(count)?);
        writeln!(
            lines,
            r#"{{"idempotency_id":"{number}","customer_id":"acme","event_name":"{event_name}","time_created":"{}","properties":{{"amount":{},"user":"user-{}"}}}}"#,
            time.format(format)?,
            number % 100,
            super::scrambled(number) % TEXTS
        )?;
    }
    fs::write(&file, lines)?;
    let output = stage.program().arg("import-events").arg(&file).output()?;
    if !output.status.success() {
        bail!("the import said {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
