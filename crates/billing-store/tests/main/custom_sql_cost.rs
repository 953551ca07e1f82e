//! What a short query may cost: a bound on memory that holds however it repeats itself.

use std::cell::Cell;

use billing_domain::custom_sql::{CustomSql, CustomUsageRequest};
use billing_domain::event::Event;
use billing_domain::period::Period;
use billing_domain::store::{Scope, Store};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::testing::build;
use billing_domain::testing::custom_sql::costly;
use billing_domain::usage::fold_custom;
use billing_store::testing::{TestStore, printed_custom_sql};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::backend::Backend;
use crate::custom_sql::World;
use crate::custom_sql_deep::deep_queries;
use crate::sql_walk::refuse_foreign_names;

/// Most memory that planning and running a query over a few events may take, in KiB.
const QUERY_KIB: u64 = 48 * 1024;
/// Most memory in which all steps of a query keep rows, in KiB.
const STEPS_KIB: u64 = 32 * 1024;
/// Queries that are asked at once.
const QUERIES: usize = 10;

const NOON: OffsetDateTime = datetime!(2024-03-01 12:00 UTC);

fn request(world: &World<'_>, sql: CustomSql) -> CustomUsageRequest {
    let day = Period::new(NOON - Duration::DAY, NOON + Duration::DAY).expect("a day");
    world.request(sql, SubscriptionFilters::none(), day)
}

fn events() -> Vec<Event> {
    let event = |n: i64| {
        let properties = build::properties(&format!(r#"{{"n": {n}}}"#));
        let event = build::event("acme", "call", &n.to_string(), NOON - Duration::minutes(n));
        Event { properties, ..event }
    };
    (1..=5).map(event).collect()
}

#[test]
fn a_short_query_takes_little_memory_whatever_it_says() {
    for query in costly() {
        // A backend of its own: one that a query takes along would hide the next.
        let store = TestStore::new();
        let (world, events) = (World::new(&store, 1), events());
        world.import(&events);
        let backend = Backend::guarded(&store);
        let sql = CustomSql::parse(&query.sql).unwrap_or_else(|error| panic!("{}: {error}", query.name));
        let request = request(&world, sql);
        let before = backend.measure();
        let store: &dyn Store = &*store;
        let found = store.run_for(&Scope::Organization(world.organization), |tx, _| {
            tx.events().custom_usages(std::slice::from_ref(&request))
        });
        let grown = backend.grown_kib(before);
        assert!(grown.is_some_and(|grown| grown < QUERY_KIB), "{}: {grown:?} KiB: {found:?}", query.name);
        assert_eq!(found, Ok(vec![fold_custom(&request, &events)]), "{}", query.name);
    }
}

#[test]
fn rows_are_kept_in_little_memory_by_however_many_steps() {
    let store = TestStore::new();
    let world = World::new(&store, 1);
    // 8 MB in each of 24 steps, which would be 190 MB if each had what one step has.
    let event = |n: u32| {
        let properties = build::properties(&format!(r#"{{"x": "{n:01600}"}}"#));
        let event = build::event("acme", "call", &n.to_string(), NOON - Duration::seconds(i64::from(n)));
        Event { properties, ..event }
    };
    for events in (0..5_000).collect::<Vec<_>>().chunks(500) {
        world.import(&events.iter().map(|n| event(*n)).collect::<Vec<_>>());
    }
    let backend = Backend::guarded(&store);
    let sets: String = (0..24).map(|n| format!("COUNT(DISTINCT COALESCE(properties ->> 'x', '{n}')) + ")).collect();
    let sql = CustomSql::parse(&format!("SELECT {sets}0 AS usage_qty FROM events")).expect("a query");
    let before = backend.measure();
    let found = world.ask(&[request(&world, sql)]);
    let grown = backend.grown_kib(before);
    assert!(grown.is_some_and(|grown| grown < STEPS_KIB + QUERY_KIB), "{grown:?} KiB: {found:?}");
}

#[test]
fn deep_queries_take_little_memory_and_agree_with_the_interpreter() {
    let queries = match Config::default().cases {
        256 => 200,
        cases => cases,
    };
    let cases = queries.div_ceil(QUERIES as u32);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 50, ..Config::default() };
    let store = TestStore::new();
    let (world, events) = (World::new(&store, 1), events());
    world.import(&events);
    let backend = Backend::guarded(&store);
    // What it keeps of earlier queries counts as well.
    let before = backend.measure();
    let (given, asked, answered, most) = (Cell::new(0), Cell::new(0), Cell::new(0), Cell::new(0));
    let check = |queries: Vec<String>| {
        for query in queries {
            given.set(given.get() + 1);
            // A text may be too long, or nested too deep.
            let Ok(sql) = CustomSql::parse(&query) else { continue };
            asked.set(asked.get() + 1);
            let request = request(&world, sql);
            let expected = fold_custom(&request, &events);
            backend.measure();
            let found = world.ask(std::slice::from_ref(&request)).remove(0);
            let grown = backend.grown_kib(before);
            prop_assert!(grown.is_some_and(|grown| grown < QUERY_KIB), "{grown:?} KiB: {query}");
            most.set(most.get().max(grown.unwrap_or_default()));
            prop_assert_eq!(&found, &expected, "{}", query);
            answered.set(answered.get() + usize::from(found.is_ok()));
            refuse_foreign_names(&printed_custom_sql(world.organization, &request));
        }
        Ok(())
    };
    let queries = prop::collection::vec(deep_queries(), QUERIES);
    TestRunner::new(config).run(&queries, check).unwrap_or_else(|error| panic!("{error}"));
    // A law about queries that all fail would say little.
    let found = (given.get(), asked.get(), answered.get());
    let (given, asked, answered) = found;
    assert!(
        asked * 2 > given && answered * 2 > asked,
        "given, understood, with a result: {found:?}; {} KiB",
        most.get()
    );
}

#[test]
fn what_says_much_has_fences() {
    let property = "(properties ->> 'n')::numeric";
    let far = |query: &str| format!("WITH t AS ({query}) SELECT SUM(a) AS usage_qty FROM t WHERE b > start_date");
    let (little, much) = ("a + 1", vec!["a"; 28].join(" + "));
    let nested = |output: &str| {
        format!(
            "SELECT SUM(a) AS usage_qty FROM (SELECT {output} AS a FROM (SELECT {much} AS a FROM (SELECT {property} AS a FROM events) AS t) AS t) AS t"
        )
    };
    let chained = format!(
        "WITH t0 AS (SELECT * FROM events), t1 AS (SELECT {property} AS a FROM t0), t2 AS (SELECT {much} AS a FROM t1), \
         t3 AS (SELECT {much} AS a FROM t2) SELECT SUM(a) AS usage_qty FROM t3"
    );
    #[rustfmt::skip]
    let cases = [
        // query, fences around queries with a name, around those in brackets, why
        (far(&format!("SELECT {property} AS a, time_created AS b FROM events")).replace("start_date", "'2024-01-01'"), 0, 0, "a condition on the time reaches the index"),
        (nested(little),                                                                                               0, 0, "as much as may be written without names"),
        (nested(&much),                                                                                                0, 4, "each of the three, and what is grouped"),
        (chained,                                                                                                      3, 1, "but for the one that only chooses"),
        ("SELECT (SELECT COUNT(*) FROM events) + (SELECT MAX(1) FROM events) AS usage_qty FROM events".to_owned(),     2, 0, "what is one value is there once"),
    ];
    let store = TestStore::new();
    let world = World::new(&store, 1);
    for (sql, named, in_brackets, why) in cases {
        let request = request(&world, CustomSql::parse(&sql).unwrap_or_else(|error| panic!("{why}: {error}")));
        let printed = printed_custom_sql(world.organization, &request);
        // Two are around the result, whatever it is.
        let fences = (printed.matches("AS MATERIALIZED").count(), printed.matches("OFFSET 0").count() - 2);
        assert_eq!(fences, (named, in_brackets), "{why}: {printed}");
    }
}
