//! The running server process, tied to the life of this one.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::account::Account;
use crate::binaries::Binaries;
use crate::install::tail;
use crate::{Error, pid_file};

/// Starts the server with a companion that outlives us: it waits on a pipe whose other end only this process has.
/// `stopped` comes through it after an orderly end; when the pipe just closes, this process has died, and the companion
/// stops the server and removes the temporary folder in its place.
///
/// The companion is there before the server, so no moment is unguarded. It is forked twice, because Postgres would take
/// a child of its own process for a backend. `exec` gives the server the shell's process id, which is `$$`.
///
/// Arguments: signal, cluster, folder to remove or nothing, then the server's command line.
const GUARDED: &str = r#"
exec 3<&0 </dev/null
( (
    trap '' HUP INT QUIT TERM
    read -r word <&3
    if [ "$word" != stopped ]; then
        kill -s "$1" $$
        [ -n "$3" ] || exit
        tries=0
        while [ -e "$2/postmaster.pid" ] && kill -0 $$ && [ $tries -lt 300 ]; do
            sleep 0.1 || sleep 1
            tries=$((tries + 1))
        done
        rm -rf "$3"
    fi
) >/dev/null 2>&1 & )
shift 3
exec "$@" 3<&-
"#;

/// Leftover backends of a killed server notice within moments, unless they are busy.
const LEFTOVER_PATIENCE: Duration = Duration::from_secs(20);
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// All that it takes to start a server.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub binaries: Binaries,
    pub account: Account,
    pub cluster: PathBuf,
    pub socket_folder: PathBuf,
    pub log: PathBuf,
    pub settings: Vec<String>,
    /// Removed after the server's end when this process has died.
    pub temporary: Option<PathBuf>,
    /// How the server is told to stop: orderly (`SIGINT`) or at once (`SIGQUIT`).
    pub stop_signal: Signal,
    /// Recovery after a crash of a large cluster takes minutes.
    pub patience: Duration,
    /// Set when nobody waits for a server that is about to start.
    pub is_called_off: Arc<AtomicBool>,
}

/// A server that takes connections; stopped on drop.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// The companion's pipe; `None` once the server has ended.
    pipe: Option<ChildStdin>,
    stop_signal: Signal,
}

impl Launch {
    /// # Errors
    /// [`Error::Failed`] with the end of the log when the server gives up, [`Error::NotReady`] when it takes too long.
    pub fn start(&self) -> Result<Server, Error> {
        let deadline = Instant::now() + LEFTOVER_PATIENCE;
        loop {
            let is_awaited = Instant::now() < deadline && !self.is_called_off.load(Ordering::Relaxed);
            match self.try_start() {
                Err(Error::Failed { output, .. }) if is_awaited && is_about_leftovers(&output) => {
                    thread::sleep(Duration::from_millis(200));
                }
                outcome => return outcome,
            }
        }
    }

    fn try_start(&self) -> Result<Server, Error> {
        let mut log = OpenOptions::new();
        let log = log.create(true).append(true).read(true).mode(0o600).open(&self.log);
        let mut log = log.map_err(Error::io("open", &self.log))?;
        let log_start = log.seek(SeekFrom::End(0)).map_err(Error::io("read", &self.log))?;
        let errors = log.try_clone().map_err(Error::io("open", &self.log))?;
        let mut child = self.command(errors).spawn().map_err(Error::io("run", Path::new("/bin/sh")))?;
        let mut server = Server { pipe: child.stdin.take(), child, stop_signal: self.stop_signal };
        match self.wait_until_ready(&mut server) {
            Err(Error::Failed { program, .. }) => {
                let mut said = Vec::new();
                let read = log.seek(SeekFrom::Start(log_start)).and_then(|_| log.read_to_end(&mut said));
                read.map_err(Error::io("read", &self.log))?;
                Err(Error::Failed { program, output: tail(&String::from_utf8_lossy(&said)).to_owned() })
            }
            Err(error) => Err(error),
            Ok(()) => Ok(server),
        }
    }

    fn command(&self, errors: File) -> std::process::Command {
        let mut command = self.account.command("/bin/sh");
        command.args(["-c", GUARDED, "postgres-local"]);
        command.arg(self.stop_signal.as_str().trim_start_matches("SIG"));
        command.arg(&self.cluster).arg(self.temporary.as_deref().unwrap_or(Path::new("")));
        command.arg(self.binaries.postgres()).arg("-D").arg(&self.cluster);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        // A process group of its own: Ctrl-C is for the application, which then stops the server in its own time.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(errors).process_group(0);
        command
    }

    fn wait_until_ready(&self, server: &mut Server) -> Result<(), Error> {
        let start = Instant::now();
        let pid = server.child.id();
        while !pid_file::says_ready(&self.cluster, pid) {
            if server.has_ended()? {
                return Err(Error::Failed { program: "postgres".to_owned(), output: String::new() });
            }
            if start.elapsed() > self.patience || self.is_called_off.load(Ordering::Relaxed) {
                return Err(Error::NotReady { pid, seconds: start.elapsed().as_secs(), log: self.log.clone() });
            }
            thread::sleep(Duration::from_millis(5));
        }
        log::debug!("Postgres {} (process {pid}) was ready after {:?}", self.binaries.version, start.elapsed());
        Ok(())
    }
}

impl Server {
    /// Stops the server and waits for its end; does nothing the second time.
    ///
    /// # Errors
    /// [`Error::NotStopped`] when it is still writing its last checkpoint; it then ends by itself.
    pub fn stop(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + STOP_PATIENCE;
        if !self.has_ended()? {
            // Safe from hitting a stranger: the process id stays taken until `has_ended` has collected it.
            let _ = kill(self.pid(), self.stop_signal);
        }
        while !self.has_ended()? {
            if Instant::now() >= deadline {
                return Err(Error::NotStopped { pid: self.child.id(), seconds: STOP_PATIENCE.as_secs() });
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Says how the server is to be told to stop, from now on.
    pub fn set_stop_signal(&mut self, signal: Signal) {
        self.stop_signal = signal;
    }

    /// Whether it has ended, in whatever way.
    ///
    /// # Errors
    /// When the operating system does not tell.
    pub fn has_ended(&mut self) -> Result<bool, Error> {
        if self.pipe.is_none() {
            return Ok(true);
        }
        if self.child.try_wait().map_err(Error::io("wait for", Path::new("postgres")))?.is_none() {
            return Ok(false);
        }
        // The process id is free for others now, so the companion must not signal it. It may be gone, having been
        // killed.
        if let Some(mut pipe) = self.pipe.take() {
            let _ = pipe.write_all(b"stopped\n");
        }
        Ok(true)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("process ids are positive i32"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            log::warn!("{error}");
        }
    }
}

/// Keeps one log of the run before.
pub(crate) fn rotate_log(log: &Path) -> PathBuf {
    // There is none on the first start.
    let _ = fs::rename(log, log.with_extension("log.old"));
    log.to_owned()
}

fn is_about_leftovers(output: &str) -> bool {
    output.contains("pre-existing shared memory block")
}
