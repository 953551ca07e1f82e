//! A server that died is started again: killed by a person or for want of memory, or given up by itself on a full disk.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::cluster::is_cluster;
use crate::server::{Launch, Server};
use crate::settings::PORT;
use crate::{Error, pid_file};

/// How long is waited before each attempt, in milliseconds. Two minutes in all: enough for somebody's deleting of what fills the disk, and
/// then whoever started the application is to know.
pub(crate) const RETRIES_MS: [u64; 9] = [0, 1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 30_000, 30_000];

/// A server that has been up as long has recovered; if it dies then, all attempts are open again.
const STEADY_AFTER: Duration = Duration::from_secs(60);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The thread that has the server; ended and the server stopped on drop.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Nothing is sent: the thread ends when it closes.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    is_called_off: Arc<AtomicBool>,
}

impl Watch {
    /// Has `server`, which `launch` started, from now on.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn start(
        server: Server,
        launch: Launch,
        retries_ms: &'static [u64],
        given_up: impl FnOnce(Error) + Send + 'static,
    ) -> Result<Self, Error> {
        let (end, ended) = mpsc::channel();
        let is_called_off = Arc::clone(&launch.is_called_off);
        let mut watched = Watched { server, launch, retries_ms, failures: 0, started: Instant::now(), ended };
        let work = move || match watched.watch() {
            Ok(()) => {}
            Err(error) => given_up(error),
        };
        let thread = thread::Builder::new().name("postgres-watch".to_owned()).spawn(work);
        let thread = thread.map_err(Error::io("start a thread to watch", Path::new("postgres")))?;
        Ok(Self { end: Some(end), thread: Some(thread), is_called_off })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_called_off.store(true, Ordering::Relaxed);
        drop(self.end.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the watch over Postgres has panicked");
        }
    }
}

struct Watched {
    server: Server,
    launch: Launch,
    retries_ms: &'static [u64],
    /// Attempts since the server was last steady.
    failures: usize,
    started: Instant,
    ended: Receiver<()>,
}

impl Watched {
    /// Watches until it is told to end.
    ///
    /// # Errors
    /// Why the server cannot be started again.
    fn watch(&mut self) -> Result<(), Error> {
        while self.is_on_after(LOOK_EVERY) {
            if self.server.has_ended()? {
                log::error!("Postgres has died; its log is {}", self.launch.log.display());
                self.revive()?;
            } else if self.failures > 0 && self.started.elapsed() >= STEADY_AFTER {
                self.failures = 0;
            }
        }
        Ok(())
    }

    fn revive(&mut self) -> Result<(), Error> {
        let mut error = Error::Failed { program: "postgres".to_owned(), output: "it died again and again".to_owned() };
        while let Some(wait_ms) = self.retries_ms.get(self.failures) {
            if !self.is_on_after(Duration::from_millis(*wait_ms)) {
                return Ok(());
            }
            self.failures += 1;
            match self.start() {
                Ok(server) => {
                    (self.server, self.started) = (server, Instant::now());
                    log::warn!("Postgres was started again");
                    return Ok(());
                }
                Err(gone @ Error::NoCluster { .. }) => return Err(gone),
                Err(failed) => error = failed,
            }
            log::error!("Postgres was not started again: {error}");
        }
        Err(error)
    }

    fn start(&self) -> Result<Server, Error> {
        let cluster = &self.launch.cluster;
        if !is_cluster(cluster) {
            return Err(Error::NoCluster { folder: cluster.clone() });
        }
        pid_file::settle(cluster, Signal::SIGINT)?;
        remove_socket(&self.launch.socket_folder)?;
        self.launch.start()
    }

    /// Waits, and tells whether it is to go on.
    fn is_on_after(&self, wait: Duration) -> bool {
        self.ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout)
    }
}

/// Removes what a killed server left of its socket, or a stranger that has its process id would count as a second server.
fn remove_socket(folder: &Path) -> Result<(), Error> {
    for name in [format!(".s.PGSQL.{PORT}"), format!(".s.PGSQL.{PORT}.lock")] {
        let path = folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io("remove", &path)(error)),
            _ => {}
        }
    }
    Ok(())
}
