//! Months of events that are made while others are at work.

use std::thread;
use std::time::{Duration as Wait, Instant};

use billing_domain::metric::{Aggregation, Measure, Metric};
use billing_domain::period::Period;
use billing_domain::store::{EventIngest, Scope, Store, Window};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::testing::build;
use billing_domain::usage::UsageRequest;
use billing_store::PgStore;
use billing_store::testing::TestStore;
use diesel::connection::SimpleConnection;
use time::macros::datetime;

use crate::sql::{connect, execute, query};
use crate::usage::World;

/// Whether somebody waits for a lock on January.
const WAITING: &str = "SELECT 'waits' AS value FROM pg_locks
    WHERE relation = 'events_2024_01'::regclass AND NOT granted";

fn wait_until_january_is_waited_for(url: &str) {
    let began = Instant::now();
    while query(url, WAITING).is_empty() {
        assert!(began.elapsed() < Wait::from_secs(20), "nobody plans with January");
        thread::sleep(Wait::from_millis(1));
    }
}

/// A statement is planned once for each connection, with all months in it. One that is made in the middle of that is in the next plan.
#[test]
fn a_month_that_is_made_while_a_reading_is_planned_is_read_from_then_on() {
    let test = TestStore::in_one_lane();
    let world = World::new(&test, 1);
    let metric = world.new_metric(Measure::Counter(Aggregation::Count));
    let unique = world.new_metric(Measure::Counter(Aggregation::Unique { property_name: "env".to_owned() }));
    let at = |id: &str, time| build::event("acme", "call", id, time);
    let january = at("january", datetime!(2024-01-20 00:00 UTC));
    test.ingest(world.organization, &[january], Window::Open).expect("taken in");
    // Not whole hours, so that events are read; each reading is planned by the one connection that there is.
    let period = Period::new(datetime!(2024-05-10 00:00:30 UTC), datetime!(2024-05-10 00:01:30 UTC)).expect("a period");
    let requests: Vec<UsageRequest> = [&metric, &unique]
        .into_iter()
        .map(|metric: &Metric| {
            UsageRequest::current(world.customer, metric.clone(), SubscriptionFilters::none(), period)
        })
        .collect();
    let reader = PgStore::connect(test.url(), 1).expect("connected");
    let read = || -> Vec<u64> {
        let store: &dyn Store = &reader;
        let scope = Scope::Customer(world.organization, world.customer);
        let usages = store.run_for(&scope, |tx, _| tx.events().usages(&requests)).expect("read");
        usages.into_iter().map(|usage| usage.event_count).collect()
    };
    let mut holder = connect(test.url());
    holder.batch_execute("BEGIN; LOCK TABLE events_2024_01 IN ACCESS EXCLUSIVE MODE").expect("locked");
    thread::scope(|threads| {
        let planning = threads.spawn(read);
        wait_until_january_is_waited_for(test.url());
        // The other two are those in which an id of May's is looked for: none is made later.
        let months = "SELECT create_events_partition(month)
            FROM unnest(ARRAY['2024-04-01', '2024-05-01', '2024-06-01']::timestamptz[]) month";
        execute(test.url(), months).expect("made");
        holder.batch_execute("COMMIT").expect("let go");
        assert_eq!(planning.join().expect("read"), [0, 0], "there is nothing yet");
    });
    let may = at("may", datetime!(2024-05-10 00:01 UTC));
    let may = billing_domain::event::Event { properties: build::properties(r#"{"env": "a"}"#), ..may };
    test.ingest(world.organization, &[may], Window::Open).expect("taken in");
    assert_eq!(read(), [1, 1], "what was stored is counted, by the connection that had planned before");
}

/// Somebody may be planning without a new month, and would miss what is stored in it. So nothing is, until they have ended.
#[test]
fn nothing_is_stored_in_a_new_month_while_somebody_may_read_without_it() {
    let test = TestStore::in_one_lane();
    let world = World::new(&test, 1);
    let mut reader = connect(test.url());
    reader.batch_execute("BEGIN; SELECT FROM events").expect("read");
    let may = build::event("acme", "call", "may", datetime!(2024-05-10 00:01 UTC));
    thread::scope(|threads| {
        let storing = threads.spawn(|| test.ingest(world.organization, &[may], Window::Open));
        let began = Instant::now();
        let made = "SELECT 'made' AS value WHERE to_regclass('events_2024_05') IS NOT NULL";
        while query(test.url(), made).is_empty() {
            assert!(began.elapsed() < Wait::from_secs(20), "May is made");
            thread::sleep(Wait::from_millis(1));
        }
        thread::sleep(Wait::from_millis(500));
        assert!(!storing.is_finished(), "the reader may lack May");
        assert_eq!(query(test.url(), "SELECT count(*)::text AS value FROM events"), ["0"]);
        reader.batch_execute("COMMIT").expect("ended");
        storing.join().expect("no panic").expect("stored");
    });
    assert_eq!(query(test.url(), "SELECT count(*)::text AS value FROM events"), ["1"]);
}
