//! Tries a metric that nobody has made on events that are there.

use time::{Duration, OffsetDateTime};

use super::create_metric::CreateMetric;
use super::measure_usage::{MeasuredUsage, UsageSpan, find_customer, measure};
use crate::error::Error;
use crate::period::Zone;
use crate::store::Transaction;

/// The longest time that a metric is tried on: nothing is prepared for it, so all events of that time are read.
pub const METRIC_PREVIEW_MAX: Duration = Duration::days(31);

/// A metric that is not made, and the events that it is tried on.
#[derive(Clone, Debug)]
pub struct PreviewMetric {
    /// The metric.
    pub metric: CreateMetric,
    /// Whose events, and of which time.
    pub span: UsageSpan,
}

/// What the metric would make of a customer's events, by the code that bills, within the bounds that a metric has which was made. Nothing
/// is written.
///
/// # Errors
/// Every bad field, those of the metric below `metric`, as they are when it is made; a time above [`METRIC_PREVIEW_MAX`]; otherwise those
/// of [`measure_usage`](super::measure_usage()), and
/// [`Refusal::CustomMetricFailed`](crate::Refusal::CustomMetricFailed) where the query makes no usable number of these events.
pub fn preview_metric<Z: Zone>(
    tx: &mut dyn Transaction,
    command: &PreviewMetric,
    now: OffsetDateTime,
    zone: impl Fn(&str) -> Option<Z>,
) -> Result<MeasuredUsage, Error> {
    command.metric.check().map_err(|errors| errors.under("metric"))?;
    let customer = find_customer(tx, &command.span)?;
    let metric = command.metric.build(tx.new_uuid().into(), now);
    measure(tx, (customer, metric), &command.span, METRIC_PREVIEW_MAX, zone)
}
