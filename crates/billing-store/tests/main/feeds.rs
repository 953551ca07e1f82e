//! The feed has no hole: what commits late comes late, and nothing ever comes to stand before what was read.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use billing_domain::Error;
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::message::{Message, MessageType, Payload};
use billing_domain::store::{FeedPage, FeedRequest, Feeds, Scope, Store};
use billing_domain::workflow::{CreateCustomer, CreateOrganization, create_customer, create_organization};
use billing_store::PgStore;
use billing_store::testing::TestStore;
use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::sql::{execute, query};

struct World {
    store: TestStore,
    organization: OrganizationId,
}

impl World {
    fn new() -> Self {
        Self::in_store(TestStore::in_one_lane())
    }

    fn in_store(store: TestStore) -> Self {
        let organization = Uuid::now_v7().into();
        let command = CreateOrganization { name: "Acme".to_owned() };
        let made = (&*store as &dyn Store)
            .run_for(&Scope::Catalog(organization), |tx, now| create_organization(tx, &command, now));
        made.expect("an organization");
        Self { store, organization }
    }

    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn key(&self, customer: &str) -> CustomerKey {
        CustomerKey::derive(self.organization, &customer.parse().expect("an id"))
    }

    /// So many names of customers who are in a lane of four.
    fn names_in(&self, lane: u8, count: usize) -> impl Iterator<Item = String> {
        let is_there = move |name: &String| self.key(name).uuid().as_bytes()[0] >> 6 == lane;
        (0..).map(|n| format!("c{n}")).filter(is_there).take(count)
    }

    fn create(&self, customer: &str) {
        let command = CreateCustomer::new(customer.parse().expect("an id"), &format!("{customer}@acme.io"));
        let scope = Scope::Customer(self.organization, self.key(customer));
        self.store().run_for(&scope, |tx, now| create_customer(tx, &command, now)).expect("a customer");
    }

    fn tell(&self, customer: &str, text: &str) {
        let key = self.key(customer);
        let told = self.store().run_for(&Scope::Customer(self.organization, key), |tx, now| {
            let id = tx.new_uuid().into();
            let payload = Payload::Json(text.to_owned());
            tx.messages().insert(Message::new((id, MessageType::CustomerCreated), Some(key), (now, true), payload))
        });
        told.expect("told");
    }

    fn read(&self, after: u64, limit: u32) -> FeedPage {
        let wanted = FeedRequest { after, types: Vec::new(), limit };
        let page = self.store().run_for(&Scope::Organization(self.organization), |tx, _| tx.messages().list(&wanted));
        page.expect("a page")
    }

    fn execute(&self, sql: &str) {
        execute(self.store.url(), sql).expect(sql);
    }

    fn place(&self) {
        while self.store.place_messages(100).expect("placed").there_is_more {}
    }
}

fn texts(page: &FeedPage) -> Vec<String> {
    let text = |(_, message): &(u64, Message)| match &message.payload {
        Payload::Json(text) => text.clone(),
        Payload::Invoice(_) => String::new(),
    };
    page.messages.iter().map(text).collect()
}

#[test]
fn what_commits_late_is_not_missed() {
    let world = World::new();
    world.create("quick");
    world.place();
    let begun = world.read(0, 100).reached;
    let mut slow = PgConnection::establish(world.store.url()).expect("a connection");
    let insert = format!(
        "BEGIN; INSERT INTO messages (customer_key, id, organization_id, message_type, at, is_live, data)
        VALUES ('{}', gen_random_uuid(), '{}', 'customer.created', now(), true, '\"slow\"')",
        world.key("slow").uuid(),
        world.organization.uuid()
    );
    slow.batch_execute(&insert).expect("written, not committed");
    world.tell("quick", "\"quick\"");
    world.place();
    let first = world.read(begun, 100);
    assert_eq!(texts(&first), ["\"quick\""], "a sequence would have given the other one a place before it");
    slow.batch_execute("COMMIT").expect("committed");
    assert_eq!(texts(&world.read(begun, 100)), ["\"quick\""], "no place yet");
    world.place();
    assert_eq!(texts(&world.read(first.reached, 100)), ["\"slow\""], "behind what was read");
    assert_eq!(texts(&world.read(begun, 100)), ["\"quick\"", "\"slow\""], "for ever in this order");
}

/// Writers of several customers, two processes that place, and one who reads along.
#[test]
fn a_reader_misses_nothing_among_writers() {
    const WRITERS: usize = 6;
    const EACH: usize = 25;
    let world = World::new();
    let names: Vec<String> = (0..WRITERS).map(|n| format!("c{n}")).collect();
    names.iter().for_each(|name| world.create(name));
    world.place();
    let begun = world.read(0, 100).reached;
    let other = PgStore::connect(world.store.url(), 2).expect("another process");
    let is_done = AtomicBool::new(false);
    let seen = thread::scope(|threads| {
        let writers: Vec<_> = names
            .iter()
            .map(|name| {
                let world = &world;
                threads.spawn(move || (0..EACH).for_each(|n| world.tell(name, &format!("\"{name} {n:03}\""))))
            })
            .collect();
        for feeds in [&*world.store as &dyn Feeds, &other as &dyn Feeds] {
            let is_done = &is_done;
            threads.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    feeds.place_messages(7).expect("placed");
                }
            });
        }
        let reader = threads.spawn(|| {
            let (mut after, mut seen) = (begun, Vec::new());
            while seen.len() < WRITERS * EACH {
                let page = world.read(after, 5);
                after = page.reached;
                seen.extend(page.messages.iter().map(|(position, _)| *position).zip(texts(&page)));
            }
            seen
        });
        for writer in writers {
            writer.join().expect("a writer");
        }
        let seen = reader.join().expect("the reader");
        is_done.store(true, Ordering::Relaxed);
        seen
    });
    let positions: Vec<u64> = seen.iter().map(|(position, _)| *position).collect();
    assert_eq!(positions, (begun + 1..=begun + (WRITERS * EACH) as u64).collect::<Vec<_>>(), "without a gap");
    let different: BTreeSet<&String> = seen.iter().map(|(_, text)| text).collect();
    assert_eq!(different.len(), WRITERS * EACH, "each once");
    for name in &names {
        let own: Vec<&String> =
            seen.iter().map(|(_, text)| text).filter(|text| text.starts_with(&format!("\"{name} "))).collect();
        assert!(own.is_sorted(), "{name}: in the order in which they became true: {own:?}");
    }
    let again = world.read(begun, 1_000);
    assert_eq!(texts(&again), seen.into_iter().map(|(_, text)| text).collect::<Vec<_>>(), "the same for ever");
}

/// What is written in a batch of customers is told with it, and what is left out tells nothing.
#[test]
fn customers_of_a_batch_tell_what_they_do() {
    let world = World::new();
    ["a", "b", "c"].iter().for_each(|name| world.create(name));
    world.place();
    let begun = world.read(0, 100).reached;
    let customers = ["a", "b", "c"].map(|name| world.key(name));
    let failing = customers[1];
    let results = world.store().run_each(world.organization, &customers, &mut |tx, key, now: OffsetDateTime| {
        let id = tx.new_uuid().into();
        let message = Message::new(
            (id, MessageType::CustomerCreated),
            Some(key),
            (now, true),
            Payload::Json(format!("\"{}\"", key.uuid())),
        );
        tx.messages().insert(message)?;
        if key == failing { Err(Error::NotFound(billing_domain::Noun::Customer)) } else { Ok(()) }
    });
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    world.place();
    let expected: BTreeSet<String> = [customers[0], customers[2]].map(|key| format!("\"{}\"", key.uuid())).into();
    assert_eq!(texts(&world.read(begun, 100)).into_iter().collect::<BTreeSet<_>>(), expected);
}

/// What was written before an instant may be placed behind what was written after it. Whoever asks for all since then misses nothing.
#[test]
fn a_replay_begins_at_the_first_of_what_was_written_since() {
    let world = World::new();
    ["a", "b", "c", "d", "e"].iter().for_each(|name| world.create(name));
    world.place();
    let write = |position: u64, at: &str| {
        world.execute(&format!("UPDATE feed_entries SET written_at = '2026-03-01 {at}Z' WHERE position = {position}"));
    };
    // The fourth waited for its lane while the second and the third were placed.
    for (position, at) in [(1, "10:00"), (2, "12:00"), (3, "12:01"), (4, "11:59"), (5, "12:02")] {
        write(position, at);
    }
    #[rustfmt::skip]
    let cases = [
        // since,  the endpoint stands at, why
        ("09:59",  0, "all of it"),
        ("10:00",  0, "the instant itself belongs to it"),
        ("10:01",  1, "what was placed late is among what follows"),
        ("12:00",  1, "an older one behind it hides nothing"),
        ("12:01",  2, "nor here"),
        ("12:02",  4, "only the last"),
        ("12:03",  5, "nothing is so young"),
    ];
    let rewound = |since: &str| {
        let id = Uuid::now_v7();
        world.execute(&format!(
            "INSERT INTO webhook_endpoints (organization_id, id, url, event_types, public_key, secret, status, position, created_at)
            VALUES ('{}', '{id}', 'https://example.com', '{{}}', '', '', 'enabled', 5, now())",
            world.organization.uuid()
        ));
        let since = format!("2026-03-01T{since}:00Z");
        let since = OffsetDateTime::parse(&since, &time::format_description::well_known::Rfc3339).expect("an instant");
        let rewound = world.store().run_for(&Scope::Catalog(world.organization), |tx, _| {
            tx.webhooks().rewind(id.into(), since)?;
            tx.webhooks().get(id.into())
        });
        rewound.expect("rewound").position
    };
    for (since, position, why) in cases {
        assert_eq!(rewound(since), position, "{since}: {why}");
    }
}

/// Types that hardly ever come cost no reading of the whole feed at once.
#[test]
fn a_filter_looks_at_so_many_positions_and_says_how_far_it_came() {
    let world = World::new();
    world.create("acme");
    world.place();
    world.execute(&format!(
        "INSERT INTO feed_entries (organization_id, position, customer_key, message_id, message_type, written_at)
        SELECT '{0}', position, '{1}', gen_random_uuid(), 'invoice.created', now() FROM generate_series(2, 120000) position;
        UPDATE message_counters SET last_position = 120000 WHERE organization_id = '{0}'",
        world.organization.uuid(),
        world.key("acme").uuid()
    ));
    world.tell("acme", "\"rare\"");
    world.place();
    let wanted = |after| FeedRequest { after, types: vec![MessageType::CustomerCreated], limit: 10 };
    let (mut after, mut seen) = (1, Vec::new());
    while after < 120_001 {
        let page = world
            .store()
            .run_for(&Scope::Organization(world.organization), |tx, _| tx.messages().list(&wanted(after)))
            .expect("a page");
        seen.push((page.reached, texts(&page).len()));
        after = page.reached;
    }
    assert_eq!(seen, [(50_001, 0), (100_001, 0), (120_001, 1)]);
}

/// Customers of several lanes stand in one order; a process that dies before it has noted what it placed leaves nothing to be placed
/// twice.
#[test]
fn messages_of_several_lanes_are_placed_once() {
    let world = World::in_store(TestStore::with_lanes(4));
    let names: Vec<String> = (0..4).flat_map(|lane| world.names_in(lane, 3)).collect();
    names.iter().for_each(|name| world.create(name));
    world.place();
    let begun = world.read(0, 100).reached;
    for round in 0..3 {
        names.iter().for_each(|name| world.tell(name, &format!("\"{name} {round}\"")));
    }
    world.place();
    let told = world.read(begun, 100);
    let positions: Vec<u64> = told.messages.iter().map(|(position, _)| *position).collect();
    assert_eq!(positions, (begun + 1..=begun + 36).collect::<Vec<_>>(), "without a gap");
    let rounds: Vec<String> = (0..3).flat_map(|n| names.iter().map(move |name| format!("\"{name} {n}\""))).collect();
    assert_eq!(texts(&told), rounds, "as they came");
    let lanes: Vec<String> = (0..4).map(|lane| format!("lane_0{lane}")).collect();
    for lane in &lanes {
        let there = query(world.store.url(), &format!("SELECT count(*)::text AS value FROM {lane}.messages"));
        assert_ne!(there, ["0"], "{lane} has some");
        world.execute(&format!("UPDATE {lane}.messages SET is_placed = false"));
    }
    world.place();
    assert_eq!(world.read(begun, 100), told, "they have their places");
    for lane in &lanes {
        let unmarked = format!("SELECT count(*)::text AS value FROM {lane}.messages WHERE NOT is_placed");
        assert_eq!(query(world.store.url(), &unmarked), ["0"], "{lane}: and that is noted now");
    }
}

/// Whoever dies while dropping leaves what the next one drops, and no reader passes over what went.
#[test]
fn what_was_begun_to_be_dropped_is_dropped() {
    let long_ago = OffsetDateTime::UNIX_EPOCH;
    for lanes in [1, 4] {
        let world = World::in_store(TestStore::with_lanes(lanes));
        ["a", "b", "c", "d", "e"].iter().for_each(|name| world.create(name));
        world.place();
        let all = world.read(0, 100);
        assert_eq!(all.reached, 5);
        let drop_message = |position: usize| {
            let gone = all.messages[position - 1].1.id.uuid();
            let schemas =
                if lanes == 1 { vec!["public".to_owned()] } else { (0..4).map(|n| format!("lane_0{n}")).collect() };
            for schema in schemas {
                world.execute(&format!("DELETE FROM {schema}.messages WHERE id = '{gone}'"));
            }
        };
        drop_message(1);
        let page = world.read(0, 100);
        assert_eq!((page.messages.len(), page.first_kept), (4, 2), "gone behind the reader's look at what is kept");
        world.execute("UPDATE message_counters SET first_kept = 3");
        while world.store.drop_messages(long_ago, 1).expect("dropped") {}
        let left = query(world.store.url(), "SELECT position::text AS value FROM feed_entries ORDER BY position");
        assert_eq!(left, ["3", "4", "5"], "{lanes} lanes: one whose message was gone, and one whose message was there");
        assert!(texts(&world.read(2, 100)).len() == 3);
        let second = all.messages[1].1.id;
        let found = world.store().run_for(&Scope::Organization(world.organization), |tx, _| tx.messages().get(second));
        assert!(found.is_err(), "the message, too");
    }
}
