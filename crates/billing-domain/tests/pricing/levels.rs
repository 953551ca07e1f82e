//! Gauges and rates.

use billing_domain::BigDecimal;
use billing_domain::decimal::divide;
use billing_domain::event::{Event, Properties};
use billing_domain::metric::{
    Aggregation, AggregationKind, GaugeEventType, Granularity, Measure, MeasureFields, Metric, MetricType,
};
use billing_domain::money::round_half_away_from_zero;
use billing_domain::period::{Period, PlanDuration};
use billing_domain::simulate::tiers;
use billing_domain::store::{EventIngest, Scope, Store, Window};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::testing::world::World;
use billing_domain::usage::UsageRequest;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use super::{instant, table};

const LEVELS: &str = "| measure | plan | events | usage | now | free | price |";
pub const TABLES: [&str; 1] = [LEVELS];

/// `total|delta|count|sum|average|max per granularity [by proration]`.
fn measure(text: &str) -> Measure {
    let words: Vec<&str> = text.split_whitespace().collect();
    let granularity = |at: usize| {
        let word = *words.get(at)?;
        Some(*Granularity::ALL.iter().find(|known| known.as_str() == word).unwrap_or_else(|| panic!("{text:?}")))
    };
    let event_type = GaugeEventType::ALL.iter().find(|known| known.as_str() == words[0]).copied();
    let fields = MeasureFields {
        metric_type: if event_type.is_some() { MetricType::Gauge } else { MetricType::Rate },
        aggregation_type: AggregationKind::ALL.iter().find(|known| known.as_str() == words[0]).copied(),
        property_name: (words[0] != "count").then(|| "n".to_owned()),
        event_type,
        granularity: granularity(2),
        proration: granularity(4),
        custom_sql: None,
    };
    fields.measure().unwrap_or_else(|errors| panic!("{text:?}: {errors}"))
}

/// In 2026 unless it says otherwise; down to seconds if need be.
fn time_of(text: &str) -> OffsetDateTime {
    let text = if text.starts_with("20") { text.to_owned() } else { format!("2026-{text}") };
    if text.len() <= 16 {
        return instant(&text);
    }
    OffsetDateTime::parse(&format!("{text}Z"), &Rfc3339).unwrap_or_else(|_| panic!("{text} is not an instant"))
}

/// `time number` or `time each unit number number*times ..`: numbers one after the other.
fn events(text: &str) -> Vec<Event> {
    let mut events = Vec::new();
    for run in text.split("; ").filter(|run| !run.is_empty()) {
        let mut words: Vec<&str> = run.split_whitespace().collect();
        let start = time_of(words[0]);
        let step = match words.get(1..3) {
            Some(["each", "second"]) => Duration::SECOND,
            Some(["each", "minute"]) => Duration::MINUTE,
            Some(["each", "hour"]) => Duration::HOUR,
            Some(["each", "day"]) => Duration::DAY,
            _ => Duration::ZERO,
        };
        words.drain(..if step.is_zero() { 1 } else { 3 });
        let mut time = start;
        for word in words {
            let (number, times) =
                word.split_once('*').map_or((word, 1), |(n, times)| (n, times.parse().expect("times")));
            for _ in 0..times {
                let properties: Properties = serde_json::from_str(&format!(r#"{{"n": {number}}}"#)).expect("a number");
                events.push(Event {
                    customer: "acme".parse().expect("an id"),
                    name: "level".to_owned(),
                    idempotency_id: format!("{:05}", events.len()),
                    time_created: time,
                    properties,
                });
                time += step;
            }
        }
    }
    events
}

/// `7` or `7/31`.
fn number(text: &str) -> BigDecimal {
    let parse = |text: &str| text.trim().parse::<BigDecimal>().unwrap_or_else(|_| panic!("{text:?}"));
    text.split_once('/').map_or_else(|| parse(text), |(top, bottom)| divide(&parse(top), &parse(bottom)))
}

fn same(found: &BigDecimal, expected: &str, row: &[String]) {
    let (found, expected) = (round_half_away_from_zero(found, 50), round_half_away_from_zero(&number(expected), 50));
    assert_eq!(found, expected, "{row:?}");
}

#[test]
fn levels_and_rates_come_to_a_quantity_and_a_price() {
    let start = instant("2026-01-01");
    for row in table(LEVELS) {
        let duration: PlanDuration = row[1].parse().expect("a duration");
        let total =
            duration.interval().tiles(start, &Period::new(start, start + Duration::DAY).expect("a day"))[0].full;
        let world = World::at(total.end());
        world.store.ingest(world.organization, &events(&row[2]), Window::Open).expect("stored");
        let metric = Metric { measure: measure(&row[0]), ..world.metric("level", None) };
        let (key, none) = (world.key("acme"), SubscriptionFilters::none());
        let requests = [
            UsageRequest::billed(key, metric.clone(), none.clone(), total, &total),
            UsageRequest::current(key, metric.clone(), none, total),
        ];
        let store: &dyn Store = &world.store;
        let scope = Scope::Organization(world.organization);
        let usages = store.run_for(&scope, |tx, _| tx.events().usages(&requests)).expect("usage");
        same(&usages[0].quantity, &row[3], &row);
        same(&usages[1].quantity, &row[4], &row);
        let tiers = if row[5] == "0" { tiers() } else { tiers().free_to(&row[5]) };
        let unit = if matches!(metric.measure, Measure::Rate(_)) { "1" } else { "100" };
        let price = tiers.per_unit(unit).build().expect("tiers").rate(&usages[0].quantity).amount;
        assert_eq!(round_half_away_from_zero(&price, 2), number(&row[6]), "{row:?}");
    }
}

#[test]
fn a_level_is_an_aggregation_of_what_came_before() {
    let Measure::Gauge(gauge) = measure("delta per months by days") else { panic!("a gauge") };
    assert_eq!(gauge.level(), Aggregation::Sum { property_name: "n".to_owned() });
}
