//! Metric definitions: which events count, and what of them.

use time::OffsetDateTime;

use crate::id::MetricId;

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its id.
    pub id: MetricId,
    /// Its name, unique among the organization's metrics; usage lines of invoices carry it.
    pub name: String,
    /// Only events of this name count.
    pub event_name: String,
    /// How the events become a quantity.
    pub aggregation: Aggregation,
    /// Whether it tracks the organization's own costs.
    pub is_cost_metric: bool,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// When it was archived; an archived metric cannot enter a new plan version.
    pub archived_at: Option<OffsetDateTime>,
}

/// How a counter metric's events become a quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// The number of events.
    Count,
    /// The sum of an event property. An event without a usable number there adds nothing.
    Sum {
        /// The property.
        property_name: String,
    },
}

impl Aggregation {
    /// The text on the wire and in the store.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum { .. } => "sum",
        }
    }

    /// The event property that is aggregated, if one is.
    pub fn property_name(&self) -> Option<&str> {
        match self {
            Self::Count => None,
            Self::Sum { property_name } => Some(property_name),
        }
    }
}
