//! `postmaster.pid`: how a server says that it is ready, and what a dead one leaves behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Error;

/// A fast shutdown has to write one checkpoint.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// Whether the server with process id `pid` has told that it takes connections.
pub(crate) fn says_ready(cluster: &Path, pid: u32) -> bool {
    let Ok(text) = fs::read_to_string(path(cluster)) else { return false };
    let mut lines = text.lines();
    // Line 1 guards against the file of a predecessor; line 8 is the status.
    lines.next() == Some(pid.to_string().as_str()) && lines.nth(6).is_some_and(|status| status.trim_end() == "ready")
}

/// The socket folder of the server that is at work in `cluster`, if one is, ready for connections.
pub(crate) fn socket_of_running(cluster: &Path) -> Option<PathBuf> {
    let pid = recorded_pid(cluster)?;
    if !is_server_of(pid, cluster) || !says_ready(cluster, pid.as_raw().unsigned_abs()) {
        return None;
    }
    let text = fs::read_to_string(path(cluster)).ok()?;
    // Line 5 is the folder of its socket.
    text.lines().nth(4).map(PathBuf::from)
}

/// Clears the way for a new server in `cluster`, which the caller has locked: stops a server that outlived its
/// application, and settles a file that names a process which is none of ours.
///
/// # Errors
/// [`Error::NotStopped`] when that server is still busy shutting down.
pub(crate) fn settle(cluster: &Path, signal: Signal) -> Result<(), Error> {
    let Some(pid) = recorded_pid(cluster) else { return Ok(()) };
    if is_server_of(pid, cluster) {
        log::info!("stopping Postgres (process {pid}), which outlived its application");
        stop(pid, cluster, signal)?;
    }
    // Dead and not yet collected counts as there: Postgres sees it the same way.
    if kill(pid, None) != Err(Errno::ESRCH) {
        disclaim(cluster)?;
    }
    Ok(())
}

fn stop(pid: Pid, cluster: &Path, signal: Signal) -> Result<(), Error> {
    // An error means that it has just ended, which the loop sees too.
    let _ = kill(pid, signal);
    let deadline = Instant::now() + STOP_PATIENCE;
    while is_server_of(pid, cluster) {
        if Instant::now() >= deadline {
            return Err(Error::NotStopped { pid: pid.as_raw().unsigned_abs(), seconds: STOP_PATIENCE.as_secs() });
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The number in the file is that of a process which is no server of ours. Postgres would believe in it and refuse to
/// start. Removing the file would also remove the trace to the shared memory that tells Postgres of leftover backends;
/// so it gets the number of this process instead, which Postgres, started from here, knows to be no server.
fn disclaim(cluster: &Path) -> Result<(), Error> {
    let path = path(cluster);
    let text = match fs::read_to_string(&path) {
        // That server has just ended in an orderly way.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        outcome => outcome.map_err(Error::io("read", &path))?,
    };
    let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
    fs::write(&path, format!("{}\n{rest}", std::process::id())).map_err(Error::io("write", &path))
}

fn path(cluster: &Path) -> PathBuf {
    cluster.join("postmaster.pid")
}

fn recorded_pid(cluster: &Path) -> Option<Pid> {
    let text = fs::read_to_string(path(cluster)).ok()?;
    let pid: i32 = text.lines().next()?.trim().parse().ok()?;
    // Negative while Postgres runs in single-user mode.
    (pid != 0).then(|| Pid::from_raw(pid.abs()))
}

/// Process ids are used again, so a number alone proves nothing: the process must have the cluster as its working
/// folder, as every Postgres process has, or on its command line.
fn is_server_of(pid: Pid, cluster: &Path) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if Path::new("/proc/self").exists() {
        let command_line = fs::read(process.join("cmdline")).unwrap_or_default();
        let named = command_line.split(|&byte| byte == 0).any(|word| word == cluster.as_os_str().as_encoded_bytes());
        return named || fs::read_link(process.join("cwd")).is_ok_and(|folder| folder == cluster);
    }
    let command_line = Command::new("ps").args(["-o", "command=", "-p", &pid.to_string()]).output();
    command_line.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(&*cluster.to_string_lossy()))
}
