//! Lanes on several servers, by the program: `lanes add-node` and `lanes move` beside a service that is at work.

use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use billing_http::caller::Pepper;
use billing_http::startup::Opened;
use billing_http::{RunningServer, Server, ServerSettings};
use postgres_local::Cluster;
use serde_json::{Value, json};
use ureq::Agent;

use super::commands::{data_dir, program, text};
use crate::support::{connect, event, now};

const DATABASE: &str = "billing";

/// The folder of a server's socket.
fn socket_folder(server: &Cluster) -> String {
    let url = server.url(DATABASE);
    let host = url.split(['?', '&']).find_map(|part| part.strip_prefix("host="));
    host.expect("a socket").replace("%2F", "/")
}

/// A service that is at work.
struct Service {
    server: RunningServer,
    key: String,
    agent: Agent,
}

impl Service {
    fn start(url: &str) -> Self {
        let opened = Opened { store: connect(url, 8), pepper: Pepper::from_text("pepper"), cluster: None };
        let (_, key) = opened.create_organization("Acme", None).expect("an organization");
        let addr = "127.0.0.1:0".parse().expect("an address");
        let settings = ServerSettings::new(addr, opened.pepper.clone(), 8);
        let server = Server::start(&settings, opened.backend()).expect("a server");
        let agent = Agent::config_builder().timeout_global(Some(Duration::from_secs(20))).build().into();
        Self { server, key: key.reveal().to_owned(), agent }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.addr)
    }

    fn get(&self, path: &str) -> Value {
        let answer = self.agent.get(self.url(path)).header("X-API-KEY", &self.key).call();
        answer.expect(path).body_mut().read_json().expect("JSON")
    }

    fn post(&self, path: &str, body: &Value) {
        let answer = self.agent.post(self.url(path)).header("X-API-KEY", &self.key).send_json(body);
        answer.unwrap_or_else(|error| panic!("{path}: {body}: {error}"));
    }
}

fn count(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}

#[test]
fn a_service_goes_on_while_its_lanes_move_to_another_server_and_back() {
    let [home, node] = [(); 2].map(|()| {
        let server = Cluster::temporary_sending().expect("a server");
        server.create_database_if_absent(DATABASE).expect("a database");
        server
    });
    let folder = data_dir();
    let run = |arguments: &[&str]| {
        let mut command = program(folder.path());
        command.env("DATABASE_URL", home.url(DATABASE)).env("BILLING_KEY_PEPPER", "pepper");
        command.args(arguments).output().expect("it runs")
    };
    text(&run(&["--lanes", "2", "migrate"]));
    let service = Service::start(&home.url(DATABASE));
    let refused = |output: Output| {
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };

    let (host, add) = (socket_folder(&node), ["lanes", "add-node"]);
    let place = ["--host", &host, "--database", DATABASE];
    let said = refused(run(&[&add[..], &["home"], &place].concat()));
    assert!(said.contains("cannot be called home"), "{said}");
    let said = text(&run(&[&add[..], &["east"], &place].concat()));
    assert!(said.contains("lanes move LANE --to east"), "{said}");
    let said = refused(run(&["lanes", "move", "1", "--to", "west"]));
    assert!(said.contains("there is no node west"), "{said}");

    let is_over = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        let working = scope.spawn(|| {
            let mut made = 0;
            while !is_over.load(Ordering::SeqCst) {
                let customer = format!("c{made}");
                service.post("/api/customers/", &json!({"customer_id": customer, "email": format!("{made}@acme.io")}));
                let sent = event(&customer, &format!("e{made}"), &now());
                service.post("/api/track/", &json!({"batch": [sent]}));
                made += 1;
                thread::sleep(Duration::from_millis(5));
            }
            made
        });
        let moves = ["east", "home", "east"].map(|to| {
            let output = run(&["lanes", "move", "1", "--to", to]);
            thread::sleep(Duration::from_millis(100));
            output
        });
        is_over.store(true, Ordering::SeqCst);
        for (output, to) in moves.iter().zip(["east", "home", "east"]) {
            assert!(text(output).starts_with(&format!("Lane 1 is at {to} now: ")), "{output:?}");
        }
        working.join().expect("every call is answered")
    });
    assert!(made > 20, "{made}");
    assert_eq!(count(&service.get("/api/customers/?limit=1000")), made.min(1000));
    assert_eq!(text(&run(&["lanes", "move", "1", "--to", "east"])), "Lane 1 is at east.");

    let listed = text(&run(&["lanes", "list"]));
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    let address = format!("{host}:5432/{DATABASE}");
    assert_eq!(lines[2][..4], ["1", "lane_01_m3", "-", &address], "{listed}");
    assert_eq!(lines[3], ["node", "east", "at", &address], "{listed}");
    let customers = lines[1..3].iter().map(|line| line[4].parse::<usize>().expect("a number"));
    assert_eq!(customers.sum::<usize>(), made, "{listed}");
    assert_eq!(text(&run(&["lanes", "check"])), "Every customer is in its lane.");
    let said = refused(run(&["audit"]));
    assert!(said.contains("lane_01_m3 is on the node east"), "{said}");
}
