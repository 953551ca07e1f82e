//! `billing-http listen`: the feed at a developer's own machine.

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::webhooks::customer;
use crate::receiver::{Receiver, until};
use crate::support::World;

/// The command at work.
struct Listener(Child);

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn listen(world: &World, folder: &std::path::Path, more: &[&str]) -> Listener {
    let printed = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("printed")).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_billing-http"));
    command.args(["listen", "--url", &format!("http://{}", world.addr()), "--state"]).arg(folder.join("state.json"));
    command.args(more).env("BILLING_API_KEY", &world.key).env("RUST_LOG", "warn").stdout(printed).stderr(Stdio::null());
    Listener(command.spawn().expect("it runs"))
}

#[test]
fn messages_are_forwarded_signed_and_once_also_by_the_next_run() {
    let (world, receiver) = (World::new(), Receiver::new());
    let folder = tempfile::tempdir().expect("a folder");
    customer(&world, "before");
    until("it is placed", || !world.get("/api/feed/").ok(200)["results"].as_array().is_some_and(Vec::is_empty));
    let state = || -> Option<Value> {
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("state.json")).ok()?).ok()
    };
    let to = ["--forward-to", receiver.url.as_str(), "--print"];
    let listener = listen(&world, folder.path(), &to);
    until("it has begun", || state().is_some());
    let begun = state();
    customer(&world, "one");
    receiver.wait_for(1);
    until("that is noted", || state() != begun);
    drop(listener);
    for name in ["two", "three"] {
        customer(&world, name);
    }
    receiver.answers("500 No", "");
    let _listener = listen(&world, folder.path(), &to);
    let all = receiver.wait_for(3);
    let secret = state().expect("a state")["secret"].as_str().expect("a secret").to_owned();
    let names: Vec<Value> = all.iter().map(|message| message.json()["data"]["customer_id"].clone()).collect();
    assert_eq!(names, ["one", "two", "three"], "from the first run on, each once, in their order");
    assert!(all.iter().all(|message| message.is_signed_with(&secret)));
    let printed = || std::fs::read_to_string(folder.path().join("printed")).expect("text");
    assert_eq!(
        printed().lines().collect::<Vec<_>>(),
        all.iter().map(|message| message.body.as_str()).collect::<Vec<_>>()
    );
}
