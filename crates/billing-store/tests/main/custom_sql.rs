//! Custom metrics: what Postgres makes of a program is what the domain's interpreter makes of it, and what is printed
//! names nothing but what it may.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use billing_domain::StoreError;
use billing_domain::custom_sql::{CustomFailure, CustomSql, CustomUsageRequest};
use billing_domain::event::Event;
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::period::Period;
use billing_domain::store::{EventIngest, Scope, Store, Window};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::testing::build::{self, Ids};
use billing_domain::testing::world::filters;
use billing_domain::usage::Usage;
use billing_domain::usage::fold_custom;
use billing_store::Deadline;
use billing_store::testing::{TestStore, custom_failure, printed_custom_sql};
use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::custom_sql_grammar::queries;
use crate::sql_walk::refuse_foreign_names;

const CENTER: OffsetDateTime = datetime!(2024-02-29 12:34:56.789012 UTC);
/// Queries that are asked about one set of events.
const QUERIES: usize = 25;

/// 300 queries, or about as many as `PROPTEST_CASES` says.
fn config() -> Config {
    let queries = match Config::default().cases {
        // What proptest takes when nobody asks for a number.
        256 => 300,
        cases => cases,
    };
    Config {
        cases: queries.div_ceil(QUERIES as u32),
        failure_persistence: None,
        max_shrink_iters: 50,
        ..Config::default()
    }
}

fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "-?[0-9]{1,3}(\\.[0-9]{1,3})?".prop_filter("JSON", |text| text.parse::<serde_json::Number>().is_ok()),
        1 => "-?[0-9]{1,30}\\.[0-9]{1,20}".prop_map(|digits| format!("\"{digits}\"")),
        1 => "[1-9]e-?(30|2[0-9])",
        1 => "[0-9.eE+-]{0,6}".prop_map(|noise| format!("\"{noise}\"")),
        1 => Just("null".to_owned()),
        1 => Just("0".to_owned()),
        1 => Just("true".to_owned()),
    ]
}

fn texts() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        "[ab%_é\\\\]{0,3}",
        Just("2024-02-29".to_owned()),
        Just("2024-02-30".to_owned()),
        Just("2024-02-29T23:59:59.5+05:30".to_owned()),
        Just("0001-01-01 00:00:00+01".to_owned()),
        "202[34]-(0[12]|13)-(29|[0-3][0-9])[T ]?([01][0-9]|2[0-4]):[0-6][0-9](:[0-6][0-9](\\.[0-9]{1,7})?)?(Z|[+-][01][0-9](:?[0-6][0-9])?)?",
        "[0-9]{1,2}",
    ];
    prop_oneof![4 => text.prop_map(|text| serde_json::Value::from(text).to_string()), 1 => Just("null".to_owned())]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let instant = prop_oneof![
        -300_000_000_000_i64..300_000_000_000,
        Just(0_i64),
        (-3_i64..3).prop_map(|days| days * 86_400_000_000 - 45_296_789_012),
    ];
    let event = (instant, values(), values(), texts(), texts(), prop::bool::weighted(0.7));
    prop::collection::vec(event, 0..12).prop_map(|events| {
        let numbered = events.into_iter().enumerate();
        let event = |(id, (us, n, m, t, u, is_call)): (usize, (i64, String, String, String, String, bool))| {
            let json = format!(r#"{{"n": {n}, "m": {m}, "t": {t}, "u": {u}}}"#);
            let name = if is_call { "call" } else { "other" };
            let time = CENTER + Duration::microseconds(us);
            Event { properties: build::properties(&json), ..build::event("acme", name, &id.to_string(), time) }
        };
        numbered.map(event).collect()
    })
}

/// An organization with one customer.
pub struct World<'s> {
    store: &'s TestStore,
    pub organization: OrganizationId,
    customer: CustomerKey,
}

impl<'s> World<'s> {
    pub fn new(store: &'s TestStore, seed: u32) -> Self {
        let organization: OrganizationId = Ids::new(seed).next();
        let world = Self { store, organization, customer: build::customer(organization, "acme", CENTER).key };
        let scope = Scope::Catalog(organization);
        let store: &dyn Store = &**store;
        store
            .run_for(&scope, |tx, now| tx.organizations().insert(&build::organization(organization, now)))
            .expect("kept");
        world
    }

    pub fn import(&self, events: &[Event]) {
        self.store.ingest(self.organization, events, Window::Open).expect("taken in");
    }

    pub fn ask(&self, requests: &[CustomUsageRequest]) -> Vec<Result<Usage, CustomFailure>> {
        let store: &dyn Store = &**self.store;
        let scope = Scope::Organization(self.organization);
        store.run_for(&scope, |tx, _| tx.events().custom_usages(requests)).expect("answers")
    }

    pub fn request(&self, sql: CustomSql, filters: SubscriptionFilters, period: Period) -> CustomUsageRequest {
        CustomUsageRequest { customer: self.customer, sql, filters, period }
    }
}

fn day() -> Period {
    Period::new(CENTER - Duration::days(1), CENTER + Duration::days(1)).expect("a period")
}

#[test]
fn agrees_with_the_interpreter() {
    let store = TestStore::new();
    let seed = Cell::new(0);
    let (asked, answered) = (RefCell::new(0), RefCell::new(0));
    let cases = (events(), prop::collection::vec(queries(), QUERIES));
    let check = |(events, queries): (Vec<Event>, Vec<String>)| {
        seed.set(seed.get() + 1);
        let world = World::new(&store, seed.get());
        world.import(&events);
        let all = [SubscriptionFilters::none(), filters(&[("u", "a")])];
        let mut requests = Vec::new();
        for (number, query) in queries.iter().enumerate() {
            *asked.borrow_mut() += 1;
            match CustomSql::parse(query) {
                Ok(sql) => requests.push(world.request(sql, all[number % 2].clone(), day())),
                // Random queries may be too large, and nothing else.
                Err(error) => prop_assert!(
                    error.to_string().contains("at most") || error.to_string().contains("deep"),
                    "{query}: {error}"
                ),
            }
        }
        for (request, found) in requests.iter().zip(world.ask(&requests)) {
            let expected = fold_custom(request, &events);
            *answered.borrow_mut() += usize::from(expected.is_ok());
            prop_assert_eq!(found, expected, "{}", request.sql.text());
            refuse_foreign_names(&printed_custom_sql(world.organization, request));
        }
        Ok(())
    };
    TestRunner::new(config()).run(&cases, check).unwrap_or_else(|error| panic!("{error}"));
    // A law about queries that all fail would say little.
    let (asked, answered) = (*asked.borrow(), *answered.borrow());
    assert!(answered * 3 > asked, "{answered} of {asked} queries had a result");
}

#[test]
fn runs_as_a_role_that_reads_one_view_and_how_far_events_have_come() {
    let store = TestStore::new();
    let found = billing_store::testing::as_custom_metric(
        &store,
        &[
            ("SELECT current_user::text AS value", true),
            ("SELECT count(*)::text AS value FROM custom_metric_events", true),
            ("SELECT count(*)::text AS value FROM event_arrivals", true),
            ("UPDATE event_arrivals SET last_arrival = 0", false),
            ("SELECT count(*)::text AS value FROM public.events", false),
            ("SELECT count(*)::text AS value FROM public.api_keys", false),
            ("SELECT count(*)::text AS value FROM public.invoices", false),
            ("INSERT INTO custom_metric_events (event_name) VALUES ('x')", false),
            ("CREATE TABLE stolen (i int)", false),
        ],
    );
    for (sql, is_allowed, answer) in &found {
        assert_eq!(answer.is_ok(), *is_allowed, "{sql}: {answer:?}");
    }
    assert_eq!(found[0].2.as_deref(), Ok("billing_custom_metric"));
    let settings = ["transaction_read_only", "statement_timeout", "work_mem", "temp_file_limit", "jit"];
    let settings: Vec<(String, bool)> =
        settings.iter().map(|name| (format!("SELECT current_setting('{name}') AS value"), true)).collect();
    let settings: Vec<(&str, bool)> = settings.iter().map(|(sql, is_allowed)| (sql.as_str(), *is_allowed)).collect();
    let found = billing_store::testing::as_custom_metric(&store, &settings);
    let found: Vec<_> = found.iter().map(|(_, _, answer)| answer.as_deref().unwrap_or("refused")).collect();
    assert_eq!(found, ["on", "2s", "8MB", "64MB", "off"]);
}

#[test]
fn says_which_limit_a_query_ran_into() {
    let store = TestStore::new();
    #[rustfmt::skip]
    let cases = [
        // statement,                                                                           failure,                      why
        ("SELECT pg_sleep(5)",                                                                  CustomFailure::TimedOut,      "2 s are over"),
        ("SELECT count(*) FROM (SELECT n, n::text || repeat('x', 500) FROM generate_series(1, 200000) n ORDER BY 2 OFFSET 0) sorted",
                                                                                                CustomFailure::TooMuchMemory, "a sort of 100 MB"),
        ("SELECT count(*) FROM public.api_keys",                                                CustomFailure::Fault,         "the printer never writes this"),
        ("SELECT 1 / 0",                                                                        CustomFailure::Fault,         "nor this"),
    ];
    for (sql, failure, why) in cases {
        assert_eq!(custom_failure(&store, sql), Ok(failure), "{sql}: {why}");
    }
}

#[test]
fn sees_neither_other_customers_nor_other_organizations() {
    let store = TestStore::new();
    let (ours, theirs) = (World::new(&store, 1), World::new(&store, 2));
    ours.import(&[build::event("acme", "call", "1", CENTER), build::event("other", "call", "2", CENTER)]);
    theirs.import(&[build::event("acme", "call", "1", CENTER), build::event("acme", "call", "3", CENTER)]);
    let count = CustomSql::parse("SELECT COUNT(*) AS usage_qty FROM events").expect("a query");
    let none = SubscriptionFilters::none();
    let usage = |world: &World<'_>| world.ask(&[world.request(count.clone(), none.clone(), day())]).remove(0);
    assert_eq!(usage(&ours), Ok(Usage { quantity: 1.into(), event_count: 1 }));
    assert_eq!(usage(&theirs), Ok(Usage { quantity: 2.into(), event_count: 2 }));
    // A customer of theirs asked for in our name has nothing.
    let foreign = CustomUsageRequest { customer: theirs.customer, ..ours.request(count.clone(), none.clone(), day()) };
    assert_eq!(ours.ask(&[foreign]), [Ok(Usage::zero())]);
}

#[test]
fn one_query_that_fails_leaves_the_others_alone() {
    let store = TestStore::new();
    let world = World::new(&store, 1);
    world.import(&[build::event("acme", "call", "1", CENTER)]);
    let request = |sql: &str| world.request(CustomSql::parse(sql).expect(sql), SubscriptionFilters::none(), day());
    let found = world.ask(&[
        request("SELECT COUNT(*) AS usage_qty FROM events"),
        request("SELECT 1 / (COUNT(*) - 1) AS usage_qty FROM events"),
        request("SELECT -COUNT(*) AS usage_qty FROM events"),
        request("SELECT COUNT(*) * 2 AS usage_qty FROM events"),
    ]);
    let quantity = |quantity: i32| Ok(Usage { quantity: quantity.into(), event_count: 1 });
    assert_eq!(found, [quantity(1), Err(CustomFailure::Invalid), Err(CustomFailure::Negative), quantity(2)]);
}

/// Makes casts to numbers slow.
fn slow_down(store: &TestStore, seconds: &str) {
    let mut pg = PgConnection::establish(store.url()).expect("a connection");
    let slow = format!(
        "CREATE OR REPLACE FUNCTION custom_metric.number(value text) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS
        $$ BEGIN PERFORM pg_sleep({seconds}); RETURN value::numeric; END $$"
    );
    pg.batch_execute(&slow).expect("a slow cast");
}

#[test]
fn nothing_more_is_sent_for_somebody_who_has_gone() {
    let store = TestStore::new();
    let world = World::new(&store, 1);
    world
        .import(&[Event { properties: build::properties(r#"{"n": 1}"#), ..build::event("acme", "call", "1", CENTER) }]);
    slow_down(&store, "0.5");
    let slow = CustomSql::parse("SELECT SUM((properties ->> 'n')::numeric) AS usage_qty FROM events").expect("a query");
    let slow = world.request(slow, SubscriptionFilters::none(), day());
    let (deadline, waiting) = Deadline::new(Instant::now() + std::time::Duration::from_secs(60));
    let found = std::thread::scope(|threads| {
        let asked = threads.spawn(|| {
            let store: &dyn Store = &*store;
            let scope = Scope::Organization(world.organization);
            deadline.run(|| store.run_for(&scope, |tx, _| tx.events().custom_usages(&[slow.clone(), slow.clone()])))
        });
        while crate::custom_sql_lost::sleeping(store.url()) == 0 {
            std::thread::yield_now();
        }
        drop(waiting);
        asked.join().expect("no panic")
    });
    assert_eq!(found, Err(StoreError::DeadlineExceeded.into()), "the second would have had its time");
}

#[test]
fn all_that_is_read_in_one_transaction_shares_its_time() {
    let store = TestStore::new();
    let world = World::new(&store, 1);
    world
        .import(&[Event { properties: build::properties(r#"{"n": 1}"#), ..build::event("acme", "call", "1", CENTER) }]);
    slow_down(&store, "1.8");
    let request = |sql: &str| world.request(CustomSql::parse(sql).expect(sql), SubscriptionFilters::none(), day());
    let slow = request("SELECT SUM((properties ->> 'n')::numeric) AS usage_qty FROM events");
    let quick = request("SELECT COUNT(*) AS usage_qty FROM events");
    let one = || Ok(Usage { quantity: 1.into(), event_count: 1 });
    let scope = Scope::Organization(world.organization);
    let dyn_store: &dyn Store = &*store;
    let found = dyn_store.run_for(&scope, |tx, _| {
        let first = tx.events().custom_usages(&[slow.clone(), quick.clone()])?;
        let second = tx.events().custom_usages(&[slow.clone(), slow.clone(), quick.clone()])?;
        Ok((first, second))
    });
    let timed_out = || Err(CustomFailure::TimedOut);
    // 1.8 s of the first five, 1.8 of the 3.2 that are left, and 1.3 of what is left then; a tenth is kept for who comes last.
    assert_eq!(found, Ok((vec![one(), one()], vec![one(), timed_out(), one()])));
    assert_eq!(world.ask(&[slow]), [one()], "another call has time of its own");
}
