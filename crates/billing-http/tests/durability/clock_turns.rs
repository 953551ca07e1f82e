//! An organization's test clocks do not wait for another's, and what an advance has reached is kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use billing_http::{Server, ServerSettings};
use serde_json::{Value, json};

use crate::support::{Field, World, connect, plan_body};

/// Customers of the clock that takes long, each with an invoice a day.
const CUSTOMERS: u32 = 8;
const START: &str = "2021-01-01";
/// Three years: thousands of invoices in all.
const FAR: &str = "2024-01-01";

/// A client of one organization.
struct Tenant<'w> {
    world: &'w World,
    key: String,
}

impl Tenant<'_> {
    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let headers = [("X-API-KEY", self.key.as_str()), ("Content-Type", "application/json")];
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let answer = self.world.send(method, path, &headers, body.as_bytes());
        assert!(answer.status < 300, "{path}: {}", answer.text);
        answer.json()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.send("POST", path, body)
    }

    /// A clock with customers who pay a fee every `unit`.
    fn clock(&self, customers: u32, unit: &str) -> String {
        let metric = self.post("/api/metrics/", &json!({"event_name": "call"})).id("metric_id");
        let mut plan = plan_body("plan", &metric);
        let fee = &mut plan["initial_version"]["recurring_charges"][0];
        for interval in ["reset_interval", "invoicing_interval"] {
            fee[format!("{interval}_unit")] = json!(unit);
            fee[format!("{interval}_count")] = json!(1);
        }
        let plan = self.post("/api/plans/", &plan).id("plan_id");
        let clock = self.post("/api/test_clocks/", &json!({"name": "c", "frozen_time": START})).id("test_clock_id");
        for n in 0..customers {
            let id = format!("customer-{n}");
            let body = json!({"customer_id": id, "email": format!("{id}@acme.io"), "test_clock_id": clock});
            self.post("/api/customers/", &body);
            let body = json!({"customer_id": id, "plan_id": plan, "start_date": START});
            self.post("/api/subscriptions/", &body);
        }
        clock
    }

    fn advance(&self, clock: &str, time: &str) {
        self.post(&format!("/api/test_clocks/{clock}/advance/"), &json!({"frozen_time": time}));
    }

    fn status(&self, clock: &str) -> String {
        self.send("GET", &format!("/api/test_clocks/{clock}/"), &json!(null)).id("status")
    }

    fn invoices(&self) -> usize {
        self.send("GET", "/api/invoices/?limit=1000", &json!(null)).as_array().map_or(0, Vec::len)
    }

    fn arrives(&self, clock: &str) {
        let began = Instant::now();
        while self.status(clock) != "ready" {
            assert!(began.elapsed() < Duration::from_secs(60), "the clock does not arrive");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn second_server(world: &World) -> billing_http::RunningServer {
    let mut settings = ServerSettings::new("127.0.0.1:0".parse().expect("an address"), world.opened.pepper.clone(), 8);
    settings.notice = Duration::ZERO;
    let store = connect(world.url(), 10);
    Server::start(&settings, Arc::new(store)).expect("a second server")
}

#[test]
fn a_far_advance_keeps_nobody_else_waiting() {
    for processes in 1..=2 {
        let mut world = World::new();
        let other_key = world.other_key();
        let greedy = Tenant { world: &world, key: world.key.clone() };
        let modest = Tenant { world: &world, key: other_key };
        let (far, near) = (greedy.clock(CUSTOMERS, "day"), modest.clock(1, "month"));
        greedy.advance(&far, FAR);
        let second = (processes > 1).then(|| second_server(&world));
        for month in ["2021-03-01", "2021-05-01", "2021-07-01"] {
            modest.advance(&near, month);
            modest.arrives(&near);
        }
        assert_eq!(greedy.status(&far), "advancing", "{processes}: the others came first");
        assert!(modest.invoices() >= 6, "two months, three times");
        let reached = greedy.invoices();
        assert!(reached > CUSTOMERS as usize, "what has been reached is to be seen: {reached}");

        if let Some(server) = second {
            server.stop().expect("a clean stop");
        }
        let key = world.key.clone();
        world.restart();
        let greedy = Tenant { world: &world, key };
        assert!(greedy.invoices() >= reached, "what was reached is kept");
        assert_eq!(greedy.status(&far), "advancing", "and the rest goes on");
    }
}

#[test]
fn an_advance_too_far_says_how_far_it_may_go() {
    let world = World::new();
    let tenant = Tenant { world: &world, key: world.key.clone() };
    let clock = tenant.clock(1, "day");
    let path = format!("/api/test_clocks/{clock}/advance/");
    for time in ["2199-12-31", "2024-04-15T00:00:01Z"] {
        let refused = world.post(&path, &json!({"frozen_time": time}));
        assert_eq!(refused.faults(), [("frozen_time".to_owned(), "max_value".to_owned())], "{time}");
        assert!(refused.text.contains("1200") && refused.text.contains("2024-04-15T00:00:00Z"), "{}", refused.text);
        assert_eq!(tenant.status(&clock), "ready", "nothing has changed");
    }
    tenant.advance(&clock, "2024-04-15");
    assert_eq!(tenant.status(&clock), "advancing");
}
