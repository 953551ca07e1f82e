//! Aggregations.

use billing_domain::BigDecimal;
use billing_domain::customer::CustomerId;
use billing_domain::decimal::plain;
use billing_domain::event::{Event, Properties};
use billing_domain::metric::{Aggregation, Metric, MetricFilters};
use billing_domain::period::{Fraction, Period};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::usage::{UsageRequest, fold};
use serde_json::Value;
use time::Duration;
use time::macros::datetime;
use uuid::Uuid;

use crate::made;
use crate::rating::api_tiers;
use crate::vector::{Outcome, Vector, instant, number, shown_numbers};

const NO_SUCH_FOLD: &str = "the engine has no such aggregation yet";

/// The usage that events of these values, a minute apart, add up to.
fn folded(values: &[Value], aggregation: Aggregation) -> String {
    let created_at = datetime!(2026-01-01 0:00 UTC);
    let period = Period::new(created_at, created_at + Duration::DAY).expect("a period");
    let metric = Metric {
        id: Uuid::from_u128(1).into(),
        name: "values".to_owned(),
        event_name: "value".to_owned(),
        measure: aggregation.into(),
        filters: MetricFilters::default(),
        is_cost_metric: false,
        created_at,
        archived_at: None,
    };
    let customer: CustomerId = "customer".parse().expect("an id");
    let event = |(index, value): (usize, &Value)| Event {
        customer: customer.clone(),
        name: metric.event_name.clone(),
        idempotency_id: index.to_string(),
        time_created: created_at + Duration::minutes(index as i64),
        properties: Properties::from_iter([("n".to_owned(), value.clone())]),
    };
    let events: Vec<Event> = values.iter().enumerate().map(event).collect();
    let request = UsageRequest::billed(Uuid::nil().into(), metric, SubscriptionFilters::none(), period, &period);
    plain(&fold(&request, &events).quantity)
}

fn summed(values: &[Value]) -> String {
    folded(values, Aggregation::Sum { property_name: "n".to_owned() })
}

pub fn count(vector: &Vector) -> Outcome {
    made! { "value": folded(vector.list("values"), Aggregation::Count) }
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

pub fn no_such_fold(_: &Vector) -> Outcome {
    Err(NO_SUCH_FOLD)
}

/// Each level by its part of the period.
pub fn weighted_sum(vector: &Vector) -> Outcome {
    let full = Period::new(vector.instant("from"), vector.instant("to_exclusive")).expect("a period");
    let mut level = vector.number("initial");
    let (mut since, mut value, mut variation) = (full.start(), BigDecimal::from(0), BigDecimal::from(0));
    let mut add = |level: &BigDecimal, from, to| {
        let part = Period::new(from, to).expect("deltas in time order");
        value += part.fraction_of(&full).of(level);
    };
    for delta in vector.list("deltas") {
        let at = instant(delta[0].as_str().expect("an instant"));
        add(&level, since, at);
        since = at;
        level += number(&delta[1]);
        variation += number(&delta[1]);
    }
    add(&level, since, full.end());
    made! { "value": plain(&value), "variation": plain(&variation) }
}

/// Level-minutes as parts of an hour, then the tiers.
pub fn gauge_prorated(vector: &Vector) -> Outcome {
    let mut quantity = BigDecimal::from(0);
    for row in vector.list("level_minutes") {
        let minutes = row[1].as_i64().unwrap_or(0);
        quantity += Fraction { numerator: minutes.into(), denominator: 60 }.of(&number(&row[0]));
    }
    made! { "amount": plain(&api_tiers(vector, false).rate(&quantity).amount) }
}

pub fn gauge_max_total(vector: &Vector) -> Outcome {
    // The highest level is given to the tiers; finding it is the fold's work.
    let usage = vector.numbers("values").into_iter().max().expect("values");
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
