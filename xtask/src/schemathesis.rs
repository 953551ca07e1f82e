//! The description against the service: schemathesis makes requests up from `/openapi.json`, good ones and bad ones, and
//! looks for answers that are no answers: server errors, statuses and bodies that the description does not have.

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::python::Environment;
use crate::{cargo_command, done, target_folder};

const PACKAGE: &str = "schemathesis==4.32.5";
const KEY: &str = "fuzzing0.0123456789abcdef0123456789abcdef";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
/// Left out: it finds the key that it runs with in the list, and deletes it.
const KEYS: &str = "^/api/(api_keys|access_tokens)/.prefix.";
/// Requests of each call that are made up at random, unless said otherwise.
const EXAMPLES: &str = "400";
/// The random part ends after this time, however many requests are left.
const SECONDS_MAX: &str = "1800";
const READY_PATIENCE: Duration = Duration::from_secs(120);

/// Runs schemathesis against a service of its own. `examples` is how many random requests each call gets.
pub fn run(examples: Option<&str>) -> anyhow::Result<()> {
    let environment = Environment::install("schemathesis", &[PACKAGE])?;
    cargo_build()?;
    // A fresh database each time: what an earlier run made up would be found again.
    let data_dir = env::temp_dir().join(format!("schemathesis-{}", std::process::id()));
    let service = Service::start(&data_dir)?;
    let mut fuzzer = environment.program("schemathesis");
    fuzzer.args(["run", &format!("http://{}/openapi.json", service.addr), "--header", &format!("X-API-KEY: {KEY}")]);
    fuzzer.args(["--checks", CHECKS, "--max-examples", examples.unwrap_or(EXAMPLES), "--max-time", SECONDS_MAX]);
    fuzzer.args(["--continue-on-failure", "--suppress-health-check", "all", "--generation-database", "none"]);
    fuzzer.args([
        "--phases",
        "coverage,fuzzing",
        "--request-timeout",
        "15",
        "--no-color",
        "--exclude-path-regex",
        KEYS,
    ]);
    let status = fuzzer.current_dir(&environment.folder).status().context("cannot run schemathesis");
    drop(service);
    // It may hold a running Postgres's last files; what is left is in the temporary folder.
    drop(fs::remove_dir_all(&data_dir));
    ensure!(status?.success(), "schemathesis found something");
    Ok(())
}

fn cargo_build() -> anyhow::Result<()> {
    done(cargo_command().args(["build", "--package", "billing-http"]))
}

/// A service on a private Postgres; told to stop when dropped.
struct Service {
    child: Child,
    addr: String,
}

impl Service {
    fn start(data_dir: &Path) -> anyhow::Result<Self> {
        let addr = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let child = Command::new(target_folder().join("debug/billing-http"))
            .env("BILLING_ADDR", &addr)
            .env("BILLING_DATA_DIR", data_dir)
            .env("BILLING_BOOTSTRAP_API_KEY", KEY)
            .env("RUST_LOG", "warn")
            .env_remove("DATABASE_URL")
            .stdout(Stdio::null())
            .spawn()?;
        let service = Self { child, addr };
        let began = Instant::now();
        while !service.is_ready() {
            if began.elapsed() > READY_PATIENCE {
                bail!("the service is not ready after {} s", READY_PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(service)
    }

    fn is_ready(&self) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(&self.addr)?;
            stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        drop(Command::new("kill").args(["-TERM", &pid]).status());
        drop(self.child.wait());
    }
}
