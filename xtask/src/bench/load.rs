//! Load from outside: clients that keep their connection and measure every answer.
//!
//! A client costs the machine as little as it can, since the server works on the same one: requests are bytes that the
//! caller makes out of the one before, answers are read into the same memory again, and only their status and length
//! are looked at.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Time after which an answer is given up.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Answers in a slice of a run, about, so that one in a hundred is ten of them, and slices at most.
const SLICE: usize = 1_000;
const SLICES: usize = 9;

/// Makes the `n`th request of a client out of the one that it sent before; out of nothing before the clock starts.
pub type Requests<'r> = dyn Fn(usize, u64, &mut Vec<u8>) + Sync + 'r;

/// How a run went.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Answers with success.
    pub answered: u64,
    /// Answers without.
    pub refused: u64,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// Microseconds from the start to each request, and from there to its answer; in that order.
    latencies_us: Vec<(u64, u64)>,
}

impl Outcome {
    /// Answers a second.
    pub fn rate(&self) -> f64 {
        self.answered as f64 / self.elapsed.as_secs_f64()
    }

    /// Microseconds within which this part of the answers came.
    pub fn quantile_us(&self, part: f64) -> u64 {
        quantile_us(&self.latencies_us, part)
    }

    /// Microseconds within which 99 of 100 answers came in most slices of the run: the median of up to nine. A stall of
    /// the machine is felt by every request that was due in it, and one of 40 ms is one in a hundred of four seconds;
    /// so that of the whole run says how long its longest stalls were, and this one how it went otherwise.
    pub fn steady_p99_us(&self) -> u64 {
        // An odd number, so that one of them is in the middle.
        let slices = (self.latencies_us.len() / SLICE).clamp(1, SLICES) | 1;
        let length = self.latencies_us.len().div_ceil(slices).max(1);
        let p99s: Vec<_> = self.latencies_us.chunks(length).map(|slice| (0, quantile_us(slice, 0.99))).collect();
        quantile_us(&p99s, 0.5)
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

    fn count(&mut self, status: u16, start: Instant, due: Instant) {
        match status {
            200..300 => self.answered += 1,
            _ => self.refused += 1,
        }
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        self.latencies_us.push((micros(due - start), micros(due.elapsed())));
    }
}

fn quantile_us(latencies_us: &[(u64, u64)], part: f64) -> u64 {
    let mut ascending: Vec<u64> = latencies_us.iter().map(|(_, latency)| *latency).collect();
    ascending.sort_unstable();
    let last = ascending.len().saturating_sub(1);
    ascending.get((last as f64 * part).round() as usize).copied().unwrap_or_default()
}

fn connected(addr: SocketAddr) -> anyhow::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(addr).with_context(|| format!("cannot connect to {addr}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(BufReader::with_capacity(16 * 1024, stream))
}

/// One connection, that is kept for as long as the server keeps it.
pub struct Client {
    addr: SocketAddr,
    stream: BufReader<TcpStream>,
    /// Whether the server has said that it closes the connection: it does where it refuses a body that it has not read.
    is_over: bool,
    line: String,
    /// The body of the latest answer.
    answer: Vec<u8>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When nobody takes the connection.
    pub fn connect(addr: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self { addr, stream: connected(addr)?, is_over: false, line: String::new(), answer: Vec::new() })
    }

    /// The status of the answer.
    ///
    /// # Errors
    /// When there is none.
    pub fn call(&mut self, request: &[u8]) -> anyhow::Result<u16> {
        if std::mem::take(&mut self.is_over) {
            self.stream = connected(self.addr)?;
        }
        self.stream.get_mut().write_all(request)?;
        let status = self.line()?.split(' ').nth(1).and_then(|status| status.parse().ok());
        let (mut length, mut is_over) = (0, false);
        while let Some((name, value)) = self.line()?.split_once(':') {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse()?;
            }
            is_over |= name.eq_ignore_ascii_case("connection") && value.trim().eq_ignore_ascii_case("close");
        }
        self.is_over = is_over;
        self.answer.resize(length, 0);
        self.stream.read_exact(&mut self.answer)?;
        status.context("no status in an answer")
    }

    fn line(&mut self) -> anyhow::Result<&str> {
        self.line.clear();
        if self.stream.read_line(&mut self.line)? == 0 {
            bail!("the connection was closed within an answer");
        }
        Ok(&self.line)
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
    let mut client = Client::connect(addr)?;
    let status = client.call(request)?;
    Ok((status, client.answer))
}

/// As many requests as the server answers: each client sends the next one when the answer is there. Throughput.
///
/// # Errors
/// A connection that fails.
pub fn closed(addr: SocketAddr, clients: usize, span: Duration, requests: &Requests<'_>) -> anyhow::Result<Outcome> {
    on_clients(addr, clients, requests, |client, request, number, start| {
        let mut outcome = Outcome::default();
        for n in 0.. {
            if start.elapsed() >= span {
                break;
            }
            requests(number, n, request);
            let sent = Instant::now();
            outcome.count(client.call(request)?, start, sent);
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
    on_clients(addr, clients, requests, |client, request, number, start| {
        let mut outcome = Outcome::default();
        for n in 0_u64.. {
            let turn = u32::try_from(number as u64 + n * clients as u64)?;
            let due = start + gap * turn;
            if due.duration_since(start) >= span {
                break;
            }
            requests(number, n, request);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            outcome.count(client.call(request)?, start, due);
        }
        Ok(outcome)
    })
}

fn on_clients(
    addr: SocketAddr,
    clients: usize,
    requests: &Requests<'_>,
    work: impl Fn(&mut Client, &mut Vec<u8>, usize, Instant) -> anyhow::Result<Outcome> + Sync,
) -> anyhow::Result<Outcome> {
    let prepare = |number| {
        let mut request = Vec::new();
        requests(number, 0, &mut request);
        anyhow::Ok((number, Client::connect(addr)?, request))
    };
    let prepared: Vec<_> = (0..clients).map(prepare).collect::<Result<_, _>>()?;
    let start = Instant::now();
    let parts: anyhow::Result<Vec<Outcome>> = thread::scope(|scope| {
        let work = &work;
        let started = prepared.into_iter();
        let threads: Vec<_> = started
            .map(|(number, mut client, mut request)| {
                scope.spawn(move || work(&mut client, &mut request, number, start))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a client does not panic")).collect()
    });
    Ok(Outcome::sum(parts?, start.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run with a request each millisecond, answered within so many microseconds.
    fn outcome(latencies_us: impl Iterator<Item = u64>) -> Outcome {
        Outcome { latencies_us: (0..).map(|n| n * 1_000).zip(latencies_us).collect(), ..Outcome::default() }
    }

    #[test]
    fn one_stall_is_in_the_p99_of_the_run_and_not_in_most_slices() {
        let stalled = outcome((0..9_000).map(|n| if n < 200 { 50_000 } else { 1_000 }));
        assert_eq!((stalled.quantile_us(0.99), stalled.steady_p99_us()), (50_000, 1_000));
        let slow_always = outcome((0..9_000).map(|n| if n % 50 == 0 { 50_000 } else { 1_000 }));
        assert_eq!((slow_always.quantile_us(0.99), slow_always.steady_p99_us()), (50_000, 50_000));
    }

    #[test]
    fn few_answers_are_one_slice() {
        let few = outcome(1..=100);
        assert_eq!((few.quantile_us(0.99), few.steady_p99_us()), (99, 99));
        assert_eq!(Outcome::default().steady_p99_us(), 0);
    }
}
