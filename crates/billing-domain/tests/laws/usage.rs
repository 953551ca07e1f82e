//! The fold from events to a quantity, and the intake before it.

use billing_domain::event::{Event, Properties};
use billing_domain::memory::MemoryStore;
use billing_domain::metric::{AggregationKind, Metric};
use billing_domain::period::Period;
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

fn any_metric() -> impl Strategy<Value = Metric> {
    prop::sample::select(AggregationKind::ALL.to_vec()).prop_map(|kind| {
        let aggregation = kind.of(Some("amount".to_owned())).expect("a property is named");
        Metric { aggregation, ..build::count_metric(&mut Ids::new(1), "call", START) }
    })
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
    let request = UsageRequest { customer, metric: metric.clone(), filters: filters.clone(), period };
    let scope = Scope::Organization(organization);
    store.run_for(&scope, |tx, _| Ok(tx.events().usages(std::slice::from_ref(&request))?.remove(0))).expect("usage")
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
        prop_assert_eq!(fold(&metric, &filters, &period, &events), fold(&metric, &filters, &period, &shuffled));
    }

    #[test]
    fn usage_of_a_period_is_that_of_its_parts(
        events in any_events(),
        metric in any_metric(),
        filters in any_filters(),
        period in any_period(),
        cut in 0..=HOURS,
    ) {
        let before = period.cut_at(START + Duration::hours(cut));
        let after = Period::new(before.end(), period.end()).expect("time goes on");
        let usage = |period| fold(&metric, &filters, &period, &events);
        let (whole, before, after) = (usage(period), usage(before), usage(after));
        prop_assert_eq!(whole.event_count, before.event_count + after.event_count);
        let parts = match metric.aggregation.kind() {
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
        prop_assert_eq!(stored(&batches, &metric, &filters, period), fold(&metric, &filters, &period, &events));
    }
}
