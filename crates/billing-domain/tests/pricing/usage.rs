use billing_domain::decimal::plain;
use billing_domain::event::{Event, Properties};
use billing_domain::metric::{
    Aggregation, AggregationKind, CategoricalFilter, CategoricalOperator, Metric, MetricFilters, NumericFilter,
    NumericOperator,
};
use billing_domain::period::Period;
use billing_domain::store::{EventIngest, Scope, Store, Window};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::testing::world::{World, filters};
use billing_domain::usage::UsageRequest;

use super::{instant, table};

const USAGE: &str = "| metric | filter | events | quantity | events counted |";
pub const TABLES: [&str; 1] = [USAGE];

/// `id name day properties`, in January 2026 unless the day says otherwise.
fn event(text: &str) -> Event {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [id, name, at, json] = words[..] else { panic!("{text:?} is not an event") };
    let properties: Properties = serde_json::from_str(json).expect("a JSON object");
    Event {
        customer: "acme".parse().expect("an id"),
        name: name.to_owned(),
        idempotency_id: id.to_owned(),
        time_created: instant(&format!("2026-{at}")),
        properties,
    }
}

/// `aggregation [property] [where property operator value]`.
fn metric(text: &str) -> (Aggregation, MetricFilters) {
    let (aggregation, condition) = text.split_once(" where ").map_or((text, None), |(text, rest)| (text, Some(rest)));
    let mut words = aggregation.split_whitespace();
    let (kind, property_name) = (words.next(), words.next().map(str::to_owned));
    let kind = AggregationKind::ALL.iter().find(|known| Some(known.as_str()) == kind);
    let aggregation = kind.and_then(|kind| kind.of(property_name)).unwrap_or_else(|| panic!("{text:?} is no metric"));
    let mut filters = MetricFilters::default();
    if let Some(condition) = condition {
        let [property, operator, value] = condition.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{condition:?} is no condition")
        };
        let property_name = property.to_owned();
        match NumericOperator::ALL.iter().find(|known| known.as_str() == operator) {
            Some(operator) => {
                let comparison_value = value.parse().expect("a number");
                filters.numeric_filters.push(NumericFilter { property_name, operator: *operator, comparison_value });
            }
            None => {
                let operator = CategoricalOperator::ALL.iter().find(|known| known.as_str() == operator);
                filters.categorical_filters.push(CategoricalFilter {
                    property_name,
                    operator: *operator.expect("an operator"),
                    comparison_value: value.split(',').map(str::to_owned).collect(),
                });
            }
        }
    }
    (aggregation, filters)
}

fn filter(text: &str) -> SubscriptionFilters {
    filters(&text.split_once('=').into_iter().collect::<Vec<_>>())
}

#[test]
fn events_fold_into_a_quantity() {
    let january = Period::new(instant("2026-01-01"), instant("2026-02-01")).expect("a period");
    for row in table(USAGE) {
        let world = World::at(january.end());
        let events: Vec<Event> = row[2].split(';').filter(|text| !text.is_empty()).map(event).collect();
        world.store.ingest(world.organization, &events, Window::Open).expect("stored");
        let (aggregation, filters) = metric(&row[0]);
        let metric = Metric { measure: aggregation.into(), filters, ..world.metric("call", None) };
        let request = UsageRequest::billed(world.key("acme"), metric, filter(&row[1]), january, &january);
        let store: &dyn Store = &world.store;
        let scope = Scope::Organization(world.organization);
        let usages = store.run_for(&scope, |tx, _| tx.events().usages(std::slice::from_ref(&request))).expect("usage");
        let found = (plain(&usages[0].quantity), usages[0].event_count.to_string());
        assert_eq!(found, (row[3].clone(), row[4].clone()), "{row:?}");
    }
}
