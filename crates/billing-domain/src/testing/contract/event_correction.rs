//! Correcting events: usage is that of the events as they are then, whatever a store keeps beside them.

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use super::event::NOW;
use super::{Harness, Tenant};
use crate::error::Error;
use crate::event::EventState::{Amended, Counted, Voided};
use crate::event::{Event, EventCorrection, EventState, Ingested, KeptEvent};
use crate::id::CustomerKey;
use crate::metric::{
    Aggregation, Gauge, GaugeEventType, Measure, Metric, MetricFilters, NumericFilter, NumericOperator, Rate,
};
use crate::period::{Period, Span};
use crate::store::{EventFilter, PageRequest, Scope};
use crate::subscription::SubscriptionFilters;
use crate::testing::build::{days_from, event, properties};
use crate::testing::world::{decimal, filters};
use crate::usage::{UsageRequest, fold};

/// Of one customer, what was sent, and what has become of it by now.
struct Corrected<'t> {
    tenant: &'t Tenant<'t>,
    customer: CustomerKey,
    events: Vec<Event>,
    requests: Vec<UsageRequest>,
}

fn call(id: &str, time: OffsetDateTime, json: &str) -> Event {
    Event { properties: properties(json), ..event("acme", "call", id, time) }
}

/// One metric of each kind that a store may keep sums of, or read again.
fn measures() -> Vec<Measure> {
    let n = || "n".to_owned();
    let counters = [
        Aggregation::Count,
        Aggregation::Sum { property_name: n() },
        Aggregation::Average { property_name: n() },
        Aggregation::Max { property_name: n() },
        Aggregation::Min { property_name: n() },
        Aggregation::Latest { property_name: n() },
        Aggregation::Unique { property_name: "env".to_owned() },
    ];
    let gauge = |event_type| Gauge { event_type, property_name: n(), granularity: Some(Span::Day), proration: None };
    let rate = Rate { aggregation: Aggregation::Count, window: Span::Hour };
    let others = [
        Measure::Gauge(gauge(GaugeEventType::Delta)),
        Measure::Gauge(gauge(GaugeEventType::Total)),
        Measure::Rate(rate),
    ];
    counters.into_iter().map(Measure::Counter).chain(others).collect()
}

impl<'t> Corrected<'t> {
    fn new(tenant: &'t Tenant<'t>, events: Vec<Event>) -> Self {
        let customer = tenant.new_customer_at_now();
        let (calls, amounts) = tenant.new_metrics();
        let prod = filters(&[("env", "prod")]);
        tenant.subscribe(customer, [&calls, &amounts], &prod);
        let mut metrics: Vec<Metric> = measures()
            .into_iter()
            .enumerate()
            .map(|(n, measure)| Metric {
                id: tenant.build(|ids| ids.next()),
                name: format!("figure {n}"),
                measure,
                ..calls.clone()
            })
            .collect();
        let at_least = NumericFilter {
            property_name: "n".to_owned(),
            operator: NumericOperator::Gte,
            comparison_value: decimal("3"),
        };
        let only_large = MetricFilters { numeric_filters: vec![at_least], ..MetricFilters::default() };
        let name = "large ones".to_owned();
        metrics.push(Metric { id: tenant.build(|ids| ids.next()), name, filters: only_large, ..calls.clone() });
        tenant.catalog(|tx, _| metrics.iter().try_for_each(|metric| tx.metrics().insert(metric)));
        metrics.push(calls);
        let hour = |back: i64| NOW - Duration::hours(back);
        let between = |start, end| Period::new(start, end).expect("a period");
        let (first, odd) = (NOW - Duration::days(40), Duration::microseconds(17 * 60_000_000 + 5));
        let periods = [
            days_from(first, 45),
            between(NOW - Duration::days(2), NOW + Duration::hours(1)),
            between(hour(3) + odd, hour(1) + odd),
            between(hour(30) + odd, NOW),
            between(hour(0), hour(-1)),
        ];
        let none = SubscriptionFilters::none();
        let request = |metric: &Metric, filters: &SubscriptionFilters, period: &Period| {
            UsageRequest::billed(customer, metric.clone(), filters.clone(), *period, period)
        };
        let requests = metrics.iter().flat_map(|metric| {
            let unfiltered = periods.iter().map(|period| request(metric, &none, period));
            unfiltered.chain(periods.iter().map(|period| request(metric, &prod, period))).collect::<Vec<_>>()
        });
        let requests = requests.collect();
        tenant.import(&events);
        Self { tenant, customer, events, requests }
    }

    /// Holds what the store says of usage to the events as they are, twice: the second time out of what it remembers.
    fn check(&self, why: &str) {
        for time in ["at first", "again"] {
            let usages = self.tenant.look(|tx, _| {
                tx.events().warm_up(&self.requests)?;
                tx.events().usages(&self.requests)
            });
            for (request, usage) in self.requests.iter().zip(usages) {
                let (measure, period) = (&request.metric.measure, request.period);
                assert_eq!(usage, fold(request, &self.events), "{why}, {time}: {measure:?} {period:?}");
            }
        }
        let times = || self.events.iter().map(|event| event.time_created);
        for instant in times().chain([NOW - Duration::days(100), NOW]) {
            let next = self.tenant.look(|tx, _| tx.events().next_after(self.customer, instant));
            assert_eq!(next, times().filter(|time| *time > instant).min(), "{why}: behind {instant}");
        }
    }

    fn correct(&mut self, changes: &[(&str, Option<Event>)]) {
        let correction = |(id, after): &(&str, Option<Event>)| {
            let before = self.events.iter().find(|event| event.idempotency_id == *id).expect("it counts").clone();
            let id = self.tenant.build(|ids| ids.next());
            let (by, reason) = (Some("abcdefgh".to_owned()), Some("wrong".to_owned()));
            EventCorrection { id, before, after: after.clone(), at: NOW, by, reason, job: None }
        };
        let corrections: Vec<_> = changes.iter().map(correction).collect();
        self.tenant.customer(self.customer, |tx, _| tx.events().correct(self.customer, &corrections));
        for (id, after) in changes {
            self.events.retain(|event| event.idempotency_id != *id);
            self.events.extend(after.clone());
        }
    }

    fn found(&self, id: &str) -> Vec<KeptEvent> {
        self.tenant.look(|tx, _| tx.events().find(self.customer, &[id.to_owned()]))
    }
}

fn sent() -> Vec<Event> {
    let hour = |back: i64| NOW - Duration::hours(back);
    vec![
        call("a", hour(0), r#"{"n": 5, "env": "prod"}"#),
        call("b", hour(0) + Duration::minutes(20), r#"{"n": 2, "env": "test"}"#),
        call("c", hour(2), r#"{"n": 7, "env": "prod"}"#),
        call("d", hour(2) + Duration::minutes(30), r#"{"n": 1.5, "env": "prod"}"#),
        call("e", hour(29), r#"{"n": -4, "env": "other"}"#),
        call("f", NOW - Duration::days(38), r#"{"n": 3, "env": "prod"}"#),
        call("g", hour(2), r#"{"env": "prod"}"#),
    ]
}

pub(super) fn moves_every_figure(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let mut acme = Corrected::new(&tenant, sent());
    acme.check("as it came");
    let event = |id: &str| acme.events.iter().find(|event| event.idempotency_id == id).expect("there").clone();
    let with = |id: &str, json: &str| Event { properties: properties(json), ..event(id) };
    let at = |id: &str, time| Event { time_created: time, ..event(id) };
    let earlier_month = datetime!(2024-01-15 06:30 UTC);
    let back = at("c", NOW - Duration::hours(2));
    #[rustfmt::skip]
    let steps: Vec<(Vec<(&str, Option<Event>)>, &str)> = vec![
        (vec![("c", Some(with("c", r#"{"n": 9, "env": "prod"}"#)))],       "a closed hour with as many events as before"),
        (vec![("a", Some(with("a", r#"{"n": 1, "env": "late"}"#)))],       "the hour that is still written to"),
        (vec![("e", None)],                                                "the only one of its day"),
        (vec![("d", None), ("g", Some(with("g", r#"{"n": 8, "env": "prod"}"#)))], "one less and one more that counts"),
        (vec![("b", Some(at("b", NOW + Duration::minutes(50))))],          "to later in the same hour"),
        (vec![("c", Some(at("c", earlier_month)))],                        "to a month that had no events"),
        (vec![("f", Some(at("f", NOW - Duration::hours(1))))],             "out of another month"),
        (vec![("c", Some(back))],                                          "and back again"),
        (vec![("a", None), ("b", None), ("f", None)],                      "several at once"),
        (vec![("g", None), ("c", None)],                                   "until nothing is left"),
    ];
    for (changes, why) in steps {
        acme.correct(&changes);
        acme.check(why);
    }
    assert!(acme.events.is_empty());
    let more = call("h", NOW, r#"{"n": 6, "env": "prod"}"#);
    assert_eq!(tenant.send(std::slice::from_ref(&more)), [Ingested::Stored]);
    acme.events.push(more);
    acme.check("what comes after counts as always");
}

pub(super) fn stays_known_and_readable(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let mut acme = Corrected::new(&tenant, sent());
    let c = acme.found("c").remove(0);
    assert_eq!(c.state, Counted);
    let amended = Event { time_created: datetime!(2024-02-10 08:00 UTC), ..c.event.clone() };
    acme.correct(&[("c", Some(amended.clone())), ("d", None)]);
    let d = sent()[3].clone();
    assert_eq!(acme.found("c"), [KeptEvent { event: amended.clone(), state: Amended }], "once, in its new month");
    assert_eq!(acme.found("d"), [KeptEvent { event: d.clone(), state: Voided }], "as it came");
    assert_eq!(
        tenant.send(&[c.event.clone(), d.clone()]),
        [Ingested::Duplicate, Ingested::Duplicate],
        "at the old time"
    );
    let elsewhere = Event { time_created: NOW - Duration::days(5), ..amended.clone() };
    assert_eq!(tenant.send(&[elsewhere]), [Ingested::Duplicate], "at any time");
    let ids = ["c", "d", "z"].map(str::to_owned);
    let missing = tenant.look(|tx, _| tx.events().missing(Some(acme.customer), &ids, NOW - Duration::days(30)));
    assert_eq!(missing, ["z"], "they were received");

    let filter = EventFilter { name: Some("call".to_owned()), ..EventFilter::of(acme.customer) };
    let listed = tenant.look(|tx, _| tx.events().list(&filter, &PageRequest { limit: 100, after: None })).items;
    let states: Vec<(&str, EventState)> =
        listed.iter().map(|kept| (kept.event.idempotency_id.as_str(), kept.state)).collect();
    let expected =
        [("b", Counted), ("a", Counted), ("d", Voided), ("g", Counted), ("e", Counted), ("c", Amended), ("f", Counted)];
    assert_eq!(states, expected, "by the time at which each counts, or counted last");

    let corrections = tenant.look(|tx, _| tx.events().list_corrections(acme.customer, "c"));
    assert_eq!(corrections.len(), 1);
    assert_eq!((&corrections[0].before, corrections[0].after.as_ref()), (&c.event, Some(&amended)));
    assert_eq!(
        (corrections[0].at, corrections[0].by.as_deref(), corrections[0].reason.as_deref()),
        (NOW, Some("abcdefgh"), Some("wrong"))
    );
    acme.correct(&[("c", None)]);
    let states: Vec<EventState> = tenant
        .look(|tx, _| tx.events().list_corrections(acme.customer, "c"))
        .iter()
        .map(EventCorrection::state)
        .collect();
    assert_eq!(states, [Amended, Voided], "oldest first");
    acme.check("voided after it was amended");
}

pub(super) fn says_that_it_saw_more(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let mut acme = Corrected::new(&tenant, sent());
    let seen = |acme: &Corrected<'_>| tenant.look(|tx, _| tx.events().seen_usages(&acme.requests[..1])).remove(0);
    let before = seen(&acme);
    acme.correct(&[("a", None)]);
    let after = seen(&acme);
    assert!(after.last_arrival > before.last_arrival, "{} after {}", after.last_arrival, before.last_arrival);
    assert_eq!(seen(&acme), after);
}

pub(super) fn corrects_all_or_nothing(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = Corrected::new(&tenant, sent());
    let other = Tenant::new(harness);
    let correction = |before: Event| EventCorrection {
        id: tenant.build(|ids| ids.next()),
        before,
        after: None,
        at: NOW,
        by: None,
        reason: None,
        job: None,
    };
    let there = correction(sent()[0].clone());
    let changed = correction(call("b", NOW, "{}"));
    let scope = Scope::Customer(tenant.id, acme.customer);
    let both = [there.clone(), changed];
    assert!(tenant.run(&scope, |tx, _| tx.events().correct(acme.customer, &both)).is_err(), "one is not as it says");
    acme.check("nothing was done");
    let undone = tenant.run(&scope, |tx, _| {
        tx.events().correct(acme.customer, std::slice::from_ref(&there))?;
        tx.events().usages(&acme.requests)?;
        Err::<(), _>(Error::NotFound(crate::error::Noun::Customer))
    });
    assert!(undone.is_err());
    acme.check("nor anything remembered of what was undone");
    let foreign = Scope::Customer(other.id, acme.customer);
    assert!(
        other.run(&foreign, |tx, _| tx.events().correct(acme.customer, std::slice::from_ref(&there))).is_err(),
        "another's"
    );
    assert_eq!(other.look(|tx, _| tx.events().find(acme.customer, &["a".to_owned()])), []);
    acme.check("whose it is not");
}

pub(super) fn tells_what_was_seen(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let mut acme = Corrected::new(&tenant, sent());
    let customer = acme.customer;
    let seen_to =
        |acme: &Corrected<'_>| tenant.look(|tx, _| tx.events().seen_usages(&acme.requests[..1])).remove(0).last_arrival;
    let event = |acme: &Corrected<'_>, id: &str| acme.events.iter().find(|one| one.idempotency_id == id).cloned();
    let mut seen = vec![(seen_to(&acme), acme.events.clone())];
    let c = event(&acme, "c").expect("there");
    let elsewhere = Event { time_created: datetime!(2024-02-10 08:00 UTC), ..c.clone() };
    let larger = Event { properties: properties(r#"{"n": 70}"#), ..elsewhere.clone() };
    let steps: [&[(&str, Option<Event>)]; 4] = [
        &[("c", Some(elsewhere.clone())), ("d", None)],
        &[("c", Some(larger.clone()))],
        &[
            ("a", None),
            ("b", Some(Event { time_created: NOW - Duration::days(1), ..event(&acme, "b").expect("there") })),
        ],
        &[("c", None)],
    ];
    for step in steps {
        acme.correct(step);
        seen.push((seen_to(&acme), acme.events.clone()));
    }
    assert_eq!(tenant.send(&[call("z", NOW, "{}")]), [Ingested::Stored]);

    let list = |filter: &EventFilter, limit| {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = tenant.look(|tx, _| tx.events().list(filter, &PageRequest { limit, after: after.clone() }));
            assert!(page.items.len() <= limit as usize);
            found.extend(page.items);
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    };
    for (step, (last_arrival, mut events)) in seen.into_iter().enumerate() {
        events.sort_by(|a, b| (b.time_created, &b.idempotency_id).cmp(&(a.time_created, &a.idempotency_id)));
        let filter = EventFilter { seen_to: Some(last_arrival), ..EventFilter::of(customer) };
        for limit in [1, 3, 100] {
            let found: Vec<Event> = list(&filter, limit).into_iter().map(|kept| kept.event).collect();
            assert_eq!(found, events, "as it was after {step} steps");
        }
        let prod = EventFilter { properties: vec![filters(&[("env", "prod")])], ..filter.clone() };
        events.retain(|event| prod.takes(event));
        let found: Vec<Event> = list(&prod, 2).into_iter().map(|kept| kept.event).collect();
        assert_eq!(found, events, "with a property");
    }

    let histories = |id: &str| tenant.look(|tx, _| tx.events().histories(customer, id));
    let [history] = &histories("c")[..] else { panic!("one event") };
    let was: Vec<&Event> = history.versions.iter().map(|version| &version.event).collect();
    assert_eq!((was, history.state), (vec![&c, &elsewhere, &larger], Voided));
    let chain: Vec<(u64, Option<u64>)> =
        history.versions.iter().map(|version| (version.arrival, version.until)).collect();
    assert!(chain.windows(2).all(|pair| pair[0].1 == Some(pair[1].0)), "each goes on where the other ends: {chain:?}");
    assert!(chain[2].1.is_some_and(|until| until > chain[2].0), "to the end: {chain:?}");
    assert_eq!(history.corrections.iter().map(EventCorrection::state).collect::<Vec<_>>(), [Amended, Amended, Voided]);
    let [untouched] = &histories("e")[..] else { panic!("one event") };
    assert_eq!((untouched.state, untouched.versions.len(), untouched.corrections.len()), (Counted, 1, 0));
    assert_eq!(histories("nothing"), []);
    let other = Tenant::new(harness);
    assert_eq!(other.look(|tx, _| tx.events().histories(customer, "c")), [], "another's");
    let filter = EventFilter { seen_to: Some(u64::MAX >> 1), ..EventFilter::of(customer) };
    assert_eq!(other.look(|tx, _| tx.events().list(&filter, &PageRequest::first())).items, []);
    for (state, ids) in [(Voided, "d c a"), (Amended, "b"), (Counted, "z g f e")] {
        let filter = EventFilter { state: Some(state), ..EventFilter::of(customer) };
        let mut found: Vec<String> = list(&filter, 1).into_iter().map(|kept| kept.event.idempotency_id).collect();
        found.sort_by(|a, b| b.cmp(a));
        assert_eq!(found.join(" "), ids, "{state:?}");
    }
}
