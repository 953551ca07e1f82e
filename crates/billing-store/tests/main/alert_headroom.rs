//! Events within a customer's headroom leave no mark, and no alert is missed by that.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration as Pause;

use billing_domain::event::{Event, Ingested};
use billing_domain::id::CustomerKey;
use billing_domain::store::{AlertQueue, EventIngest, MarkedCustomer, Scope, Store, Window};
use billing_domain::testing::build::{self, Ids};
use billing_domain::workflow::{
    CorrectEvents, EventChange, WantedCorrection, correct_events, evaluate_usage_alerts, find_later_look,
};
use billing_store::PgStore;
use diesel::connection::SimpleConnection;
use time::{Duration, OffsetDateTime};

use crate::alert_batches::{World, alert};
use crate::sql::{connect, query};
use crate::waiting::{until, until_a_lock_is_waited_for};

/// Stores one call of a customer's by a process.
fn send(store: &PgStore, world: &World, name: &str, id: &str, time: OffsetDateTime) {
    let event = Event { properties: build::properties("{}"), ..build::event(name, "call", id, time) };
    let stored = store.ingest(world.organization, &[event], Window::Enforced);
    assert_eq!(stored, Ok(vec![Ingested::Stored]));
}

/// Looks at the figures of marked customers, as the worker does; those that could be looked at, with the headroom that was found.
fn look_at(store: &PgStore, marked: Vec<MarkedCustomer>) -> Vec<MarkedCustomer> {
    let mut seen = Vec::new();
    for mut one in marked {
        let (mut known, marked) = (BTreeSet::new(), one.clone());
        let outcomes = store.run_each(one.organization, &[one.customer], &mut |tx, customer, now| {
            let outlook = evaluate_usage_alerts(tx, (customer, marked.since), &mut known, now)?;
            one.later = find_later_look(tx, &marked, &outlook, now)?;
            one.headroom = outlook.headroom;
            Ok(())
        });
        if outcomes.iter().all(Result::is_ok) {
            seen.push(one);
        }
    }
    seen
}

/// One round of the worker; how many customers it has looked at.
fn round(store: &PgStore) -> usize {
    store.mark_concerned(1_000).expect("marked");
    let seen = look_at(store, store.list_marked(1_000).expect("listed"));
    store.drop_marks(&seen).expect("dropped");
    seen.len()
}

fn count(world: &World, what: &str) -> u64 {
    let counted = query(world.store.url(), &format!("SELECT count(*)::text AS value FROM {what}"));
    counted[0].parse().expect("a number")
}

fn marks(world: &World) -> u64 {
    count(world, "usage_alert_marks")
}

/// Marks a customer for something else than an event.
fn mark(store: &PgStore, world: &World, customer: CustomerKey) {
    let scope = Scope::Customer(world.organization, customer);
    (store as &dyn Store).run_for(&scope, |tx, _| tx.usage_alerts().mark(customer)).expect("marked");
}

fn another(world: &World) -> PgStore {
    PgStore::connect(world.store.url(), 4).expect("another process")
}

/// Makes one more alert about everybody.
fn make_alert(store: &PgStore, world: &World, seed: u32, threshold: &str) {
    let made = alert(&mut Ids::new(seed), &world.metric, threshold, OffsetDateTime::now_utc());
    let scope = Scope::Catalog(world.organization);
    (store as &dyn Store).run_for(&scope, |tx, _| tx.usage_alerts().insert(&made)).expect("made");
}

#[test]
fn events_within_it_leave_no_mark_and_the_one_that_reaches_the_threshold_does() {
    let world = World::new(1, "7");
    let (name, other) = (world.customers[0].clone(), another(&world));
    let now = OffsetDateTime::now_utc();
    // The first event of each process takes arrival numbers more than once: it finds that something is to be made first.
    send(&world.store, &world, &name, "1", now);
    send(&other, &world, &name, "2", now);
    round(&world.store);
    assert_eq!((round(&world.store), world.fired().len()), (0, 0), "looked at once");
    for number in 3..7 {
        let store = if number % 2 == 0 { &*world.store } else { &other };
        send(store, &world, &name, &number.to_string(), now);
        assert_eq!(marks(&world), 0, "event {number} of 7");
    }
    send(&other, &world, &name, "7", now);
    assert_eq!((marks(&world), world.fired().len()), (1, 0), "whoever has looked");
    round(&other);
    assert_eq!((marks(&world), world.fired().len()), (0, 1));
    for number in 8..40 {
        send(&world.store, &world, &name, &number.to_string(), now);
    }
    assert_eq!(marks(&world), 0, "it fires no more in this interval");
}

#[test]
fn what_others_store_uses_it_up_and_is_not_missed() {
    let world = World::new(40, "3");
    let now = OffsetDateTime::now_utc();
    while round(&world.store) > 0 {}
    for number in 0..3 {
        for name in &world.customers {
            send(&world.store, &world, name, &format!("{name} {number}"), now);
        }
        while round(&world.store) > 0 {}
        let fired = if number < 2 { 0 } else { 40 };
        assert_eq!(world.fired().len(), fired, "{} of 3", number + 1);
    }
}

#[test]
fn whatever_else_changes_ends_it() {
    let world = World::new(1, "1000");
    let (name, key) = (world.customers[0].clone(), world.key(&world.customers[0]));
    let now = OffsetDateTime::now_utc();
    let store = &*world.store;
    round(store);
    send(store, &world, &name, "within", now);
    assert_eq!(marks(&world), 0);
    let changes: [(&str, &dyn Fn()); 2] = [
        ("a change of the customer", &|| mark(store, &world, key)),
        ("an alert that nobody has looked at yet", &|| make_alert(store, &world, 77, "900")),
    ];
    for (what, change) in changes {
        change();
        let before = marks(&world);
        send(store, &world, &name, what, now);
        assert_eq!(marks(&world), before + 1, "{what} ends it at once");
        while round(store) > 0 {}
        send(store, &world, &name, &format!("{what}, looked at"), now);
        assert_eq!(marks(&world), 0, "{what}: it is found again");
    }
}

#[test]
fn a_look_that_began_before_a_change_keeps_nothing() {
    let world = World::new(1, "1000");
    let (name, key) = (world.customers[0].clone(), world.key(&world.customers[0]));
    let now = OffsetDateTime::now_utc();
    let store = &*world.store;
    for has_row in [false, true] {
        store.mark_concerned(10).expect("marked");
        if has_row {
            round(store);
            mark(store, &world, key);
        }
        let seen = look_at(store, store.list_marked(10).expect("listed"));
        assert!(seen.len() == 1 && seen[0].headroom.is_some(), "{seen:?}");
        mark(store, &world, key);
        store.drop_marks(&seen).expect("dropped");
        assert_eq!(marks(&world), 1, "that of the change, has a row: {has_row}");
        send(store, &world, &name, &format!("{has_row}"), now);
        assert_eq!(marks(&world), 2, "nothing is kept, has a row: {has_row}");
    }
}

/// Whoever stores events beside a change may have read the headroom of before it, and be done later.
#[test]
fn a_change_is_looked_at_when_whoever_stored_beside_it_is_done() {
    let world = World::new(1, "1000");
    let (name, key) = (world.customers[0].clone(), world.key(&world.customers[0]));
    let store = &*world.store;
    make_alert(store, &world, 78, "1");
    while round(store) > 0 {}
    send(store, &world, &name, "1", OffsetDateTime::now_utc());
    let take = "SELECT pg_advisory_lock(1, number) FROM generate_series(0, 255) number";
    let let_go = "SELECT pg_advisory_unlock_all()";
    let mut writer = connect(world.store.url());
    writer.batch_execute(take).expect("taken");
    assert_eq!(store.list_marked(10).expect("listed").len(), 1, "an event's mark waits for nobody");
    writer.batch_execute(let_go).expect("let go");
    while round(store) > 0 {}
    mark(store, &world, key);
    writer.batch_execute(take).expect("taken");
    let is_listed = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            // It gives up after a while, and leaves the mark for the next time.
            until("it is listed", || !store.list_marked(10).expect("listed").is_empty());
            is_listed.store(true, Ordering::SeqCst);
        });
        until_a_lock_is_waited_for(world.store.url());
        assert!(!is_listed.load(Ordering::SeqCst), "before the writer is done");
        writer.batch_execute(let_go).expect("let go");
    });
    assert!(is_listed.load(Ordering::SeqCst));
}

/// Numbers that are always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Stores some calls of random customers.
fn store_some(store: &PgStore, world: &World, writer: u64) {
    let mut numbers = Numbers(writer);
    for number in 0..4 {
        let name = &world.customers[numbers.below(world.customers.len() as u64) as usize];
        send(store, world, name, &format!("{writer} {number}"), OffsetDateTime::now_utc());
        thread::sleep(Pause::from_millis(numbers.below(6)));
    }
}

/// Voids an event, or dates one of before the interval into it, which raises a figure without an event.
fn correct_one(store: &PgStore, world: &World, burst: u64) {
    let mut numbers = Numbers(burst);
    let name = &world.customers[numbers.below(world.customers.len() as u64) as usize];
    thread::sleep(Pause::from_millis(numbers.below(12)));
    let change = match numbers.below(4) {
        0 => EventChange::Void,
        _ => EventChange::Amend { time_created: Some(OffsetDateTime::now_utc()), properties: None },
    };
    let corrections: BTreeSet<u64> = (0..4).map(|_| numbers.below(30)).collect();
    let corrections = corrections.into_iter().map(|number| WantedCorrection {
        idempotency_id: format!("before {name} {number}"),
        change: change.clone(),
        attr: "events.0".to_owned(),
    });
    let customer = world.key(name);
    let (beyond_window, by, reason) = (false, None, None);
    let command = CorrectEvents { customer, corrections: corrections.collect(), beyond_window, by, reason };
    let scope = Scope::Customer(world.organization, customer);
    // What is voided already cannot be amended.
    drop((store as &dyn Store).run_for(&scope, |tx, now| correct_events(tx, &command, now).map(drop)));
}

/// Whatever is stored, corrected and made at once by two processes, while both look: once all marks are looked at, looking at everybody
/// again fires nothing. `BILLING_RACE_ROUNDS` says how often.
#[test]
fn nothing_is_missed_however_it_meets() {
    let bursts = std::env::var("BILLING_RACE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(25_u64);
    let world = World::new(2, "7");
    let (store, other) = (&*world.store, &another(&world));
    (2..30_u32).for_each(|number| make_alert(store, &world, 100 + number, &(number * 7).to_string()));
    let before = OffsetDateTime::now_utc() - Duration::days(5);
    for name in &world.customers {
        (0..30).for_each(|number| send(store, &world, name, &format!("before {name} {number}"), before));
    }
    let firings = "SELECT customer_key || ' ' || usage_alert_id AS value FROM usage_alert_firings ORDER BY 1";
    let firings = || query(world.store.url(), firings);
    while round(store) > 0 {}
    let mut begun_with_headroom = 0;
    for burst in 1..=bursts {
        begun_with_headroom += count(&world, "usage_alert_headroom WHERE holds_from < holds_until");
        let is_over = &AtomicBool::new(false);
        thread::scope(|threads| {
            let world = &world;
            for looking in [store, other] {
                threads.spawn(move || {
                    while !is_over.load(Ordering::SeqCst) {
                        round(looking);
                    }
                });
            }
            let writers = [(store, 1), (other, 2)];
            let writers = writers.map(|(store, n)| threads.spawn(move || store_some(store, world, burst * 10 + n)));
            let corrector = threads.spawn(move || correct_one(other, world, burst));
            if burst % 8 == 0 {
                make_alert(store, world, 1_000 + burst as u32, &(burst + 3).to_string());
            }
            let ended: Vec<_> = writers.into_iter().chain([corrector]).map(|one| one.join()).collect();
            is_over.store(true, Ordering::SeqCst);
            assert!(ended.iter().all(Result::is_ok), "all of them are done");
        });
        while round(store) > 0 {}
        let fired = firings();
        world.customers.iter().for_each(|name| mark(store, &world, world.key(name)));
        while round(store) > 0 {}
        assert_eq!(firings(), fired, "nothing was missed in burst {burst}");
    }
    assert!(firings().len() >= 10, "thresholds are reached");
    assert!(count(&world, "event_corrections") > 10, "events were corrected");
    assert!(
        begun_with_headroom > bursts,
        "most of the time most of them have headroom: {begun_with_headroom} of {bursts}"
    );
}
