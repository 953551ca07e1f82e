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

struct World {
    store: TestStore,
    organization: OrganizationId,
}

impl World {
    fn new() -> Self {
        let (store, organization) = (TestStore::new(), Uuid::now_v7().into());
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
