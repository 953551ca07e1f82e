//! Lists go on where a header says.

use std::time::{Duration, Instant};

use billing_store::testing::count_statements;
use diesel::RunQueryDsl;
use diesel::sql_types::BigInt;
use serde_json::{Value, json};

use crate::support::{Field, World, now};

#[test]
fn long_lists_are_read_page_by_page() {
    let world = World::new();
    for i in 0..5 {
        world.post("/api/customers/", &json!({"customer_id": format!("c{i}"), "email": format!("c{i}@b.io")})).ok(201);
        world.post("/api/features/", &json!({"feature_name": format!("f{i}")})).ok(201);
    }
    // What else is in the query stays in the links, where the call does not refuse it.
    for (list, field, more) in [("customers", "customer_id", "&x=%20y"), ("features", "feature_name", "")] {
        let all: Vec<Value> = world.get(&format!("/api/{list}/")).ok(200).as_array().expect("a list").clone();
        assert_eq!(all.len(), 5);
        let mut seen = Vec::new();
        let mut path = format!("/api/{list}/?limit=2{more}");
        let mut pages = 0;
        loop {
            let answer = world.get(&path);
            let page = answer.ok(200).as_array().expect("a list").clone();
            assert!(page.len() <= 2);
            seen.extend(page.iter().map(|item| item[field].clone()));
            pages += 1;
            let Some(next) = answer.next(&world) else { break };
            assert!(next.contains("limit=2") && next.contains(more), "{next}");
            path = next;
        }
        assert_eq!(pages, 3);
        assert_eq!(seen, all.iter().map(|item| item[field].clone()).collect::<Vec<_>>());
    }
    #[rustfmt::skip]
    let faults = [
        // query,          attr,      code
        ("limit=0",        "limit",   "min_value"),
        ("limit=1001",     "limit",   "max_value"),
        ("limit=x",        "limit",   "invalid"),
        ("cursor=nope",    "cursor",  "invalid"),
    ];
    for (query, attr, code) in faults {
        for list in ["customers", "features", "invoices"] {
            let answer = world.get(&format!("/api/{list}/?{query}"));
            assert_eq!(answer.faults(), [(attr.to_owned(), code.to_owned())], "{list} {query}");
        }
    }
}

#[test]
fn a_list_takes_as_many_statements_however_long_it_is() {
    count_statements();
    let world = World::new();
    let metric = world.metric();
    let (plan, clock) = (world.plan(&metric), world.clock("2024-04-01"));
    let addons = ["recurring", "one_time"].map(|frequency| {
        let addon = json!({"addon_name": "Support", "currency_code": "USD", "billing_frequency": frequency,
            "recurring_charges": [{"name": "fee", "amount": 5, "charge_timing": "in_advance"}]});
        world.post("/api/addons/", &addon).ok(201).id("addon_id")
    });
    let join = |n: usize| {
        let customer = format!("c{n}");
        world.customer_at(&customer, &clock);
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": "2024-04-01"});
        let id = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
        for addon in &addons {
            world.post(&format!("/api/subscriptions/{id}/addons/attach/"), &json!({"addon_id": addon})).ok(200);
        }
        let never_sent = json!({"customer_id": customer, "filter": {"event_name": "never sent"}, "reason": "none"});
        world.post("/api/events/void/", &never_sent).ok(200);
    };
    let lists = ["customers", "invoices", "plans", "addons", "metrics", "jobs", "books_audits"];
    let count = || lists.map(|list| world.statements(|| world.get(&format!("/api/{list}/"))));
    (0..2).for_each(join);
    let few = count();
    assert!(few.iter().all(|statements| *statements > 0), "{few:?}");
    (2..20).for_each(join);
    let shown = world.get("/api/customers/").ok(200);
    let full = |customer: &Value| {
        let lengths = [&customer["invoices"], &customer["subscriptions"], &customer["subscriptions"][0]["addons"]];
        lengths.map(|list| list.as_array().map(Vec::len)) == [Some(3), Some(1), Some(2)]
    };
    assert!(shown.as_array().is_some_and(|all| all.len() == 20 && all.iter().all(full)), "{shown}");
    assert_eq!(count(), few, "{lists:?}, of two customers and of twenty");
}

#[test]
fn a_list_reads_no_more_when_nothing_is_known_of_its_tables() {
    #[derive(diesel::QueryableByName)]
    struct Read {
        #[diesel(sql_type = BigInt)]
        scans: i64,
        #[diesel(sql_type = BigInt)]
        tuples: i64,
    }
    let world = World::new();
    let plan = world.plan(&world.metric());
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]});
    world.post("/api/subscriptions/", &body).ok(200);
    world.copy_customers(5_000);
    let mut pg = world.pg();
    let mut read = || {
        let read = "SELECT sum(idx_scan)::bigint AS scans,
                sum(idx_tup_read) FILTER (WHERE pg_get_indexdef(indexrelid, 1, false) = 'organization_id')::bigint AS tuples
            FROM pg_stat_user_indexes WHERE relname IN ('subscriptions', 'invoices')";
        diesel::sql_query(read).get_result::<Read>(&mut pg).expect("counters")
    };
    let before = read();
    assert_eq!(world.get("/api/customers/?limit=50").ok(200).as_array().map(Vec::len), Some(50));
    // The server tells of what it has read with a delay.
    let deadline = Instant::now() + Duration::from_secs(30);
    let (mut after, mut lists) = (read(), 1);
    while after.scans == before.scans {
        assert!(Instant::now() < deadline, "nothing was read");
        std::thread::sleep(Duration::from_millis(300));
        world.get("/api/customers/?limit=50").ok(200);
        (after, lists) = (read(), lists + 1);
    }
    // An organization's rows are 5,001; a list needs those of 50 customers.
    let tuples = (after.tuples - before.tuples) / lists;
    assert!(tuples < 2_000, "{tuples} rows of the organization's were read for each of {lists} lists");
}
