//! The fold from events to a quantity, and the intake before it.

use billing_domain::BigDecimal;
use billing_domain::event::{Event, Properties};
use billing_domain::id::CustomerKey;
use billing_domain::memory::MemoryStore;
use billing_domain::metric::{AggregationKind, Gauge, GaugeEventType, Measure, Metric, Rate};
use billing_domain::money::round_half_away_from_zero;
use billing_domain::period::{Period, Span};
use billing_domain::store::{EventIngest, Scope, Store, Window};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::testing::build::{self, Ids};
use billing_domain::testing::world::filters;
use billing_domain::usage::{Usage, UsageRequest, fold};
use billing_domain::workflow::{CreateOrganization, create_organization};
use proptest::prelude::*;
use serde_json::Value;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::laws;

const START: OffsetDateTime = datetime!(2026-01-01 0:00 UTC);
/// Few instants, so that events often fall on the edges.
const HOURS: i64 = 12;

fn any_properties() -> impl Strategy<Value = Properties> {
    let number = prop::sample::select(vec![
        "1",
        "-2.5",
        "\"3\"",
        "0.1",
        "1e31",
        "\"x\"",
        "null",
        "1e-30",
        "12345678901234567890.5",
    ]);
    let region = prop::sample::select(vec!["\"eu\"", "\"us\"", "1"]);
    (prop::option::of(number), prop::option::of(region)).prop_map(|(number, region)| {
        let read = |(name, json): (&str, Option<&str>)| {
            let value: Value = serde_json::from_str(json?).expect("json");
            Some((name.to_owned(), value))
        };
        [("amount", number), ("region", region)].into_iter().filter_map(read).collect()
    })
}

fn any_events() -> impl Strategy<Value = Vec<Event>> {
    let event = (0..=HOURS, prop::sample::select(vec!["call", "call", "mail"]), any_properties());
    prop::collection::vec(event, 0..10).prop_map(|events| {
        let of = |(index, (hour, name, properties)): (usize, (i64, &str, Properties))| {
            let at = START + Duration::hours(hour);
            Event { properties, ..build::event("acme", name, &index.to_string(), at) }
        };
        events.into_iter().enumerate().map(of).collect()
    })
}

fn any_measure() -> impl Strategy<Value = Measure> {
    let of_amount = |kind: AggregationKind| kind.of(Some("amount".to_owned())).expect("a property is named");
    let counter = prop::sample::select(AggregationKind::ALL).prop_map(move |kind| Measure::Counter(of_amount(kind)));
    let spans =
        || prop::sample::select(vec![None, Some(Span::Minute), Some(Span::Hour), Some(Span::Day), Some(Span::Month)]);
    let event_types = prop::sample::select(GaugeEventType::ALL);
    let gauge = (event_types, spans(), spans()).prop_map(|(event_type, granularity, proration)| {
        Measure::Gauge(Gauge { property_name: "amount".to_owned(), event_type, granularity, proration })
    });
    let inside = [AggregationKind::Count, AggregationKind::Sum, AggregationKind::Average, AggregationKind::Max];
    let rate = (prop::sample::select(inside.to_vec()), prop::sample::select(Span::ALL));
    let rate = rate.prop_map(move |(kind, window)| Measure::Rate(Rate { aggregation: of_amount(kind), window }));
    prop_oneof![counter, gauge, rate]
}

fn any_metric() -> impl Strategy<Value = Metric> {
    any_measure().prop_map(|measure| Metric { measure, ..build::count_metric(&mut Ids::new(1), "call", START) })
}

/// What is billed of `period`, in a plan that lasts from the start for as long as events may.
fn request(customer: CustomerKey, metric: &Metric, filters: &SubscriptionFilters, period: Period) -> UsageRequest {
    let total = Period::new(START, START + Duration::hours(HOURS)).expect("a period");
    let full = metric.measure.full(START, &total);
    UsageRequest { customer, metric: metric.clone(), filters: filters.clone(), period, full }
}

fn folded<'e>(
    metric: &Metric,
    filters: &SubscriptionFilters,
    period: Period,
    events: impl IntoIterator<Item = &'e Event>,
) -> Usage {
    fold(&request(Uuid::nil().into(), metric, filters, period), events)
}

fn any_filters() -> impl Strategy<Value = SubscriptionFilters> {
    prop::sample::select(vec![filters(&[]), filters(&[("region", "eu")]), filters(&[("region", "1")])])
}

fn any_period() -> impl Strategy<Value = Period> {
    (0..=HOURS, 0..=HOURS).prop_map(|(a, b)| {
        Period::new(START + Duration::hours(a.min(b)), START + Duration::hours(a.max(b))).expect("time goes on")
    })
}

/// The same usage, asked of a store that got the events in these batches.
fn stored(batches: &[&[Event]], metric: &Metric, filters: &SubscriptionFilters, period: Period) -> Usage {
    let memory = MemoryStore::at(START);
    let organization = memory.new_organization();
    let store: &dyn Store = &memory;
    let command = CreateOrganization { name: "Acme".to_owned() };
    store.run_for(&Scope::Catalog(organization), |tx, now| create_organization(tx, &command, now)).expect("made");
    for batch in batches {
        memory.ingest(organization, batch, Window::Open).expect("stored");
    }
    let customer = build::customer(organization, "acme", START).key;
    let request = request(customer, metric, filters, period);
    let scope = Scope::Organization(organization);
    store.run_for(&scope, |tx, _| Ok(tx.events().usages(std::slice::from_ref(&request))?.remove(0))).expect("usage")
}

/// Whether two quantities are one, but for the last of a quotient's 60 decimals.
fn same(whole: BigDecimal, parts: BigDecimal) -> Result<(), TestCaseError> {
    prop_assert_eq!(round_half_away_from_zero(&whole, 50), round_half_away_from_zero(&parts, 50));
    Ok(())
}

proptest! {
    #![proptest_config(laws())]

    #[test]
    fn usage_does_not_depend_on_the_order_of_events(
        (events, shuffled) in any_events().prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle())),
        metric in any_metric(),
        filters in any_filters(),
        period in any_period(),
    ) {
        prop_assert_eq!(folded(&metric, &filters, period, &events), folded(&metric, &filters, period, &shuffled));
    }

    #[test]
    fn usage_of_a_period_is_that_of_its_parts(
        events in any_events(),
        metric in any_metric(),
        filters in any_filters(),
        period in any_period(),
        cut in 0..=HOURS,
    ) {
        let before_period = period.cut_at(START + Duration::hours(cut));
        let after_period = Period::new(before_period.end(), period.end()).expect("time goes on");
        let usage = |period| folded(&metric, &filters, period, &events);
        let (whole, before, after) = (usage(period), usage(before_period), usage(after_period));
        prop_assert_eq!(whole.event_count, before.event_count + after.event_count);
        let (is_first_empty, is_second_empty) = (before_period.is_empty(), after_period.is_empty());
        let aggregation = match &metric.measure {
            Measure::Counter(aggregation) => aggregation,
            Measure::Custom(_) => return Ok(()),
            // A level is there without events too.
            Measure::Gauge(Gauge { proration: None, .. }) if is_second_empty => return same(whole.quantity, before.quantity),
            Measure::Gauge(Gauge { proration: None, .. }) if is_first_empty => return same(whole.quantity, after.quantity),
            Measure::Gauge(Gauge { proration: None, .. }) => {
                return same(whole.quantity, before.quantity.max(after.quantity));
            }
            // Every cut is at a full hour: between buckets, or through one whose peak then is that of one part.
            Measure::Gauge(Gauge { proration: Some(Span::Day | Span::Month), .. }) => return Ok(()),
            Measure::Gauge(_) => return same(whole.quantity, before.quantity + after.quantity),
            // The others are 0 where no window ends.
            Measure::Rate(_) if after.event_count == 0 => return same(whole.quantity, before.quantity),
            Measure::Rate(_) if before.event_count == 0 => return same(whole.quantity, after.quantity),
            Measure::Rate(_) => return same(whole.quantity, before.quantity.max(after.quantity)),
        };
        let parts = match aggregation.kind() {
            AggregationKind::Count | AggregationKind::Sum => before.quantity + after.quantity,
            // Of nothing the others are 0, which then is no value of a part.
            _ if after.event_count == 0 => before.quantity,
            AggregationKind::Latest => after.quantity,
            _ if before.event_count == 0 => after.quantity,
            AggregationKind::Max => before.quantity.max(after.quantity),
            AggregationKind::Min => before.quantity.min(after.quantity),
            // These do not follow from their parts, but lie within bounds that do.
            AggregationKind::Unique => {
                let (greater, both) = (before.quantity.clone().max(after.quantity.clone()), before.quantity + after.quantity);
                prop_assert!(greater <= whole.quantity && whole.quantity <= both);
                return Ok(());
            }
            AggregationKind::Average => {
                let least = before.quantity.clone().min(after.quantity.clone());
                let greatest = before.quantity.max(after.quantity);
                prop_assert!(least <= whole.quantity && whole.quantity <= greatest);
                return Ok(());
            }
        };
        prop_assert_eq!(whole.quantity, parts);
    }

    #[test]
    fn usage_does_not_depend_on_batches_or_duplicates(
        (events, sent) in any_events().prop_flat_map(|events| {
            let copies = prop::collection::vec(prop::bool::weighted(0.3), events.len());
            (Just(events), copies)
        }).prop_flat_map(|(events, copies)| {
            let again = events.iter().zip(copies).filter(|(_, again)| *again).map(|(event, _)| event.clone());
            let sent: Vec<Event> = events.iter().cloned().chain(again).collect();
            (Just(events), Just(sent).prop_shuffle())
        }),
        cuts in prop::collection::vec(0..32_usize, 0..4),
        metric in any_metric(),
        filters in any_filters(),
        period in any_period(),
    ) {
        let (mut batches, mut rest) = (Vec::new(), &sent[..]);
        for cut in cuts {
            let (batch, left) = rest.split_at(cut.min(rest.len()));
            batches.push(batch);
            rest = left;
        }
        batches.push(rest);
        prop_assert_eq!(stored(&batches, &metric, &filters, period), folded(&metric, &filters, period, &events));
    }
}
