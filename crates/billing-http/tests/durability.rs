//! What was acknowledged is there, once, whatever happens to the process that acknowledged it.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres_local::Cluster;
use serde_json::{Value, json};
use ureq::Agent;

const KEY: &str = "durable0.0123456789abcdef0123456789abcdef";
const KILLS: u32 = 4;
const CLIENTS: u64 = 4;
const EVENTS_PER_BATCH: u64 = 20;

/// A server process that is killed when it is dropped.
pub struct Process {
    pub child: Child,
    url: String,
}

impl Process {
    pub fn start(database_url: &str, data_dir: &std::path::Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|own| own.local_addr()).expect("a free port").port();
        let child = Command::new(env!("CARGO_BIN_EXE_billing-http"))
            .env("BILLING_ADDR", format!("127.0.0.1:{port}"))
            .env("BILLING_DATA_DIR", data_dir)
            .env("BILLING_BOOTSTRAP_API_KEY", KEY)
            .env("DATABASE_URL", database_url)
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

    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("collected");
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, ureq::Error> {
        let url = format!("{}{path}", self.url);
        let mut response = match body {
            Some(body) if method == "POST" => agent().post(url).header("X-API-KEY", KEY).send_json(body)?,
            _ => agent().get(url).header("X-API-KEY", KEY).call()?,
        };
        response.body_mut().read_json()
    }

    pub fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", path, Some(body)).expect("an answer")
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

fn batch(number: u64, time: &str) -> Value {
    let event = |n: u64| json!({"customer_id": "acme", "event_name": "call", "idempotency_id": format!("{number}-{n}"), "time_created": time});
    json!({"batch": (0..EVENTS_PER_BATCH).map(event).collect::<Vec<_>>()})
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
                        Err(_) => history.unknown.push(number),
                    }
                }
            });
        }
    });
}

#[test]
fn an_acknowledged_event_survives_the_server_and_counts_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::persistent(&folder.path().join("postgres")).expect("a durable cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let url = cluster.url("billing");
    let data_dir = folder.path().join("server");

    let mut server = Process::start(&url, &data_dir);
    let metric = server.post("/api/metrics/", &json!({"event_name": "call"}))["metric_id"].clone();
    let plan = json!({"plan_name": "Pro", "plan_duration": "monthly", "initial_version": {"currency_code": "USD",
        "components": [{"metric_id": metric, "tiers": [{"type": "free", "range_start": 0}]}]}});
    let plan = server.post("/api/plans/", &plan)["plan_id"].clone();
    server.post("/api/customers/", &json!({"customer_id": "acme", "email": "a@acme.io"}));
    let now = time::OffsetDateTime::now_utc();
    let (day, instant) = (now.date().to_string(), now.format(&time::format_description::well_known::Rfc3339));
    server.post("/api/subscriptions/", &json!({"customer_id": "acme", "plan_id": plan, "start_date": day}));

    let (history, next) = (Mutex::new(History::default()), AtomicU64::new(0));
    let instant = instant.expect("an instant");
    for kill in 0..KILLS {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| stream(&server, &history, &next, &stop, &instant));
            thread::sleep(Duration::from_millis(300 + 150 * u64::from(kill)));
            let pid = server.child.id().to_string();
            assert!(Command::new("kill").args(["-9", &pid]).status().expect("kill").success());
            stop.store(true, Ordering::Relaxed);
        });
        server.kill();
        server = Process::start(&url, &data_dir);
    }
    let unknown = std::mem::take(&mut history.lock().expect("no panic").unknown);
    for number in unknown {
        assert_eq!(server.post("/api/track/", &batch(number, &instant))["success"], "all", "a retry is harmless");
        history.lock().expect("no panic").acknowledged.insert(number);
    }

    let acknowledged = &history.lock().expect("no panic").acknowledged;
    assert!(acknowledged.len() > 20, "the clients were at work: {} batches", acknowledged.len());
    for numbers in acknowledged.iter().collect::<Vec<_>>().chunks(40) {
        let ids: Vec<_> =
            numbers.iter().flat_map(|number| (0..EVENTS_PER_BATCH).map(move |n| format!("{number}-{n}"))).collect();
        let missing = server.post("/api/verify_idems_received/", &json!({"idempotency_ids": ids}));
        assert_eq!(missing["ids_not_found"], json!([]), "an acknowledged event is lost");
    }
    let path = format!("/api/metric_access/?customer_id=acme&metric_id={}", metric.as_str().expect("an id"));
    let access = server.call("GET", &path, None).expect("an answer");
    let counted = acknowledged.len() as u64 * EVENTS_PER_BATCH;
    assert_eq!(access["access_per_subscription"][0]["metric_usage"], json!(counted), "each event counts once");
    server.kill();
}
