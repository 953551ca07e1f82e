//! Load from outside: clients that keep their connection and measure every answer.
//!
//! A client costs the machine as little as it can, since the server works on the same one: requests are bytes made by
//! the caller, and of an answer only its status and length are read.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Time after which an answer is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Makes the `n`th request of a client.
pub type Requests<'r> = dyn Fn(usize, u64) -> Vec<u8> + Sync + 'r;

/// How a run went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Answers with success.
    pub answered: u64,
    /// Answers without.
    pub refused: u64,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Microseconds of each answer, ascending.
    latencies_us: Vec<u64>,
}

impl Outcome {
    /// Answers a second.
    pub fn rate(&self) -> f64 {
        self.answered as f64 / self.elapsed.as_secs_f64()
    }

    /// Microseconds within which this part of the answers came.
    pub fn quantile_us(&self, part: f64) -> u64 {
        let last = self.latencies_us.len().saturating_sub(1);
        let index = (last as f64 * part).round() as usize;
        self.latencies_us.get(index).copied().unwrap_or_default()
    }

    fn sum(parts: Vec<Self>, elapsed: Duration) -> Self {
        let mut sum = Self { elapsed, ..Self::default() };
        for part in parts {
            sum.answered += part.answered;
            sum.refused += part.refused;
            sum.latencies_us.extend(part.latencies_us);
        }
        sum.latencies_us.sort_unstable();
        sum
    }

    fn count(&mut self, status: u16, since: Instant) {
        match status {
            200..300 => self.answered += 1,
            _ => self.refused += 1,
        }
        self.latencies_us.push(u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
}

/// One connection that is kept.
struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn connect(addr: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(addr).with_context(|| format!("cannot connect to {addr}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::with_capacity(16 * 1024, stream) })
    }

    /// The status and body of the answer.
    fn call(&mut self, request: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
        self.stream.get_mut().write_all(request)?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status in an answer")?;
        let mut length = 0;
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                bail!("the connection was closed within an answer");
            }
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok((status, body))
    }
}

/// A GET.
pub fn get(path: &str, key: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {key}\r\n\r\n").into_bytes()
}

/// A POST of JSON.
pub fn post(path: &str, key: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// One call on a connection of its own: the status and body of the answer.
///
/// # Errors
/// No connection, or no answer.
pub fn call(addr: SocketAddr, request: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
    Client::connect(addr)?.call(request)
}

/// As many requests as the server answers: each client sends the next one when the answer is there. Throughput.
///
/// # Errors
/// A connection that fails.
pub fn closed(addr: SocketAddr, clients: usize, span: Duration, requests: &Requests<'_>) -> anyhow::Result<Outcome> {
    on_clients(addr, clients, |client, number, start| {
        let mut outcome = Outcome::default();
        for n in 0.. {
            if start.elapsed() >= span {
                break;
            }
            let request = requests(number, n);
            let sent = Instant::now();
            let (status, _) = client.call(&request)?;
            outcome.count(status, sent);
        }
        Ok(outcome)
    })
}

/// Requests at a fixed rate a second, whatever the server does: an answer's time counts from the instant at which its
/// request was due, so that a stall is felt by all that came due in it. Latency.
///
/// # Errors
/// A connection that fails.
pub fn open(
    addr: SocketAddr,
    clients: usize,
    rate: f64,
    span: Duration,
    requests: &Requests<'_>,
) -> anyhow::Result<Outcome> {
    let gap = Duration::from_secs_f64(1.0 / rate);
    on_clients(addr, clients, |client, number, start| {
        let mut outcome = Outcome::default();
        for n in 0_u64.. {
            let turn = u32::try_from(number as u64 + n * clients as u64)?;
            let due = start + gap * turn;
            if due.duration_since(start) >= span {
                break;
            }
            let request = requests(number, n);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let (status, _) = client.call(&request)?;
            outcome.count(status, due);
        }
        Ok(outcome)
    })
}

fn on_clients(
    addr: SocketAddr,
    clients: usize,
    work: impl Fn(&mut Client, usize, Instant) -> anyhow::Result<Outcome> + Sync,
) -> anyhow::Result<Outcome> {
    let connections: Vec<Client> = (0..clients).map(|_| Client::connect(addr)).collect::<Result<_, _>>()?;
    let start = Instant::now();
    let parts: anyhow::Result<Vec<Outcome>> = thread::scope(|scope| {
        let work = &work;
        let started = connections.into_iter().enumerate();
        let threads: Vec<_> =
            started.map(|(number, mut client)| scope.spawn(move || work(&mut client, number, start))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect()
    });
    Ok(Outcome::sum(parts?, start.elapsed()))
}
