//! Events that are sent again, however many at once and whatever came before them.

use billing_domain::event::{Event, Ingested};
use billing_domain::metric::{Aggregation, Measure};
use billing_domain::store::{EventIngest, Window};
use billing_domain::testing::build;
use billing_store::testing::TestStore;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::sql::query;
use crate::usage::World;

const NOW: OffsetDateTime = datetime!(2024-03-10 12:30 UTC);

fn events(ids: std::ops::Range<usize>, time: OffsetDateTime) -> Vec<Event> {
    ids.map(|id| build::event("acme", "call", &format!("e{id}"), time)).collect()
}

/// Sends them and says how many were stored and how many were known.
fn send(store: &TestStore, world: &World, events: &[Event]) -> (usize, usize) {
    let answers = store.ingest(world.organization, events, Window::Enforced).expect("taken in");
    let count = |answer| answers.iter().filter(|each| **each == answer).count();
    (count(Ingested::Stored), count(Ingested::Duplicate))
}

#[test]
fn what_is_sent_again_counts_once_on_either_path() {
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    world.new_metric(Measure::Counter(Aggregation::Count));
    world.set_clock(NOW);
    let (now, earlier) = (NOW, NOW - Duration::days(20));
    #[rustfmt::skip]
    let steps = [
        // sent,                   stored, known, why
        (events(0..3, now),        (3,     0),    "a few, all new"),
        (events(2..5, now),        (2,     1),    "one is known, which nobody expects"),
        (events(4..400, now),      (395,   1),    "many, one known, while ids are looked up"),
        (events(390..392, earlier),(0,     2),    "known from the month after"),
        (events(400..402, earlier),(2,     0),    "new in the month before"),
        (events(401..403, now),    (1,     1),    "known from the month before"),
    ];
    for (sent, expected, why) in &steps {
        assert_eq!(send(&store, &world, sent), *expected, "{why}");
    }
    // So many groups without a known id that ids are not looked up any more.
    let be_at_ease = |first: usize| {
        for id in first..first + 101 {
            assert_eq!(send(&store, &world, &events(id..id + 1, now)), (1, 0));
        }
    };
    be_at_ease(1_000);
    let some = [events(3_000..3_010, now), events(1_005..1_006, earlier), events(3_010..3_020, earlier)].concat();
    assert_eq!(send(&store, &world, &some), (20, 1), "known from the month after, which nobody expects");
    be_at_ease(4_000);
    #[rustfmt::skip]
    let steps = [
        (events(2_000..2_400, now), (400, 0),   "many, all new"),
        (events(2_399..2_800, now), (400, 1),   "many, the first of them known, which nobody expects"),
        (events(2_000..2_800, now), (0,   800), "all known"),
    ];
    for (sent, expected, why) in &steps {
        assert_eq!(send(&store, &world, sent), *expected, "{why}");
    }
    const COUNTED: &str = "SELECT sum(event_count)::text AS value FROM counted_usage WHERE bucket_hours = 1
        UNION ALL SELECT count(*)::text FROM events UNION ALL SELECT count(DISTINCT idempotency_id)::text FROM events";
    assert_eq!(query(store.url(), COUNTED), ["1425", "1425", "1425"]);
}
