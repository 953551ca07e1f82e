//! Metric definitions: which events count, and what of them.

mod aggregation;
mod filter;
mod granularity;
mod measure;

use time::OffsetDateTime;

use crate::event::Event;
use crate::id::MetricId;

pub use self::aggregation::{Aggregation, AggregationKind, Measured, Totals};
pub use self::filter::{
    CategoricalFilter, CategoricalOperator, FILTERS_MAX, MetricFilters, NumericFilter, NumericOperator, TEXTS_MAX,
};
pub use self::granularity::Granularity;
pub use self::measure::{BillableAggregation, Gauge, GaugeEventType, Measure, MeasureFields, MetricType, Rate};

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
    pub measure: Measure,
    /// Only events that pass all of these count.
    pub filters: MetricFilters,
    /// Whether it tracks the organization's own costs.
    pub is_cost_metric: bool,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// When it was archived; an archived metric cannot enter a new plan version.
    pub archived_at: Option<OffsetDateTime>,
}

impl Metric {
    /// What `event`, which is of the metric's name, brings to its usage; none if it does not count.
    pub fn measured(&self, event: &Event) -> Option<Measured> {
        if self.filters.matches(&event.properties) { self.measure.measured(event) } else { None }
    }

    /// Whether `event` counts: it has the metric's name, passes its filters and has a property that can be used.
    pub fn counts(&self, event: &Event) -> bool {
        event.name == self.event_name && self.measured(event).is_some()
    }
}
