//! What one tenant may do to a service that others use too.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::json;

use super::attack::{Attack, Slow};
use super::tenant::{CUSTOMER, Tenant, customer, doubled, today};
use crate::bench::load;
use crate::bench::stage::{KEY, Stage};

/// Bytes of a body that is sent slowly.
const SLOW_BODY_BYTES: usize = 9_000_000;
/// Lines of a file of events that is imported beside.
const IMPORTED: u64 = 300_000;

/// Days by which a test clock can be advanced at once where a plan starts again every day: 1,200 intervals, and not quite.
const FARTHEST_DAYS: i64 = 1_190;

/// A load, and what it is.
pub type Named<'l> = (&'static str, Attack<'l>);

/// So many connections with a good key that send a large body slowly.
pub fn slow_bodies(connections: usize) -> Attack<'static> {
    let head = format!(
        "POST /api/track/ HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {KEY}\r\nContent-Type: application/json\r\n\
         Content-Length: {SLOW_BODY_BYTES}\r\n\r\n"
    );
    Attack::Slow(Slow { connections, head, bytes: 30_000, every: Duration::from_millis(300) })
}

/// So many connections without a key that send the head of a request byte by byte.
pub fn slow_heads(connections: usize) -> Attack<'static> {
    let head = "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ".to_owned();
    Attack::Slow(Slow { connections, head, bytes: 1, every: Duration::from_millis(300) })
}

/// Events in requests of this many.
pub fn track(tenant: &Tenant, clients: usize, events: usize) -> Attack<'_> {
    Attack::Calls(
        clients,
        Box::new(move |_, _| {
            let events: Vec<String> = (0..events).map(|_| tenant.event()).collect();
            tenant.posting("/api/track/", &format!("{{\"batch\":[{}]}}", events.join(",")))
        }),
    )
}

/// GETs of these paths in turn.
pub fn gets(tenant: &Tenant, clients: usize, paths: Vec<String>) -> Attack<'_> {
    Attack::Calls(clients, Box::new(move |client, n| tenant.getting(&paths[(client + n as usize) % paths.len()])))
}

/// Ten megabytes of blanks in a few kilobytes.
///
/// # Errors
/// When there is no `gzip` to make them with.
pub fn gzip_bombs(tenant: &Tenant, clients: usize) -> anyhow::Result<Attack<'_>> {
    let bomb = gzipped(&vec![b' '; 10 * 1024 * 1024])?;
    let request = tenant.posting_with("/api/track/", "Content-Encoding: gzip", &bomb);
    Ok(Attack::Calls(clients, Box::new(move |_, _| request.clone())))
}

/// A large body of gzip members with nothing in them.
///
/// # Errors
/// When there is no `gzip` to make them with.
pub fn empty_members(tenant: &Tenant, clients: usize) -> anyhow::Result<Attack<'_>> {
    let member = gzipped(b"")?;
    let body = member.repeat(9 * 1024 * 1024 / member.len());
    let request = tenant.posting_with("/api/track/", "Content-Encoding: gzip", &body);
    Ok(Attack::Calls(clients, Box::new(move |_, _| request.clone())))
}

fn gzipped(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut gzip = Command::new("gzip").arg("-9n").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = gzip.stdin.take().context("no input to gzip")?;
    let packed = thread::scope(|scope| {
        scope.spawn(move || drop(input.write_all(bytes)));
        gzip.wait_with_output()
    })?;
    ensure!(packed.status.success(), "gzip ended with {}", packed.status);
    Ok(packed.stdout)
}

/// Subscriptions from long ago to plans that start again every day, of customers each, by clients that hang up at once.
///
/// # Errors
/// When the customers are not made.
pub fn back_dated(tenant: &Tenant, clients: usize, each: u64) -> anyhow::Result<Attack<'_>> {
    let id = move |client: usize, n: u64| format!("late-{client}-{}", n % each);
    for client in 0..clients {
        (0..each).try_for_each(|n| tenant.customer(&id(client, n), None))?;
    }
    let next = numbers(clients);
    let request = move |client: usize, _| {
        let body = tenant.subscription(&id(client, next(client)), &tenant.daily, "2010-01-01");
        tenant.posting("/api/subscriptions/", &body.to_string())
    };
    Ok(Attack::Forgotten(clients, Duration::from_millis(400), Box::new(request)))
}

/// A custom metric that doubles its result 24 times, to be made.
pub fn doubled_metrics(tenant: &Tenant, clients: usize) -> Attack<'_> {
    let body = json!({"metric_name": "too much", "metric_type": "custom", "custom_sql": doubled(24)}).to_string();
    Attack::Calls(clients, Box::new(move |_, _| tenant.posting("/api/metrics/", &body)))
}

/// A test clock that is advanced as far as it goes at once.
pub fn long_advance(tenant: &Tenant) -> Attack<'_> {
    Attack::Other(Box::new(move |done| {
        let number = tenant.number();
        let clock = json!({"name": format!("far-{number}"), "frozen_time": today(0)});
        let clock = tenant.made("/api/test_clocks/", &clock, "test_clock_id")?;
        let id = format!("far-{number}");
        tenant.customer(&id, Some(&clock))?;
        tenant.post("/api/subscriptions/", &tenant.subscription(&id, &tenant.daily, &today(0)))?;
        tenant.post(&format!("/api/test_clocks/{clock}/advance/"), &json!({"frozen_time": today(FARTHEST_DAYS)}))?;
        while !done.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }))
}

/// Audits of the tenant's books, one after the other.
pub fn audits(tenant: &Tenant) -> Attack<'_> {
    Attack::Other(Box::new(move |done| {
        while !done.load(Ordering::Relaxed) {
            // While one runs, that is the answer.
            tenant.post("/api/books_audits/", &json!({}))?;
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }))
}

/// New customers, each with a subscription.
pub fn creations(tenant: &Tenant, clients: usize) -> Attack<'_> {
    let next = numbers(clients);
    Attack::Calls(
        clients,
        Box::new(move |client, _| {
            let n = next(client);
            let id = format!("new-{client}-{}", n / 2);
            if n.is_multiple_of(2) {
                return tenant.posting("/api/customers/", &customer(&id).to_string());
            }
            let body = tenant.subscription(&id, &tenant.monthly, &today(0));
            tenant.posting("/api/subscriptions/", &body.to_string())
        }),
    )
}

/// The number of a client's next request, also when the load comes again.
fn numbers(clients: usize) -> impl Fn(usize) -> u64 {
    let sent: Vec<AtomicU64> = (0..clients).map(|_| AtomicU64::new(0)).collect();
    move |client| sent[client].fetch_add(1, Ordering::Relaxed)
}

/// One request with one `Idempotency-Key`, again and again.
pub fn doubles(tenant: &Tenant, clients: usize) -> Attack<'_> {
    let body = json!({"customer_id": CUSTOMER, "amount": 1, "currency_code": "USD"}).to_string();
    Attack::Calls(
        clients,
        Box::new(move |_, _| tenant.posting_with("/api/credits/", "Idempotency-Key: twice", body.as_bytes())),
    )
}

/// A file of new events, imported by a process of its own that is stopped at the end.
pub fn import<'l>(stage: &'l Stage, tenant: &'l Tenant) -> Attack<'l> {
    Attack::Other(Box::new(move |done: &AtomicBool| {
        let path = stage.folder().join("beside.jsonl");
        let mut file = std::io::BufWriter::new(fs::File::create(&path)?);
        for _ in 0..IMPORTED {
            writeln!(file, "{}", tenant.event())?;
        }
        file.flush()?;
        let mut import = stage.program();
        import.arg("import-events").arg(&path).env("BILLING_API_KEY", &tenant.key);
        let mut import = import.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        while !done.load(Ordering::Relaxed) && import.try_wait()?.is_none() {
            thread::sleep(Duration::from_millis(20));
        }
        // It may have ended.
        drop(import.kill());
        import.wait()?;
        Ok(())
    }))
}

/// Whether the service answers at all.
pub fn is_alive(addr: SocketAddr) -> bool {
    load::call(addr, &load::get("/livez", KEY)).is_ok_and(|(status, _)| status == 200)
}
