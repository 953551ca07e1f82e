//! The promises of this crate, kept against crashes. Processes that are to be killed are this test binary once more,
//! running one of the `helper_..` tests.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, getpgid};
use tempfile::TempDir;

use crate::account::Account;
use crate::testing::{TestDatabase, database};
use crate::{Cluster, Error, default_data_dir, running_url, wire};

mod crash;
mod databases;
mod life;

const HELPER_ARGUMENT: &str = "POSTGRES_LOCAL_TEST_ARGUMENT";

fn data_dir() -> TempDir {
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o711)).tempdir().unwrap()
}

fn show(cluster: &Cluster, setting: &str) -> String {
    cluster.query(&format!("SHOW {setting}")).unwrap().remove(0)
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: not within 30 s");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Another process of this binary, in one helper; killed on drop.
struct Helper {
    process: Child,
    /// What it said when it was ready.
    answer: String,
}

impl Helper {
    fn start(name: &str, argument: &str) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", &format!("tests::{name}"), "--ignored", "--nocapture"])
            .env(HELPER_ARGUMENT, argument)
            // Settings for other servers, which must not reach ours.
            .envs([("PGDATA", "/nowhere"), ("PGPORT", "1"), ("PGOPTIONS", "--nonsense")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let answer = lines.map_while(Result::ok).find_map(|line| Some(line.split_once("ready: ")?.1.to_owned()));
        Self { process, answer: answer.expect("the helper died") }
    }

    fn pid(&self) -> u32 {
        self.process.id()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn argument() -> String {
    env::var(HELPER_ARGUMENT).expect("helpers are run by other tests")
}

/// Tells the parent, then waits to be killed.
fn say_ready(answer: &str) -> ! {
    let mut output = std::io::stdout().lock();
    writeln!(output, "ready: {answer}").unwrap();
    output.flush().unwrap();
    loop {
        thread::park();
    }
}

#[test]
#[ignore = "a process for other tests to kill"]
fn helper_persistent() {
    let cluster = Cluster::persistent(Path::new(&argument())).unwrap();
    cluster.create_database_if_absent("kept").unwrap();
    say_ready(&cluster.url("kept"));
}

#[test]
#[ignore = "a process for other tests to kill"]
fn helper_temporary() {
    let cluster = Cluster::temporary().unwrap();
    say_ready(&cluster.socket_folder().display().to_string());
}

#[test]
#[ignore = "a process for other tests to kill"]
fn helper_database() {
    let database = database(&argument(), &|_| Ok(())).unwrap();
    say_ready(&socket_of(&database).display().to_string());
}

fn socket_of(database: &TestDatabase) -> PathBuf {
    let host = database.url().split_once("?host=").unwrap().1;
    host.split_once('&').unwrap().0.into()
}

fn databases(cluster: &Cluster) -> Vec<String> {
    cluster.query("SELECT datname FROM pg_database ORDER BY 1").unwrap()
}

fn server_pid(cluster: &Path) -> Option<i32> {
    fs::read_to_string(cluster.join("postmaster.pid")).ok()?.lines().next()?.parse().ok()
}

fn is_alive(pid: i32) -> bool {
    // What is dead and not yet collected has no command line any more.
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}
