//! Usage: every store agrees with [`crate::usage::fold`].

use std::cell::Cell;

use time::{Duration, OffsetDateTime};

use super::event::NOW;
use super::{Harness, Tenant};
use crate::event::Event;
use crate::id::CustomerKey;
use crate::metric::Metric;
use crate::period::Period;
use crate::store::Window;
use crate::subscription::{Subscription, SubscriptionFilters};
use crate::testing::build::{
    component, count_metric, days_from, event, plan, plan_version, properties, subscription, sum_metric,
};
use crate::testing::world::{decimal, filters};
use crate::usage::{Usage, UsageRequest, fold};

impl Tenant<'_> {
    /// A counting and an adding metric of the events `call`, kept.
    pub(super) fn new_metrics(&self) -> (Metric, Metric) {
        self.catalog(|tx, now| {
            let metrics = self.build(|ids| (count_metric(ids, "call", now), sum_metric(ids, "call", now)));
            tx.metrics().insert(&metrics.0)?;
            tx.metrics().insert(&metrics.1)?;
            Ok(metrics)
        })
    }

    fn usage(&self, customer: CustomerKey, metric: &Metric, filters: &SubscriptionFilters, period: Period) -> Usage {
        let request = UsageRequest::billed(customer, metric.clone(), filters.clone(), period, &period);
        self.look(|tx, _| tx.events().usages(std::slice::from_ref(&request))).remove(0)
    }

    /// A subscription of `customer` to a plan that meters `metrics`, with `filters`, kept: a store may prepare for
    /// filters that are in use.
    pub(super) fn subscribe(&self, customer: CustomerKey, metrics: [&Metric; 2], filters: &SubscriptionFilters) {
        let version = self.catalog(|tx, now| {
            let plan = self.build(|ids| plan(ids, &filters.canonical(), now));
            let mut version = self.build(|ids| plan_version(ids, &plan, now));
            version.components = metrics.map(|metric| self.build(|ids| component(ids, metric.id))).into();
            tx.plans().insert(&plan)?;
            tx.plans().insert_version(&version)?;
            Ok(version)
        });
        let held = self.build(|ids| subscription(ids, customer, &version, days_from(NOW, 30)));
        let held = Subscription { filters: filters.clone(), ..held };
        self.customer(customer, |tx, _| tx.subscriptions().insert(&held));
    }
}

fn call(id: &str, time: OffsetDateTime, json: &str) -> Event {
    Event { properties: properties(json), ..event("acme", "call", id, time) }
}

fn usage(quantity: &str, event_count: u64) -> Usage {
    Usage { quantity: decimal(quantity), event_count }
}

pub(super) fn counts_and_adds_up(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let (calls, amounts) = tenant.new_metrics();
    tenant.send(&[
        call("1", NOW, r#"{"amount": 1.5}"#),
        call("2", NOW, r#"{"amount": "2.25"}"#),
        call("3", NOW - Duration::days(3), r#"{"amount": -0.000000000000000000000000000001}"#),
        call("4", NOW - Duration::days(9), "{}"),
        event("acme", "other", "5", NOW),
        event("other", "call", "6", NOW),
    ]);
    let (month, none) = (days_from(NOW - Duration::days(29), 30), SubscriptionFilters::none());
    assert_eq!(tenant.usage(acme, &calls, &none, month), usage("4", 4));
    assert_eq!(
        tenant.usage(acme, &amounts, &none, month),
        usage("3.749999999999999999999999999999", 3),
        "what has no amount does not count"
    );
    let again = call("1", NOW, r#"{"amount": 100}"#);
    tenant.send(&[again]);
    assert_eq!(tenant.usage(acme, &calls, &none, month), usage("4", 4), "a duplicate does not count");
    assert_eq!(tenant.usage(tenant.key("nobody"), &calls, &none, month), Usage::zero());
    assert_eq!(tenant.usage(acme, &calls, &none, Period::at(NOW)), Usage::zero(), "an empty period");
}

pub(super) fn respects_edges(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let (calls, _) = tenant.new_metrics();
    let us = Duration::MICROSECOND;
    // Around an hour, a day, and an instant that is neither.
    let midnight = NOW - Duration::hours(12);
    let edges = [NOW - Duration::hours(1), midnight, NOW - Duration::minutes(77) - us * 5];
    for (n, edge) in edges.iter().enumerate() {
        let around = [*edge - us, *edge, *edge + us];
        let events: Vec<_> = (0..).zip(around).map(|(m, time)| call(&format!("{n} {m}"), time, "{}")).collect();
        tenant.send(&events);
    }
    let count = |start: OffsetDateTime, end: OffsetDateTime| {
        let period = Period::new(start, end).expect("a period");
        tenant.usage(acme, &calls, &SubscriptionFilters::none(), period).event_count
    };
    for edge in edges {
        assert_eq!(count(edge, edge + us), 1, "the start is inside, the end is not");
        assert_eq!(count(edge - us, edge + us * 2), 3);
        assert_eq!(count(edge, edge), 0);
        let (start, end) = (edge - Duration::days(20), edge + Duration::days(20));
        assert_eq!(count(start, edge) + count(edge, end), 9, "periods that touch count everything once");
    }
}

pub(super) fn applies_filters(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let (calls, amounts) = tenant.new_metrics();
    let (prod, prod_eu) = (filters(&[("env", "prod")]), filters(&[("env", "prod"), ("region", "eu")]));
    // Some events come before the filters are in use, some after.
    for (round, more) in [("a", "1"), ("b", "10")] {
        let event = |id: &str, hours, json: &str| call(&format!("{round}{id}"), NOW - Duration::hours(hours), json);
        tenant.send(&[
            event("1", 1, &format!(r#"{{"env": "prod", "region": "eu", "amount": {more}}}"#)),
            event("2", 40, &format!(r#"{{"env": "prod", "region": "us", "amount": {more}}}"#)),
            event("3", 90, &format!(r#"{{"env": "test", "region": "eu", "amount": {more}}}"#)),
            event("4", 200, &format!(r#"{{"amount": {more}}}"#)),
        ]);
        let month = days_from(NOW - Duration::days(29), 30);
        let rounds = if round == "a" { 1 } else { 2 };
        let total = if round == "a" { 1 } else { 11 };
        for (filters, count) in [(SubscriptionFilters::none(), 4_u32), (prod.clone(), 2), (prod_eu.clone(), 1)] {
            assert_eq!(
                tenant.usage(acme, &amounts, &filters, month),
                usage(&(total * count).to_string(), u64::from(rounds * count)),
                "{filters:?}"
            );
            assert_eq!(tenant.usage(acme, &calls, &filters, month).event_count, u64::from(rounds * count));
        }
        if round == "a" {
            tenant.subscribe(acme, [&calls, &amounts], &prod);
            tenant.subscribe(acme, [&calls, &amounts], &prod_eu);
        }
    }
}

pub(super) fn counts_what_came_before_the_metric(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let month = days_from(NOW - Duration::days(29), 30);
    let times = [Duration::days(8), Duration::hours(3), Duration::ZERO];
    let send = |round: &str| {
        let events: Vec<_> =
            (0..).zip(times).map(|(n, age)| call(&format!("{round} {n}"), NOW - age, r#"{"amount": 2}"#)).collect();
        tenant.send(&events);
    };
    send("before");
    let (calls, amounts) = tenant.new_metrics();
    let none = SubscriptionFilters::none();
    assert_eq!(tenant.usage(acme, &amounts, &none, month), usage("6", 3));
    send("after");
    assert_eq!(tenant.usage(acme, &amounts, &none, month), usage("12", 6));
    assert_eq!(tenant.usage(acme, &calls, &none, month), usage("6", 6));
    let unknown = tenant.build(|ids| sum_metric(ids, "call", NOW));
    assert_eq!(tenant.usage(acme, &unknown, &none, month), usage("12", 6), "a metric that is not kept");
}

/// JSON values that a property may have, with what makes them special.
const VALUES: &[&str] = &[
    "1",
    "-1",
    "0",
    "-0",
    "1.50",
    "1e2",
    "1E+2",
    "1e30",
    "1e31",
    "1e-30",
    "1e-31",
    "123456789012345678901234567890.5",
    r#""1""#,
    r#""+1""#,
    r#""1.""#,
    r#"".5""#,
    r#"".""#,
    r#""1e""#,
    r#""1e5""#,
    r#""1e0000000030""#,
    r#""1e-0031""#,
    r#"" 1""#,
    r#""1 ""#,
    r#""1\n""#,
    r#""""#,
    r#""abc""#,
    r#""NaN""#,
    r#""Infinity""#,
    r#""0x10""#,
    r#""1_000""#,
    r#""١""#,
    r#""--1""#,
    r#""1e400""#,
    "1e400",
    "true",
    "false",
    "null",
    "[1]",
    r#"{"a": 1}"#,
    r#""eu""#,
    r#""é""#,
    r#""000000000000000000000000000000000000000000000000000000000001""#,
    r#""0000000000000000000000000000000000000000000000000000000000001""#,
    "0.00000000000000000000000000000000000000000000000000000000001",
];

pub(super) fn reads_numbers_as_the_domain_does(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let (_, amounts) = tenant.new_metrics();
    let none = SubscriptionFilters::none();
    for (n, value) in VALUES.iter().enumerate() {
        // Each in the middle of an hour of its own: once inside ragged ends, once inside whole hours.
        let time = NOW - Duration::hours(2 * i64::try_from(n).expect("few")) + Duration::minutes(30);
        let sent = call(&n.to_string(), time, &format!(r#"{{"amount": {value}}}"#));
        tenant.send(std::slice::from_ref(&sent));
        let minute = Duration::minutes(1);
        for period in [Period::new(time - minute, time + minute), Period::new(time - minute * 30, time + minute * 30)] {
            let period = period.expect("a period");
            let expected = fold(&UsageRequest::billed(acme, amounts.clone(), none.clone(), period, &period), [&sent]);
            assert_eq!(tenant.usage(acme, &amounts, &none, period), expected, "{value} in {period:?}");
        }
    }
}

pub(super) fn compares_text_as_the_domain_does(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let (calls, amounts) = tenant.new_metrics();
    let wanted = ["1", "1.5", "1.50", "100", "1e2", "0", "-0", "eu", "true", "é", "1e31", "1e400", "+1"];
    let wanted: Vec<_> = wanted.iter().map(|value| filters(&[("region", value)])).collect();
    tenant.subscribe(acme, [&calls, &amounts], &wanted[0]);
    let sent: Vec<_> = VALUES
        .iter()
        .enumerate()
        .map(|(n, value)| call(&n.to_string(), NOW - Duration::minutes(30), &format!(r#"{{"region": {value}}}"#)))
        .collect();
    tenant.send(&sent);
    let (raw, whole) = (days_from(NOW - Duration::seconds(1801), 1), days_from(NOW - Duration::hours(1), 1));
    for filters in wanted {
        for period in [raw, whole] {
            let expected = fold(&UsageRequest::billed(acme, calls.clone(), filters.clone(), period, &period), &sent);
            assert_eq!(tenant.usage(acme, &calls, &filters, period), expected, "{filters:?} in {period:?}");
        }
    }
}

pub(super) fn answers_in_order(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let (calls, amounts) = tenant.new_metrics();
    tenant.send(&[call("1", NOW, r#"{"amount": 7}"#), call("2", NOW, r#"{"amount": 7}"#)]);
    let month = days_from(NOW - Duration::days(29), 30);
    let request = |customer, metric: &Metric, period| {
        UsageRequest::billed(customer, metric.clone(), SubscriptionFilters::none(), period, &period)
    };
    let requests = [
        request(acme, &amounts, month),
        request(tenant.key("nobody"), &amounts, month),
        request(acme, &calls, month),
        request(acme, &amounts, Period::at(NOW)),
        request(acme, &amounts, month),
    ];
    let expected = [usage("14", 2), Usage::zero(), usage("2", 2), Usage::zero(), usage("14", 2)];
    assert_eq!(tenant.look(|tx, _| tx.events().usages(&requests)), expected);
    assert_eq!(tenant.look(|tx, _| tx.events().usages(&[])), []);
}

/// Numbers that look random and are the same every time.
struct Dice(Cell<u64>);

impl Dice {
    fn roll(&self, sides: u64) -> u64 {
        // Knuth's MMIX generator.
        let next = self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.set(next);
        (next >> 33) % sides
    }

    fn microseconds(&self, below: Duration) -> Duration {
        let most = u64::try_from(below.whole_microseconds()).unwrap_or(1);
        let high = self.roll(1 << 31) << 31;
        Duration::microseconds(i64::try_from((high | self.roll(1 << 31)) % most).unwrap_or(0))
    }
}

pub(super) fn agrees_with_the_fold(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let (calls, amounts) = tenant.new_metrics();
    let used = [filters(&[]), filters(&[("env", "a")]), filters(&[("env", "a"), ("region", "1")])];
    tenant.subscribe(acme, [&calls, &amounts], &used[1]);
    tenant.subscribe(acme, [&calls, &amounts], &used[2]);
    let dice = Dice(Cell::new(7));
    let span = Duration::days(31);
    let events: Vec<_> = (0..400)
        .map(|n| {
            let time = NOW - Duration::days(30) + dice.microseconds(span);
            let time = if dice.roll(4) == 0 { time.replace_minute(0).expect("a time") } else { time };
            let json = format!(
                r#"{{"env": "{}", "region": {}, "amount": {}.{:03}}}"#,
                ["a", "b"][usize::try_from(dice.roll(2)).expect("small")],
                dice.roll(3),
                dice.roll(2_000) as i64 - 1_000,
                dice.roll(1_000)
            );
            call(&n.to_string(), time.max(NOW - Duration::days(30)), &json)
        })
        .collect();
    for chunk in events.chunks(70) {
        harness.ingest.ingest(tenant.id, chunk, Window::Enforced).expect("taken in");
    }
    let requests: Vec<_> = (0..60)
        .map(|n| {
            let start = NOW - Duration::days(30) + dice.microseconds(span);
            let start = if n % 5 == 0 { start.replace_time(time::Time::MIDNIGHT) } else { start };
            let period = Period::new(start, start + dice.microseconds(span)).expect("a period");
            let metric = if n % 2 == 0 { calls.clone() } else { amounts.clone() };
            UsageRequest::billed(acme, metric, used[n % 3].clone(), period, &period)
        })
        .collect();
    let found = tenant.look(|tx, _| tx.events().usages(&requests));
    for (request, found) in requests.iter().zip(found) {
        let expected = fold(request, &events);
        assert_eq!(found, expected, "{:?} {:?}", request.filters, request.period);
    }
}
