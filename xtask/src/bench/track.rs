//! Events coming in, held against what Postgres does with the same rows and no server at all.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::report::{Report, Row};
use super::stage::{KEY, Stage};
use super::{CLIENTS, Floor, Options, create, load, scrambled};

/// Customers that send events.
const CUSTOMERS: u64 = 1_000;
/// Rows in one transaction, as many as the service puts in one at most.
const STAGED: u64 = 5_000;
const TRANSACTIONS: u64 = 20;
/// Connections that write at once, as many as the service has.
const WRITERS: u64 = 2;

/// How customers share the events.
#[derive(Clone, Copy)]
enum Spread {
    Uniform,
    /// The most eager one sends the most: the nth in proportion to 1/n.
    Zipf,
}

impl Spread {
    fn customer(self, seed: u64) -> u64 {
        let random = scrambled(seed);
        match self {
            Self::Uniform => random % CUSTOMERS,
            // With u uniform in [0, 1), N^u is distributed like that.
            Self::Zipf => {
                let part = (random >> 11) as f64 / (1_u64 << 53) as f64;
                (CUSTOMERS as f64).powf(part) as u64 % CUSTOMERS
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "Zipf",
        }
    }
}

/// Runs every combination.
pub fn run(stage: &Stage, options: &Options, floor: &Floor, report: &mut Report) -> anyhow::Result<()> {
    let staged = floors(stage, report)?;
    for metrics in [0, 5, 10] {
        for number in 0..metrics {
            let body = json!({
                "metric_name": format!("{metrics} a: {number}"),
                "event_name": format!("event_{metrics}"),
                "aggregation_type": if number % 2 == 0 { "count" } else { "sum" },
                "property_name": if number % 2 == 0 { None } else { Some("amount") },
                "numeric_filters": [
                    {"property_name": "amount", "operator": "gte", "comparison_value": number}
                ],
            });
            create(stage, "/api/metrics/", &body)?;
        }
    }
    let mut run = 0;
    for (size, clients) in [(1, CLIENTS), (100, 16), (1_000, 8)] {
        for spread in [Spread::Uniform, Spread::Zipf] {
            for metrics in [0, 5, 10] {
                run += 1;
                let name = format!("track, {size} events each, {}, {metrics} metrics", spread.name());
                if !name.contains(&options.matching) {
                    continue;
                }
                let request = |client: usize, n: u64| batch(run, (client, n), size, spread, metrics);
                load::closed(stage.service.addr, clients, options.span / 4, &|client, n| {
                    request(client, n + (1 << 40))
                })?;
                let outcome = load::closed(stage.service.addr, clients, options.span, &request)?;
                anyhow::ensure!(outcome.refused == 0, "{} requests were refused", outcome.refused);
                let events = outcome.rate() * size as f64;
                let row = Row::rate(name, events, "events").with_latency(&outcome);
                report.add(match size {
                    1 => row.against("look-up", floor.lookup),
                    _ => row.against("staged insert", staged),
                });
            }
        }
    }
    Ok(())
}

/// One request with events that nobody sent before.
fn batch(run: u64, (client, n): (usize, u64), size: u64, spread: Spread, metrics: u32) -> Vec<u8> {
    let now = time_now();
    let mut body = String::with_capacity(usize::try_from(size).unwrap_or_default() * 180);
    body.push_str("{\"batch\":[");
    for index in 0..size {
        let id = format!("{run}-{client}-{n}-{index}");
        let seed = scrambled(run << 56 ^ (client as u64) << 44 ^ n << 10 ^ index);
        let (customer, amount) = (spread.customer(seed), seed % 100);
        let comma = if index == 0 { "" } else { "," };
        body.push_str(&format!(
            "{comma}{{\"event_name\":\"event_{metrics}\",\"customer_id\":\"customer-{customer}\",\
             \"idempotency_id\":\"{id}\",\"time_created\":\"{now}\",\
             \"properties\":{{\"amount\":{amount},\"region\":\"eu\"}}}}"
        ));
    }
    body.push_str("]}");
    load::post("/api/track/", KEY, &body)
}

/// A hundred events that come in while something else is measured.
pub fn meanwhile(round: u64, client: usize, n: u64) -> Vec<u8> {
    batch(round + 100, (client, n), 100, Spread::Uniform, 5)
}

/// The present instant, as events say it.
fn time_now() -> String {
    OffsetDateTime::now_utc().format(&Rfc3339).expect("a year of four digits")
}

/// What Postgres does with such rows alone: copied into a table without an index, and staged into the table of events
/// itself, where every id is looked for. The latter as rows a second.
fn floors(stage: &Stage, report: &mut Report) -> anyhow::Result<f64> {
    stage.sql(
        "SELECT create_events_partition(date_trunc('month', now(), 'UTC'));
         CREATE TABLE bare (LIKE events INCLUDING DEFAULTS);",
    )?;
    let rows = (WRITERS * TRANSACTIONS * STAGED) as f64;
    let bare =
        stage.sql_files(&scripts(stage, "bare", |rows| format!("COPY bare ({COLUMNS}) FROM STDIN;\n{rows}\\.\n"))?)?;
    report.add(Row::rate("COPY into a table without an index", rows / bare.as_secs_f64(), "rows"));
    stage.sql("DROP TABLE bare;")?;
    let staged = staged(stage, "events")?;
    report.add(Row::rate("staged insert with deduplication, no server", staged, "rows"));
    Ok(staged)
}

/// Rows a second that Postgres stages into a table like that of events, where every id is looked for.
pub fn staged(stage: &Stage, table: &str) -> anyhow::Result<f64> {
    let took = stage.sql_files(&scripts(stage, table, |rows| {
        format!(
            "BEGIN;\nCREATE TEMP TABLE IF NOT EXISTS staged (LIKE events INCLUDING DEFAULTS);\nTRUNCATE staged;\n\
             COPY staged ({COLUMNS}) FROM STDIN;\n{rows}\\.\n\
             INSERT INTO {table} SELECT * FROM staged ON CONFLICT DO NOTHING;\nCOMMIT;\n"
        )
    })?)?;
    Ok((WRITERS * TRANSACTIONS * STAGED) as f64 / took.as_secs_f64())
}

/// One request of a flood.
pub fn flood(client: usize, n: u64, events: u64) -> Vec<u8> {
    batch(99, (client, n), events, Spread::Uniform, 5)
}

const COLUMNS: &str =
    "organization_id, customer_key, customer_id, id_hash, idempotency_id, event_name, time_created, properties";

/// One script for each writer; `transaction` puts rows in COPY's text format into SQL.
fn scripts(stage: &Stage, name: &str, transaction: impl Fn(&str) -> String) -> anyhow::Result<Vec<PathBuf>> {
    let now = time_now();
    (0..WRITERS)
        .map(|writer| {
            let path = stage.folder().join(format!("{name}-{writer}.sql"));
            let mut file = std::io::BufWriter::new(fs::File::create(&path)?);
            for number in 0..TRANSACTIONS {
                let mut rows = String::new();
                for row in 0..STAGED {
                    let id = (writer << 40) | (number << 20) | row;
                    let (hash, customer) = (scrambled(id), scrambled(id + 7) % CUSTOMERS);
                    rows.push_str(&format!(
                        "00000000-0000-0000-0000-000000000001\t{:016x}{:016x}\tcustomer-{customer}\t{hash:016x}{:016x}\t\
                         {name}-{id}\tevent_0\t{now}\t{{\"amount\":{},\"region\":\"eu\"}}\n",
                        scrambled(customer),
                        scrambled(customer + CUSTOMERS),
                        scrambled(hash),
                        hash % 100,
                    ));
                }
                file.write_all(transaction(&rows).as_bytes())?;
            }
            file.flush()?;
            Ok(path)
        })
        .collect()
}
