//! Lanes on a Citus cluster, of which `CITUS_URL` is the URL of a database; each test makes one of its own there. Where `CITUS_OURS` is 1 as
//! well the cluster is on this machine, and may lose a server for a moment.
//!
//! The other tests of lanes run there too: `cargo xtask citus`.

use std::env;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use billing_audit::audit_database;
use billing_store::testing::TestStore;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Integer;
use diesel::{PgConnection, sql_query};
use serde_json::{Value, json};

use super::lanes::printed;
use super::nodes::keep_working;
use crate::support::World;

/// A service with four lanes on the cluster, if there is one; where there has to be it is never accepted that there is none.
#[expect(clippy::print_stderr, reason = "a test that is skipped must be seen")]
fn on_cluster() -> Option<World> {
    let Ok(cluster) = env::var("CITUS_URL") else {
        assert!(env::var("CITUS").as_deref() != Ok("1"), "CITUS=1, and CITUS_URL names no database of a cluster");
        eprintln!("SKIPPED: lanes on a Citus cluster, since CITUS_URL names none");
        return None;
    };
    Some(World::on(TestStore::on_cluster(&cluster, 4), |_| {}))
}

/// Where a lane is, and the nodes by name.
fn listed(world: &World, lane: usize) -> (String, Vec<(String, String)>) {
    let (is_done, text) = printed(world, &["lanes", "list"]);
    assert!(is_done, "{text}");
    // What the log says of a server that is away stands between them.
    let lines = || text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let place = lines().find(|line| line.len() > 3 && line[0] == lane.to_string()).expect("the lane")[3].to_owned();
    let nodes =
        lines().filter(|line| line.first() == Some(&"node")).map(|line| (line[1].to_owned(), line[3].to_owned()));
    (place, nodes.collect())
}

/// The node that a lane is not on.
fn another(world: &World, lane: usize) -> (String, String) {
    let (place, nodes) = listed(world, lane);
    nodes.into_iter().find(|(_, address)| *address != place).expect("a second node")
}

/// Every customer has the subscription and the one event that were acknowledged, no more, and the books are right.
fn assert_all_is_there(world: &World, metric: &str, made: usize) {
    for n in 0..made {
        let path = format!("/api/metric_access/?customer_id=c{n}&metric_id={metric}");
        let answer = world.get(&path).ok(200);
        let usages: Vec<&Value> = answer["access_per_subscription"].as_array().into_iter().flatten().collect();
        assert_eq!(usages.len(), 1, "{answer}");
        assert_eq!(usages[0]["metric_usage"].as_f64(), Some(1.0), "c{n}: {answer}");
    }
    let report = audit_database(world.url(), &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "{report}");
    assert_eq!(printed(world, &["lanes", "check"]), (true, "Every customer is in its lane.\n".to_owned()));
}

#[test]
fn a_service_goes_on_while_its_lanes_are_moved() {
    let Some(world) = on_cluster() else { return };
    let metric = world.metric();
    let (plan, is_over) = (world.plan(&metric), AtomicBool::new(false));
    let post = |path: &str, body: &Value, _: &str| {
        let answer = world.post(path, body);
        assert!(answer.status < 300, "{path}: {body}: {answer:?}");
    };
    let (made, moved) = thread::scope(|scope| {
        let working = scope.spawn(|| keep_working(&plan, &is_over, &post));
        let move_all = || -> Vec<(usize, String, bool, String)> {
            let one = |lane: usize| {
                let (node, address) = another(&world, lane);
                let (is_done, said) = match lane {
                    // By the program; and by the engine alone, as when it balances nodes.
                    0 | 1 => printed(&world, &["lanes", "move", &lane.to_string(), "--to", &node]),
                    _ => engine_moves(&world, lane, &address),
                };
                (lane, address, is_done, said)
            };
            [1, 2, 1, 2, 3].map(one).into()
        };
        let moved = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move_all));
        is_over.store(true, Ordering::SeqCst);
        (working.join().expect("every call is answered"), moved.expect("all are moved"))
    });
    for (_, _, is_done, said) in &moved {
        assert!(is_done, "{said}");
    }
    let (lane, address, ..) = &moved[4];
    assert_eq!(listed(&world, *lane).0, *address, "as the engine says");
    assert!(made > 20, "{made}");
    assert_all_is_there(&world, &metric, made);
    let (is_done, said) = printed(&world, &["lanes", "move", "1", "--to", "east"]);
    assert!(!is_done && said.contains("the engine has no node east"), "{said}");
    let add = ["lanes", "add-node", "east", "--host", "10.0.0.7", "--database", "billing"];
    let (is_done, said) = printed(&world, &add);
    assert!(!is_done && said.contains("SELECT citus_add_node('10.0.0.7', 5432)"), "{said}");
}

/// Moves a lane past the service.
fn engine_moves(world: &World, lane: usize, address: &str) -> (bool, String) {
    let server = address.split('/').next().and_then(|server| server.split_once(':')).expect("a server");
    let sql = format!("SELECT citus_schema_move('lane_{lane:02}', '{}', {}, 'force_logical')", server.0, server.1);
    let moved = PgConnection::establish(world.url()).expect("a connection").batch_execute(&sql);
    (moved.is_ok(), format!("{moved:?}"))
}

#[derive(QueryableByName)]
struct Backend {
    #[diesel(sql_type = Integer)]
    pid: i32,
}

/// Kills the server of a node while some transaction has written and has not committed; it comes back by itself.
fn kill_between_statement_and_commit(world: &World, address: &str) {
    const AT_WORK: &str = "SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND backend_type = 'client backend' AND backend_xid IS NOT NULL AND pid <> pg_backend_pid()
            AND query ~* '^(insert|update|with)' LIMIT 1";
    let (server, database) = address.split_once('/').expect("a database");
    let (host, port) = server.split_once(':').expect("a port");
    let separator = if world.url().contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}host={host}&hostaddr=&port={port}&dbname={database}", world.url());
    let began = Instant::now();
    let mut there = PgConnection::establish(&url).expect("a connection");
    loop {
        let found: Vec<Backend> = sql_query(AT_WORK).load(&mut there).expect("backends");
        if let Some(Backend { pid }) = found.first() {
            let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
            assert!(killed.expect("kill").success(), "the cluster is on this machine");
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "nobody is at work there");
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that is skipped must be seen")]
fn a_node_that_dies_between_statement_and_commit_loses_nothing() {
    let Some(world) = on_cluster() else { return };
    if env::var("CITUS_OURS").as_deref() != Ok("1") {
        eprintln!("SKIPPED: servers of the cluster are not killed, since CITUS_OURS is not 1");
        return;
    }
    let metric = world.metric();
    let (plan, is_over) = (world.plan(&metric), AtomicBool::new(false));
    // Whoever is not answered asks again, under the same key.
    let insist = |path: &str, body: &Value, key: &str| {
        let (began, text) = (Instant::now(), body.to_string());
        loop {
            let headers =
                [("X-API-KEY", world.key.as_str()), ("Content-Type", "application/json"), ("Idempotency-Key", key)];
            let headers = if path == "/api/track/" { &headers[..2] } else { &headers[..] };
            let answer = world.send("POST", path, headers, text.as_bytes());
            match answer.status {
                200..300 => return,
                409 | 429 | 500.. => {}
                _ => panic!("{path}: {body}: {answer:?}"),
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{path}: {body}: {answer:?}");
            thread::sleep(Duration::from_millis(50));
        }
    };
    let (made, killed) = thread::scope(|scope| {
        let working = scope.spawn(|| keep_working(&plan, &is_over, &insist));
        let kill_all = || {
            let places = [0, 1].map(|lane| listed(&world, lane).0);
            for place in [0, 1, 0].map(|lane| &places[lane]) {
                kill_between_statement_and_commit(&world, place);
                thread::sleep(Duration::from_secs(4));
            }
        };
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(kill_all));
        is_over.store(true, Ordering::SeqCst);
        (working.join().expect("every call is answered in the end"), killed)
    });
    killed.expect("killed");
    assert!(made > 3, "{made}");
    let customers = world.get("/api/customers/?limit=1000").ok(200);
    assert_eq!(customers.as_array().map(Vec::len), Some(made.min(1000)), "none twice");
    assert_all_is_there(&world, &metric, made);
    world.post("/api/customers/", &json!({"customer_id": "last", "email": "last@acme.io"})).ok(201);
}
