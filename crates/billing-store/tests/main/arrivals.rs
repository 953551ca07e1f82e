//! Arrival numbers: what a reading of usage saw can be told from what came later, event by event.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use billing_domain::event::Event;
use billing_domain::metric::{Aggregation, AggregationKind, Gauge, GaugeEventType, Measure, Metric, Rate};
use billing_domain::period::{Period, Span};
use billing_domain::store::{EventIngest, Store, Window};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::testing::build;
use billing_domain::usage::{SeenUsage, UsageRequest, fold};
use billing_store::PgStore;
use billing_store::testing::TestStore;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use time::Duration;
use time::macros::datetime;

use crate::sql::query;
use crate::usage::{World, events};

/// The customer's events up to an arrival number, out of those that were sent: the first of an id is the one that was stored.
fn arrived(world: &World<'_>, url: &str, sent: &[Event], last_arrival: u64) -> Vec<Event> {
    let stored = format!(
        "SELECT idempotency_id AS value FROM events WHERE customer_key = '{}' AND arrival <= {last_arrival} ORDER BY arrival",
        world.customer.uuid()
    );
    let of_id = |id: &String| sent.iter().find(|event| event.idempotency_id == *id).expect("sent").clone();
    query(url, &stored).iter().map(of_id).collect()
}

fn measures() -> Vec<Measure> {
    let property_name = || "amount".to_owned();
    let counters =
        AggregationKind::ALL.iter().map(|kind| kind.of(Some(property_name())).expect("an aggregation").into());
    let (granularity, proration) = (Some(Span::Day), Some(Span::Hour));
    let gauge = Gauge { property_name: property_name(), event_type: GaugeEventType::Delta, granularity, proration };
    let rate = Rate { aggregation: Aggregation::Count, window: Span::Hour };
    counters.chain([Measure::Gauge(gauge), Measure::Rate(rate)]).collect()
}

#[test]
fn what_was_seen_can_be_counted_again() {
    let store = TestStore::in_one_lane();
    let seed = RefCell::new(0_u32);
    let law = |batches: Vec<Vec<Event>>| {
        let world = World::new(&store, seed.replace_with(|seed| *seed + 1) + 1);
        let metrics: Vec<Metric> = measures().into_iter().map(|measure| world.new_metric(measure)).collect();
        let period = Period::new(datetime!(2024-02-28 12:30 UTC), datetime!(2024-03-01 00:00 UTC)).expect("a period");
        let billed = |metric: &Metric| {
            UsageRequest::billed(world.customer, metric.clone(), SubscriptionFilters::none(), period, &period)
        };
        let requests: Vec<UsageRequest> = metrics.iter().map(billed).collect();
        let mut readings: Vec<Vec<SeenUsage>> = Vec::new();
        for (hour, batch) in (0..).zip(&batches) {
            world.set_clock(datetime!(2024-02-29 10:00 UTC) + Duration::hours(hour));
            store.ingest(world.organization, batch, Window::Open).expect("taken in");
            readings.push(world.catalog(|tx| tx.events().seen_usages(&requests)));
        }
        let sent = batches.concat();
        for (request, seen) in readings.iter().flat_map(|reading| requests.iter().zip(reading)) {
            let events = arrived(&world, store.url(), &sent, seen.last_arrival);
            prop_assert_eq!(&fold(request, &events), &seen.usage, "{:?}", request.metric.measure);
        }
        Ok(())
    };
    let config = Config { cases: Config::default().cases.max(60), failure_persistence: None, ..Config::default() };
    let batches = prop::collection::vec(events(), 1..6);
    TestRunner::new(config).run(&batches, law).unwrap_or_else(|error| panic!("{error}"));
}

/// Whoever reads beside writers sees a prefix of what arrives, and says which.
#[test]
fn a_reading_beside_writers_says_which_events_it_saw() {
    const WRITERS: usize = 3;
    const EVENTS_EACH: usize = 120;
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    let now = datetime!(2024-02-29 12:30 UTC);
    world.set_clock(now);
    let metric = world.new_metric(Measure::Counter(Aggregation::Count));
    let day = Period::new(datetime!(2024-02-29 00:00 UTC), datetime!(2024-03-01 00:00 UTC)).expect("a period");
    let request = UsageRequest::billed(world.customer, metric, SubscriptionFilters::none(), day, &day);
    let organization = world.organization;
    let is_over = AtomicBool::new(false);
    let write = |store: PgStore, writer: usize| {
        for number in 0..EVENTS_EACH {
            // In the hour that is open, in one that is over, and of somebody else in the same organization.
            let (customer, time) = match number % 3 {
                0 => ("acme", now),
                1 => ("acme", now - Duration::hours(3)),
                _ => ("other", now),
            };
            let event = build::event(customer, "call", &format!("{writer} {number}"), time);
            store.ingest(organization, &[event], Window::Open).expect("taken in");
        }
    };
    let deadline = Instant::now() + std::time::Duration::from_secs(60);
    let readings: Vec<SeenUsage> = thread::scope(|threads| {
        let writers: Vec<_> = (0..WRITERS).map(|writer| (store.store(), writer)).collect();
        let writers: Vec<_> =
            writers.into_iter().map(|(store, writer)| threads.spawn(move || write(store, writer))).collect();
        let (other, request, is_over) = (store.store(), &request, &is_over);
        let reader = threads.spawn(move || {
            let (mut readings, store): (_, &dyn Store) = (Vec::new(), &other);
            let scope = billing_domain::store::Scope::Customer(organization, request.customer);
            while !is_over.load(Ordering::Acquire) && Instant::now() < deadline {
                let read = store.run_for(&scope, |tx, _| tx.events().seen_usages(std::slice::from_ref(request)));
                readings.extend(read.expect("usage"));
            }
            readings
        });
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        is_over.store(true, Ordering::Release);
        reader.join().expect("a reader")
    });
    let arrivals = format!(
        "SELECT arrival::text AS value FROM events WHERE customer_key = '{}' ORDER BY arrival",
        world.customer.uuid()
    );
    let arrivals: Vec<u64> = query(store.url(), &arrivals).iter().map(|text| text.parse().expect("a number")).collect();
    assert_eq!(arrivals.len(), WRITERS * EVENTS_EACH * 2 / 3);
    assert!(arrivals.windows(2).all(|pair| pair[0] < pair[1]), "each has a number of its own");
    let counts: Vec<u64> = readings.iter().map(|seen| seen.usage.event_count).collect();
    assert!(counts.is_sorted(), "nothing that was seen is unseen later");
    for seen in &readings {
        let there = arrivals.iter().filter(|arrival| **arrival <= seen.last_arrival).count();
        assert_eq!(there as u64, seen.usage.event_count, "up to arrival {}", seen.last_arrival);
    }
}
