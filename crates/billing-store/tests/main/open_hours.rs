//! The hour that is being counted, from its first event to the first of a later one.

use std::cell::Cell;

use billing_domain::event::Event;
use billing_domain::metric::{Aggregation, Measure, Metric};
use billing_domain::period::Period;
use billing_domain::store::{EventIngest, Window};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::testing::build;
use billing_domain::usage::{UsageRequest, fold};
use billing_store::PgStore;
use billing_store::testing::{TestStore, count_statements, statements_sent};
use time::macros::{date, datetime, time};
use time::{Duration, OffsetDateTime, Time};

use crate::sql::{execute, query};
use crate::usage::World;

const DAY: time::Date = date!(2024 - 02 - 29);
const OPEN: &str =
    "SELECT to_char(hour AT TIME ZONE 'UTC', 'HH24:MI') || ' ' || (gain.value ->> 'event_count') AS value
    FROM open_hours, json_each(gains) gain ORDER BY 1";
const CLOSED: &str =
    "SELECT to_char(bucket AT TIME ZONE 'UTC', 'HH24:MI') || '+' || bucket_hours || ' ' || event_count AS value
    FROM usage_rollup ORDER BY bucket_hours, bucket";

fn at(time: Time) -> OffsetDateTime {
    DAY.with_time(time).assume_utc()
}

fn event(id: usize, time: Time) -> Event {
    let amount = format!(r#"{{"amount": {}.25}}"#, id * 7 % 5);
    Event { properties: build::properties(&amount), ..build::event("acme", "call", &id.to_string(), at(time)) }
}

#[test]
fn an_hour_is_open_until_a_later_one_begins() {
    let store = TestStore::new();
    let world = World::new(&store, 1);
    let metric = world.new_metric(Measure::Counter(Aggregation::Count));
    #[rustfmt::skip]
    let steps: [(Time, Time, &[&str], &[&str], &str); 8] = [
        (time!(12:10), time!(12:05),    &["12:00 1"], &[],                                 "the first event opens its hour"),
        (time!(12:30), time!(12:00),    &["12:00 2"], &[],                                 "it goes on, to its first instant"),
        (time!(12:30), time!(11:59:59), &["12:00 2"], &["11:00+1 1", "00:00+24 1"],        "late events never open an hour"),
        (time!(12:30), time!(13:00),    &["12:00 2"], &["11:00+1 1", "13:00+1 1", "00:00+24 2"], "nor do those that come early"),
        (time!(13:00), time!(13:00),    &["13:00 1"], &["11:00+1 1", "12:00+1 2", "13:00+1 1", "00:00+24 4"], "the next hour closes it"),
        (time!(13:20), time!(12:40),    &["13:00 1"], &["11:00+1 1", "12:00+1 3", "13:00+1 1", "00:00+24 5"], "what is closed is not opened again"),
        (time!(12:50), time!(12:45),    &["13:00 1"], &["11:00+1 1", "12:00+1 4", "13:00+1 1", "00:00+24 6"], "nor by a process whose clock is behind"),
        (time!(17:00), time!(17:59:59.999999), &["17:00 1"], &["11:00+1 1", "12:00+1 4", "13:00+1 2", "00:00+24 7"], "hours without events are passed over"),
    ];
    for (sent, (now, time, open, closed, why)) in steps.into_iter().enumerate() {
        world.set_clock(at(now));
        let events = [event(sent, time)];
        store.ingest(world.organization, &events, Window::Open).expect("taken in");
        assert_eq!(query(store.url(), OPEN), open, "{why}");
        assert_eq!(query(store.url(), CLOSED), closed, "{why}");
        let day = Period::new(at(Time::MIDNIGHT), at(Time::MIDNIGHT) + Duration::DAY).expect("a period");
        let request = UsageRequest::current(world.customer, metric.clone(), SubscriptionFilters::none(), day);
        let usage = world.catalog(|tx| tx.events().usages(std::slice::from_ref(&request)));
        assert_eq!(usage[0].event_count, sent as u64 + 1, "{why}");
    }
}

#[test]
fn every_aggregation_goes_on_where_it_stopped() {
    let store = TestStore::new();
    let world = World::new(&store, 1);
    let property_name = || "amount".to_owned();
    let aggregations = [
        Aggregation::Count,
        Aggregation::Sum { property_name: property_name() },
        Aggregation::Average { property_name: property_name() },
        Aggregation::Max { property_name: property_name() },
        Aggregation::Min { property_name: property_name() },
        Aggregation::Latest { property_name: property_name() },
    ];
    let metrics: Vec<Metric> =
        aggregations.into_iter().map(|aggregation| world.new_metric(Measure::Counter(aggregation))).collect();
    world.set_clock(datetime!(2024-02-29 12:30 UTC));
    // The fourth is the latest: of the two of one instant it has the greater id.
    let times = [time!(12:10), time!(12:40), time!(12:05), time!(12:50), time!(12:50), time!(12:20)];
    let ids = [1, 2, 3, 5, 4, 6];
    let events: Vec<Event> = ids.into_iter().zip(times).map(|(id, time)| event(id, time)).collect();
    let hour = Period::new(at(time!(12:00)), at(time!(13:00))).expect("a period");
    for sent in 0..events.len() {
        store.ingest(world.organization, &events[sent..=sent], Window::Open).expect("taken in");
        let request =
            |metric: &Metric| UsageRequest::current(world.customer, metric.clone(), SubscriptionFilters::none(), hour);
        let requests: Vec<UsageRequest> = metrics.iter().map(request).collect();
        let found = world.catalog(|tx| tx.events().usages(&requests));
        for (request, found) in requests.iter().zip(found) {
            assert_eq!(found, fold(request, &events[..=sent]), "{:?} after event {sent}", request.metric.measure);
        }
        assert_eq!(query(store.url(), "SELECT count(*)::text AS value FROM usage_rollup"), ["0"], "all in one row");
    }
}

#[test]
fn what_is_filled_in_is_not_counted_in_the_open_hour_too() {
    let store = TestStore::new();
    let world = World::new(&store, 1);
    world.set_clock(at(time!(12:30)));
    let send = |id, time| store.ingest(world.organization, &[event(id, time)], Window::Open).expect("taken in");
    send(1, time!(12:05));
    let metric = world.new_metric(Measure::Counter(Aggregation::Count));
    send(2, time!(12:20));
    assert_eq!(query(store.url(), OPEN), ["12:00 1"], "the first came before the metric");
    while store.catch_up().expect("filled in") {}
    assert_eq!(query(store.url(), CLOSED), ["12:00+1 2", "00:00+24 2"]);
    assert_eq!(query(store.url(), OPEN), [""; 0], "closed before it was counted again");
    send(3, time!(12:25));
    let hour = Period::new(at(time!(12:00)), at(time!(13:00))).expect("a period");
    let request = UsageRequest::current(world.customer, metric, SubscriptionFilters::none(), hour);
    assert_eq!(world.catalog(|tx| tx.events().usages(std::slice::from_ref(&request)))[0].event_count, 3);
}

#[test]
fn what_a_process_remembers_of_an_hour_is_never_trusted() {
    let store = TestStore::new();
    let world = World::new(&store, 1);
    world.new_metric(Measure::Counter(Aggregation::Count));
    world.set_clock(at(time!(12:30)));
    let other = PgStore::connect(store.url(), 2).expect("connected");
    let sent = Cell::new(0);
    let send = |by: &PgStore| {
        sent.set(sent.get() + 1);
        by.ingest(world.organization, &[event(sent.get(), time!(12:05))], Window::Open).expect("taken in");
    };
    let written_otherwise = |sql: &str| execute(store.url(), sql).expect("written");
    #[rustfmt::skip]
    let steps: [(&dyn Fn(), bool, &[&str], &str); 9] = [
        (&|| (), false,                                                                  &["12:00 1"], "the first"),
        (&|| (), false,                                                                  &["12:00 2"], "remembered"),
        (&|| (), true,                                                                   &["12:00 3"], "read by another process"),
        (&|| (), false,                                                                  &["12:00 4"], "written by the other one since"),
        (&|| (), true,                                                                   &["12:00 5"], "and the other way round"),
        (&|| written_otherwise("UPDATE open_hours SET gains = replace(gains::text, ':5', ':50')::json"), true,
                                                                                         &["12:00 51"], "written by somebody else"),
        (&|| written_otherwise("DELETE FROM open_hours"), true,                          &["12:00 1"], "not there any more"),
        (&|| (), true,                                                                   &["12:00 2"], "opened again"),
        (&|| (), false,                                                                  &["12:00 3"], "by the other one"),
    ];
    for (before, is_others, open, why) in steps {
        // Long enough for both to believe what they remember again.
        for customer in 0..101 {
            let event = |by: &str| {
                build::event(&format!("c{customer}"), "other", &format!("{} {by}", sent.get()), at(time!(12:05)))
            };
            for (by, name) in [(&*store, "a"), (&other, "b")] {
                by.ingest(world.organization, &[event(name)], Window::Open).expect("taken in");
            }
        }
        before();
        send(if is_others { &other } else { &store });
        assert_eq!(query(store.url(), OPEN), open, "{why}");
    }
}

#[test]
fn an_open_hour_is_not_read_again() {
    count_statements();
    let store = TestStore::new();
    let world = World::new(&store, 1);
    world.new_metric(Measure::Counter(Aggregation::Count));
    world.set_clock(at(time!(12:30)));
    let sent = |id| {
        let before = statements_sent(store.url());
        store.ingest(world.organization, &[event(id, time!(12:05))], Window::Open).expect("taken in");
        statements_sent(store.url()) - before
    };
    sent(1);
    // BEGIN, lanes, epoch, whose clock it is, events, the open hour.
    assert_eq!([sent(2), sent(3)], [6, 6]);
    execute(store.url(), "UPDATE open_hours SET gains = gains").expect("written");
    // All of it twice, the second time with the hour read; and read for a while after.
    assert_eq!([sent(4), sent(5)], [6 + 7, 7]);
}
