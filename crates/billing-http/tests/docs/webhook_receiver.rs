//! A receiver in another language, which verifies messages with the official package of the specification.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use billing_outbound::Reach;
use serde_json::{Value, json};

use super::packages::installed_by_pip;
use crate::support::{Field, World, ago};

const PACKAGE: &str = "standardwebhooks==1.1.0";
/// How long a message may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(60);
const SCRIPT: &str = include_str!("webhook_receiver.py");

struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn the_official_python_package_verifies_every_message() {
    let Some(packages) = installed_by_pip("standardwebhooks-1.1.0", &[PACKAGE]) else { return };
    let world = World::with(|settings| settings.reach = Reach::Anywhere);
    let mut python = Command::new("python3");
    python.args(["-W", "ignore", "-c", SCRIPT]).env("PYTHONPATH", packages);
    let mut receiver = Receiver(python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3"));
    let printed = BufReader::new(receiver.0.stdout.take().expect("what it prints"));
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || printed.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let line = || lines.recv_timeout(PATIENCE).expect("it prints a line for each message");
    let url = format!("http://127.0.0.1:{}/", line());
    let endpoint = world.post("/api/webhook_endpoints/", &json!({"url": url})).ok(201);
    let mut stdin = receiver.0.stdin.take().expect("what it reads");
    writeln!(stdin, "{}", endpoint.id("secret")).expect("told");
    let plan = world.plan(&world.metric());
    world.customer("acme");
    let start = ago(time::Duration::DAY);
    world.post("/api/subscriptions/", &json!({"customer_id": "acme", "plan_id": plan, "start_date": start})).ok(200);
    let (mut verified, mut told) = (Vec::new(), Vec::new());
    while !verified.iter().any(|one: &Value| one["type"] == "invoice.created") {
        verified.push(serde_json::from_str(&line()).expect("JSON"));
    }
    while verified.len() != told.len() {
        if told.len() > verified.len() {
            verified.push(serde_json::from_str(&line()).expect("JSON"));
        }
        let feed = world.get("/api/feed/?wait=20").ok(200);
        let brief = |one: &Value| json!({"id": one["id"], "type": one["type"]});
        told = feed["results"].as_array().expect("a list").iter().map(brief).collect();
    }
    let in_order = |mut all: Vec<Value>| {
        all.sort_by_key(|one| one.to_string());
        all
    };
    assert_eq!(in_order(verified), in_order(told), "each was verified");
    // Messages that another secret has signed are not.
    world
        .post(&format!("/api/webhook_endpoints/{}/rotate_secret/", endpoint.id("webhook_endpoint_id")), &json!({}))
        .ok(200);
    world.sql("UPDATE webhook_endpoints SET old_secret_until = now()");
    world.post("/api/metrics/", &json!({"event_name": "late"})).ok(201);
    let refused: Value = serde_json::from_str(&line()).expect("JSON");
    assert!(refused["refused"].is_string(), "{refused}");
}
