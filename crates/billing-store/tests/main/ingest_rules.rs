//! What ingesting looks at, changed while events wait for their key ranges: whoever changes it has them, and the events come behind.

use std::thread;

use billing_domain::event::{Event, Ingested};
use billing_domain::metric::{Aggregation, Measure};
use billing_domain::store::{EventIngest, Window};
use billing_domain::testing::build;
use billing_store::testing::TestStore;
use diesel::connection::SimpleConnection;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::sql::{connect, query};
use crate::usage::World;
use crate::waiting::until_a_lock_is_waited_for;

const NOW: OffsetDateTime = datetime!(2024-03-10 12:30 UTC);

#[test]
fn what_was_changed_while_events_waited_holds_for_them() {
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    let metric = world.new_metric(Measure::Counter(Aggregation::Count));
    world.set_clock(NOW);
    let start = "INSERT INTO metric_rollups (organization_id, metric_id, filter_keys, rolled_up_from)
        SELECT organization_id, metric_id, '{env}', '-infinity' FROM metric_rollups";
    #[rustfmt::skip]
    let cases = [
        // change,                                          dated, answer,                   buckets, why
        ("UPDATE organizations SET event_window_days = 10", 20,    Ingested::OutsideWindow,  0, "it was within the window when it came"),
        (start,                                             2,     Ingested::Stored,         2, "it counts for what is rolled up since"),
    ];
    for (number, (change, days_ago, expected, buckets, why)) in cases.into_iter().enumerate() {
        let (id, time) = (format!("e{number}"), NOW - Duration::days(days_ago));
        let properties = build::properties(r#"{"env": "a"}"#);
        let event = Event { properties, ..build::event("acme", "call", &id, time) };
        // Months and names are there then: a transaction that has to have them made is begun anew, and would look again by that.
        let before = build::event("other", "call", &id, time);
        store.ingest(world.organization, &[before], Window::Open).expect("taken in");
        let mut other = connect(store.url());
        let take = "BEGIN; SELECT pg_advisory_xact_lock(1, number) FROM generate_series(0, 255) number;";
        other.batch_execute(take).expect("taken");
        let answer = thread::scope(|threads| {
            let late =
                threads.spawn(|| store.ingest(world.organization, std::slice::from_ref(&event), Window::Enforced));
            until_a_lock_is_waited_for(store.url());
            let renew = format!("{change}; UPDATE ingest_versions SET version = version + 1; COMMIT");
            other.batch_execute(&renew).expect("changed");
            late.join().expect("no panic")
        });
        assert_eq!(answer, Ok(vec![expected]), "{why}");
        let counted = format!(
            "SELECT 'it' AS value FROM usage_rollup WHERE customer_key = '{}' AND metric_id = '{}' AND bucket_hours = 1 AND bucket = '{}'",
            world.customer.uuid(),
            metric.id.uuid(),
            event.time_created.replace_minute(0).expect("an hour"),
        );
        assert_eq!(query(store.url(), &counted).len(), buckets, "{why}");
    }
}
