//! What a flood, slow clients and each index cost.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use super::batch::{Batch, Spread};
use super::report::{Latency, Report, Row};
use super::stage::{KEY, Stage};
use super::{CLIENTS, Options, load, measure_get, track};

/// Transactions of each writer into tables with fewer indexes.
const TRANSACTIONS: u64 = 20;
/// Clients that never finish what they began to send.
const SLOW_CLIENTS: usize = 2_000;
/// How often each of them sends a byte, and so how long a round of all takes.
const DRIP: Duration = Duration::from_millis(500);
/// Events in a request of the flood.
const FLOOD_EVENTS: u64 = 5_000;

/// Runs everything. Last, because the peak of memory is that of all before.
pub fn run(stage: &Stage, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    indexes(stage, report)?;
    slow_clients(stage, options, report)?;
    flood(stage, options, report)
}

/// Inserts into tables of the same shape with fewer indexes, each on top of the one before.
fn indexes(stage: &Stage, report: &mut Report) -> anyhow::Result<()> {
    stage.sql("CREATE TABLE indexed (LIKE events INCLUDING DEFAULTS);")?;
    let mut before = None;
    for (name, index) in [
        ("insert without an index", ""),
        ("and the unique index by id", "CREATE UNIQUE INDEX ON indexed (id_hash, customer_key);"),
        ("and the index by customer and time", "CREATE INDEX ON indexed (customer_key, time_created);"),
    ] {
        stage.sql(&format!("TRUNCATE indexed; {index} CHECKPOINT;"))?;
        let rate = track::staged(stage, "indexed", TRANSACTIONS)?;
        let row = Row::rate(name, rate, "rows");
        report.add(match before {
            Some(before) => row.against("the one above", &[before]),
            None => row,
        });
        before = Some(rate);
    }
    stage.sql("DROP TABLE indexed;")?;
    Ok(())
}

/// Calls with a key, alone and beside clients that send their requests byte by byte.
fn slow_clients(stage: &Stage, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let addr = stage.service.addr;
    let ask = || measure_get(addr, options.spans(), &["/api/ping/".to_owned()]);
    let (fast, moderate) = ask()?;
    report.add(Row::rate("a call that only checks its key", fast.rate(), "requests").with_latency(&moderate));
    let (alone, alone_latency) = (fast.rate(), Latency::of(&moderate));
    let done = AtomicBool::new(false);
    let (fast, moderate) = thread::scope(|scope| {
        let slow = scope.spawn(|| drip(addr, &done));
        let outcome = ask();
        done.store(true, Ordering::Relaxed);
        slow.join().expect("no panic")?;
        outcome
    })?;
    let name = format!("the same beside {SLOW_CLIENTS} slow clients");
    let row = Row::rate(name, fast.rate(), "requests").against("the one above", &[alone]);
    report.add(row.with_latency(&moderate).against_latency(&[alone_latency]));
    Ok(())
}

/// Keeps slow clients open: whoever is thrown out comes back.
fn drip(addr: SocketAddr, done: &AtomicBool) -> anyhow::Result<()> {
    let head = format!(
        "POST /api/track/ HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {KEY}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    );
    let mut clients: Vec<Option<TcpStream>> = (0..SLOW_CLIENTS).map(|_| None).collect();
    while !done.load(Ordering::Relaxed) {
        for client in &mut clients {
            let is_open = client.as_mut().is_some_and(|stream| stream.write_all(b" ").is_ok());
            if !is_open {
                let mut stream = TcpStream::connect(addr).context("no slow client gets in")?;
                stream.write_all(head.as_bytes())?;
                *client = Some(stream);
            }
        }
        thread::sleep(DRIP);
    }
    Ok(())
}

/// More events than can be taken in: what is too much must be sent back, and memory stay bounded.
fn flood(stage: &Stage, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    report.note("peak memory of the server before the flood, MiB", stage.service.peak_mib());
    let batch = Batch::new(FLOOD_EVENTS, Spread::Uniform, 5);
    let outcome = load::closed(stage.service.addr, CLIENTS, options.span, &|client, n, request: &mut Vec<u8>| {
        batch.make(client, n, request);
    })?;
    let name = format!("a flood: {CLIENTS} clients, {FLOOD_EVENTS} events each");
    report.add(Row::rate(name, outcome.rate() * FLOOD_EVENTS as f64, "events").with_latency(&outcome));
    report.note("requests of the flood that were sent back to come later", outcome.refused);
    report.note("peak memory of the server, MiB", stage.service.peak_mib());
    Ok(())
}
