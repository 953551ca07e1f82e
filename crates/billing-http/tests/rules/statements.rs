//! Ordinary calls take no more statements than they do: each is a round trip that its caller waits for. Wanted are 4 for a
//! customer, 3 for the lists and 8 for a new subscription.

use std::cell::Cell;

use billing_store::testing::count_statements;
use serde_json::json;
use time::Duration;

use crate::support::{World, ago};

/// Begin of the transaction included, its end not.
#[test]
fn ordinary_calls_take_no_more_statements() {
    count_statements();
    let world = World::new();
    let plan = world.plan(&world.metric());
    let subscribe = |customer: &str| {
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": ago(Duration::days(1))});
        world.post("/api/subscriptions/", &body)
    };
    let customers: Vec<String> = (1..=5).map(|length| "c".repeat(length)).collect();
    customers.iter().for_each(|customer| world.customer(customer));
    subscribe("c").ok(200);
    #[rustfmt::skip]
    let cases = [
        // path,                                       most, why
        ("/api/customers/c/",                 17, "itself, its invoices, what it holds"),
        ("/api/subscriptions/?customer_id=c", 14, "the customer and what it holds"),
        ("/api/invoices/?customer_id=c",      6,  "the customer and its invoices"),
    ];
    let mut counts = Vec::new();
    for (path, most, why) in cases {
        let taken = world.statements(|| world.get(path));
        counts.push((path, taken, most, why));
    }
    let next = Cell::new(0);
    let taken = world.statements(|| {
        next.set(next.get() + 1);
        subscribe(&customers[next.get()])
    });
    counts.push(("POST /api/subscriptions/", taken, 25, "locked, looked up, made, invoiced"));
    let over: Vec<_> = counts.iter().filter(|(_, taken, most, _)| taken > most).collect();
    assert!(over.is_empty(), "{counts:?}");
}
