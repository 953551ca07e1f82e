//! Somebody on this machine whom messages are sent to: takes everything at once, but for the one endpoint that it lets hang.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use time::OffsetDateTime;

/// The number of the endpoint that can hang.
pub const HANGING: usize = 0;
/// How often one that hangs looks whether it still does.
const HANG_LOOK: Duration = Duration::from_millis(50);

/// A message as it came in.
#[derive(Clone)]
pub struct Arrival {
    /// The number of the endpoint.
    pub endpoint: usize,
    /// Its `webhook-id`.
    pub id: String,
    /// What was sent.
    pub body: Vec<u8>,
    /// When it was there as a whole.
    pub at: OffsetDateTime,
}

#[derive(Default)]
struct State {
    arrivals: Mutex<Vec<Arrival>>,
    is_hanging: AtomicBool,
    hung: AtomicUsize,
}

/// One server for all endpoints.
pub struct Receiver {
    addr: SocketAddr,
    state: Arc<State>,
}

impl Receiver {
    /// Listens from now on.
    ///
    /// # Errors
    /// When there is no port.
    pub fn listen() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (addr, state) = (listener.local_addr()?, Arc::<State>::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // Whoever calls may hang up.
                thread::spawn(move || drop(take_all(stream, &state)));
            }
        });
        Ok(Self { addr, state })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of an endpoint.
    pub fn url(&self, endpoint: usize) -> String {
        format!("http://{}/{endpoint}", self.addr)
    }

    /// From now on the endpoint [`HANGING`] gives no answers, or does again.
    pub fn hangs(&self, is_hanging: bool) {
        self.state.is_hanging.store(is_hanging, Ordering::Relaxed);
    }

    /// Calls so far that were left without an answer.
    pub fn hung(&self) -> usize {
        self.state.hung.load(Ordering::Relaxed)
    }

    /// What came since it was asked last.
    pub fn take_arrivals(&self) -> Vec<Arrival> {
        std::mem::take(&mut *self.arrivals())
    }

    /// How much came since then to endpoints that do not hang.
    pub fn arrived(&self) -> usize {
        self.arrivals().iter().filter(|arrival| arrival.endpoint != HANGING).count()
    }

    fn arrivals(&self) -> MutexGuard<'_, Vec<Arrival>> {
        self.state.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes what comes on a connection.
fn take_all(mut stream: TcpStream, state: &State) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while take(&mut reader, &mut stream, state)? {}
    Ok(())
}

/// Takes one message; whether another may follow.
fn take(reader: &mut BufReader<TcpStream>, stream: &mut TcpStream, state: &State) -> anyhow::Result<bool> {
    let (mut head, mut length, mut id) = (String::new(), 0, String::new());
    if reader.read_line(&mut head)? == 0 {
        return Ok(false);
    }
    let path = head.split(' ').nth(1).and_then(|path| path.strip_prefix('/'));
    let endpoint = path.and_then(|number| number.parse().ok()).context("no endpoint")?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse()?,
            "webhook-id" => value.trim().clone_into(&mut id),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let at = OffsetDateTime::now_utc();
    if endpoint == HANGING && state.is_hanging.load(Ordering::Relaxed) {
        state.hung.fetch_add(1, Ordering::Relaxed);
        while state.is_hanging.load(Ordering::Relaxed) {
            thread::sleep(HANG_LOOK);
        }
        return Ok(false);
    }
    state.arrivals.lock().unwrap_or_else(PoisonError::into_inner).push(Arrival { endpoint, id, body, at });
    stream.write_all(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")?;
    Ok(true)
}
