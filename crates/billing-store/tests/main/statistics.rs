//! What tables are planned by is up to date without Postgres's own doing: test clusters have none of it.

use std::time::{Duration, Instant};

use billing_domain::event::Event;
use billing_domain::metric::{Aggregation, Measure};
use billing_domain::store::{EventIngest, Window};
use billing_domain::testing::build;
use billing_store::testing::TestStore;
use diesel::connection::SimpleConnection;
use time::macros::datetime;

use crate::sql::{connect, execute, query};
use crate::usage::World;

/// Tables of which statistics were gathered, with the number of rows known.
const GATHERED: &str = "SELECT relname || ' ' || reltuples AS value FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
        AND EXISTS (SELECT FROM pg_stats WHERE schemaname = 'public' AND tablename = relname)
    ORDER BY 1";

fn events(ids: std::ops::Range<usize>) -> Vec<Event> {
    let time = |id: usize| datetime!(2024-02-01 0:00 UTC) + time::Duration::minutes(id as i64 * 5);
    ids.map(|id| build::event("acme", "call", &id.to_string(), time(id))).collect()
}

#[test]
fn what_was_filled_or_changed_is_planned_anew() {
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    for _ in 0..3 {
        world.new_metric(Measure::Counter(Aggregation::Count));
    }
    let take_in = |ids| store.ingest(world.organization, &events(ids), Window::Open).expect("taken in");
    assert_eq!(store.refresh_statistics(), Ok(0), "nothing is large enough");

    take_in(0..5_000);
    assert!(store.refresh_statistics().expect("gathered") >= 2, "two tables were filled");
    let gathered = query(store.url(), GATHERED);
    assert!(gathered.contains(&"events_2024_02 5000".to_owned()), "a month of events: {gathered:?}");
    assert!(gathered.iter().any(|each| each.starts_with("usage_rollup ")), "its roll-ups: {gathered:?}");
    // The server may tell of changes behind the statistics that know them already: once, not each time.
    let is_left_alone = (0..5).any(|_| store.refresh_statistics() == Ok(0));
    assert!(is_left_alone, "nothing has changed");
    let is_left_alone = |round: usize| {
        take_in(5_000 + round * 40..5_040 + round * 40);
        store.refresh_statistics() == Ok(0)
    };
    assert!((0..5).filter(|round| is_left_alone(*round)).count() > 0, "hardly anything has changed");
    take_in(5_200..6_200);
    store.refresh_statistics().expect("gathered");
    assert!(query(store.url(), GATHERED).contains(&"events_2024_02 6200".to_owned()), "it has grown by a fifth");

    execute(store.url(), "UPDATE events_2024_02 SET event_name = 'other' WHERE time_created < '2024-02-15'")
        .expect("changed");
    execute(store.url(), "VACUUM FULL events_2024_02").expect("as large as before");
    let mut pg = connect(store.url());
    let deadline = Instant::now() + Duration::from_secs(30);
    let other = "SELECT 'other' AS value FROM pg_stats WHERE tablename = 'events_2024_02' AND most_common_vals::text LIKE '%other%'";
    while query(store.url(), other).is_empty() {
        // The server tells of changes with a delay.
        assert!(Instant::now() < deadline, "its rows have changed");
        store.refresh_statistics().expect("gathered");
        std::thread::sleep(Duration::from_millis(50));
    }
    take_in(6_300..8_200);
    pg.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(6, 0)").expect("another process");
    assert_eq!(store.refresh_statistics(), Ok(0), "one process at a time");
    pg.batch_execute("COMMIT; BEGIN; LOCK events_2024_02 IN SHARE UPDATE EXCLUSIVE MODE").expect("locked");
    store.refresh_statistics().expect("a table that is locked is no failure");
    let is_known = || query(store.url(), GATHERED).contains(&"events_2024_02 8100".to_owned());
    assert!(!is_known(), "it is locked");
    pg.batch_execute("COMMIT").expect("done");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_known() {
        // The server tells of changes with a delay.
        assert!(Instant::now() < deadline, "it has waited");
        store.refresh_statistics().expect("gathered");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn hot_tables_and_months_have_settings_of_their_own() {
    let store = TestStore::in_one_lane();
    execute(store.url(), "SELECT create_events_partition('2024-02-01 00:00+00')").expect("made");
    let without = query(
        store.url(),
        "SELECT relname::text AS value FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
            AND array_to_string(coalesce(reloptions, '{}'), ',') NOT LIKE '%autovacuum_analyze_scale_factor%'
        ORDER BY 1",
    );
    #[rustfmt::skip]
    let seldom_changed = [
        "__diesel_schema_migrations", "api_keys", "components", "currencies", "features", "ingest_key_ranges", "key_pepper", "lanes", "memberships", "metrics", "nodes",
        "organizations", "plan_version_features", "plan_version_targets", "plan_versions", "plans", "recurring_charges", "sign_in_attempts", "test_clocks",
        "usage_alerts", "user_identities", "user_invitations", "user_sessions", "users",
    ];
    assert_eq!(without, seldom_changed, "a table that is filled by customers' doing has settings");
    let month = "SELECT 'set' AS value FROM pg_class WHERE relname = 'events_2024_02' AND reloptions IS NOT NULL";
    assert_eq!(query(store.url(), month), ["set"]);
}
