//! Events that one process takes in and another one watches.

use billing_domain::id::OrganizationId;
use billing_domain::store::{EventWatch, ExchangedEvents, Overviews, PassedEvents, TAILED_MAX, TailedEvents};
use billing_domain::testing::build;
use billing_store::PgStore;
use billing_store::testing::TestStore;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::sql::{execute, query};

const NOBODY: ExchangedEvents = ExchangedEvents { watches: Vec::new(), passed: Vec::new() };

/// As a process of this number asks.
fn exchange(store: &PgStore, process: u128, watched: &[EventWatch], gathered: Vec<PassedEvents>) -> ExchangedEvents {
    store.exchange_events(Uuid::from_u128(process), watched, gathered).expect("exchanged")
}

fn watch(organization: u128) -> EventWatch {
    EventWatch { organization: OrganizationId::from(Uuid::from_u128(organization)), customer: None, metric: None }
}

fn came(ids: std::ops::Range<usize>, skipped: u64) -> TailedEvents {
    let mut events = TailedEvents::default();
    let at = OffsetDateTime::UNIX_EPOCH;
    ids.for_each(|id| events.push(build::event("acme", "call", &id.to_string(), at)));
    events.skip(skipped);
    events
}

#[test]
fn whoever_watches_gets_what_others_took_in_once() {
    let store = TestStore::new();
    let other = PgStore::connect(store.url(), 2).expect("another process");
    let of_customer = EventWatch { customer: Some("acme".parse().expect("an id")), ..watch(7) };
    let of_metric = EventWatch { metric: Some(Uuid::from_u128(9).into()), ..watch(7) };
    let watched = [watch(7), of_metric.clone(), of_customer.clone()];
    assert_eq!(exchange(&store, 1, &watched, Vec::new()), NOBODY);
    let mut told = exchange(&other, 2, &[], Vec::new());
    told.watches.sort();
    let mut expected: Vec<_> = watched.iter().map(|watch| (Uuid::from_u128(1), watch.clone())).collect();
    expected.sort();
    assert_eq!(told.watches, expected, "with what each is kept to");
    let pass = |watch: &EventWatch, events: TailedEvents| PassedEvents {
        watcher: Uuid::from_u128(1),
        watch: watch.clone(),
        events,
    };
    exchange(&other, 2, &[], vec![pass(&watch(7), came(0..TAILED_MAX, 1_234)), pass(&of_metric, came(0..1, 0))]);
    exchange(&other, 2, &[], vec![pass(&of_metric, came(1..3, 0))]);
    assert_eq!(exchange(&store, 3, &[watch(7)], Vec::new()).passed, [], "it is another's");
    let passed = exchange(&store, 1, &watched, Vec::new()).passed;
    assert_eq!(passed, [(watch(7), came(0..TAILED_MAX, 1_234)), (of_metric, came(0..3, 0))], "in their order");
    assert_eq!(exchange(&store, 1, &watched, Vec::new()).passed, [], "once");
}

#[test]
fn whoever_does_not_ask_any_more_watches_nothing() {
    let store = TestStore::new();
    exchange(&store, 1, &[watch(7)], Vec::new());
    execute(store.url(), "UPDATE event_watches SET watched_at = now() - interval '6 seconds'").expect("aged");
    assert_eq!(exchange(&store, 2, &[], Vec::new()), NOBODY);
    let left = PassedEvents { watcher: Uuid::from_u128(1), watch: watch(7), events: came(0..3, 0) };
    exchange(&store, 2, &[], vec![left]);
    let aged = "UPDATE event_watches SET watched_at = now() - interval '2 minutes'; UPDATE passed_events SET passed_at = now() - interval '2 minutes'";
    execute(store.url(), aged).expect("aged");
    exchange(&store, 3, &[watch(8)], Vec::new());
    let rows = "SELECT (SELECT count(*) FROM event_watches) || ' ' || (SELECT count(*) FROM passed_events) AS value";
    assert_eq!(query(store.url(), rows), ["1 0"], "what it left is cleared away by others");
}
