//! Archives a metric.

use time::OffsetDateTime;

use crate::error::{Error, Refusal};
use crate::id::MetricId;
use crate::metric::Metric;
use crate::store::Transaction;

/// Archives a metric that no plan version uses; archived already, nothing happens.
///
/// # Errors
/// [`Error::NotFound`]; [`Refusal::MetricInUse`] when a plan version meters it.
pub fn archive_metric(tx: &mut dyn Transaction, id: &MetricId, now: OffsetDateTime) -> Result<Metric, Error> {
    let mut metric = tx.metrics().get(*id)?;
    if metric.archived_at.is_some() {
        return Ok(metric);
    }
    if tx.plans().list_versions(None)?.iter().any(|version| version.component_of(*id).is_some()) {
        return Err(Refusal::MetricInUse.into());
    }
    metric.archived_at = Some(now);
    tx.metrics().update(&metric)?;
    Ok(metric)
}
