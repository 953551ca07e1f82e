//! What the service counts about itself, in Prometheus's text format.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use diesel::connection::SimpleConnection;
use serde_json::json;

use crate::support::{Field, World, ago, event, now};

/// The samples of the page by name and labels; the page is checked to be one that Prometheus reads.
fn samples(world: &World) -> BTreeMap<String, String> {
    let page = world.send("GET", "/metrics", &[], b"");
    assert_eq!((page.status, page.header("content-type")), (200, "text/plain; version=0.0.4; charset=utf-8"));
    let (mut samples, mut kinds, mut helped) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    for line in page.text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, meaning) = rest.split_once(' ').expect("a name and a text");
            assert!(helped.insert(name.to_owned()) && meaning.ends_with('.'), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a kind");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(helped.contains(name) && kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            assert!(value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'), "{line}");
            let name = series.split('{').next().expect("a name");
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let is_known = kinds.contains_key(name) || family.is_some_and(|family| kinds[family] == "histogram");
            assert!(is_known, "{line}");
            assert!(samples.insert(series.to_owned(), value.to_owned()).is_none(), "{line} is there twice");
        }
    }
    samples
}

#[test]
fn requests_errors_and_events_are_counted() {
    let world = World::new();
    world.get("/api/ping/");
    world.get("/api/ping");
    world.send("GET", "/api/ping/", &[], b"");
    world.get("/api/customers/nobody/");
    world.get("/no/such/path");
    world.send("BREW", "/no/such/pot", &[], b"");
    let batch =
        json!({"batch": [event("acme", "1", &now()), event("acme", "1", &now()), event("acme", "2", "2001-01-01")]});
    world.post("/api/track/", &batch).ok(201);
    for _ in 0..2 {
        let headers =
            [("X-API-KEY", world.key.as_str()), ("Content-Type", "application/json"), ("Idempotency-Key", "twice")];
        world.send("POST", "/api/currencies/", &headers, br#"{"code": "USD", "name": "x", "symbol": "x"}"#);
    }

    let samples = samples(&world);
    #[rustfmt::skip]
    let expected = [
        // series,                                                                                       value, why
        (r#"billing_http_requests_total{route="/api/ping",method="GET",status="200"}"#,                  "2",   "with and without the slash"),
        (r#"billing_http_requests_total{route="/api/ping",method="GET",status="401"}"#,                  "1",   "no key"),
        (r#"billing_http_requests_total{route="/api/customers/{customer_id}",method="GET",status="404"}"#, "1", "the pattern, not the id"),
        (r#"billing_http_requests_total{route="other",method="GET",status="404"}"#,                      "1",   "no route"),
        (r#"billing_http_requests_total{route="other",method="other",status="404"}"#,                    "1",   "no method"),
        (r#"billing_http_request_duration_seconds_count{route="/api/ping",method="GET"}"#,               "3",   "all of them"),
        (r#"billing_http_request_duration_seconds_bucket{route="/api/ping",method="GET",le="+Inf"}"#,    "3",   "the last bucket has all"),
        (r#"billing_http_errors_total{code="not_authenticated"}"#,                                       "1",   "by code"),
        (r#"billing_http_errors_total{code="not_found"}"#,                                               "3",   "by code"),
        (r#"billing_http_errors_total{code="duplicate_resource"}"#,                                      "2",   "refused, and refused again by the kept answer"),
        (r#"billing_http_requests_in_flight"#,                                                           "1",   "this one"),
        (r#"billing_events_total{outcome="stored"}"#,                                                    "1",   "new"),
        (r#"billing_events_total{outcome="duplicate"}"#,                                                 "1",   "known"),
        (r#"billing_events_total{outcome="refused"}"#,                                                   "1",   "too old"),
        (r#"billing_database_up"#,                                                                       "1",   "it answers"),
        (r#"billing_due_customers"#,                                                                     "0",   "nothing is due"),
        (r#"billing_lag_seconds"#,                                                                       "0.000000", "so nothing waits"),
        (r#"billing_ingest_waiting_bytes"#,                                                             "0",   "all are stored"),
        (r#"billing_blocking_places{state="free"}"#,                                                     "8",   "nobody is at work"),
    ];
    for (series, value, why) in expected {
        assert_eq!(samples.get(series).map(String::as_str), Some(value), "{series}: {why}: {samples:#?}");
    }
    assert!(samples["billing_pool_connections{state=\"idle\"}"] != "0", "connections are kept");
    let paths: Vec<_> = samples.keys().filter(|series| series.contains("nobody") || series.contains("pot")).collect();
    assert!(paths.is_empty(), "a caller can make series up: {paths:?}");
}

#[test]
fn what_was_filled_past_the_service_is_planned_anew() {
    let mut world = World::new();
    world.customer("acme");
    // As a restored dump: full tables of which nothing is known.
    world.sql(
        "SELECT create_events_partition('2019-05-01 00:00+00');
        INSERT INTO events
        SELECT organization_id, customer_key, customer_id, md5(n::text)::uuid, n::text, 'old', '2019-05-02', '{}', now(), n
        FROM customers, generate_series(1, 3000) n",
    );
    world.restart();
    let mut pg = world.pg();
    let known = "DO $$ BEGIN ASSERT EXISTS (SELECT FROM pg_stats WHERE tablename = 'events_2019_05'); END $$";
    let deadline = Instant::now() + Duration::from_secs(30);
    while pg.batch_execute(known).is_err() {
        assert!(Instant::now() < deadline, "nobody has looked at it");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn invoices_are_counted_with_their_money_once_they_are_there() {
    let world = World::new();
    let plan = world.plan(&world.metric());
    world.post("/api/currencies/", &json!({"code": "POINTS", "name": "points", "symbol": "p"})).ok(201);
    let points = json!({"plan_name": "Points", "plan_duration": "monthly", "initial_version": {"currency_code": "POINTS",
        "recurring_charges": [{"name": "base", "amount": 7, "charge_timing": "in_advance"}]}});
    let points = world.post("/api/plans/", &points).ok(201).id("plan_id");
    for (customer, plan) in [("a", &plan), ("bb", &plan), ("ccc", &points)] {
        world.customer(customer);
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": now()});
        world.post("/api/subscriptions/", &body).ok(200);
        // Refused, and so neither kept nor counted.
        world.post("/api/subscriptions/", &body).error();
    }
    let samples = samples(&world);
    let sample = |series: &str| samples.get(series).map(String::as_str);
    assert_eq!(sample(r#"billing_invoices_issued_total{currency="USD"}"#), Some("2"));
    assert_eq!(sample(r#"billing_invoiced_amount_total{currency="USD"}"#), Some("18"));
    assert_eq!(sample(r#"billing_invoices_issued_total{currency="own"}"#), Some("1"), "whatever they are called");
    assert!(samples.keys().all(|series| !series.contains("POINTS")), "an organization cannot make a series");
    assert_eq!(sample("billing_ingest_oldest_wait_seconds"), Some("0.000000"), "nothing waits");
}

#[test]
fn the_process_and_the_size_of_its_database_are_told() {
    let world = World::new();
    let deadline = Instant::now() + Duration::from_secs(30);
    let samples = loop {
        // A worker measures the database, and not who asks.
        let samples = samples(&world);
        if samples.contains_key("billing_database_bytes") {
            break samples;
        }
        assert!(Instant::now() < deadline, "the database is not measured");
        std::thread::sleep(Duration::from_millis(20));
    };
    for (name, least) in [
        ("billing_database_bytes", 1_000_000.0),
        ("process_resident_memory_bytes", 1_000_000.0),
        ("process_virtual_memory_bytes", 1_000_000.0),
        ("process_open_fds", 5.0),
        ("process_start_time_seconds", 1_700_000_000.0),
        ("process_cpu_seconds_total", 0.0),
    ] {
        let value: f64 = samples[name].parse().expect("a number");
        assert!(value >= least, "{name}: {value}");
    }
}

#[test]
fn what_is_about_to_expire_and_who_does_the_most_is_told() {
    let mut world = World::new();
    let organization = world.get("/api/organization/").ok(200).id("organization_id");
    world.customer("acme");
    let clock = world.clock("2030-01-01");
    world.customer_at("tested", &clock);
    world.post("/api/currencies/", &json!({"code": "POINTS", "name": "points", "symbol": "p"})).ok(201);
    let day = |days: i64| ago(-time::Duration::days(days));
    #[rustfmt::skip]
    let credits = [
        // customer, amount, currency, expires,        counted as
        ("acme",     "0.1",  "USD",    json!(day(1))),
        ("acme",     "0.2",  "USD",    json!(day(6))),
        ("acme",     "8",    "USD",    json!(day(8))),
        ("acme",     "9",    "USD",    json!(null)),
        ("acme",     "5",    "POINTS", json!(day(3))),
        ("tested",   "7",    "USD",    json!("2030-01-02")),
    ];
    for (customer, amount, currency, expires) in credits {
        let body = json!({"customer_id": customer, "amount": amount, "currency_code": currency, "expires_at": expires});
        world.post("/api/credits/", &body).ok(201);
    }
    world.post("/api/track/", &json!([event("acme", "1", &now()), event("acme", "2", &now())])).ok(201);
    // Nobody else's are told of under their name.
    let (other, key) = (world.other_key(), world.key.clone());
    world.key = other;
    world.post("/api/track/", &event("acme", "1", &now())).ok(201);
    world.key = key;
    world.opened.store.measure_database().expect("measured");

    let samples = samples(&world);
    let sample = |series: &str| samples.get(series).map(String::as_str);
    assert_eq!(sample(r#"billing_credits_expiring{currency="USD"}"#), Some("2"), "within seven days, in real time");
    assert_eq!(sample(r#"billing_credits_expiring_amount{currency="USD"}"#), Some("0.3"));
    assert_eq!(sample(r#"billing_credits_expiring{currency="own"}"#), Some("1"), "whatever they are called");
    assert!(samples.keys().all(|series| !series.contains("POINTS")), "an organization cannot make a series");
    let series = format!("billing_organization_events_total{{organization=\"{organization}\"}}");
    assert_eq!(sample(&series), Some("2"));
    let told = samples.keys().filter(|series| series.starts_with("billing_organization_events_total")).count();
    assert_eq!(told, 2, "the other organization has a series of its own");
    let build = samples.keys().find(|series| series.starts_with("billing_build_info")).expect("a build");
    assert!(build.contains("revision=\""), "{build}");

    // Somebody's billing is due, and nobody is there to do it.
    let plan = world.plan(&world.metric());
    let clock = world.clock("2026-01-01");
    world.customer_at("late", &clock);
    let body = json!({"customer_id": "late", "plan_id": plan, "start_date": "2026-01-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    world.fall_behind();
    world.opened.store.measure_database().expect("measured");
    let due = world.opened.store.load().measured.expect("measured").due_customers.clone();
    assert_eq!(due.len(), 1);
    assert_eq!((due[0].0.to_string(), due[0].1), (organization, 1));
}

/// All metrics that a text names.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '_');
    words.filter(|word| word.starts_with("billing_") || word.starts_with("process_")).collect()
}

#[test]
fn dashboard_alerts_and_document_name_the_metrics_there_are() {
    let world = World::new();
    world.get("/api/ping/");
    // Else a worker does it, sooner or later.
    world.opened.store.measure_database().expect("measured");
    let samples = samples(&world);
    let page = world.send("GET", "/metrics", &[], b"").text;
    let families: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let series: BTreeSet<&str> = samples.keys().filter_map(|series| series.split('{').next()).collect();
    let dashboard = include_str!("../../../../docs/grafana-dashboard.json");
    let parsed: serde_json::Value = serde_json::from_str(dashboard).expect("JSON");
    let panels = parsed["panels"].as_array().expect("panels");
    let expressions: Vec<&str> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("targets"))
        .map(|target| target["expr"].as_str().expect("an expression"))
        .collect();
    let rules = include_str!("../../../../docs/alert-rules.yml");
    let expressions: String = expressions.join("\n");
    let rules: String =
        rules.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect::<Vec<_>>().join("\n");
    for (file, text) in [("grafana-dashboard.json", &expressions), ("alert-rules.yml", &rules)] {
        let named = metrics_in(text);
        assert!(named.len() > 8, "{file} names {named:?}");
        let missing: Vec<_> =
            named.iter().filter(|name| !families.contains(*name) && !series.contains(*name)).collect();
        assert!(missing.is_empty(), "{file}: no such metrics: {missing:?}");
    }
    let operating = metrics_in(include_str!("../../../../docs/operating.md"));
    let untold: Vec<_> = families.iter().filter(|family| !operating.contains(*family)).collect();
    assert!(untold.is_empty(), "docs/operating.md says nothing of {untold:?}");
}
