//! One tenant's load: calls in a closed loop, and connections that send slowly.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;

use crate::bench::load::{self, Client};

/// How long a client that could not connect waits before it tries again.
const PAUSE: Duration = Duration::from_millis(50);

/// The `n`th request of a client.
pub type Request<'r> = Box<dyn Fn(usize, u64) -> Vec<u8> + Sync + Send + 'r>;

/// What a tenant does.
pub enum Attack<'r> {
    /// So many clients, each of which sends the next request when the answer is there.
    Calls(usize, Request<'r>),
    /// So many clients that hang up at once and go on after this time.
    Forgotten(usize, Duration, Request<'r>),
    /// Connections that send something slowly.
    Slow(Slow),
    /// Something of its own, which ends when it is told to.
    Other(Box<dyn Fn(&AtomicBool) -> anyhow::Result<()> + Sync + Send + 'r>),
}

/// Connections that are opened, and opened again when the server has closed them.
pub struct Slow {
    /// How many.
    pub connections: usize,
    /// What each begins with.
    pub head: String,
    /// How many bytes follow at a time.
    pub bytes: usize,
    /// And how often.
    pub every: Duration,
}

/// What became of a load.
#[derive(Default)]
pub struct Tally {
    /// Answers of success.
    pub answered: AtomicU64,
    /// Other answers, and connections that broke.
    pub refused: AtomicU64,
}

impl Attack<'_> {
    /// Goes on until `done`.
    ///
    /// # Errors
    /// Those of an [`Attack::Other`], and when there are no sockets for slow ones.
    pub fn run(&self, addr: SocketAddr, done: &AtomicBool, tally: &Tally) -> anyhow::Result<()> {
        match self {
            Self::Calls(clients, request) => each(*clients, |client| call(addr, client, request, done, tally)),
            Self::Forgotten(clients, pause, request) => {
                each(*clients, |client| forget(addr, client, *pause, request, done));
            }
            Self::Slow(slow) => return slow.run(addr, done),
            Self::Other(work) => return work(done),
        }
        Ok(())
    }
}

fn each(clients: usize, work: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for client in 0..clients {
            let work = &work;
            scope.spawn(move || work(client));
        }
    });
}

fn call(addr: SocketAddr, client: usize, request: &Request<'_>, done: &AtomicBool, tally: &Tally) {
    let mut open = None;
    for n in 0.. {
        if done.load(Ordering::Relaxed) {
            return;
        }
        let request = request(client, n);
        let connection = match open.take() {
            Some(connection) => Ok(connection),
            None => Client::connect(addr),
        };
        let answer = connection.and_then(|mut connection| Ok((connection.call(&request)?, connection)));
        let counter = match &answer {
            Ok((200..300, _)) => &tally.answered,
            _ => &tally.refused,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        match answer {
            Ok((_, connection)) => open = Some(connection),
            Err(_) => thread::sleep(PAUSE),
        }
    }
}

fn forget(addr: SocketAddr, client: usize, pause: Duration, request: &Request<'_>, done: &AtomicBool) {
    for n in 0.. {
        if done.load(Ordering::Relaxed) {
            return;
        }
        // Whatever becomes of it: nobody waits for the answer.
        drop(TcpStream::connect(addr).and_then(|mut stream| {
            stream.write_all(&request(client, n))?;
            thread::sleep(PAUSE);
            Ok(())
        }));
        thread::sleep(pause);
    }
}

impl Slow {
    fn connect(&self, addr: SocketAddr) -> anyhow::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&addr, load::PATIENCE).context("no slow client gets in")?;
        stream.write_all(self.head.as_bytes())?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    fn run(&self, addr: SocketAddr, done: &AtomicBool) -> anyhow::Result<()> {
        let piece = vec![b' '; self.bytes];
        let mut streams: Vec<Option<TcpStream>> = (0..self.connections).map(|_| None).collect();
        while !done.load(Ordering::Relaxed) {
            for stream in &mut streams {
                if done.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if stream.as_mut().is_none_or(|stream| !goes_on(stream, &piece)) {
                    // The server may have closed it already, or have no room.
                    *stream = self.connect(addr).ok();
                }
            }
            thread::sleep(self.every);
        }
        Ok(())
    }
}

/// Sends some more; whether the connection is still open.
fn goes_on(stream: &mut TcpStream, piece: &[u8]) -> bool {
    use std::io::ErrorKind::WouldBlock;
    let is_waiting = |done: std::io::Result<usize>| match done {
        Ok(bytes) => bytes > 0,
        Err(error) => error.kind() == WouldBlock,
    };
    is_waiting(stream.write(piece)) && is_waiting(stream.read(&mut [0; 1024]))
}
