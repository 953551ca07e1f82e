//! Roll-ups that are younger than their events are filled in, while events come in, and nothing is lost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use billing_domain::event::Event;
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::metric::{AggregationKind, Metric};
use billing_domain::period::Period;
use billing_domain::plan::PlanVersion;
use billing_domain::store::{EventIngest, Scope, Store, Transaction, Window};
use billing_domain::subscription::{Subscription, SubscriptionFilters};
use billing_domain::testing::build::{self, Ids};
use billing_domain::testing::world::filters;
use billing_domain::usage::{UsageRequest, fold};
use billing_store::PgStore;
use billing_store::testing::{TestStore, fill_in, incomplete_rollups};
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

const START: OffsetDateTime = datetime!(2024-02-27 22:30 UTC);
const CUSTOMERS: [&str; 5] = ["acme", "beta", "coop", "dune", "echo"];

struct World {
    store: TestStore,
    organization: OrganizationId,
}

impl World {
    fn new() -> Self {
        let world = Self { store: TestStore::in_one_lane(), organization: Ids::new(1).next() };
        world.catalog(|tx| {
            tx.organizations().insert(&build::organization(world.organization, START))?;
            CUSTOMERS.iter().try_for_each(|id| tx.customers().insert(&build::customer(world.organization, id, START)))
        });
        world
    }

    fn catalog<T>(&self, mut work: impl FnMut(&mut dyn Transaction) -> Result<T, billing_domain::Error>) -> T {
        let store: &dyn Store = &*self.store;
        store.run_for(&Scope::Catalog(self.organization), |tx, _| work(tx)).expect("work")
    }

    fn send(&self, events: &[Event]) {
        self.store.ingest(self.organization, events, Window::Open).expect("taken in");
    }

    fn new_metric(&self, ids: &mut Ids, kind: AggregationKind) -> Metric {
        let measure = kind.of(Some("amount".to_owned())).expect("an aggregation").into();
        let metric = Metric { measure, ..build::count_metric(ids, "call", START) };
        self.catalog(|tx| tx.metrics().insert(&metric));
        metric
    }

    /// Lets a subscription of `acme` use filters, which starts a roll-up by their names.
    fn use_filters(&self, ids: &mut Ids, metric: &Metric, used: &SubscriptionFilters) {
        let plan = build::plan(ids, &used.canonical(), START);
        let components = vec![build::component(ids, metric.id)];
        let version = PlanVersion { components, ..build::plan_version(ids, &plan, START) };
        let held = build::subscription(ids, self.key("acme"), &version, build::days_from(START, 30));
        self.catalog(|tx| {
            tx.plans().insert(&plan)?;
            tx.plans().insert_version(&version)?;
            tx.subscriptions().insert(&Subscription { filters: used.clone(), ..held.clone() })
        });
    }

    fn key(&self, customer: &str) -> CustomerKey {
        build::customer(self.organization, customer, START).key
    }

    /// Fills in until there is nothing left to do.
    fn catch_up(&self) {
        while self.store.catch_up().expect("filled in") {}
    }

    /// As [`World::catch_up`], in pieces of so many events.
    fn catch_up_by(&self, events_per_lock: i64) {
        while fill_in(&self.store, events_per_lock).expect("filled in") {}
    }

    /// Holds the usage of every customer against the fold, as a program that has just started reads it: from roll-ups
    /// where there are any.
    fn check(&self, metrics: &[Metric], used: &[SubscriptionFilters], events: &[Event]) {
        let reader: &dyn Store = &PgStore::connect(self.store.url(), 1).expect("connected");
        let scope = Scope::Organization(self.organization);
        for customer in CUSTOMERS {
            let of_customer: Vec<&Event> = events.iter().filter(|event| event.customer.as_str() == customer).collect();
            for (metric, filters) in metrics.iter().flat_map(|metric| used.iter().map(move |filters| (metric, filters)))
            {
                // Whole days, hours, and partial hours.
                for (from, to) in [(Duration::ZERO, Duration::days(9)), (Duration::minutes(95), Duration::hours(50))] {
                    let period = Period::new(START + from, START + to).expect("a period");
                    let (key, metric) = (self.key(customer), metric.clone());
                    let request = UsageRequest::billed(key, metric, filters.clone(), period, &period);
                    let found = reader.run_for(&scope, |tx, _| tx.events().usages(std::slice::from_ref(&request)));
                    let expected = fold(&request, of_customer.iter().copied());
                    assert_eq!(found, Ok(vec![expected]), "{customer} {filters:?} {period:?}");
                }
            }
        }
    }
}

/// Event number `n`, of each customer in turn: over nine days and two months, in no order.
fn event(n: usize) -> Event {
    let minutes = i64::try_from(n * 7_919 % (9 * 24 * 60)).expect("few");
    let json = format!(r#"{{"amount": {}.5, "env": "{}"}}"#, n % 17, ["a", "b"][n / 5 % 2]);
    let name = if n.is_multiple_of(11) { "other" } else { "call" };
    let event = build::event(CUSTOMERS[n % 5], name, &n.to_string(), START + Duration::minutes(minutes));
    Event { properties: build::properties(&json), ..event }
}

#[test]
fn what_came_before_is_filled_in() {
    let world = World::new();
    let ids = &mut Ids::new(2);
    let events: Vec<Event> = (0..400).map(event).collect();
    world.send(&events[..300]);
    let used = [SubscriptionFilters::none(), filters(&[("env", "a")])];
    use AggregationKind::{Average, Count, Latest, Max, Min, Sum};
    let metrics: Vec<Metric> =
        [Count, Sum, Max, Min, Average, Latest].iter().map(|kind| world.new_metric(ids, *kind)).collect();
    world.use_filters(ids, &metrics[1], &used[1]);
    let incomplete = || incomplete_rollups(&world.store);
    assert_eq!(incomplete(), 7, "six totals, and one by env");
    world.check(&metrics, &used, &events[..300]);
    // Late ones add to buckets that are not complete.
    world.send(&events[300..350]);
    world.check(&metrics, &used, &events[..350]);
    world.catch_up();
    assert_eq!(incomplete(), 0, "all complete");
    world.check(&metrics, &used, &events[..350]);
    world.send(&events[350..]);
    world.check(&metrics, &used, &events);
    assert!(!world.store.catch_up().expect("nothing to do"));
}

#[test]
fn nothing_is_lost_while_events_stream_in() {
    (0..4).for_each(|_| stream_in());
}

/// Metrics are made and filtered by while three threads store events and one fills in.
fn stream_in() {
    let world = World::new();
    let ids = &mut Ids::new(2);
    let events: Vec<Event> = (0..3_000).map(event).collect();
    world.send(&events[..500]);
    let (sent, done) = (AtomicUsize::new(500), AtomicBool::new(false));
    let used = [SubscriptionFilters::none(), filters(&[("env", "a")])];
    let metrics: Vec<Metric> = thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                loop {
                    let from = sent.fetch_add(20, Ordering::Relaxed);
                    if from >= events.len() {
                        break;
                    }
                    world.send(&events[from..(from + 20).min(events.len())]);
                }
            });
        }
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                world.store.catch_up().expect("filled in");
            }
        });
        let metrics = [AggregationKind::Count, AggregationKind::Sum, AggregationKind::Max].map(|kind| {
            let metric = world.new_metric(ids, kind);
            world.use_filters(ids, &metric, &used[1]);
            metric
        });
        while sent.load(Ordering::Relaxed) < events.len() {
            thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
        metrics.into()
    });
    world.check(&metrics, &used, &events);
    world.catch_up();
    assert_eq!(incomplete_rollups(&world.store), 0, "all complete");
    world.check(&metrics, &used, &events);
}

#[test]
fn months_days_and_hours_come_to_the_same() {
    // All customers have some 16 events a day, and one an hour at most; `acme` has 40 in one hour.
    for events_per_lock in [0, 5, 30, 300] {
        let world = World::new();
        let ids = &mut Ids::new(2);
        let mut events: Vec<Event> = (0..700).map(event).collect();
        events.extend((0..40).map(|n| {
            let time = START + Duration::days(3) + Duration::seconds(i64::from(n));
            let json = format!(r#"{{"amount": {n}, "env": "a"}}"#);
            Event { properties: build::properties(&json), ..build::event("acme", "call", &format!("busy {n}"), time) }
        }));
        world.send(&events[..600]);
        let used = [SubscriptionFilters::none(), filters(&[("env", "a")])];
        use AggregationKind::{Average, Count, Latest, Max, Min, Sum};
        let metrics: Vec<Metric> =
            [Count, Sum, Max, Min, Average, Latest].iter().map(|kind| world.new_metric(ids, *kind)).collect();
        world.use_filters(ids, &metrics[5], &used[1]);
        world.send(&events[600..]);
        world.catch_up_by(events_per_lock);
        assert_eq!(incomplete_rollups(&world.store), 0, "all complete");
        world.check(&metrics, &used, &events);
    }
}

#[test]
fn whoever_stores_events_waits_for_one_piece_at_most() {
    let world = World::new();
    let ids = &mut Ids::new(2);
    // One customer, 24,000 events over ten days: 240 hours of 100 each.
    let events: Vec<Event> = (0..24_000_i64)
        .map(|n| build::event("acme", "call", &n.to_string(), START + Duration::seconds(n * 36)))
        .collect();
    events.chunks(4_000).for_each(|some| world.send(some));
    let metric = world.new_metric(ids, AggregationKind::Count);
    let is_done = AtomicBool::new(false);
    let (filling, waits) = thread::scope(|threads| {
        let filler = threads.spawn(|| {
            let began = Instant::now();
            world.catch_up_by(50);
            is_done.store(true, Ordering::Relaxed);
            began.elapsed()
        });
        let mut waits = Vec::new();
        while !is_done.load(Ordering::Relaxed) {
            let began = Instant::now();
            let late = build::event("acme", "call", &format!("late {}", waits.len()), START);
            world.send(std::slice::from_ref(&late));
            waits.push(began.elapsed());
        }
        (filler.join().expect("a thread"), waits)
    });
    // Were the key range held for the month, there would be a wait of about all of it and hardly a second event.
    assert!(waits.len() >= 20, "{} events came in during {filling:?}", waits.len());
    assert!(waits.iter().all(|wait| *wait < filling / 2), "{:?} of {filling:?}", waits.iter().max());
    let mut all = events;
    all.extend((0..waits.len()).map(|n| build::event("acme", "call", &format!("late {n}"), START)));
    world.check(&[metric], &[SubscriptionFilters::none()], &all);
}
