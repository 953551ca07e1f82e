//! Events coming in, held against what Postgres does with the same rows and no server at all.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;

use super::batch::{Batch, CUSTOMERS, Spread, event_number, last_second, next_run};
use super::beside::{Beside, mean};
use super::load::Outcome;
use super::report::{Report, Row};
use super::stage::Stage;
use super::{CLIENTS, LOOK_UP, Options, create, load, measure_rate, none_refused, scrambled};

/// Rows in one transaction, as many as the service puts in one at most.
const STAGED: u64 = 5_000;
/// Transactions of each writer between two figures.
const TRANSACTIONS: u64 = 10;
/// Connections that write at once, as many as the service has.
const WRITERS: u64 = 2;

/// Runs every combination.
pub fn run(stage: &Stage, baseline: SocketAddr, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    bare(stage, report)?;
    count_events(stage)?;
    let rate = options.spans().half().rate;
    let mut look_up = Beside::new(|| Ok(measure_rate(baseline, rate, &[LOOK_UP.to_owned()])?.rate()));
    let mut insert = Beside::new(|| staged(stage, "events", TRANSACTIONS));
    for (size, clients) in [(1, CLIENTS), (100, 16), (1_000, 8)] {
        for spread in [Spread::Uniform, Spread::Zipf] {
            for metrics in [0, 5, 10] {
                let name = format!("track, {size} events each, {}, {metrics} metrics", spread.name());
                if !name.contains(&options.matching) {
                    continue;
                }
                let figure = || track(stage, options.span, clients, &|| Batch::new(size, spread, metrics));
                let (baseline, (outcome, rates)) = match size {
                    1 => ("look-up", look_up.figure(figure)?),
                    _ => ("staged insert", insert.figure(figure)?),
                };
                let row = Row::rate(name, outcome.rate() * size as f64, "events");
                report.add(row.with_latency(&outcome).against(baseline, &rates));
            }
        }
    }
    let rows = mean(insert.measured());
    report.add(Row::rate("staged insert with deduplication, no server", rows, "rows"));
    Ok(())
}

/// Metrics that count events, none, five or ten of each.
pub(super) fn count_events(stage: &Stage) -> anyhow::Result<()> {
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
    Ok(())
}

/// Sends as many requests as are answered, after a while of getting warm.
fn track(stage: &Stage, span: Duration, clients: usize, batch: &dyn Fn() -> Batch) -> anyhow::Result<Outcome> {
    let send = |span| {
        let batch = batch();
        let request = |client, n, request: &mut Vec<u8>| batch.make(client, n, request);
        none_refused(load::closed(stage.service.addr, clients, span, &request)?)
    };
    send(span / 4)?;
    send(span)
}

/// What Postgres does with such rows alone, copied into a table without an index.
fn bare(stage: &Stage, report: &mut Report) -> anyhow::Result<()> {
    stage.sql(
        "SELECT create_events_partition(date_trunc('month', now(), 'UTC'));
         CREATE TABLE bare (LIKE events INCLUDING DEFAULTS);",
    )?;
    let copy = |rows: &str| format!("COPY bare ({COLUMNS}) FROM STDIN;\n{rows}\\.\n");
    let rate = rows_a_second(stage, TRANSACTIONS, &copy)?;
    report.add(Row::rate("COPY into a table without an index", rate, "rows"));
    stage.sql("DROP TABLE bare;")?;
    Ok(())
}

/// Rows a second that Postgres stages into a table like that of events, as it then is, where every id is looked for.
pub fn staged(stage: &Stage, table: &str, transactions: u64) -> anyhow::Result<f64> {
    rows_a_second(stage, transactions, &|rows| {
        format!(
            "BEGIN;\nCREATE TEMP TABLE IF NOT EXISTS staged (LIKE events INCLUDING DEFAULTS);\nTRUNCATE staged;\n\
             COPY staged ({COLUMNS}) FROM STDIN;\n{rows}\\.\n\
             INSERT INTO {table} SELECT * FROM staged ON CONFLICT DO NOTHING;\nCOMMIT;\n"
        )
    })
}

/// Rows a second of new rows, which are made before the clock starts; `transaction` puts those of one, in COPY's text
/// format, into SQL.
fn rows_a_second(stage: &Stage, transactions: u64, transaction: &dyn Fn(&str) -> String) -> anyhow::Result<f64> {
    let run = next_run();
    let scripts: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let path = stage.folder().join(format!("writer-{writer}.sql"));
            let script = |number| transaction(&rows(run, writer, number));
            fs::write(&path, (0..transactions).map(script).collect::<String>()).map(|()| path)
        })
        .collect::<Result<_, _>>()?;
    let took = stage.sql_files(&scripts)?;
    Ok((WRITERS * transactions * STAGED) as f64 / took.as_secs_f64())
}

const COLUMNS: &str = "organization_id, customer_key, customer_id, id_hash, idempotency_id, event_name, time_created, properties, arrival";

/// The rows of a writer's transaction of that number, of which none was there before.
fn rows(run: u64, writer: u64, number: u64) -> String {
    let second = last_second();
    let row = |row| {
        let id = event_number(run, writer, number, row);
        let hash = scrambled(id);
        let customer = scrambled(id + 7) % CUSTOMERS;
        format!(
            "00000000-0000-0000-0000-000000000001\t{:016x}{:016x}\tcustomer-{customer:03}\t{hash:016x}{:016x}\t{id:016x}\t\
             event_0\t{second}.{:06}Z\t{{\"amount\":{:2},\"region\":\"eu\"}}\t{row}\n",
            scrambled(customer),
            scrambled(customer + CUSTOMERS),
            scrambled(hash),
            hash % 1_000_000,
            hash / 1_000_000 % 100,
        )
    };
    (0..STAGED).map(row).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_round_has_a_row_of_another() {
        let mut seen = BTreeSet::new();
        for run in [next_run(), next_run()] {
            for (writer, number) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                for row in rows(run, writer, number).lines() {
                    let fields: Vec<_> = row.split('\t').collect();
                    assert_eq!(fields.len(), COLUMNS.split(", ").count(), "{row}");
                    assert!(
                        seen.insert(fields[3].to_owned()) && seen.insert(fields[4].to_owned()),
                        "{row} came before"
                    );
                }
            }
        }
        assert_eq!(seen.len() as u64, 2 * 4 * STAGED * 2);
    }
}
