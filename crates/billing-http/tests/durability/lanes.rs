//! Customers in several lanes, seen from outside.

use std::process::Command;

use billing_audit::{audit_database, audit_organization};
use billing_store::PgStore;
use billing_store::testing::TestStore;
use serde_json::json;

use crate::support::World;

pub(super) fn printed(world: &World, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_billing-http"))
        .args(arguments)
        .env("DATABASE_URL", world.url())
        .env("BILLING_KEY_PEPPER", "pepper")
        .env("RUST_LOG", "error")
        .output()
        .expect("it runs");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// The books of the organization by themselves are right too, and what is wrong with them is found, in whichever lane.
fn assert_audited_alone(world: &World) {
    let audited = || audit_organization(world.url(), world.organization.uuid(), &mut |_| {}).expect("an audit");
    let add = |amount: i8| {
        world.sql(&format!(
            "SET session_replication_role = replica;
            UPDATE invoice_lines SET amount = amount + {amount}
            WHERE customer_key IN (SELECT customer_key FROM customers WHERE customer_id IN ('c3', 'c7'))"
        ));
    };
    let report = audited();
    assert!(report.is_clean(), "{report}");
    add(1);
    let report = audited();
    assert!(report.broken_checks().contains(&"invoice_is_the_sum_of_its_lines"), "{report}");
    add(-1);
    assert!(audited().is_clean(), "as it was");
}

#[test]
fn books_over_lanes_are_those_of_one() {
    // What is told to customers, with one lane and with four.
    let told = [1, 4].map(|lanes| {
        let world = World::on(TestStore::with_lanes(lanes), |_| {});
        world.write("PATCH", "/api/organization/", br#"{"tax_rate": "8.25"}"#).ok(200);
        let plan = world.plan(&world.metric());
        let clock = world.clock("2024-01-31");
        for n in 0..12 {
            let customer = format!("c{n}");
            world.customer_at(&customer, &clock);
            let credit = json!({"customer_id": customer, "amount": 12.5, "currency_code": "USD"});
            world.post("/api/credits/", &credit).ok(201);
            let body = json!({"customer_id": customer, "plan_id": plan, "start_date": "2024-01-31"});
            world.post("/api/subscriptions/", &body).ok(200);
        }
        let batch: Vec<_> = (0..120)
            .map(|n| crate::support::event(&format!("c{}", n % 12), &format!("e{n}"), "2024-02-01T00:00:00Z"))
            .collect();
        let world = &world;
        world.post("/api/track/", &json!({"batch": batch})).ok(201);
        world.post("/api/track/", &json!({"batch": batch[..30]})).ok(201);
        world.advance(&clock, "2024-05-03");
        let report = audit_database(world.url(), &mut |_| {}).expect("an audit");
        assert!(report.is_clean(), "{lanes} lanes: {report}");
        assert_audited_alone(world);
        let customers = (0..12).map(|n| {
            let invoices = world.get(&format!("/api/invoices/?customer_id=c{n}")).ok(200);
            let invoices = invoices.as_array().expect("a list").iter();
            // Numbers go by who is billed first, which nobody promises.
            invoices
                .map(|invoice| (invoice["cost_due"].to_string(), invoice["line_items"].as_array().map(Vec::len)))
                .collect::<Vec<_>>()
        });
        let listed = world.get("/api/invoices/?limit=1000").ok(200).as_array().map(Vec::len);
        (customers.collect::<Vec<_>>(), listed)
    });
    assert_eq!(told[0], told[1]);
    assert!(told[0].0.iter().all(|invoices| invoices.len() > 3), "{told:?}");
}

#[test]
fn the_command_line_shows_and_checks_lanes() {
    let world = World::on(TestStore::with_lanes(4), |_| {});
    for n in 0..40 {
        let body = json!({"customer_id": format!("c{n}"), "email": format!("{n}@acme.io")});
        world.post("/api/customers/", &body).ok(201);
    }
    let (is_done, text) = printed(&world, &["lanes", "list"]);
    assert!(is_done, "{text}");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["lane", "schema", "role", "address", "customers", "MiB"], "{text}");
    assert_eq!(lines[1][..4], ["0", "lane_00", "billing_test_lane_00", "-"], "{text}");
    assert_eq!(lines[1..].iter().map(|line| line[4].parse::<u32>().expect("a number")).sum::<u32>(), 40, "{text}");

    assert_eq!(printed(&world, &["lanes", "check"]), (true, "Every customer is in its lane.\n".to_owned()));
    let mut pg = <diesel::PgConnection as diesel::Connection>::establish(world.url()).expect("a connection");
    let moved = "INSERT INTO lane_03.customers SELECT * FROM lane_00.customers LIMIT 1";
    diesel::connection::SimpleConnection::batch_execute(&mut pg, moved).expect("moved");
    let (is_done, text) = printed(&world, &["lanes", "check"]);
    assert!(!is_done && text.contains("lane 3: customers has rows of customers of other lanes"), "{text}");

    let (is_done, text) = printed(&world, &["--lanes", "8", "migrate"]);
    assert!(!is_done && text.contains("8 lanes are asked for, but this database has 4"), "{text}");
}

#[test]
fn a_database_with_one_lane_is_split_and_goes_on() {
    let mut world = World::on(TestStore::with_lanes(1), |_| {});
    let metric = world.metric();
    let (plan, clock) = (world.plan(&metric), world.clock("2024-01-31"));
    for n in 0..8 {
        let customer = format!("c{n}");
        world.customer_at(&customer, &clock);
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": "2024-01-31"});
        world.post("/api/subscriptions/", &body).ok(200);
    }
    let batch: Vec<_> = (0..80)
        .map(|n| crate::support::event(&format!("c{}", n % 8), &format!("e{n}"), "2024-03-04T00:00:00Z"))
        .collect();
    world.advance(&clock, "2024-03-05");
    world.post("/api/track/", &json!({"batch": batch})).ok(201);
    let told = |world: &World| {
        (0..8)
            .flat_map(|n| {
                let usage = format!("/api/metric_access/?customer_id=c{n}&metric_id={metric}");
                [usage, format!("/api/invoices/?customer_id=c{n}"), format!("/api/subscriptions/?customer_id=c{n}")]
            })
            .chain(["/api/customers/".to_owned(), "/api/invoices/".to_owned()])
            .map(|path| world.get(&path).ok(200))
            .collect::<Vec<_>>()
    };
    let before = told(&world);
    world.stop();
    let (is_done, text) = printed(&world, &["lanes", "split", "--into", "4"]);
    assert!(is_done && text.ends_with("Customers are in 4 lanes now.\n"), "{text}");
    assert!(text.contains(" rows copied, ") && text.contains(", 0 breaches."), "{text}");
    world.opened.store = PgStore::connect(world.url(), 8).expect("connected");
    world.start();
    assert_eq!(told(&world), before, "everything is told as before");
    // What came before is known, and billing goes on with what was billed.
    assert_eq!(world.post("/api/track/", &json!({"batch": batch})).ok(201)["success"], "all");
    world.advance(&clock, "2024-06-05");
    let report = audit_database(world.url(), &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "{report}");
    let (is_done, text) = printed(&world, &["lanes", "split", "--into", "3"]);
    assert!(!is_done && text.contains("2, 4, 8, 16, 32 or 64"), "{text}");
}
