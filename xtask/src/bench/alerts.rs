//! `cargo xtask bench alerts`: events coming in while 1,000 customers are under usage alerts, in turns with events while there are
//! none; how many customers are looked at in a second, and how long after the answer to its event an alert is in the feed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::batch::{Batch, CUSTOMERS, Spread, last_second};
use super::beside::{mean, median};
use super::report::{Report, Row};
use super::stage::{KEY, Stage};
use super::worked::Worked;
use super::{Options, create, load, machine, none_refused};

/// Turns with alerts, each between two without.
const TURNS: usize = 7;
/// Events in a request, and clients that send them.
pub(super) const LOADS: [(u64, usize); 2] = [(1, 64), (100, 16)];
/// Connections that make customers.
const MAKERS: u64 = 4;
/// Between two events that reach a threshold.
const PROBE_EVERY: Duration = Duration::from_millis(250);
/// For everything to have been looked at.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs everything.
///
/// # Errors
/// What does not build, start or answer, and alerts that are not told.
pub fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let options = Options::read(arguments)?;
    let stage = Stage::set(&options.profile)?;
    let mut report = Report::default();
    machine(&stage, &mut report)?;
    let [counted, probed] = set_up(&stage)?;
    let mut probes = 0;
    for (size, clients) in LOADS {
        let (mut without, mut with, mut lags, mut looked_at) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for turn in 0..=TURNS {
            without.push(track(&stage, &options, (size, clients), 1)?);
            if turn == TURNS {
                break;
            }
            let began = Instant::now();
            let alerts = [alert(&stage, &counted, "1e12")?, alert(&stage, &probed, "1")?];
            wait_until_looked_at(&stage)?;
            looked_at.push(CUSTOMERS as f64 / began.elapsed().as_secs_f64());
            let (turn, seen) = track_and_probe(&stage, &options, (size, clients), &mut probes)?;
            with.push(turn);
            lags.extend(seen);
            wait_until_looked_at(&stage)?;
            for id in alerts {
                delete(&stage, &format!("/api/usage_alerts/{id}/"))?;
            }
        }
        tell(&mut report, size, &without, &with);
        let name = format!("{size} events each");
        report.note(&format!("customers looked at a second, {name}"), median(&looked_at).round());
        lags.sort_by(f64::total_cmp);
        let quantile = |part: f64| lags.get(((lags.len().saturating_sub(1)) as f64 * part).round() as usize).copied();
        for (part, text) in [(0.5, "half"), (0.99, "99 of 100"), (1.0, "all")] {
            report.note(
                &format!("ms from answer to feed, {name}, {text} of {}", lags.len()),
                quantile(part).map(f64::round),
            );
        }
    }
    report.write(&options.output)?;
    stage.clear()
}

/// The ratios are those of each turn to the mean of its neighbours without alerts, of which the middle one is told.
fn tell(report: &mut Report, size: u64, without: &[Worked], with: &[Worked]) {
    let ratio = |of: fn(&Worked) -> f64| {
        let beside = without.windows(2).map(|pair| mean(&[of(&pair[0]), of(&pair[1])]));
        let ratios: Vec<f64> = with.iter().map(of).zip(beside).map(|(with, without)| with / without).collect();
        println!("{size} events each, ratios of the turns: {ratios:.2?}");
        median(&ratios)
    };
    let (rate, server, postgres) =
        (ratio(|turn| turn.rate), ratio(|turn| turn.server_us), ratio(|turn| turn.postgres_us));
    let middle = |turns: &[Worked], of: fn(&Worked) -> f64| median(&turns.iter().map(of).collect::<Vec<_>>());
    let name = format!("{size} events each");
    let row =
        Row::rate(format!("{CUSTOMERS} customers under alerts, {name}"), middle(with, |turn| turn.rate), "events");
    report.add(row.against("without", &[middle(without, |turn| turn.rate)]));
    report.note(&format!("ratio of rates, {name}"), format!("{rate:.2}"));
    report.note(&format!("ratio of processor time of the server, {name}"), format!("{server:.2}"));
    report.note(&format!("ratio of processor time of Postgres, {name}"), format!("{postgres:.2}"));
    for (what, turns) in [("without", without), ("with", with)] {
        let of = (middle(turns, |turn| turn.server_us), middle(turns, |turn| turn.postgres_us));
        report.note(
            &format!("us of a processor an event {what}, {name}"),
            format!("server {:.1}, Postgres {:.1}", of.0, of.1),
        );
    }
}

/// A metric that everybody's events count, one for events that reach thresholds, and customers with a subscription to both.
pub(super) fn set_up(stage: &Stage) -> anyhow::Result<[String; 2]> {
    let metric = |name: &str| made(stage, "/api/metrics/", &json!({"event_name": name}), "metric_id");
    let metrics = [metric("event_1")?, metric("probe")?];
    let tiers = json!([{"type": "per_unit", "range_start": 0, "cost_per_batch": "0.01", "metric_units_per_batch": 1}]);
    let component = |metric| json!({"metric_id": metric, "tiers": tiers});
    let version = json!({"currency_code": "USD", "components": metrics.iter().map(component).collect::<Vec<_>>()});
    let plan = json!({"plan_name": "Metered", "plan_duration": "monthly", "initial_version": version});
    let plan = made(stage, "/api/plans/", &plan, "plan_id")?;
    let today = time::OffsetDateTime::now_utc().date().to_string();
    thread::scope(|scope| {
        let make = |maker| {
            let (plan, today) = (&plan, &today);
            scope.spawn(move || {
                (maker..CUSTOMERS).step_by(MAKERS as usize).try_for_each(|number| {
                    let id = format!("customer-{number:03}");
                    create(stage, "/api/customers/", &json!({"customer_id": id, "email": format!("{id}@bench.test")}))?;
                    let body = json!({"customer_id": id, "plan_id": plan, "start_date": today});
                    create(stage, "/api/subscriptions/", &body).map(drop)
                })
            })
        };
        let makers: Vec<_> = (0..MAKERS).map(make).collect();
        makers.into_iter().try_for_each(|maker| maker.join().expect("no panic"))
    })?;
    Ok(metrics)
}

fn made(stage: &Stage, path: &str, body: &Value, id: &str) -> anyhow::Result<String> {
    create(stage, path, body)?[id].as_str().map(str::to_owned).context("an answer without an id")
}

/// An alert about everybody.
fn alert(stage: &Stage, metric: &str, threshold: &str) -> anyhow::Result<String> {
    let body = format!(r#"{{"kind":"metric_usage","metric_id":"{metric}","threshold":{threshold}}}"#);
    made(stage, "/api/usage_alerts/", &serde_json::from_str(&body)?, "usage_alert_id")
}

fn delete(stage: &Stage, path: &str) -> anyhow::Result<()> {
    let request = format!("DELETE {path} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {KEY}\r\n\r\n");
    let (status, _) = load::call(stage.service.addr, request.as_bytes())?;
    ensure!(status < 300, "DELETE {path} answered {status}");
    Ok(())
}

fn wait_until_looked_at(stage: &Stage) -> anyhow::Result<()> {
    let start = Instant::now();
    let left =
        "SELECT EXISTS (SELECT FROM usage_alert_marks) OR EXISTS (SELECT FROM usage_alerts WHERE NOT is_introduced);";
    while stage.sql(left)? != "f" {
        ensure!(start.elapsed() < PATIENCE, "figures are still to be looked at after {} s", PATIENCE.as_secs());
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Sends as many events as are taken, evenly over the customers, each counted by so many metrics.
pub(super) fn track(
    stage: &Stage,
    options: &Options,
    (size, clients): (u64, usize),
    metrics: u32,
) -> anyhow::Result<Worked> {
    let batch = Batch::new(size, Spread::Uniform, metrics);
    let request = |client, n, request: &mut Vec<u8>| batch.make(client, n, request);
    Worked::measure(stage, || {
        let outcome = none_refused(load::closed(stage.service.addr, clients, options.span, &request)?)?;
        Ok(outcome.answered * size)
    })
}

/// The same while now and then an event reaches a threshold: also the milliseconds from each of their answers to the feed.
fn track_and_probe(
    stage: &Stage,
    options: &Options,
    (size, clients): (u64, usize),
    probes: &mut u64,
) -> anyhow::Result<(Worked, Vec<f64>)> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let probing = scope.spawn(|| {
            let mut lags = Vec::new();
            let mut after = feed_end(stage)?;
            while !done.load(Ordering::Relaxed) {
                lags.push(probe(stage, *probes % CUSTOMERS, *probes, &mut after)?);
                *probes += 1;
                thread::sleep(PROBE_EVERY);
            }
            Ok::<_, anyhow::Error>(lags)
        });
        let turn = track(stage, options, (size, clients), 1);
        done.store(true, Ordering::Relaxed);
        Ok((turn?, probing.join().expect("no panic")?))
    })
}

/// Sends an event that reaches a threshold, and waits until the feed has that; milliseconds from the one answer to the other.
fn probe(stage: &Stage, customer: u64, number: u64, after: &mut String) -> anyhow::Result<f64> {
    let id = format!("customer-{customer:03}");
    let event = json!({"event_name": "probe", "customer_id": id, "idempotency_id": format!("probe-{number}"),
        "time_created": format!("{}Z", last_second())});
    create(stage, "/api/track/", &json!({"batch": [event]}))?;
    let answered = Instant::now();
    while answered.elapsed() < load::PATIENCE {
        let is_it = |message: &Value| message["data"]["customer"]["customer_id"] == id.as_str();
        if feed(stage, after, 10)?.iter().any(is_it) {
            return Ok(answered.elapsed().as_secs_f64() * 1_000.0);
        }
    }
    bail!("the alert about {id} was not told within {} s", load::PATIENCE.as_secs())
}

/// Alerts that were told behind a cursor, which is moved on.
fn feed(stage: &Stage, after: &mut String, wait: u32) -> anyhow::Result<Vec<Value>> {
    let path = format!("/api/feed/?types=usage_alert.triggered&limit=1000&wait={wait}&after={after}");
    let (status, answer) = load::call(stage.service.addr, &load::get(&path, KEY))?;
    ensure!(status == 200, "GET {path} answered {status}: {}", String::from_utf8_lossy(&answer));
    let page: Value = serde_json::from_slice(&answer)?;
    page["next"].as_str().context("no cursor")?.clone_into(after);
    Ok(page["results"].as_array().context("no messages")?.clone())
}

/// The cursor behind all that was told.
fn feed_end(stage: &Stage) -> anyhow::Result<String> {
    let mut after = String::new();
    while !feed(stage, &mut after, 0)?.is_empty() {}
    Ok(after)
}
