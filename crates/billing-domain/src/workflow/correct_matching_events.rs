//! Corrects all events that match, a few of one customer at a time.

use time::OffsetDateTime;

use super::account::Account;
use super::correct_events::{Reasons, carry_out};
use crate::error::Error;
use crate::event::KeptEvent;
use crate::id::{CustomerKey, JobId};
use crate::job::{CorrectionOrder, EventSelection, Job, JobState};
use crate::store::{EventFilter, PageRequest, Transaction};
use crate::text;

/// Events of one customer that are corrected in one transaction: whoever stores events of theirs waits as long.
pub const EVENTS_PER_STEP: u32 = 200;

/// Where a customer's part of a job goes on; `None`: it is done.
pub type NextStep = Option<String>;

/// Orders events to be corrected in the background.
///
/// # Errors
/// A customer or a metric that is not there, in `filter`; a reason that is too long; nothing to set.
pub fn order_corrections(tx: &mut dyn Transaction, order: &CorrectionOrder, now: OffsetDateTime) -> Result<Job, Error> {
    check_order(tx, order)?;
    let job = Job {
        id: JobId::from(tx.new_uuid()),
        order: order.clone(),
        state: JobState::Running,
        created_at: now,
        finished_at: None,
        customers_done: 0,
        cursor: None,
        events_after: None,
        failure: None,
    };
    tx.jobs().insert(&job)?;
    Ok(job)
}

/// Refuses an order about what is not there.
///
/// # Errors
/// As [`order_corrections`].
pub fn check_order(tx: &mut dyn Transaction, order: &CorrectionOrder) -> Result<(), Error> {
    let EventSelection { customer, metric, .. } = &order.selection;
    if let Some(customer) = customer {
        let key = CustomerKey::derive(tx.organization(), customer);
        tx.customers().get(key).map_err(|error| error.at_field("filter.customer_id"))?;
    }
    if let Some(metric) = metric {
        tx.metrics().get(*metric).map_err(|error| error.at_field("filter.metric_id"))?;
    }
    if let Some(reason) = &order.reason {
        text::check(reason, text::NAME_CHARACTERS_MAX).map_err(|error| error.under("reason"))?;
    }
    Ok(())
}

/// Corrects the next few events of a customer that match, from `after` on, newest first, with all that is counted of them, as
/// [`correct_events`](super::correct_events) does. What has arrived meanwhile and is newer is left as it is.
///
/// # Errors
/// As [`correct_events`](super::correct_events).
pub fn correct_matching_events(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    (job, order): (JobId, &CorrectionOrder),
    after: NextStep,
    now: OffsetDateTime,
) -> Result<NextStep, Error> {
    let filter = matching(tx, customer, &order.selection)?;
    let page = tx.events().list(&filter, &PageRequest { limit: EVENTS_PER_STEP, after })?;
    let changed = |before: KeptEvent| order.change.of(&before).map(|after| (before, after));
    let plan: Vec<(KeptEvent, KeptEvent)> = page.items.into_iter().filter_map(changed).collect();
    if plan.is_empty() {
        return Ok(page.next);
    }
    let mut account = Account::load(tx, customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    let reasons = Reasons { by: order.by.clone(), reason: order.reason.clone(), job: Some(job) };
    carry_out(tx, &mut account, &plan, (&reasons, order.beyond_window), now)?;
    Ok(page.next)
}

/// The events of a customer that a selection takes.
pub(super) fn matching(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    selection: &EventSelection,
) -> Result<EventFilter, Error> {
    let metric = selection.metric.map(|id| tx.metrics().get(id)).transpose()?;
    let name = selection.event_name.clone().or_else(|| metric.as_ref().map(|metric| metric.event_name.clone()));
    Ok(EventFilter {
        name,
        from: selection.from,
        to: selection.to,
        properties: vec![selection.properties.clone()],
        metrics: metric.into_iter().collect(),
        ..EventFilter::of(customer)
    })
}
