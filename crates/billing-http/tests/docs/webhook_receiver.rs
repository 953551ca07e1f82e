//! Receivers in other languages, which verify messages with the official packages of the specification.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use billing_outbound::Reach;
use serde_json::{Value, json};

use super::packages::{installed_by_npm, installed_by_pip};
use crate::support::{Field, World, ago};

/// How long a message may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

struct Receiver(Child);

impl Drop for Receiver {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn the_official_python_package_verifies_every_message() {
    let Some(packages) = installed_by_pip("standardwebhooks-1.1.0", &["standardwebhooks==1.1.0"]) else { return };
    let mut python = Command::new("python3");
    python.args(["-W", "ignore", "-c", include_str!("webhook_receiver.py")]).env("PYTHONPATH", packages);
    verifies_every_message(python);
}

#[test]
fn the_official_javascript_package_verifies_every_message() {
    let Some(packages) = installed_by_npm("standardwebhooks-1.1.1", &["standardwebhooks@1.1.1"]) else { return };
    let folder = tempfile::tempdir_in(&packages).expect("a folder");
    fs::write(folder.path().join("receiver.js"), include_str!("webhook_receiver.js")).expect("written");
    let mut node = Command::new("node");
    node.arg("receiver.js").current_dir(folder.path());
    verifies_every_message(node);
}

/// Runs a receiver that prints its port, reads its secret, and prints what it verified and what it refused.
fn verifies_every_message(mut receiver: Command) {
    let world = World::with(|settings| settings.reach = Reach::Anywhere);
    let mut receiver = Receiver(receiver.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a receiver"));
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
