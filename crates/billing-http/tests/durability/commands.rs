//! The program itself, on a private Postgres of its own: commands beside a running service, backup and restore.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use billing_store::PgStore;
use billing_store::testing::{TestStore, empty_database};
use serde_json::{Value, json};
use tempfile::TempDir;
use ureq::Agent;

const PROGRAM: &str = env!("CARGO_BIN_EXE_billing-http");
pub(super) const KEY: &str = "commands.0123456789abcdef0123456789abcdef";
const OPERATING: &str = include_str!("../../../../docs/operating.md");

/// A service in a process of its own; stopped when dropped.
pub(super) struct Service {
    child: Child,
    pub(super) url: String,
}

impl Service {
    pub(super) fn start(data_dir: &Path, database_url: Option<&str>) -> Self {
        let mut command = program(data_dir);
        if let Some(url) = database_url {
            command.env("DATABASE_URL", url);
        }
        Self::run(command, Stdio::inherit())
    }

    /// By a command with settings of its own.
    pub(super) fn run(mut command: Command, log: Stdio) -> Self {
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port();
        command.env("BILLING_ADDR", format!("127.0.0.1:{port}")).env("BILLING_BOOTSTRAP_API_KEY", KEY);
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("the service starts");
        let service = Self { child, url: format!("http://127.0.0.1:{port}") };
        let deadline = Instant::now() + Duration::from_secs(90);
        while service.get("/readyz", "").is_err() {
            assert!(Instant::now() < deadline, "the service is not ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        service
    }

    fn get(&self, path: &str, key: &str) -> Result<Value, ureq::Error> {
        let agent: Agent = Agent::config_builder().timeout_global(Some(Duration::from_secs(20))).build().into();
        agent.get(format!("{}{path}", self.url)).header("X-API-KEY", key).call()?.body_mut().read_json()
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Value {
        let agent: Agent = Agent::config_builder().timeout_global(Some(Duration::from_secs(20))).build().into();
        let answer = agent.post(format!("{}{path}", self.url)).header("X-API-KEY", KEY).send_json(body);
        answer.expect("an answer").body_mut().read_json().expect("json")
    }
}

impl Service {
    /// Tells it to stop, and waits until it has.
    pub(super) fn stop(&mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        drop(Command::new("kill").args(["-TERM", &pid]).status());
        self.child.wait().expect("a child").code()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.stop();
        }
    }
}

pub(super) fn program(data_dir: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.env("BILLING_DATA_DIR", data_dir).env_remove("DATABASE_URL").env("RUST_LOG", "warn");
    command
}

/// A folder that the account of a private Postgres can pass through.
pub(super) fn data_dir() -> TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o711)).tempdir().expect("a folder")
}

pub(super) fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text").trim().to_owned()
}

/// The first shell block below a heading of docs/operating.md.
fn steps(heading: &str) -> &'static str {
    let section = OPERATING.split(&format!("## {heading}\n")).nth(1).expect(heading);
    section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block")
}

/// What is there to compare: invoices with their reasons, usage and customers.
fn everything(service: &Service, metric: &str) -> Vec<Value> {
    let get = |path: &str| service.get(path, KEY).expect("an answer");
    let invoices = get("/api/invoices/");
    let explained = invoices
        .as_array()
        .expect("a list")
        .iter()
        .map(|invoice| get(&format!("/api/invoices/{}/explain/", invoice["invoice_id"].as_str().expect("an id"))));
    let mut all: Vec<Value> = explained.collect();
    assert!(!all.is_empty(), "there is something to compare");
    for path in ["/api/customers/", "/api/plans/", "/api/events/?customer_id=acme"] {
        all.push(get(path));
    }
    all.push(get(&format!("/api/metric_access/?customer_id=acme&metric_id={metric}")));
    all.push(invoices);
    all
}

#[test]
fn commands_work_beside_a_running_service_and_a_backup_restores_it() {
    let (folder, work) = (data_dir(), tempfile::tempdir().expect("a folder"));
    let run = |arguments: &[&str]| program(folder.path()).args(arguments).output().expect("it runs");
    assert!(!run(&["database-url"]).status.success(), "nothing runs yet");
    let service = Service::start(folder.path(), None);

    let made = text(&run(&["create-key", "second"]));
    let key = made.rsplit(' ').next().expect("a key");
    assert!(service.get("/api/ping/", key).is_ok(), "{made}");

    let metric = service.post("/api/metrics/", &json!({"event_name": "api_call"}))["metric_id"].clone();
    let metric = metric.as_str().expect("an id");
    let plan = json!({"plan_name": "Pro", "plan_duration": "monthly", "initial_version": {"currency_code": "USD",
        "recurring_charges": [{"name": "fee", "amount": "9.99", "charge_timing": "in_advance"}],
        "components": [{"metric_id": metric, "tiers": [{"type": "free", "range_start": 0, "range_end": 5}]}]}});
    let plan = service.post("/api/plans/", &plan)["plan_id"].clone();
    service.post("/api/customers/", &json!({"customer_id": "acme", "email": "a@acme.io"}));
    let start = time::OffsetDateTime::now_utc();
    let day = (start - time::Duration::days(3)).date().to_string();
    service.post("/api/subscriptions/", &json!({"customer_id": "acme", "plan_id": plan, "start_date": day}));
    let event =
        |id: &str| json!({"customer_id": "acme", "event_name": "api_call", "idempotency_id": id, "time_created": day});
    let file = work.path().join("events.jsonl");
    std::fs::write(&file, format!("{}\n{}\nnonsense\n", event("1"), event("2"))).expect("written");
    let imported = run(&["import-events", file.to_str().expect("a path")]);
    assert!(!imported.status.success() && work.path().join("events.jsonl.refused").exists(), "{imported:?}");
    assert!(String::from_utf8_lossy(&imported.stdout).contains("2 events stored"), "{imported:?}");

    let old = |i: u32| {
        json!({"customer_id": "acme", "event_name": "old", "idempotency_id": format!("o{i}"),
        "time_created": "2019-05-01T10:00:00Z"})
    };
    std::fs::write(&file, (0..3_000).map(|i| format!("{}\n", old(i))).collect::<String>()).expect("written");
    assert!(text(&run(&["import-events", file.to_str().expect("a path")])).contains("3000 events stored"));
    let gathered = "SELECT last_analyze IS NOT NULL FROM pg_stat_all_tables WHERE relname = 'events_2019_05'";
    let psql = Command::new("psql").args(["-Atc", gathered, &text(&run(&["database-url"]))]).output().expect("psql");
    assert_eq!(text(&psql), "t", "what was imported is planned by what it is");

    assert!(text(&run(&["bill-run"])).contains("customers billed"));
    let audited = run(&["audit"]);
    assert!(audited.status.success(), "{audited:?}");

    let source = text(&run(&["database-url"]));
    let target = source.replace("///billing?", "///restored?");
    let shell = |script: &str| {
        let folders = format!("{}:{}", Path::new(PROGRAM).parent().expect("a folder").display(), env!("PATH"));
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", script]).current_dir(work.path()).env("PATH", folders);
        bash.env("BILLING_DATA_DIR", folder.path()).env("SOURCE", &source).env("TARGET", &target);
        text(&bash.env_remove("DATABASE_URL").output().expect("bash"))
    };
    let before = everything(&service, metric);
    shell(steps("Backup"));
    shell("psql --quiet --command='CREATE DATABASE restored' \"$SOURCE\"");
    assert!(shell(steps("Restore")).contains("Up to date"), "the dump has the whole schema");
    let mut restored = Service::start(folder.path(), Some(&target));
    assert_eq!(everything(&restored, metric), before, "with the same key, and the same to the last digit");
    restored.post("/api/track/", &json!([event("2"), event("3")]));
    let access = restored.get(&format!("/api/metric_access/?customer_id=acme&metric_id={metric}"), KEY);
    assert_eq!(access.expect("an answer")["access_per_subscription"][0]["metric_usage"], 3, "nothing counts twice");
    assert_eq!(restored.stop(), Some(0), "an orderly end");

    let unnamed = text(&run(&["create-key"]));
    assert!(service.get("/api/ping/", unnamed.rsplit(' ').next().expect("a key")).is_ok(), "{unnamed}");
    let made = text(&run(&["create-organization"]));
    assert!(service.get("/api/ping/", made.rsplit(' ').next().expect("a key")).is_ok(), "{made}");
}

#[test]
fn nobody_without_a_key_writes_into_the_log() {
    let (folder, log) = (data_dir(), tempfile::NamedTempFile::new().expect("a file"));
    let mut command = program(folder.path());
    // As the program logs when nobody says how.
    command.env_remove("RUST_LOG");
    let mut service = Service::run(command, log.reopen().expect("a file").into());
    let addr = service.url.trim_start_matches("http://");
    let large = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Large: {}\r\n\r\n", "a".repeat(200_000));
    let heads = ["nonsense\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", &large];
    for (head, status) in heads.into_iter().zip(["400", "400", "431"]) {
        let mut stream = TcpStream::connect(addr).expect("a connection");
        // What is too large may be refused before it is sent.
        drop(stream.write_all(head.as_bytes()));
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"));
    }
    let agent: Agent = Agent::config_builder().build().into();
    let counted = || {
        let page = agent.get(format!("{}/metrics", service.url)).call().expect("an answer").body_mut().read_to_string();
        page.expect("text").contains("\nbilling_http_unreadable_requests_total 3\n")
    };
    // The answer goes out before the connection is given up.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !counted() {
        assert!(Instant::now() < deadline, "they are counted");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(service.stop(), Some(0), "an orderly end");
    let said = std::fs::read_to_string(log.path()).expect("a log");
    assert!(!said.contains("stream error") && !said.contains("dispatcher"), "{said}");
    assert!(
        said.contains("applied migration") && !said.contains("actix_server"),
        "the start ends with key and addresses: {said}"
    );
}

#[test]
fn secrets_come_from_files_and_variables_and_never_from_flags() {
    let (folder, database) = (data_dir(), TestStore::new());
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("{text}\n")).expect("written");
        path.to_str().expect("a path").to_owned()
    };
    let (url, other) = (file("url", database.url()), file("other", "postgresql://127.0.0.1:1/billing"));
    let (empty, absent) = (file("empty", ""), folder.path().join("absent").display().to_string());
    let with_password = "postgresql://billing:canary@127.0.0.1:1/billing";
    #[rustfmt::skip]
    let cases: [(&[&str], &[(&str, &str)], i32, &str); 11] = [
        // flags,                            variables,                                                    status, what is said
        (&["--database-url", database.url()],  &[],                                                          0, "0 breaches"),
        (&["--database-url-file", &url],       &[],                                                          0, "0 breaches"),
        (&[],                                  &[("DATABASE_URL", database.url())],                          0, "0 breaches"),
        (&[],                                  &[("DATABASE_URL_FILE", &url)],                               0, "0 breaches"),
        (&["--database-url", database.url()],  &[("DATABASE_URL_FILE", &other), ("DATABASE_URL", "x")],      0, "0 breaches"),
        (&["--database-url-file", &url],       &[("DATABASE_URL", with_password)],                           0, "0 breaches"),
        (&["--database-url", with_password],   &[],                                                          1, "change the password"),
        (&["--database-url-file", &empty],     &[],                                                          1, "nothing in it"),
        (&[],                                  &[("DATABASE_URL_FILE", &absent)],                            1, "cannot read"),
        (&["--key-pepper", "canary"],          &[],                                                          2, "--key-pepper-file"),
        (&["--bootstrap-api-key", "canary"],   &[],                                                          2, "--bootstrap-api-key-file"),
    ];
    for (flags, variables, status, said) in cases {
        let mut command = program(folder.path());
        command.arg("audit").args(flags).envs(variables.iter().copied());
        let output = command.output().expect("it runs");
        let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{flags:?} {variables:?}: {told}");
        assert!(told.contains(said) && !told.contains("canary"), "{flags:?} {variables:?}: {told}");
    }
}

#[test]
fn an_audit_makes_no_database() {
    let folder = data_dir();
    let (absent, unmigrated) = (folder.path().join("absent"), empty_database());
    #[rustfmt::skip]
    let cases = [
        // data folder,           DATABASE_URL,                                    why
        (absent.as_path(),        None,                                            "a folder that is not there"),
        (folder.path(),           None,                                            "a folder with nothing in it"),
        (folder.path(),           Some("postgresql://127.0.0.1:1/billing"),        "nobody listens there"),
        (folder.path(),           Some(unmigrated.url()),                          "nothing in it is the service's"),
    ];
    for (data_dir, url, why) in cases {
        let mut command = program(data_dir);
        if let Some(url) = url {
            command.env("DATABASE_URL", url);
        }
        let audited = command.arg("audit").output().expect("it runs");
        let told = String::from_utf8_lossy(&audited.stderr);
        assert!(audited.status.code() == Some(1) && audited.stdout.is_empty(), "{why}: {audited:?}");
        assert!(told.contains("no database here"), "{why}: {told}");
    }
    for command in ["list-organizations", "bill-run"] {
        let asked =
            program(folder.path()).arg(command).env("DATABASE_URL", unmigrated.url()).output().expect("it runs");
        let told = String::from_utf8_lossy(&asked.stderr);
        assert!(!asked.status.success() && told.contains("no database here"), "{command}: {told}");
        assert_eq!(
            PgStore::is_made(unmigrated.url()),
            Ok(false),
            "{command} makes nothing in a database that was mistyped"
        );
    }
    let mut begun = program(folder.path());
    begun.args(["create-organization", "Acme"]).env("DATABASE_URL", unmigrated.url());
    let told = begun.output().expect("it runs").stderr;
    // Throw-away clusters do not sync: it gets so far.
    assert!(String::from_utf8_lossy(&told).contains("fsync is off"), "an installation may begin with it: {told:?}");
    assert_eq!(PgStore::is_made(unmigrated.url()), Ok(true));
    assert!(
        !absent.exists() && std::fs::read_dir(folder.path()).expect("a folder").next().is_none(),
        "nothing is made"
    );
}

/// Kills the Postgres in a data folder, all of it.
fn kill_postgres(data_dir: &Path) {
    let text = std::fs::read_to_string(data_dir.join("cluster/postmaster.pid")).expect("a pid file");
    let first = text.lines().next().expect("a pid").trim();
    let children = Command::new("ps").args(["-o", "pid=", "--ppid", first]).output().expect("ps").stdout;
    let children = String::from_utf8(children).expect("text");
    // A child may have followed the first already.
    drop(Command::new("kill").arg("-9").arg(first).args(children.split_whitespace()).stderr(Stdio::null()).status());
}

#[test]
fn a_private_postgres_that_died_is_started_again_or_the_service_ends() {
    let folder = data_dir();
    let mut service = Service::start(folder.path(), None);
    service.post("/api/customers/", &json!({"customer_id": "acme", "email": "a@acme.io"}));
    kill_postgres(folder.path());
    let deadline = Instant::now() + Duration::from_secs(60);
    while service.get("/api/customers/acme/", KEY).is_err() {
        assert!(Instant::now() < deadline, "it is not started again");
        std::thread::sleep(Duration::from_millis(20));
    }
    service.post("/api/customers/", &json!({"customer_id": "beta", "email": "b@acme.io"}));

    std::fs::rename(folder.path().join("cluster"), folder.path().join("moved")).expect("moved away");
    let pid_file = std::fs::read_to_string(folder.path().join("moved/postmaster.pid")).expect("a pid file");
    let first = pid_file.lines().next().expect("a pid").trim();
    assert!(Command::new("kill").args(["-9", first]).status().expect("kill").success());
    let deadline = Instant::now() + Duration::from_secs(60);
    let ended = loop {
        if let Some(status) = service.child.try_wait().expect("a child") {
            break status;
        }
        assert!(Instant::now() < deadline, "it goes on without a database");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(ended.code(), Some(1), "whoever started it is to know");
}

/// A disk of its own, in memory; gone when dropped.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// `None` where this process may not have one.
    fn mount(size: &str) -> Option<Self> {
        let folder = data_dir();
        let options = format!("size={size},mode=711");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).output();
        mounted.is_ok_and(|done| done.status.success()).then_some(Self(folder))
    }

    /// Writes until there is no room any more.
    fn fill(&self) {
        let filler = std::fs::File::create(self.0.path().join("filler")).expect("a file");
        let zeros = vec![0; 1 << 16];
        while (&filler).write_all(&zeros).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(self.0.path()).status());
    }
}

#[test]
fn a_full_disk_is_told_and_survived() {
    let Some(disk) = SmallDisk::mount("160m") else { return };
    let mut service = Service::start(disk.0.path(), None);
    service.post("/api/customers/", &json!({"customer_id": "acme", "email": "a@acme.io"}));
    disk.fill();
    kill_postgres(disk.0.path());
    let agent: Agent = Agent::config_builder().http_status_as_error(false).build().into();
    let ask = || {
        let path = format!("{}/api/customers/acme/", service.url);
        let mut answer = agent.get(path).header("X-API-KEY", KEY).call().expect("an answer");
        let title = answer.body_mut().read_json::<Value>().expect("json")["title"].clone();
        (answer.status().as_u16(), title)
    };
    // Postgres finds no room to recover in, and the service says so.
    let deadline = Instant::now() + Duration::from_secs(60);
    while ask() != (503, json!("storage_unavailable")) {
        assert_ne!(ask().1, "db_unavailable", "it is gone for want of room");
        assert!(Instant::now() < deadline, "nobody says that there is no room");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::remove_file(disk.0.path().join("filler")).expect("removed");
    while ask().0 != 200 {
        assert!(Instant::now() < deadline, "it does not recover");
        std::thread::sleep(Duration::from_millis(50));
    }
    service.post("/api/customers/", &json!({"customer_id": "beta", "email": "b@acme.io"}));
    assert_eq!(service.stop(), Some(0), "an orderly end");
}

#[test]
fn a_taken_address_is_told_before_a_key_is_made() {
    let folder = data_dir();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("an address").to_string();
    let refused = program(folder.path()).args(["--addr", &addr]).output().expect("it runs");
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains(&addr) && !folder.path().join("cluster").exists(), "{told}");
}

#[test]
fn the_program_explains_itself() {
    let folder = data_dir();
    let run = |arguments: &[&str]| text(&program(folder.path()).args(arguments).output().expect("it runs"));
    let help = run(&["--help"]);
    for part in ["import-events", "create-key", "BILLING_TLS_CERT", "Examples:", "/docs"] {
        assert!(help.contains(part), "{part}: {help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completions", shell]).contains("import-events"), "{shell}");
    }
}

#[test]
fn a_reader_that_has_read_enough_ends_a_command_quietly() {
    let mut child = Command::new(PROGRAM)
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    // Closed before anything is read.
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
