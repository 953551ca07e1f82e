//! Usage: the fold from events to a quantity. This is the one definition; every store must agree with it.

use bigdecimal::BigDecimal;
use bigdecimal::Zero;

use crate::event::{Event, property_number};
use crate::id::CustomerKey;
use crate::metric::{Aggregation, Metric};
use crate::period::Period;
use crate::subscription::SubscriptionFilters;

/// A question to the store: how much of `metric` did `customer` use in `period`?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRequest {
    /// Whose usage.
    pub customer: CustomerKey,
    /// Of what.
    pub metric: Metric,
    /// Only events that have all of these properties count.
    pub filters: SubscriptionFilters,
    /// Only events dated inside count; the end is outside.
    pub period: Period,
}

/// The answer: a quantity, and how many events it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// In units of the metric; unrounded.
    pub quantity: BigDecimal,
    /// Events of the metric's name inside the period that passed the filters.
    pub event_count: u64,
}

impl Usage {
    /// No usage at all.
    pub fn zero() -> Self {
        Self { quantity: BigDecimal::zero(), event_count: 0 }
    }
}

/// Folds a customer's events, in any order, into the usage of `metric` in `period`.
///
/// - **Units:** those of the metric (events for a count, the property's own unit for a sum).
/// - **Edges:** an event at `period.start()` counts, one at `period.end()` does not. No events is 0.
/// - **Source:** `docs/pricing.md`, "Usage".
pub fn fold<'e>(
    metric: &Metric,
    filters: &SubscriptionFilters,
    period: &Period,
    events: impl IntoIterator<Item = &'e Event>,
) -> Usage {
    let mut usage = Usage::zero();
    for event in events {
        if event.name != metric.event_name || !period.contains(event.time_created) {
            continue;
        }
        if !filters.matches(&event.properties) {
            continue;
        }
        usage.event_count += 1;
        usage.quantity += contribution(&metric.aggregation, event);
    }
    usage
}

/// What one matching event adds to a metric that adds up.
pub fn contribution(aggregation: &Aggregation, event: &Event) -> BigDecimal {
    match aggregation {
        Aggregation::Count => BigDecimal::from(1),
        Aggregation::Sum { property_name } => property_number(&event.properties, property_name).unwrap_or_default(),
    }
}
