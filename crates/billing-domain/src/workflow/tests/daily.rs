//! Usage day by day adds up to the usage of the whole.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::custom_sql::CustomSql;
use crate::decimal::plain;
use crate::event::Event;
use crate::metric::{AggregationKind, Gauge, GaugeEventType, Measure, MetricFilters, Rate};
use crate::money::round_half_away_from_zero;
use crate::period::{Period, Span};
use crate::store::{EventIngest, Window};
use crate::subscription::SubscriptionFilters;
use crate::testing::build::{event, properties};
use crate::testing::world::World;
use crate::usage::UsageRequest;
use crate::workflow::daily_usage::{DailyUsage, daily_usages};
use crate::workflow::usages::usages;
use crate::workflow::{CreateMetric, create_metric};

const START: OffsetDateTime = datetime!(2024-01-20 07:30 UTC);

/// Every measure whose usage has parts: an average, a least and a latest number have none.
fn measures() -> impl Strategy<Value = Measure> {
    let of_n = |kind: AggregationKind| kind.of(Some("n".to_owned())).expect("a property is named");
    let kinds = [AggregationKind::Count, AggregationKind::Sum, AggregationKind::Max, AggregationKind::Unique];
    let counter = prop::sample::select(kinds.to_vec()).prop_map(move |kind| Measure::Counter(of_n(kind)));
    let spans = || prop::option::of(prop::sample::select(Span::ALL));
    let gauge = (prop::sample::select(GaugeEventType::ALL), spans(), spans());
    let gauge = gauge.prop_map(|(event_type, granularity, proration)| {
        Measure::Gauge(Gauge { property_name: "n".to_owned(), event_type, granularity, proration })
    });
    let inside = [AggregationKind::Count, AggregationKind::Sum, AggregationKind::Average, AggregationKind::Max];
    let rate = (prop::sample::select(inside.to_vec()), prop::sample::select(Span::ALL));
    let rate = rate.prop_map(move |(kind, window)| Measure::Rate(Rate { aggregation: of_n(kind), window }));
    let sql = "SELECT MAX((properties ->> 'n')::numeric) - MIN((properties ->> 'n')::numeric) AS usage_qty FROM events";
    let custom = Just(Measure::Custom(CustomSql::parse(sql).expect("a query")));
    prop_oneof![2 => counter, 6 => gauge, 1 => rate, 1 => custom]
}

/// Events from ten days before to sixty days after the start, often at the start of a day.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let moment = (-10_i64..60, prop_oneof![Just(0_i64), 0..86_400_000_000_i64], -5_i32..30);
    prop::collection::vec(moment, 0..14).prop_map(|events| {
        let at = |(index, (day, us, n)): (usize, (i64, i64, i32))| {
            let midnight = START.replace_time(time::Time::MIDNIGHT) + Duration::days(day);
            let json = format!(r#"{{"n": {n}}}"#);
            let time = midnight + Duration::microseconds(us);
            Event { properties: properties(&json), ..event("acme", "call", &index.to_string(), time) }
        };
        events.into_iter().enumerate().map(at).collect()
    })
}

/// The usage of days, the sum of it, and the usage of the whole, to 30 decimals.
fn compare(measure: &Measure, events: &[Event], period: Period) -> (String, String) {
    let world = World::at(period.end() + Duration::DAY);
    let command = CreateMetric {
        name: None,
        event_name: "call".to_owned(),
        measure: measure.clone(),
        filters: MetricFilters::default(),
        is_cost_metric: false,
    };
    let metric = world.catalog(|tx, now| create_metric(tx, &command, now)).expect("a metric");
    let customer = world.customer("acme");
    world.store.ingest(world.organization, events, Window::Open).expect("taken in");
    let (filters, full) = (SubscriptionFilters::none(), metric.measure.full(period.start(), &period));
    let question = DailyUsage { metric: metric.clone(), filters: filters.clone(), period };
    let request = UsageRequest { customer, metric, filters, period, full };
    let (daily, whole) = world
        .catalog(|tx, now| {
            let daily = daily_usages(tx, customer, std::slice::from_ref(&question), now)?.remove(0);
            Ok((daily, usages(tx, std::slice::from_ref(&request))?.remove(0)))
        })
        .expect("usage");
    let shown = |number: &bigdecimal::BigDecimal| plain(&round_half_away_from_zero(number, 30).normalized());
    (shown(&daily.values().sum()), shown(&whole.quantity))
}

#[test]
fn days_add_up_to_their_period() {
    let cases = (measures(), events(), 1_i64..55, prop_oneof![Just(0_i64), 0..86_400_000_000_i64]);
    let config = Config { cases: Config::default().cases.min(1_000), failure_persistence: None, ..Config::default() };
    let check = |(measure, events, days, us): (Measure, Vec<Event>, i64, i64)| {
        let end = START + Duration::days(days) + Duration::microseconds(us);
        let (sum, whole) = compare(&measure, &events, Period::new(START, end).expect("a period"));
        prop_assert_eq!(sum, whole, "{:?}", measure);
        Ok(())
    };
    TestRunner::new(config).run(&cases, check).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_peak_of_a_long_bucket_belongs_to_its_day() {
    let january = Period::new(datetime!(2024-01-01 0:00 UTC), datetime!(2024-02-01 0:00 UTC)).expect("January");
    let world = World::at(january.end());
    let command = CreateMetric {
        name: None,
        event_name: "call".to_owned(),
        measure: Measure::Gauge(Gauge {
            property_name: "n".to_owned(),
            event_type: GaugeEventType::Total,
            granularity: Some(Span::Month),
            proration: Some(Span::Month),
        }),
        filters: MetricFilters::default(),
        is_cost_metric: false,
    };
    let metric = world.catalog(|tx, now| create_metric(tx, &command, now)).expect("a metric");
    let customer = world.customer("acme");
    world.track("acme", "call", january.start(), &json!({"n": 31}));
    world.track("acme", "call", january.start() + Duration::days(9), &json!({"n": 62}));
    world.track("acme", "call", january.start() + Duration::days(10), &json!({"n": 0}));
    let question = DailyUsage { metric, filters: SubscriptionFilters::none(), period: january };
    let daily = world.catalog(|tx, now| daily_usages(tx, customer, std::slice::from_ref(&question), now));
    let daily: Vec<String> = daily.expect("usage")[0].values().map(plain).collect();
    // Nine days at 31 of 31; the tenth makes the whole bucket one of 62, the nine days before it too.
    let expected: Vec<&str> = (1..=31)
        .map(|day| {
            if day < 10 {
                "1"
            } else if day == 10 {
                "11"
            } else {
                "2"
            }
        })
        .collect();
    assert_eq!(daily, expected, "62 in all: the peak counts for the whole month");
}
