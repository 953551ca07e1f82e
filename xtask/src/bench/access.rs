//! "May this customer use this metric now?", with ever more events behind the answer.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, slice, thread};

use anyhow::Context;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::batch::{Batch, Spread, last_second};
use super::beside::{Beside, median};
use super::report::{Latency, Report, Row};
use super::stage::{KEY, Stage};
use super::{LOOK_UP, MODERATE_LOAD, Options, create, load, measure_get, measure_get_beside, measure_latency};

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
/// How often the most events are asked about beside the fewest.
const ROUNDS: u32 = 15;
/// What the system takes after a checkpoint until its disk is quiet.
const REST: Duration = Duration::from_secs(2);

/// A customer that is asked about.
struct Asked {
    size: u64,
    start: Start,
    customer: String,
    path: String,
    /// Answers a second, alone.
    rate: f64,
}

/// The look-up's answers a second, and how long they took.
type LookUp<'s> = Beside<'s, (f64, Latency)>;

/// Runs every combination.
pub fn run(stage: &Stage, baseline: SocketAddr, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let metric = text(&create(stage, "/api/metrics/", &json!({"event_name": "asked"}))?, "metric_id")?;
    let plan = json!({
        "plan_name": "Asked", "plan_duration": "monthly",
        "initial_version": {"currency_code": "USD", "components": [{
            "metric_id": metric, "tiers": [{"type": "free", "range_start": 0, "range_end": 1_000_000_000}],
        }]},
    });
    let plan = text(&create(stage, "/api/plans/", &plan)?, "plan_id")?;
    let many = prepare_many(stage, (&plan, &metric))?;
    let mut asked = prepare(stage, options, (&plan, &metric))?;

    let look_up_rate = Cell::new(f64::INFINITY);
    let look_up = |meanwhile| {
        let look_up = || measure_get(baseline, options.spans().half(), &[LOOK_UP.to_owned()]);
        let (fast, moderate) = with_ingestion(stage, meanwhile, look_up)?;
        look_up_rate.set(fast.rate());
        Ok((fast.rate(), Latency::of(&moderate)))
    };
    let mut quiet = LookUp::new(|| look_up(false));
    let mut busy = LookUp::new(|| look_up(true));
    let mut figure = |name: String, paths: &[String], meanwhile: bool| {
        let check = || measure_get_beside(stage.service.addr, options.spans(), paths, look_up_rate.get());
        let figure = || with_ingestion(stage, meanwhile, check);
        let ((fast, moderate), beside) = if meanwhile { busy.figure(figure)? } else { quiet.figure(figure)? };
        let row = Row::rate(name, fast.rate(), "requests").against("look-up", &beside.map(|(rate, _)| rate));
        report.add(row.with_latency(&moderate).against_latency(&beside.map(|(_, latency)| latency)));
        anyhow::Ok(fast.rate())
    };
    figure(format!("access, {CUSTOMERS} customers in turn"), &many, false)?;
    for (meanwhile, besides) in [(false, ""), (true, ", events coming in")] {
        for asked in &mut asked {
            let name = format!("access, {} events, {}{besides}", asked.size, asked.start.name);
            let rate = figure(name, slice::from_ref(&asked.path), meanwhile)?;
            if !meanwhile {
                asked.rate = rate;
            }
        }
    }
    for (fewest, most) in asked[..STARTS.len()].iter().zip(&asked[asked.len() - STARTS.len()..]) {
        let ratios = most_to_fewest(stage, options.span / 6, fewest, most)?;
        let name = format!("median latency of the most events to the fewest, {}", fewest.start.name);
        report.note(&name, hundredths(median(&ratios)));
        report.note(&format!("{name}, each round"), ratios.into_iter().map(hundredths).collect::<Vec<_>>());
    }
    Ok(())
}

/// Median latencies of two customers, measured in turns at one rate; which of them is first changes, so that a machine
/// that is becoming slower is to nobody's gain.
fn most_to_fewest(stage: &Stage, span: Duration, fewest: &Asked, most: &Asked) -> anyhow::Result<Vec<f64>> {
    let rate = fewest.rate.min(most.rate) * MODERATE_LOAD;
    let ask = |asked: &Asked| {
        let outcome = measure_latency(stage.service.addr, rate, span, slice::from_ref(&asked.path))?;
        anyhow::Ok(outcome.quantile_us(0.5).max(1) as f64)
    };
    let round = |round| {
        if round % 2 == 0 {
            let fewest = ask(fewest)?;
            return Ok(ask(most)? / fewest);
        }
        let most = ask(most)?;
        Ok(most / ask(fewest)?)
    };
    (0..ROUNDS).map(round).collect()
}

fn hundredths(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}

/// Many customers, so that hardly two who ask at once ask for the same figure; the questions about them.
fn prepare_many(stage: &Stage, (plan, metric): (&str, &str)) -> anyhow::Result<Vec<String>> {
    let now = format!("{}Z", last_second());
    let one = |number| {
        let customer = format!("asking-{number}");
        subscribe(stage, &customer, plan, STARTS[0])?;
        let event = |n: u64| {
            let id = format!("{customer}-{n}");
            json!({"customer_id": customer, "event_name": "asked", "idempotency_id": id, "time_created": now})
        };
        create(stage, "/api/track/", &json!({"batch": (0..10).map(event).collect::<Vec<_>>()}))?;
        Ok(question(&customer, metric))
    };
    (0..CUSTOMERS).map(one).collect()
}

/// A customer whose month began three weeks ago.
fn subscribe(stage: &Stage, customer: &str, plan: &str, start: Start) -> anyhow::Result<()> {
    create(stage, "/api/customers/", &json!({"customer_id": customer, "email": format!("{customer}@bench.test")}))?;
    let day = (OffsetDateTime::now_utc() - time::Duration::days(21)).date();
    let start = format!("{day}T{}Z", start.time_of_day);
    create(stage, "/api/subscriptions/", &json!({"customer_id": customer, "plan_id": plan, "start_date": start}))?;
    Ok(())
}

fn question(customer: &str, metric: &str) -> String {
    format!("/api/metric_access/?customer_id={customer}&metric_id={metric}")
}

/// A customer for each size and start, by size, with so many events and their roll-ups made by SQL; then everything is
/// on the disk and at rest.
fn prepare(stage: &Stage, options: &Options, (plan, metric): (&str, &str)) -> anyhow::Result<Vec<Asked>> {
    stage.sql(
        "SELECT create_events_partition(month) FROM generate_series(
             date_trunc('month', now() - interval '21 days', 'UTC'), now(), interval '1 month') month;",
    )?;
    let mut all = Vec::new();
    for &size in &options.sizes {
        let mut scripts = Vec::new();
        for start in STARTS {
            let customer = format!("asked-{size}-{}", start.name.replace(' ', "-"));
            subscribe(stage, &customer, plan, start)?;
            scripts.push(fill(stage, &customer, metric, size)?);
            let path = question(&customer, metric);
            all.push(Asked { size, start, customer, path, rate: 0.0 });
        }
        stage.sql_files(&scripts)?;
    }
    stage.sql("ANALYZE events; ANALYZE usage_rollup; CHECKPOINT;")?;
    thread::sleep(REST);
    for Asked { size, customer, path, .. } in &all {
        let (_, answer) = load::call(stage.service.addr, &load::get(path, KEY))?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let usage = &answer["access_per_subscription"][0]["metric_usage"];
        anyhow::ensure!(usage.as_f64() == Some(*size as f64), "{customer} has used {usage} of {size}: {answer}");
    }
    Ok(all)
}

/// A script that inserts events of twenty days and their roll-ups. The hashes of their ids ascend, so that they come
/// into the index one beside the other, and are as far apart as those of real ids.
fn fill(stage: &Stage, customer: &str, metric: &str, size: u64) -> anyhow::Result<PathBuf> {
    let metric = metric.trim_start_matches("metric_");
    let path = stage.folder().join(format!("{customer}.sql"));
    let script = format!(
        "SET statement_timeout = 0; SET synchronous_commit = off; SET work_mem = '128MB';
         INSERT INTO events (organization_id, customer_key, customer_id, id_hash, idempotency_id, event_name,
                             time_created, properties, arrival)
         SELECT organization_id, customer_key, customer_id,
                (lpad(to_hex((n << 32) / {size}), 8, '0') || substr(md5(customer_id || n), 9))::uuid, customer_id || n,
                'asked', now() - interval '1 hour' - n * (interval '20 days' / {size}), '{{}}', n
         FROM customers, generate_series(0::bigint, {size} - 1) n WHERE customer_id = '{customer}';
         INSERT INTO usage_rollup (customer_key, organization_id, metric_id, dimensions, bucket_hours, bucket,
                                   event_count, sum)
         WITH hours AS (
             SELECT customer_key, organization_id, date_trunc('hour', time_created, 'UTC') AS hour, count(*) AS events
             FROM events WHERE customer_key = (SELECT customer_key FROM customers WHERE customer_id = '{customer}')
             GROUP BY 1, 2, 3)
         SELECT customer_key, organization_id, '{metric}'::uuid, '', 1, hour, events, 0 FROM hours
         UNION ALL
         SELECT customer_key, organization_id, '{metric}'::uuid, '', 24, date_trunc('day', hour, 'UTC'), sum(events), 0
         FROM hours GROUP BY 1, 2, 6;"
    );
    fs::write(&path, script)?;
    Ok(path)
}

/// Runs `work`, with events coming in at a fixed rate or without.
fn with_ingestion<T>(stage: &Stage, is_on: bool, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    if !is_on {
        return work();
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let batch = Batch::new(100, Spread::Uniform, 5);
                let request = |client, n, request: &mut Vec<u8>| batch.make(client, n, request);
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
