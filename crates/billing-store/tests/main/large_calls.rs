//! Calls with many events are stored in pieces, which nobody can tell.

use std::thread;
use std::time::Instant;

use billing_domain::event::{Event, Ingested};
use billing_domain::store::{EventIngest, Window};
use billing_domain::testing::build;
use billing_store::testing::TestStore;
use time::OffsetDateTime;

use crate::sql::query;
use crate::usage::World;

/// Two organizations, which are company to each other.
fn in_company(store: &TestStore) -> [World<'_>; 2] {
    let worlds = [1, 2].map(|seed| World::new(store, seed));
    worlds.iter().for_each(|world| store.company().note(world.organization, Instant::now()));
    worlds
}

fn sized(customer: &str, id: usize, bytes: usize) -> Event {
    let properties = format!(r#"{{"text":"{}","number":{id}}}"#, "x".repeat(bytes)).parse().expect("an object");
    Event { properties, ..build::event(customer, "call", &format!("{customer}-{id}"), OffsetDateTime::now_utc()) }
}

#[test]
fn as_much_as_a_call_may_hold_is_taken_in_company_too() {
    let store = TestStore::in_one_lane();
    let [world, _] = in_company(&store);
    // One customer, and so one writer, whose room is less than this.
    let events: Vec<Event> = (0..1_250).map(|id| sized("acme", id, 8_000)).collect();
    assert_eq!(store.ingest(world.organization, &events, Window::Open), Ok(vec![Ingested::Stored; events.len()]));
}

#[test]
fn the_first_event_of_an_id_is_stored_however_far_the_second_is_behind() {
    const CALLERS: usize = 8;
    let store = TestStore::in_one_lane();
    let organizations = in_company(&store).map(|world| world.organization);
    let call = |caller: usize| {
        let customer = format!("customer-{caller}");
        for round in 0..4 {
            // Of several sizes, so that pieces of one call wait behind and before those of others.
            let count = 200 + 300 * ((caller + round) % 4);
            let mut events: Vec<Event> = (0..count).map(|id| sized(&customer, round * 10_000 + id, 10)).collect();
            let twin = Event { properties: sized(&customer, 77, 1).properties, ..events[50].clone() };
            events.push(twin);
            let mut expected = vec![Ingested::Stored; count];
            expected.push(Ingested::Duplicate);
            let organization = organizations[caller % 2];
            assert_eq!(store.ingest(organization, &events, Window::Open), Ok(expected), "{count} of {customer}");
        }
    };
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let call = &call;
            scope.spawn(move || call(caller));
        }
    });
    let second = "SELECT idempotency_id AS value FROM events WHERE properties->>'number' = '77' AND length(properties->>'text') = 1";
    assert_eq!(query(store.url(), second), Vec::<String>::new(), "no second one was stored in place of the first");
}
