//! The usage that a custom metric's query makes of events: the one definition.

use super::Usage;
use crate::custom_sql::interpret::run;
use crate::custom_sql::{CustomFailure, CustomUsageRequest};
use crate::event::Event;

/// The usage that a query makes of a customer's events, in any order. No time is no usage, whatever the query says.
///
/// # Errors
/// Why the query has no usable result.
pub fn fold_custom<'e>(
    request: &CustomUsageRequest,
    events: impl IntoIterator<Item = &'e Event>,
) -> Result<Usage, CustomFailure> {
    let CustomUsageRequest { sql, filters, period, .. } = request;
    if period.is_empty() {
        return Ok(Usage::zero());
    }
    sql.expect_runnable()?;
    let is_seen = |event: &&Event| event.time_created < period.end() && filters.matches(&event.properties);
    let events: Vec<&Event> = events.into_iter().filter(is_seen).collect();
    let event_count = events.iter().filter(|event| period.contains(event.time_created)).count() as u64;
    let quantity = run(sql.program(), &events, period).quantity()?;
    Ok(Usage { quantity, event_count })
}
