//! Lanes on several servers, by the program: `lanes add-node` and `lanes move` beside a service that is at work.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use billing_http::caller::Pepper;
use billing_http::startup::Opened;
use billing_http::{RunningServer, Server, ServerSettings};
use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection};
use postgres_local::Cluster;
use serde_json::{Value, json};
use ureq::Agent;

use super::commands::{data_dir, program, text};
use crate::support::{Field, connect, event, now, plan_body};

const DATABASE: &str = "billing";

/// The folder of a server's socket.
fn socket_folder(server: &Cluster) -> String {
    server.address().0.to_string_lossy().into_owned()
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

    /// The status of an answer, whatever it is.
    fn status(&self, path: &str) -> u16 {
        let call = self.agent.get(self.url(path)).header("X-API-KEY", &self.key);
        call.config().http_status_as_error(false).build().call().expect(path).status().as_u16()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.agent.post(self.url(path)).header("X-API-KEY", &self.key).send_json(body);
        let mut answer = answer.unwrap_or_else(|error| panic!("{path}: {body}: {error}"));
        answer.body_mut().read_json().expect("JSON")
    }

    /// A monthly plan with a fee of 9 in advance and tiers over calls: its id.
    fn plan(&self) -> String {
        let metric = self.post("/api/metrics/", &json!({"event_name": "api_call"})).id("metric_id");
        self.post("/api/plans/", &plan_body("Starter", &metric)).id("plan_id")
    }
}

/// Makes one customer after the other, each with a subscription and an event, until it is over; how many. Each call is told apart by a key.
pub(super) fn keep_working(plan: &str, is_over: &AtomicBool, post: &dyn Fn(&str, &Value, &str)) -> usize {
    let mut made = 0;
    while !is_over.load(Ordering::SeqCst) {
        let customer = format!("c{made}");
        let body = json!({"customer_id": customer, "email": format!("{made}@acme.io")});
        post("/api/customers/", &body, &format!("customer-{made}"));
        let subscription = json!({"customer_id": customer, "plan_id": plan, "start_date": &now()[..10]});
        post("/api/subscriptions/", &subscription, &format!("subscription-{made}"));
        let sent = event(&customer, &format!("e{made}"), &now());
        post("/api/track/", &json!({"batch": [sent]}), &format!("event-{made}"));
        made += 1;
        thread::sleep(Duration::from_millis(5));
    }
    made
}

fn count(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}

fn two_servers() -> [Cluster; 2] {
    [(); 2].map(|()| {
        let server = Cluster::temporary_sending().expect("a server");
        server.create_database_if_absent(DATABASE).expect("a database");
        server
    })
}

#[test]
fn a_service_goes_on_while_its_lanes_move_to_another_server_and_back() {
    let [home, node] = two_servers();
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

    let (plan, organization) = (service.plan(), service.get("/api/organization/").id("organization_id"));
    let is_over = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        let working = scope.spawn(|| {
            keep_working(&plan, &is_over, &|path, body, _| {
                service.post(path, body);
            })
        });
        let moves = ["east", "home", "east"].map(|to| {
            let output = run(&["lanes", "move", "1", "--to", to]);
            // Beside what is at work on both servers, no false alarm.
            assert_is_clean(&run(&["audit"]));
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

    assert_wrong_books_are_found(&run, &node, &organization);
}

/// The auditor looks at the lane on the node too, at all books and at those of one organization.
fn assert_wrong_books_are_found(run: &dyn Fn(&[&str]) -> Output, node: &Cluster, organization: &str) {
    let of_one = ["audit", "--organization", organization];
    assert_is_clean(&run(&["audit"]));
    assert_is_clean(&run(&of_one));
    let nobody = run(&["audit", "--organization", "org_00000000000000000000000000000001"]);
    let said = String::from_utf8_lossy(&nobody.stderr);
    assert!(!nobody.status.success() && said.contains("there is no such organization"), "{said}");
    let mut there = PgConnection::establish(&node.url(DATABASE)).expect("a connection");
    let mut add = |amount: i8| {
        let sql = format!(
            "SET session_replication_role = replica;
            UPDATE lane_01_m3.invoices SET amount = amount + {amount} WHERE number = (SELECT max(number) FROM lane_01_m3.invoices)"
        );
        there.batch_execute(&sql).expect("changed");
    };
    add(1);
    for audit in [&["audit"][..], &of_one] {
        let found = String::from_utf8_lossy(&run(audit).stdout).into_owned();
        assert!(found.contains("invoice_is_the_sum_of_its_lines: "), "{audit:?}: {found}");
    }
    add(-1);
}

/// The auditor found nothing.
fn assert_is_clean(audit: &Output) {
    let said = text(audit);
    assert!(said.ends_with(" checks, 0 breaches"), "{said}");
}

#[test]
fn a_node_that_has_another_address_is_found_without_a_restart() {
    let ([home, node], folder) = (two_servers(), data_dir());
    let run = |arguments: &[&str]| {
        let mut command = program(folder.path());
        command.env("DATABASE_URL", home.url(DATABASE)).env("BILLING_KEY_PEPPER", "pepper");
        text(&command.args(arguments).output().expect("it runs"))
    };
    let [primary, standby] = ["primary", "standby"].map(|name| folder.path().join(name));
    let lead_to_node = |address: &Path| symlink(socket_folder(&node), address).expect("an address");
    run(&["--lanes", "2", "migrate"]);
    lead_to_node(&primary);
    let address = |path: &Path| path.to_str().expect("text").to_owned();
    run(&["lanes", "add-node", "east", "--host", &address(&primary), "--database", DATABASE]);
    let service = Service::start(&home.url(DATABASE));
    let customers: Vec<String> = (0..12).map(|n| format!("c{n}")).collect();
    for customer in &customers {
        service.post("/api/customers/", &json!({"customer_id": customer, "email": format!("{customer}@acme.io")}));
    }
    run(&["lanes", "move", "1", "--to", "east"]);
    let answered = |status: u16| {
        let all = customers.iter().map(|customer| service.status(&format!("/api/customers/{customer}/")));
        all.filter(|answered| *answered == status).count()
    };
    assert_eq!(answered(200), customers.len());

    fs::remove_file(&primary).expect("nothing leads there");
    let mut there = PgConnection::establish(&node.url(DATABASE)).expect("a connection");
    let end_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    there.batch_execute(end_all).expect(end_all);
    let lost = answered(503);
    assert!(0 < lost && lost < customers.len(), "{lost}");
    assert_eq!(answered(200), customers.len() - lost, "the others are served");
    let listed = run(&["lanes", "list"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(!lines[1].ends_with("does not answer") && lines[2].ends_with("does not answer"), "{listed}");

    lead_to_node(&standby);
    let mut at_home = PgConnection::establish(&home.url(DATABASE)).expect("a connection");
    let moved = format!("UPDATE nodes SET host = '{}'", address(&standby));
    at_home.batch_execute(&moved).expect(&moved);
    let began = Instant::now();
    while answered(200) < customers.len() {
        assert!(began.elapsed() < Duration::from_secs(20), "it is not found");
        thread::sleep(Duration::from_millis(100));
    }
    drop(service);
    assert_an_audit_ends_where_a_node_says_nothing(&mut at_home, &home, folder.path());
}

/// Nobody answers where the node should be, nor hangs up.
fn assert_an_audit_ends_where_a_node_says_nothing(at_home: &mut PgConnection, home: &Cluster, folder: &Path) {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = silent.local_addr().expect("its address").port();
    let moved = format!("UPDATE nodes SET host = '127.0.0.1', port = {port}");
    at_home.batch_execute(&moved).expect(&moved);
    let mut audit = program(folder);
    audit.env("DATABASE_URL", home.url(DATABASE)).env("BILLING_KEY_PEPPER", "pepper").arg("audit");
    let mut audit = audit.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let began = Instant::now();
    while audit.try_wait().expect("its state").is_none() {
        if began.elapsed() > Duration::from_secs(40) {
            audit.kill().expect("killed");
            panic!("it waits for the node");
        }
        thread::sleep(Duration::from_millis(20));
    }
    let output = audit.wait_with_output().expect("what it said");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("east"), "{said}");
}
