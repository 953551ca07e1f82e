//! The promises of this crate, kept against crashes. Processes that are to be killed are this test binary once more, running
//! one of the `helper_..` tests.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use tempfile::TempDir;

use crate::account::Account;
use crate::testing::{TestDatabase, database};
use crate::{Cluster, Error, wire};

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

#[test]
fn data_is_kept_from_start_to_start() {
    let folder = data_dir();
    let cluster = Cluster::persistent(folder.path()).unwrap();
    cluster.create_database_if_absent("kept").unwrap();
    cluster.create_database_if_absent("kept").unwrap();
    wire::query(cluster.socket_folder(), "kept", "CREATE TABLE t AS SELECT 7 AS a").unwrap();
    cluster.stop().unwrap();
    assert!(!folder.path().join("cluster/postmaster.pid").exists(), "stopped in an orderly way");

    let cluster = Cluster::persistent(folder.path()).unwrap();
    assert_eq!(wire::query(cluster.socket_folder(), "kept", "SELECT a FROM t").unwrap(), ["7"]);
}

#[test]
fn a_persistent_cluster_is_durable_and_private() {
    let folder = data_dir();
    let cluster = Cluster::persistent(folder.path()).unwrap();
    #[rustfmt::skip]
    let cases = [
        // setting,            value,   why
        ("fsync",              "on",    "a commit survives a power cut"),
        ("synchronous_commit", "on",    "the client hears of a commit only when it is safe"),
        ("full_page_writes",   "on",    "a page torn by a power cut is repaired"),
        ("data_checksums",     "on",    "a rotten page is noticed"),
        ("wal_compression",    "pglz",  "less to write after a checkpoint"),
        ("checkpoint_timeout", "30min", "few checkpoints"),
        ("max_wal_size",       "4GB",   "few checkpoints"),
        ("listen_addresses",   "",      "nothing listens on TCP"),
        ("server_encoding",    "UTF8",  "any text"),
        ("lc_collate",         "C",     "an order that no system update changes"),
    ];
    for (setting, value, why) in cases {
        assert_eq!(show(&cluster, setting), value, "{setting}: {why}");
    }
    let mode = fs::metadata(cluster.socket_folder()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700, "only the server's account and root may connect");
}

#[test]
fn a_temporary_cluster_is_gone_after_use() {
    let cluster = Cluster::temporary().unwrap();
    let folder = cluster.socket_folder().to_owned();
    assert_eq!(show(&cluster, "fsync"), "off");
    assert_eq!(show(&cluster, "autovacuum"), "off");
    assert_eq!(show(&cluster, "wal_level"), "minimal");
    drop(cluster);
    assert!(!folder.exists());
}

#[test]
fn a_killed_application_takes_its_server_along() {
    let folder = data_dir();
    let mut helper = Helper::start("helper_persistent", folder.path().to_str().unwrap());
    let cluster = folder.path().join("cluster");
    let server = server_pid(&cluster).unwrap();
    helper.kill();
    eventually("the server stops", || !is_alive(server));
    eventually("in an orderly way", || !cluster.join("postmaster.pid").exists());

    let mut helper = Helper::start("helper_temporary", "");
    assert!(Path::new(&helper.answer).exists());
    helper.kill();
    eventually("the temporary cluster goes", || !Path::new(&helper.answer).exists());

    // A static is never dropped, so the shared cluster of tests ends in this way always.
    let mut helper = Helper::start("helper_database", "killed");
    helper.kill();
    eventually("the shared cluster goes", || !Path::new(&helper.answer).exists());
}

#[test]
fn a_new_application_waits_for_the_server_of_a_killed_one() {
    let folder = data_dir();
    for _ in 0..3 {
        Helper::start("helper_persistent", folder.path().to_str().unwrap()).kill();
        let cluster = Cluster::persistent(folder.path()).unwrap();
        assert!(databases(&cluster).contains(&"kept".to_owned()));
    }
}

#[test]
fn one_application_at_a_time() {
    let folder = data_dir();
    let helper = Helper::start("helper_persistent", folder.path().to_str().unwrap());
    let error = Cluster::persistent(folder.path()).unwrap_err();
    assert!(matches!(&error, Error::InUse { pid, .. } if *pid == helper.pid().to_string()), "{error}");
    drop(helper);
    Cluster::persistent(folder.path()).unwrap();
}

#[test]
fn two_first_starts_at_once_make_one_cluster() {
    let folder = data_dir();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let starts: Vec<_> = (0..2).map(|_| scope.spawn(|| Cluster::persistent(folder.path())?.stop())).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    assert!(outcomes.iter().any(Result::is_ok), "{outcomes:?}");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(()) | Err(Error::InUse { .. }))), "{outcomes:?}");
}

/// Kills the helper's server and the server's companion as well; Linux tells which processes these are.
#[cfg(target_os = "linux")]
#[test]
fn an_orphan_or_killed_server_is_no_obstacle() {
    let folder = data_dir();
    let cluster = folder.path().join("cluster");
    for signal_to_server in [None, Some(Signal::SIGKILL)] {
        let mut helper = Helper::start("helper_persistent", folder.path().to_str().unwrap());
        let server = server_pid(&cluster).unwrap();
        for companion in companions_of(&cluster, server) {
            kill(Pid::from_raw(companion), Signal::SIGKILL).unwrap();
        }
        if let Some(signal) = signal_to_server {
            kill(Pid::from_raw(server), signal).unwrap();
        }
        helper.kill();
        assert!(signal_to_server.is_some() || is_alive(server), "an orphan");
        let restarted = Cluster::persistent(folder.path()).unwrap();
        assert!(databases(&restarted).contains(&"kept".to_owned()));
        assert!(!is_alive(server));
    }
}

#[cfg(target_os = "linux")]
fn companions_of(cluster: &Path, server: i32) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found: Vec<i32> = pids
        .filter(|&pid| pid != server)
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.starts_with(b"/bin/sh\0")
                && line.split(|&byte| byte == 0).any(|word| word == cluster.as_os_str().as_encoded_bytes())
        })
        .collect();
    assert_eq!(found.len(), 1, "a server has one companion");
    found
}

#[test]
fn a_busy_backend_of_a_killed_server_is_waited_for() {
    let folder = data_dir();
    let cluster = Cluster::persistent(folder.path()).unwrap();
    let socket = cluster.socket_folder().to_owned();
    // Two seconds of work that looks at nothing else.
    let busy = thread::spawn(move || {
        wire::query(&socket, "postgres", "SELECT count(*) FROM generate_series(1, 4000000) a WHERE a % 7 = 1")
    });
    eventually("the work begins", || {
        cluster
            .query("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%generate_series(1%' AND state = 'active'")
            .unwrap()
            == ["2"]
    });
    kill(Pid::from_raw(server_pid(&folder.path().join("cluster")).unwrap()), Signal::SIGKILL).unwrap();
    drop(cluster);
    let cluster = Cluster::persistent(folder.path()).unwrap();
    assert_eq!(show(&cluster, "fsync"), "on");
    let _ = busy.join().unwrap();
}

#[test]
fn a_stale_pid_file_is_no_obstacle() {
    let folder = data_dir();
    Cluster::persistent(folder.path()).unwrap().stop().unwrap();
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let account = Account::for_server().unwrap();
    let mut stranger = account.command("sleep").arg("600").spawn().unwrap();
    for (pid, why) in [(ended.id(), "nobody has the number"), (stranger.id(), "a stranger has the number now")] {
        let pid_file = folder.path().join("cluster/postmaster.pid");
        let text = format!("{pid}\n{}\n1\n5432\n\n\n 0 0\nready\n", folder.path().join("cluster").display());
        fs::write(&pid_file, text).unwrap();
        account.give(&pid_file).unwrap();
        Cluster::persistent(folder.path()).unwrap_or_else(|error| panic!("{why}: {error}"));
    }
    assert!(stranger.try_wait().unwrap().is_none(), "strangers are left alone");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_half_made_cluster_is_made_anew() {
    let folder = data_dir();
    let unfinished = folder.path().join("cluster.new-1");
    fs::create_dir_all(unfinished.join("base")).unwrap();
    fs::write(unfinished.join("PG_VERSION"), "15\n").unwrap();
    Cluster::persistent(folder.path()).unwrap();
    assert!(!unfinished.exists());
}

#[test]
fn other_files_are_not_taken_for_a_cluster() {
    let folder = data_dir();
    let cluster = folder.path().join("cluster");
    fs::create_dir(&cluster).unwrap();
    fs::write(cluster.join("letter"), "dear").unwrap();
    let error = Cluster::persistent(folder.path()).unwrap_err();
    assert!(matches!(error, Error::NotACluster { .. }), "{error}");
    assert!(cluster.join("letter").exists());

    fs::write(cluster.join("PG_VERSION"), "9\n").unwrap();
    let error = Cluster::persistent(folder.path()).unwrap_err();
    assert!(error.to_string().contains("version 9, which made this data folder"), "{error}");
}

#[test]
fn a_deep_folder_with_odd_characters_will_do() {
    let folder = data_dir();
    let deep = folder.path().join(format!("a b, \"c\" {}", "d".repeat(100)));
    let cluster = Cluster::persistent(&deep).unwrap();
    assert!(!cluster.socket_folder().starts_with(&deep), "too long for a socket");
    cluster.create_database_if_absent("it's \"odd\"").unwrap();
    assert!(databases(&cluster).contains(&"it's \"odd\"".to_owned()));
    assert!(cluster.url("it's").starts_with("postgresql:///it%27s?host=/"));

    let odd = folder.path().join("e, \"f\" g");
    let cluster = Cluster::persistent(&odd).unwrap();
    assert!(cluster.socket_folder().starts_with(&odd));
    assert!(cluster.url("x").contains("/e%2C%20%22f%22%20g/socket&"), "{}", cluster.url("x"));
}

#[test]
fn what_the_dead_left_is_swept() {
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let account = Account::for_server().unwrap();
    let parent = Cluster::temporary().unwrap().socket_folder().parent().unwrap().to_owned();
    let left = parent.join(format!("postgres-local-{}-0", ended.id()));
    account.create_folder(&left).unwrap();
    fs::write(left.join("file"), "").unwrap();
    Cluster::temporary().unwrap();
    assert!(!left.exists());
}

#[test]
fn every_test_has_a_database_of_its_own() {
    let runs = AtomicU32::new(0);
    let prepare = |url: &str| {
        runs.fetch_add(1, Ordering::Relaxed);
        let (name, _) = url.strip_prefix("postgresql:///").unwrap().split_once('?').unwrap();
        let socket = url.split_once("?host=").unwrap().1.split_once('&').unwrap().0;
        wire::query(Path::new(socket), name, "CREATE TABLE t AS SELECT 1 AS a")
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let key = format!("{:?} {}", Instant::now(), std::process::id());
    thread::scope(|scope| {
        for number in 0..8 {
            let (prepare, key) = (&prepare, &key);
            scope.spawn(move || {
                let database = database(key, prepare).unwrap();
                let name = database.url().strip_prefix("postgresql:///").unwrap().split_once('?').unwrap().0.to_owned();
                let query = |statement: &str| wire::query(&socket_of(&database), &name, statement).unwrap();
                query(&format!("INSERT INTO t VALUES ({number} + 10)"));
                assert_eq!(query("SELECT a FROM t ORDER BY a"), ["1".to_owned(), (number + 10).to_string()]);
            });
        }
    });
    assert_eq!(runs.into_inner(), 1, "prepared once");
}

#[test]
fn test_processes_side_by_side_share_an_image_but_no_cluster() {
    let key = format!("{:?} {}", Instant::now(), std::process::id());
    let helpers: Vec<Helper> = thread::scope(|scope| {
        let starts: Vec<_> = (0..3).map(|_| scope.spawn(|| Helper::start("helper_database", &key))).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let folders: std::collections::BTreeSet<_> = helpers.iter().map(|helper| helper.answer.clone()).collect();
    assert_eq!(folders.len(), helpers.len());
}

/// Runs all of this again as an ordinary user, when that is possible: as root.
#[test]
fn an_ordinary_user_needs_no_privileges() {
    const NOBODY: u32 = 65_534;
    const AGAIN: &str = "POSTGRES_LOCAL_TEST_AGAIN";
    if !Uid::effective().is_root() || env::var_os(AGAIN).is_some() {
        return;
    }
    // The build's folder may be closed to others.
    let folder = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let binary = folder.path().join("tests");
    fs::copy(env::current_exe().unwrap(), &binary).unwrap();
    let temporary = folder.path().join("t");
    fs::create_dir(&temporary).unwrap();
    chown(&temporary, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut again = Command::new(&binary);
    again.env(AGAIN, "1").env("TMPDIR", &temporary).current_dir("/").uid(NOBODY).gid(NOBODY);
    let output = again.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_missing_server_is_told_with_the_command_that_installs_it() {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "tests::helper_temporary", "--ignored"])
        .env(HELPER_ARGUMENT, "")
        .env("PG_BINDIR", "/nowhere")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && said.contains("/nowhere") && said.contains("install"), "{said}");
}
