//! "May this customer use this metric now?", with ever more events behind the answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use super::report::{Report, Row};
use super::stage::{KEY, Stage};
use super::{Floor, Options, create, load, measure_get, scrambled};

/// Where a customer's period starts.
#[derive(Clone, Copy)]
struct Start {
    name: &'static str,
    time_of_day: &'static str,
}

const STARTS: [Start; 2] =
    [Start { name: "on the hour", time_of_day: "00:00:00" }, Start { name: "off the hour", time_of_day: "00:17:31.5" }];
/// Events a second that come in meanwhile, a hundred at a time.
const MEANWHILE: f64 = 2_000.0;

/// Customers that are asked about in turn, with a few events of the present hour each.
const CUSTOMERS: u64 = 500;

/// Runs every combination.
pub fn run(stage: &Stage, options: &Options, floor: &Floor, report: &mut Report) -> anyhow::Result<()> {
    let metric = text(&create(stage, "/api/metrics/", &json!({"event_name": "asked"}))?, "metric_id")?;
    let plan = json!({
        "plan_name": "Asked", "plan_duration": "monthly",
        "initial_version": {"currency_code": "USD", "components": [{
            "metric_id": metric, "tiers": [{"type": "free", "range_start": 0, "range_end": 1_000_000_000}],
        }]},
    });
    let plan = text(&create(stage, "/api/plans/", &plan)?, "plan_id")?;
    of_many(stage, options, (&plan, &metric), floor, report)?;
    let mut medians = Vec::new();
    for meanwhile in [false, true] {
        for &size in &options.sizes {
            for start in STARTS {
                let customer = format!("asked-{size}-{}", start.name.replace(' ', "-"));
                if !meanwhile {
                    prepare(stage, &customer, (&plan, &metric), size, start)?;
                }
                let path = format!("/api/metric_access/?customer_id={customer}&metric_id={metric}");
                let (fast, calm) = with_ingestion(stage, meanwhile, || {
                    measure_get(stage.service.addr, options.span, &|_, _| path.clone())
                })?;
                let busy = if meanwhile { ", events coming in" } else { "" };
                let row = Row::rate(format!("access, {size} events, {}{busy}", start.name), fast.rate(), "requests");
                if !meanwhile {
                    medians.push(calm.quantile_us(0.5) as f64);
                }
                report.add(row.against("look-up", floor.lookup).with_latency(&calm).against_p99(floor.lookup_p99_us));
            }
        }
    }
    // By size, then by start.
    for (start, smallest) in STARTS.iter().zip(&medians) {
        let largest = medians[medians.len() - STARTS.len()..][if start.name == STARTS[0].name { 0 } else { 1 }];
        let ratio = (largest / smallest * 100.0).round() / 100.0;
        report.note(&format!("median latency of the most events to the fewest, {}", start.name), ratio);
    }
    Ok(())
}

/// Questions about many customers, so that hardly two who ask at once ask for the same figure.
fn of_many(
    stage: &Stage,
    options: &Options,
    (plan, metric): (&str, &str),
    floor: &Floor,
    report: &mut Report,
) -> anyhow::Result<()> {
    let day = stage.sql("SELECT to_char(now() AT TIME ZONE 'UTC' - interval '21 days', 'YYYY-MM-DD');")?;
    let now = stage.sql("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"');")?;
    for number in 0..CUSTOMERS {
        let customer = format!("asking-{number}");
        create(stage, "/api/customers/", &json!({"customer_id": customer, "email": format!("{customer}@bench.test")}))?;
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": day});
        create(stage, "/api/subscriptions/", &body)?;
        let event = |n: u64| {
            let id = format!("{customer}-{n}");
            json!({"customer_id": customer, "event_name": "asked", "idempotency_id": id, "time_created": now})
        };
        create(stage, "/api/track/", &json!({"batch": (0..10).map(event).collect::<Vec<_>>()}))?;
    }
    let (fast, calm) = measure_get(stage.service.addr, options.span, &|client, n| {
        let number = scrambled((client as u64) << 40 | n) % CUSTOMERS;
        format!("/api/metric_access/?customer_id=asking-{number}&metric_id={metric}")
    })?;
    let row = Row::rate(format!("access, {CUSTOMERS} customers in turn"), fast.rate(), "requests");
    report.add(row.against("look-up", floor.lookup).with_latency(&calm).against_p99(floor.lookup_p99_us));
    Ok(())
}

/// A customer, three weeks into a month, with so many events and their roll-ups made by SQL.
fn prepare(stage: &Stage, customer: &str, (plan, metric): (&str, &str), size: u64, start: Start) -> anyhow::Result<()> {
    create(stage, "/api/customers/", &json!({"customer_id": customer, "email": format!("{customer}@bench.test")}))?;
    let day = stage.sql("SELECT to_char(now() AT TIME ZONE 'UTC' - interval '21 days', 'YYYY-MM-DD');")?;
    let body = json!({
        "customer_id": customer, "plan_id": plan, "start_date": format!("{day}T{}Z", start.time_of_day),
    });
    create(stage, "/api/subscriptions/", &body)?;
    let metric_uuid = metric.trim_start_matches("metric_");
    stage.sql(&format!(
        "SET statement_timeout = 0;
         SELECT create_events_partition(month) FROM generate_series(
             date_trunc('month', now() - interval '21 days', 'UTC'), now(), interval '1 month') month;
         INSERT INTO events (organization_id, customer_key, customer_id, id_hash, idempotency_id, event_name,
                             time_created, properties)
         SELECT organization_id, customer_key, customer_id, md5(customer_id || n)::uuid, customer_id || n, 'asked',
                now() - interval '1 hour' - n * (interval '20 days' / {size}), '{{}}'
         FROM customers, generate_series(0, {size} - 1) n WHERE customer_id = '{customer}';
         INSERT INTO usage_rollup (customer_key, organization_id, metric_id, dimensions, bucket_hours, bucket,
                                   event_count, sum)
         SELECT customer_key, organization_id, '{metric_uuid}', '', hours, date_trunc(unit, time_created, 'UTC'),
                count(*), 0
         FROM events, (VALUES (1, 'hour'), (24, 'day')) level (hours, unit)
         WHERE customer_id = '{customer}' AND event_name = 'asked'
         GROUP BY 1, 2, 5, 6;
         ANALYZE events; ANALYZE usage_rollup;"
    ))?;
    let path = format!("/api/metric_access/?customer_id={customer}&metric_id={metric}");
    let (_, answer) = load::call(stage.service.addr, &load::get(&path, KEY))?;
    let answer: Value = serde_json::from_slice(&answer)?;
    let usage = &answer["access_per_subscription"][0]["metric_usage"];
    anyhow::ensure!(usage.as_f64() == Some(size as f64), "{customer} has used {usage} of {size}: {answer}");
    Ok(())
}

/// Runs `work`, with events coming in at a fixed rate or without.
fn with_ingestion<T>(stage: &Stage, is_on: bool, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    if !is_on {
        return work();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                let request = |client: usize, n: u64| super::track::meanwhile(round, client, n);
                let span = Duration::from_millis(500);
                load::open(stage.service.addr, 4, MEANWHILE / 100.0, span, &request)?;
            }
            anyhow::Ok(())
        });
        let outcome = work();
        done.store(true, Ordering::Relaxed);
        sender.join().expect("no panic")?;
        outcome
    })
}

fn text(answer: &Value, name: &str) -> anyhow::Result<String> {
    Ok(answer[name].as_str().with_context(|| format!("no {name} in {answer}"))?.to_owned())
}
