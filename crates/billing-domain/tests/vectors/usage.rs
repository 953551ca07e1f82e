//! Aggregations.

use billing_domain::BigDecimal;
use billing_domain::customer::CustomerId;
use billing_domain::decimal::plain;
use billing_domain::event::{Event, Properties};
use billing_domain::metric::{Aggregation, Gauge, GaugeEventType, Measure, Metric, MetricFilters};
use billing_domain::period::{Fraction, Period, Span};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::usage::{UsageRequest, fold};
use serde_json::Value;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::made;
use crate::rating::api_tiers;
use crate::vector::{Outcome, Vector, instant, number, shown_numbers};

/// The usage in `period` of events with these values, each at its time.
fn used(measure: Measure, period: Period, events: &[(OffsetDateTime, Value)]) -> BigDecimal {
    let metric = Metric {
        id: Uuid::from_u128(1).into(),
        name: "values".to_owned(),
        event_name: "value".to_owned(),
        measure,
        filters: MetricFilters::default(),
        is_cost_metric: false,
        created_at: period.start(),
        archived_at: None,
    };
    let customer: CustomerId = "customer".parse().expect("an id");
    let event = |(index, (time, value)): (usize, &(OffsetDateTime, Value))| Event {
        customer: customer.clone(),
        name: metric.event_name.clone(),
        idempotency_id: format!("{index:04}"),
        time_created: *time,
        properties: Properties::from_iter([("n".to_owned(), value.clone())]),
    };
    let events: Vec<Event> = events.iter().enumerate().map(event).collect();
    let request =
        UsageRequest::billed(Uuid::nil().into(), metric.clone(), SubscriptionFilters::none(), period, &period);
    fold(&request, &events).quantity
}

/// The usage of events of these values, a minute apart.
fn folded(values: &[Value], measure: impl Into<Measure>) -> BigDecimal {
    let start = datetime!(2026-01-01 0:00 UTC);
    let period = Period::new(start, start + Duration::DAY).expect("a period");
    let at = |(index, value): (usize, &Value)| (start + Duration::minutes(index as i64), value.clone());
    used(measure.into(), period, &values.iter().enumerate().map(at).collect::<Vec<_>>())
}

fn gauge(event_type: GaugeEventType, granularity: Option<Span>, proration: Option<Span>) -> Measure {
    Measure::Gauge(Gauge { property_name: "n".to_owned(), event_type, granularity, proration })
}

fn summed(values: &[Value]) -> String {
    plain(&folded(values, Aggregation::Sum { property_name: "n".to_owned() }))
}

pub fn count(vector: &Vector) -> Outcome {
    made! { "value": plain(&folded(vector.list("values"), Aggregation::Count)) }
}

pub fn sum(vector: &Vector) -> Outcome {
    if vector.has("free_events") {
        return Err("usage is one figure, not a running total");
    }
    made! { "value": summed(vector.list("values")) }
}

pub fn windowed_total(vector: &Vector) -> Outcome {
    made! { "sum": summed(vector.list("values")) }
}

pub fn latest(vector: &Vector) -> Outcome {
    let latest = Aggregation::Latest { property_name: "n".to_owned() };
    made! { "value": plain(&folded(vector.list("values_in_time_order"), latest)) }
}

/// A level moved by deltas, by its part of the period.
pub fn weighted_sum(vector: &Vector) -> Outcome {
    let period = Period::new(vector.instant("from"), vector.instant("to_exclusive")).expect("a period");
    let moved = vector.list("deltas").iter().map(|delta| (instant(delta[0].as_str().expect("an instant")), &delta[1]));
    let moved: Vec<(OffsetDateTime, Value)> = moved.map(|(time, delta)| (time, delta.clone())).collect();
    let before = (period.start() - Duration::DAY, vector.inputs["initial"].clone());
    let all: Vec<_> = std::iter::once(before).chain(moved.clone()).collect();
    let level = used(gauge(GaugeEventType::Delta, None, Some(Span::Second)), period, &all);
    let sum = Aggregation::Sum { property_name: "n".to_owned() };
    made! { "value": plain(&level), "variation": plain(&used(sum.into(), period, &moved)) }
}

/// A level for so many minutes each, by minutes of an hour, then the tiers.
pub fn gauge_prorated(vector: &Vector) -> Outcome {
    let levels = vector.list("level_minutes").iter().flat_map(|row| {
        let minutes = row[1].as_u64().unwrap_or(1);
        (0..minutes).map(move |_| row[0].clone())
    });
    let levels: Vec<Value> = levels.collect();
    let quantity = folded(&levels, gauge(GaugeEventType::Total, Some(Span::Hour), Some(Span::Minute)));
    made! { "amount": plain(&api_tiers(vector, false).rate(&quantity).amount) }
}

pub fn gauge_max_total(vector: &Vector) -> Outcome {
    let usage = folded(vector.list("values"), gauge(GaugeEventType::Total, None, None));
    made! { "usage": plain(&usage), "amount": plain(&api_tiers(vector, false).rate(&usage).amount) }
}

fn days(days: &Value, vector: &Vector) -> Fraction {
    let whole = |value: &Value| plain(&number(value)).parse().expect("whole days");
    Fraction { numerator: whole(days), denominator: whole(&vector.inputs["period_days"]) }
}

pub fn prorated_unique(vector: &Vector) -> Outcome {
    let parts = vector.list("active_days").iter().map(|active| days(active, vector).of(&1.into()));
    made! { "value": plain(&parts.sum()) }
}

pub fn prorated_sum(vector: &Vector) -> Outcome {
    let carried = vector.inputs["carried_over"].as_array().into_iter().flatten().map(number);
    let carried: BigDecimal = carried.sum();
    let values = vector.numbers("values");
    let rounded = |value: &BigDecimal, decimals| billing_domain::money::round_half_away_from_zero(value, decimals);
    let parts: Vec<BigDecimal> =
        values.iter().zip(vector.list("days_remaining")).map(|(value, left)| days(left, vector).of(value)).collect();
    made! {
        "value": plain(&rounded(&(&carried + parts.iter().sum::<BigDecimal>()), 5)),
        "raw": plain(&(carried + values.iter().sum::<BigDecimal>())),
        "per_event": shown_numbers(&parts.iter().map(|part| rounded(part, 3)).collect::<Vec<_>>()),
    }
}
