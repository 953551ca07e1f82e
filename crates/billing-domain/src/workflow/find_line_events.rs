//! Finds the events that a line of an invoice stands on.

use crate::error::{Error, FieldCode, FieldError};
use crate::id::LineId;
use crate::invoice::Trace;
use crate::store::{EventFilter, Transaction};

/// Which events a line stands on, as it saw them; `None`: none, as of a fee.
///
/// # Errors
/// A line that is not there, in `line`.
pub fn find_line_events(tx: &mut dyn Transaction, id: LineId) -> Result<Option<EventFilter>, Error> {
    let missing = || FieldError::new("line", FieldCode::DoesNotExist, "There is no such line.");
    let invoice = match tx.invoices().get(id.invoice()) {
        Err(Error::NotFound(_)) => return Err(missing().into()),
        found => found?,
    };
    let line = invoice.named_lines().find(|(known, _)| *known == id).ok_or_else(missing)?.1;
    let Trace::UsageCharge { metric, .. } = &line.trace else { return Ok(None) };
    let metric = tx.metrics().get(metric.metric_id)?;
    Ok(EventFilter::of_line(invoice.customer, line, &metric))
}
