//! `cargo xtask campaign webhooks`: what 99 endpoints of seven organizations feel of one that hangs, and how fast messages are
//! delivered beside a bare client, which posts the same bodies and does nothing else: the HTTP library that the service is built on, as
//! it comes, with as many on their way as the service has. Beside it are told the same one after another, the service's own client without
//! the service, and sockets that do not know HTTP.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use billing_outbound::{Client, Destination, Reach, Session, TIMEOUT};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use ureq::Agent;

use super::organization;
use super::receiver::{Arrival, HANGING, Receiver};
use super::tenant::customer;
use crate::bench::beside::median;
use crate::bench::load;
use crate::bench::stage::{KEY, Stage};
use crate::bench::worked::Worked;

/// Endpoints of all organizations, who have about as many each.
const ENDPOINTS: usize = 100;
const ORGANIZATIONS: usize = 7;
/// Runs with the one endpoint hanging, each behind one without.
const RUNS: usize = 4;
/// How long facts come true in a run, and how many of each organization in a second.
const SPAN: Duration = Duration::from_secs(10);
const FACTS_PER_SECOND: u32 = 1;
/// How many times the p99 without it the p99 with one endpoint hanging may be.
const TIMES_MAX: f64 = 1.5;
/// For what was told to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// Messages that are delivered for a rate, and how often.
const MESSAGES: usize = 32_000;
const RATES: usize = 5;
/// The number of the endpoint that takes them.
const RATED: usize = ENDPOINTS;
/// Messages that are on their way to an endpoint at once; the bare client posts as many.
const IN_FLIGHT: usize = 4;
/// Part of the bare client's rate that deliveries must come to.
const RATIO_MIN: f64 = 0.5;

/// Runs both.
///
/// # Errors
/// What does not answer or arrive, and a criterion that is not met.
pub fn run(stage: &Stage) -> anyhow::Result<()> {
    let receiver = Receiver::listen()?;
    let ratio = rate(stage, &organization(stage, "Rated")?, &receiver)?;
    let times = beside_a_hanging_one(stage, &receiver)?;
    ensure!(times <= TIMES_MAX, "the others' p99 is {times:.2} times what it is without one that hangs");
    ensure!(ratio >= RATIO_MIN, "deliveries come to {ratio:.2} of what a bare client posts, {IN_FLIGHT} at once");
    Ok(())
}

/// How many times the others' p99 is what it is without the one that hangs.
fn beside_a_hanging_one(stage: &Stage, receiver: &Receiver) -> anyhow::Result<f64> {
    let addr = stage.service.addr;
    let mut keys = vec![KEY.to_owned()];
    for number in 1..ORGANIZATIONS {
        keys.push(organization(stage, &format!("Organization {number}"))?);
    }
    for endpoint in 0..ENDPOINTS {
        post(
            addr,
            &keys[endpoint % ORGANIZATIONS],
            "/api/webhook_endpoints/",
            &json!({"url": receiver.url(endpoint)}),
        )?;
    }
    println!("\n| one hangs | messages | half within, ms | p99, ms |\n|---|---:|---:|---:|");
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for run in 0..RUNS * 2 {
        let (is_hanging, hung_before) = (run % 2 == 1, receiver.hung());
        receiver.hangs(is_hanging);
        let delays_ms = deliver(addr, &keys, run, receiver)?;
        let quantile = |part: f64| delays_ms[((delays_ms.len() - 1) as f64 * part).round() as usize];
        let hung = if is_hanging { "yes" } else { "no" };
        println!("| {hung} | {} | {:.0} | {:.0} |", delays_ms.len(), quantile(0.5), quantile(0.99));
        ensure!(!is_hanging || receiver.hung() > hung_before, "nothing was sent to the one that hangs");
        if is_hanging { &mut with } else { &mut without }.push(quantile(0.99));
    }
    receiver.hangs(false);
    let times = median(&with) / median(&without);
    println!("\np99 with one that hangs, of that without: {times:.2} (wanted: {TIMES_MAX} at most)");
    Ok(times)
}

/// Has facts come true in all organizations at a steady rate; milliseconds from each to its arrival at the others, ascending.
fn deliver(addr: SocketAddr, keys: &[String], run: usize, receiver: &Receiver) -> anyhow::Result<Vec<f64>> {
    receiver.take_arrivals();
    let facts = u32::try_from(SPAN.as_secs())? * FACTS_PER_SECOND;
    let start = Instant::now();
    thread::scope(|scope| {
        let telling = |(number, key): (usize, &String)| {
            let key = key.clone();
            scope.spawn(move || {
                // Not all organizations in the same instant.
                let first =
                    start + Duration::from_secs(1) / FACTS_PER_SECOND * u32::try_from(number)? / keys.len() as u32;
                (0..facts).try_for_each(|fact| {
                    let due = first + Duration::from_secs(1) / FACTS_PER_SECOND * fact;
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    post(addr, &key, "/api/customers/", &customer(&format!("run-{run}-{fact}"))).map(drop)
                })
            })
        };
        let threads: Vec<_> = keys.iter().enumerate().map(telling).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    // Each fact goes to every endpoint of its organization; the one that may hang does not count.
    let expected = (ENDPOINTS - 1) * facts as usize;
    wait_for(receiver, expected)?;
    let arrivals = receiver.take_arrivals();
    let others: Vec<&Arrival> = arrivals.iter().filter(|arrival| arrival.endpoint != HANGING).collect();
    let different: BTreeSet<_> = others.iter().map(|arrival| (arrival.endpoint, &arrival.id)).collect();
    ensure!(different.len() == expected, "{} messages arrived in place of {expected}", different.len());
    let mut delays_ms: Vec<f64> = others.into_iter().map(delay_ms).collect::<anyhow::Result<_>>()?;
    delays_ms.sort_by(f64::total_cmp);
    Ok(delays_ms)
}

/// Milliseconds from what came true to the arrival of its message.
fn delay_ms(arrival: &Arrival) -> anyhow::Result<f64> {
    let message: Value = serde_json::from_slice(&arrival.body)?;
    let told = message["timestamp"].as_str().context("a message without an instant")?;
    Ok((arrival.at - OffsetDateTime::parse(told, &Rfc3339)?).as_seconds_f64() * 1_000.0)
}

fn wait_for(receiver: &Receiver, count: usize) -> anyhow::Result<()> {
    let start = Instant::now();
    while receiver.arrived() < count {
        let arrived = receiver.arrived();
        ensure!(
            start.elapsed() < PATIENCE,
            "only {arrived} of {count} messages arrived within {} s",
            PATIENCE.as_secs()
        );
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Messages delivered a second, of what a bare client posts of the same bodies; the middle one of some turns.
fn rate(stage: &Stage, key: &str, receiver: &Receiver) -> anyhow::Result<f64> {
    let addr = stage.service.addr;
    let since = (OffsetDateTime::now_utc() - time::Duration::MINUTE).format(&Rfc3339)?;
    let make = |maker: usize| {
        (maker..MESSAGES).step_by(IN_FLIGHT).try_for_each(|number| {
            post(addr, key, "/api/customers/", &customer(&format!("customer-{number}"))).map(drop)
        })
    };
    in_parallel(IN_FLIGHT, &make)?;
    let endpoint = post(addr, key, "/api/webhook_endpoints/", &json!({"url": receiver.url(RATED)}))?;
    let replay =
        format!("/api/webhook_endpoints/{}/replay/", endpoint["webhook_endpoint_id"].as_str().context("an id")?);
    println!(
        "| delivered a second | server, us each | Postgres, us each | posted by a bare client, one after another | ratio \
        | {IN_FLIGHT} at once | ratio | by the service's client | ratio | by sockets | ratio \
        |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    let mut ratios = Vec::new();
    for _ in 0..RATES {
        receiver.take_arrivals();
        let Worked { rate: delivered, server_us, postgres_us } = Worked::measure(stage, || {
            post(addr, key, &replay, &json!({"since": since}))?;
            wait_for(receiver, MESSAGES)?;
            Ok(u64::try_from(MESSAGES)?)
        })?;
        let bodies: Vec<Vec<u8>> = receiver.take_arrivals().into_iter().map(|arrival| arrival.body).collect();
        let library = Agent::config_builder().max_idle_connections_per_host(IN_FLIGHT).build().new_agent();
        let in_turn = posted(&bodies, 1, &|part| by_library(&library, receiver, part))?;
        let bare = posted(&bodies, IN_FLIGHT, &|part| by_library(&library, receiver, part))?;
        let session = Client::new(Reach::Anywhere).session();
        let client = posted(&bodies, IN_FLIGHT, &|part| by_client(&session, receiver, part))?;
        let sockets = posted(&bodies, IN_FLIGHT, &|part| by_socket(receiver, part))?;
        print!("| {delivered:.0} | {server_us:.0} | {postgres_us:.0} ");
        [in_turn, bare, client, sockets].iter().for_each(|rate| print!("| {rate:.0} | {:.2} ", delivered / rate));
        println!("|");
        ratios.push(delivered / bare);
    }
    let ratio = median(&ratios);
    println!("\ndeliveries come to {ratio:.2} of what a bare client posts, {IN_FLIGHT} at once (wanted: {RATIO_MIN})");
    Ok(ratio)
}

/// Bodies that are posted a second, so many at once.
fn posted(
    bodies: &[Vec<u8>],
    at_once: usize,
    post: &(dyn Fn(&mut dyn Iterator<Item = &Vec<u8>>) -> anyhow::Result<()> + Sync),
) -> anyhow::Result<f64> {
    let start = Instant::now();
    in_parallel(at_once, &|sender| post(&mut bodies.iter().skip(sender).step_by(at_once)))?;
    Ok(bodies.len() as f64 / start.elapsed().as_secs_f64())
}

/// Posts bodies by the HTTP library as it comes.
fn by_library(agent: &Agent, receiver: &Receiver, bodies: &mut dyn Iterator<Item = &Vec<u8>>) -> anyhow::Result<()> {
    let url = receiver.url(RATED);
    for body in bodies {
        let mut answer = agent.post(&url).header("content-type", "application/json").send(body)?;
        let (status, _) = (answer.status(), answer.body_mut().read_to_vec()?);
        ensure!(status == 204, "the receiver answered {status}");
    }
    Ok(())
}

/// Posts bodies by the client that the service posts by.
fn by_client(session: &Session, receiver: &Receiver, bodies: &mut dyn Iterator<Item = &Vec<u8>>) -> anyhow::Result<()> {
    let destination = Destination::parse(&receiver.url(RATED), Reach::Anywhere)?;
    for body in bodies {
        let answer = session.post(&destination, &[("content-type", "application/json")], body, TIMEOUT)?;
        ensure!(answer.status == 204, "the receiver answered {}", answer.status);
    }
    Ok(())
}

/// Posts bodies on one connection, with nothing that understands HTTP.
fn by_socket(receiver: &Receiver, bodies: &mut dyn Iterator<Item = &Vec<u8>>) -> anyhow::Result<()> {
    let mut socket = load::Client::connect(receiver.addr())?;
    for body in bodies {
        let head = format!(
            "POST /{RATED} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let status = socket.call(&[head.as_bytes(), body].concat())?;
        ensure!(status == 204, "the receiver answered {status}");
    }
    Ok(())
}

fn in_parallel(count: usize, work: &(dyn Fn(usize) -> anyhow::Result<()> + Sync)) -> anyhow::Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

fn post(addr: SocketAddr, key: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
    let (status, answer) = load::call(addr, &load::post(path, key, &body.to_string()))?;
    if status >= 300 {
        bail!("POST {path} answered {status}: {}", String::from_utf8_lossy(&answer));
    }
    Ok(serde_json::from_slice(&answer)?)
}
