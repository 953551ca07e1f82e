//! What was acknowledged is there, once, whatever happens to the processes that acknowledged it.
//!
//! `DURABILITY_KILLS` says how often the server is killed; for every four times so are all processes of Postgres, and a
//! single one of its connections, which makes Postgres throw away all others and recover.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use billing_audit::audit_database;
use diesel::{Connection, PgConnection, RunQueryDsl, sql_query};
use postgres_local::Cluster;
use serde_json::{Value, json};
use ureq::Agent;

/// The key of its organization.
pub const KEY: &str = "durable0.0123456789abcdef0123456789abcdef";
const CLIENTS: u64 = 4;
/// Events of most batches, and of every fourth: so many are divided among writers.
const EVENTS: [u64; 2] = [20, 200];
/// Most ids that are asked about in one call.
const IDS_MAX: usize = 1_000;

/// A server process that is killed when it is dropped.
pub struct Process {
    pub child: Child,
    url: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        // A failed test drops it too: what is wrong here must not hide what was wrong there.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Process {
    pub fn start(database_url: &str, data_dir: &Path) -> Self {
        Self::start_with(database_url, data_dir, &[])
    }

    /// With variables of its own.
    pub fn start_with(database_url: &str, data_dir: &Path, variables: &[(&str, &str)]) -> Self {
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port();
        let child = Command::new(env!("CARGO_BIN_EXE_billing-http"))
            .env("BILLING_ADDR", format!("127.0.0.1:{port}"))
            .env("BILLING_DATA_DIR", data_dir)
            .env("BILLING_BOOTSTRAP_API_KEY", KEY)
            .env("DATABASE_URL", database_url)
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .spawn()
            .expect("the server starts");
        let process = Self { child, url: format!("http://127.0.0.1:{port}") };
        let deadline = Instant::now() + Duration::from_secs(60);
        while agent().get(format!("{}/readyz", process.url)).call().is_err() {
            assert!(Instant::now() < deadline, "the server is not ready");
            thread::sleep(Duration::from_millis(20));
        }
        process
    }

    /// Where it listens.
    pub fn addr(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// A figure out of what the system tells of its memory, in MiB.
    pub fn memory_mib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.split_whitespace().next()).expect("a figure");
        kib.parse::<u64>().expect("a number") / 1024
    }

    /// Kills it and waits until it is gone, as dropping it does.
    pub fn kill(self) {
        drop(self);
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, ureq::Error> {
        let url = format!("{}{path}", self.url);
        let mut response = match body {
            Some(body) if method == "POST" => agent().post(url).header("X-API-KEY", KEY).send_json(body)?,
            Some(body) if method == "PATCH" => agent().patch(url).header("X-API-KEY", KEY).send_json(body)?,
            _ => agent().get(url).header("X-API-KEY", KEY).call()?,
        };
        response.body_mut().read_json()
    }

    pub fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", path, Some(body)).expect("an answer")
    }

    pub fn patch(&self, path: &str, body: &Value) -> Value {
        self.call("PATCH", path, Some(body)).expect("an answer")
    }

    pub fn get(&self, path: &str) -> Value {
        self.call("GET", path, None).expect("an answer")
    }
}

fn agent() -> Agent {
    Agent::config_builder().timeout_global(Some(Duration::from_secs(20))).build().into()
}

/// What the clients know: batches that were acknowledged, and batches of which nobody knows.
#[derive(Default)]
struct History {
    acknowledged: BTreeSet<u64>,
    unknown: Vec<u64>,
}

fn ids(number: u64) -> impl Iterator<Item = String> {
    (0..EVENTS[usize::from(number.is_multiple_of(4))]).map(move |n| format!("{number}-{n}"))
}

fn batch(number: u64, time: &str) -> Value {
    let event = |id| json!({"customer_id": "acme", "event_name": "call", "idempotency_id": id, "time_created": time});
    json!({"batch": ids(number).map(event).collect::<Vec<_>>()})
}

/// Sends new batches from several clients until the server dies; what was left unknown before is sent again first.
fn stream(server: &Process, history: &Mutex<History>, next: &AtomicU64, stop: &AtomicBool, time: &str) {
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let again = history.lock().expect("no panic").unknown.pop();
                    let number = again.unwrap_or_else(|| next.fetch_add(1, Ordering::Relaxed));
                    let answer = server.call("POST", "/api/track/", Some(&batch(number, time)));
                    let mut history = history.lock().expect("no panic");
                    match answer {
                        Ok(answer) => {
                            assert_eq!(answer["success"], "all");
                            history.acknowledged.insert(number);
                        }
                        Err(error) => {
                            assert!(
                                !matches!(error, ureq::Error::StatusCode(500)),
                                "an outage is no fault of the service's"
                            );
                            history.unknown.push(number);
                        }
                    }
                }
            });
        }
    });
}

/// Makes a metric, and a customer with a subscription that meters it; the metric, and the present instant.
fn open_for_business(server: &Process) -> (String, String) {
    let metric = server.post("/api/metrics/", &json!({"event_name": "call"}))["metric_id"].clone();
    let plan = json!({"plan_name": "Pro", "plan_duration": "monthly", "initial_version": {"currency_code": "USD",
        "components": [{"metric_id": metric, "tiers": [{"type": "free", "range_start": 0}]}]}});
    let plan = server.post("/api/plans/", &plan)["plan_id"].clone();
    server.post("/api/customers/", &json!({"customer_id": "acme", "email": "a@acme.io"}));
    let now = time::OffsetDateTime::now_utc();
    let (day, instant) = (now.date().to_string(), now.format(&time::format_description::well_known::Rfc3339));
    server.post("/api/subscriptions/", &json!({"customer_id": "acme", "plan_id": plan, "start_date": day}));
    (metric.as_str().expect("an id").to_owned(), instant.expect("an instant"))
}

/// What the customer has used of the metric.
fn usage(server: &Process, metric: &str) -> Value {
    let path = format!("/api/metric_access/?customer_id=acme&metric_id={metric}");
    let access = server.call("GET", &path, None).expect("an answer");
    access["access_per_subscription"][0]["metric_usage"].clone()
}

/// How often the server is killed.
fn kills() -> u64 {
    std::env::var("DURABILITY_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

/// Who is killed while events stream in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Server,
    Connection,
    Postgres,
}

/// Kills the first of them, and at once those others that are still there: a worker of Postgres's may have ended by itself.
pub fn kill(pids: &[String]) {
    let kill_all =
        |pids: &[String]| Command::new("kill").arg("-9").args(pids).stderr(Stdio::null()).status().expect("kill");
    let (first, others) = pids.split_at(1);
    assert!(kill_all(first).success(), "nobody was there to be killed: {first:?}");
    if !others.is_empty() {
        kill_all(others);
    }
}

/// The first process of the cluster in `folder`, and all others.
pub fn postgres_processes(folder: &Path) -> (String, Vec<String>) {
    let is_running = |path: &std::path::PathBuf| path.join("postmaster.pid").exists();
    let data = std::fs::read_dir(folder).expect("a folder").filter_map(|entry| Some(entry.ok()?.path()));
    let data = data.into_iter().find(is_running).expect("a cluster at work");
    let text = std::fs::read_to_string(data.join("postmaster.pid")).expect("a pid file");
    let first = text.lines().next().expect("a pid").trim().to_owned();
    let children = Command::new("ps").args(["-o", "pid=", "--ppid", &first]).output().expect("ps").stdout;
    let children = String::from_utf8(children).expect("text").split_whitespace().map(str::to_owned).collect();
    (first, children)
}

/// One connection of the server's that takes events in.
fn a_connection(url: &str) -> String {
    #[derive(diesel::QueryableByName)]
    struct Pid {
        #[diesel(sql_type = diesel::sql_types::Integer)]
        pid: i32,
    }
    let mut pg = PgConnection::establish(url).expect("a connection");
    // The last statement of a connection that is done says what it was for.
    let query = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()
        ORDER BY state_change DESC LIMIT 1";
    sql_query(query).get_result::<Pid>(&mut pg).expect("somebody is connected").pid.to_string()
}

#[test]
fn an_acknowledged_event_survives_and_counts_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let postgres = folder.path().join("postgres");
    let mut cluster = Cluster::persistent(&postgres).expect("a durable cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let mut url = cluster.url("billing");
    let data_dir = folder.path().join("server");

    let mut server = Process::start(&url, &data_dir);
    let (metric, instant) = open_for_business(&server);
    let (history, next) = (Mutex::new(History::default()), AtomicU64::new(0));
    let victims = (0..kills()).flat_map(|n| match n % 4 {
        1 => vec![Victim::Server, Victim::Connection],
        3 => vec![Victim::Server, Victim::Postgres],
        _ => vec![Victim::Server],
    });
    for (round, victim) in victims.enumerate() {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| stream(&server, &history, &next, &stop, &instant));
            thread::sleep(Duration::from_millis(300 + 150 * (round as u64 % 4)));
            match victim {
                Victim::Server => kill(&[server.child.id().to_string()]),
                Victim::Connection => {
                    kill(&[a_connection(&url)]);
                    // The server is to go on by itself.
                    let before = history.lock().expect("no panic").acknowledged.len();
                    let deadline = Instant::now() + Duration::from_secs(60);
                    while history.lock().expect("no panic").acknowledged.len() < before + 20 {
                        assert!(Instant::now() < deadline, "nothing is taken in any more");
                        thread::sleep(Duration::from_millis(20));
                    }
                }
                Victim::Postgres => {
                    let (first, mut all) = postgres_processes(&postgres);
                    all.insert(0, first);
                    kill(&all);
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        if victim == Victim::Postgres {
            drop(cluster);
            cluster = Cluster::persistent(&postgres).expect("it recovers");
            url = cluster.url("billing");
        }
        if victim != Victim::Connection {
            server.kill();
            server = Process::start(&url, &data_dir);
        }
    }
    let unknown = std::mem::take(&mut history.lock().expect("no panic").unknown);
    for number in unknown {
        assert_eq!(server.post("/api/track/", &batch(number, &instant))["success"], "all", "a retry is harmless");
        history.lock().expect("no panic").acknowledged.insert(number);
    }

    let acknowledged = &history.lock().expect("no panic").acknowledged;
    assert!(acknowledged.len() > 20, "the clients were at work: {} batches", acknowledged.len());
    let ids: Vec<String> = acknowledged.iter().flat_map(|number| ids(*number)).collect();
    for ids in ids.chunks(IDS_MAX) {
        let missing = server.post("/api/verify_idems_received/", &json!({"idempotency_ids": ids}));
        assert_eq!(missing["ids_not_found"], json!([]), "an acknowledged event is lost");
    }
    assert_eq!(usage(&server, &metric), json!(ids.len()), "each event counts once");
    let report = audit_database(&url, &mut |_| ()).expect("an audit");
    assert!(report.is_clean(), "{report}");
    server.kill();
}

#[test]
fn two_servers_take_the_same_events_in_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::persistent(&folder.path().join("postgres")).expect("a durable cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let (url, data_dir) = (cluster.url("billing"), folder.path().join("server"));
    let servers = [Process::start(&url, &data_dir), Process::start(&url, &data_dir)];
    let (metric, instant) = open_for_business(&servers[0]);
    thread::scope(|scope| {
        for server in &servers {
            for client in 0..CLIENTS {
                let instant = &instant;
                scope.spawn(move || {
                    // Every client of both begins somewhere else in the same batches.
                    for n in 0..40 {
                        let number = (n + client * 10) % 40;
                        assert_eq!(server.post("/api/track/", &batch(number, instant))["success"], "all");
                    }
                });
            }
        }
    });
    let sent: usize = (0..40).map(|number| ids(number).count()).sum();
    for server in &servers {
        assert_eq!(usage(server, &metric), json!(sent), "whichever is asked");
    }
    let report = audit_database(&url, &mut |_| ()).expect("an audit");
    assert!(report.is_clean(), "{report}");
}
