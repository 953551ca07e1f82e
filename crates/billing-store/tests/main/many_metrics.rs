//! One event name that very many metrics count: each event then moves a row for every one of them.

use std::thread;
use std::time::Duration as Wait;

use billing_domain::event::{Event, Ingested};
use billing_domain::metric::{Aggregation, Measure};
use billing_domain::store::{EventIngest, Window};
use billing_domain::testing::build;
use billing_store::PgStore;
use billing_store::testing::{ROLLUP_ROWS_MAX, TestStore};
use diesel::connection::SimpleConnection;
use time::Duration;
use time::macros::datetime;

use crate::sql::{connect, execute, query};
use crate::usage::World;

/// As many as failed first.
const METRICS: usize = 26;

fn count_many(world: &World<'_>) {
    for _ in 0..METRICS {
        world.new_metric(Measure::Counter(Aggregation::Count));
    }
}

/// Events of so many customers, each an hour after the one before.
fn hourly(count: usize, customers: usize) -> Vec<Event> {
    let event = |place: usize| {
        let time = datetime!(2001-05-01 0:00 UTC) + Duration::hours(i64::try_from(place).expect("few"));
        build::event(&format!("customer-{}", place % customers), "call", &place.to_string(), time)
    };
    (0..count).map(event).collect()
}

/// The most rows of roll-ups that one transaction wrote.
fn most_rows_written(store: &TestStore) -> usize {
    let rows = query(
        store.url(),
        "SELECT count(*)::text AS value FROM usage_rollup GROUP BY xmin ORDER BY count(*) DESC LIMIT 1",
    );
    rows.first().map_or(0, |count| count.parse().expect("a number"))
}

fn counted(store: &TestStore) -> String {
    let sql = "SELECT sum(event_count)::text AS value FROM counted_usage WHERE bucket_hours = 1";
    query(store.url(), sql).remove(0)
}

#[test]
fn a_transaction_writes_a_bounded_number_of_rows() {
    #[rustfmt::skip]
    let cases = [
        // events, customers, why
        (1_000,    1,         "a month's hours of one customer"),
        (1_000,    1_000,     "each of another customer, stored by all writers"),
    ];
    for (events, customers, why) in cases {
        let store = TestStore::in_one_lane();
        let world = World::new(&store, 1);
        count_many(&world);
        let outcomes = store.ingest(world.organization, &hourly(events, customers), Window::Open).expect("taken in");
        assert_eq!(outcomes, vec![Ingested::Stored; events], "{why}");
        let most = most_rows_written(&store);
        assert!((1..=ROLLUP_ROWS_MAX).contains(&most), "{most} rows in one transaction: {why}");
        assert_eq!(counted(&store), (events * METRICS).to_string(), "{why}");
        let again = store.ingest(world.organization, &hourly(events, customers), Window::Open).expect("taken in");
        assert_eq!(again, vec![Ingested::Duplicate; events], "{why}");
        assert_eq!(counted(&store), (events * METRICS).to_string(), "{why}");
    }
}

#[test]
fn hours_that_close_at_once_are_closed_in_several_transactions() {
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    count_many(&world);
    let now = time::OffsetDateTime::now_utc();
    let events = |round: &str| -> Vec<Event> {
        (0..500)
            .map(|place| build::event(&format!("customer-{place}"), "call", &format!("{round}-{place}"), now))
            .collect()
    };
    store.ingest(world.organization, &events("first"), Window::Open).expect("taken in");
    // As if the hour had ended since.
    execute(store.url(), "UPDATE hot_buckets SET hour = hour - interval '3 hours'").expect("moved");
    // Their ids are looked up first from now on, so that the second time is not one of surprises.
    store.ingest(world.organization, &events("second"), Window::Open).expect("taken in");
    let most = most_rows_written(&store);
    assert!((1..=ROLLUP_ROWS_MAX).contains(&most), "{most} rows in one transaction");
    assert_eq!(counted(&store), (2 * 500 * METRICS).to_string());
}

#[test]
fn nobody_waits_for_key_ranges_while_a_month_is_made() {
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    world.new_metric(Measure::Counter(Aggregation::Count));
    let mut other = connect(store.url());
    // Somebody else is at the same month.
    other.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(4, hashtext('events_2001_05'))").expect("locked");
    let locks = |class: i32, granted: bool| {
        let sql = format!(
            "SELECT pid::text AS value FROM pg_locks WHERE locktype = 'advisory' AND classid = {class}
                AND granted = {granted} AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        );
        query(store.url(), &sql)
    };
    let importer: PgStore = store.store();
    let organization = world.organization;
    let import = thread::spawn(move || importer.ingest(organization, &hourly(1, 1), Window::Open));
    while locks(4, false).is_empty() && !import.is_finished() {
        thread::sleep(Wait::from_millis(5));
    }
    let held = locks(1, true);
    other.batch_execute("COMMIT").expect("released");
    assert_eq!(import.join().expect("no panic").expect("taken in"), [Ingested::Stored]);
    assert!(held.is_empty(), "{held:?} hold key ranges and wait for a month");
}

#[test]
fn a_name_is_noted_before_any_key_range_is_held() {
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    let mut other = connect(store.url());
    let sql = format!(
        "BEGIN; INSERT INTO event_names (organization_id, name, latest_before) VALUES ('{}', 'call', '-infinity')",
        world.organization.uuid()
    );
    other.batch_execute(&sql).expect("noted");
    let importer: PgStore = store.store();
    let organization = world.organization;
    let import = thread::spawn(move || importer.ingest(organization, &hourly(1, 1), Window::Open));
    let waiting = "SELECT pid::text AS value FROM pg_locks WHERE locktype = 'transactionid' AND NOT granted";
    while query(store.url(), waiting).is_empty() && !import.is_finished() {
        thread::sleep(Wait::from_millis(5));
    }
    let key_ranges = "SELECT lock.pid::text AS value FROM pg_locks lock JOIN pg_database database ON database.oid = lock.database
        WHERE database.datname = current_database() AND lock.locktype = 'advisory' AND lock.classid = 1 AND lock.granted";
    let held = query(store.url(), key_ranges);
    other.batch_execute("COMMIT").expect("released");
    assert_eq!(import.join().expect("no panic").expect("taken in"), [Ingested::Stored]);
    assert!(held.is_empty(), "{held:?} hold key ranges and wait for the note of a name");
}

#[test]
fn months_are_made_before_anybody_needs_them() {
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    let partitions = || {
        query(
            store.url(),
            "SELECT inhrelid::regclass::text AS value FROM pg_inherits WHERE inhparent = 'events'::regclass ORDER BY 1",
        )
    };
    assert_eq!(partitions(), Vec::<String>::new());
    store.make_months_ahead().expect("made");
    let month = |shift: &str| {
        query(
            store.url(),
            &format!(
                "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '{shift}', '\"events_\"YYYY\"_\"MM') AS value"
            ),
        )
        .remove(0)
    };
    let made = partitions();
    for (shift, why) in [
        ("-30 days", "as far back as events are taken in"),
        ("0", "the present one"),
        ("1 day", "as far ahead as events are taken in"),
        ("1 month", "the next one: it must not be made by whoever comes first at midnight"),
    ] {
        assert!(made.contains(&month(shift)), "{made:?}: {why}");
    }
    assert_eq!(store.make_months_ahead().expect("nothing to do"), 0);
    world.catalog(|tx| {
        let mut organization = tx.organizations().get()?;
        organization.event_window_days = 200;
        tx.organizations().update(&organization)
    });
    store.make_months_ahead().expect("made");
    assert!(partitions().contains(&month("-200 days")), "as soon as some organization takes in older events");
    assert!(billing_store::testing::find_unindexed_partition(&store).is_none());
    let settings = query(
        store.url(),
        "SELECT relname::text AS value FROM pg_class WHERE relispartition AND relkind = 'r' AND reloptions IS NULL",
    );
    assert_eq!(settings, Vec::<String>::new(), "each is vacuumed as months are");
}
