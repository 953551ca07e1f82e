//! Amends and voids events that were wrong.

use std::collections::BTreeSet;

use time::OffsetDateTime;

use super::account::Account;
use super::bill_customer::{finish_due, process_due};
use crate::charge::{BillingRecord, Charge, UsageBilling};
use crate::error::{Error, FieldCode, FieldError, FieldErrors, Refusal};
use crate::event::{AHEAD_MAX, Event, EventCorrection, EventState, KeptEvent, Properties};
use crate::id::{CustomerKey, JobId};
use crate::metric::MetricType;
use crate::period::instant;
use crate::store::Transaction;

/// What is to become of one event.
#[derive(Clone, Debug, PartialEq)]
pub enum EventChange {
    /// It counts for nothing any more.
    Void,
    /// It counts with another time or other properties; `None` leaves what there is.
    Amend {
        /// When it really happened.
        time_created: Option<OffsetDateTime>,
        /// Its real properties, all of them.
        properties: Option<Properties>,
    },
}

/// One event and what is to become of it.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedCorrection {
    /// The event's id.
    pub idempotency_id: String,
    /// What is to become of it.
    pub change: EventChange,
    /// The field that names the event, for errors.
    pub attr: String,
}

/// Which events of a customer to correct.
#[derive(Clone, Debug)]
pub struct CorrectEvents {
    /// Whose.
    pub customer: CustomerKey,
    /// Which events, and how.
    pub corrections: Vec<WantedCorrection>,
    /// Also events that are older than the acceptance window: what was billed for their time is looked at again.
    pub beyond_window: bool,
    /// By whom.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// Corrects all of the events or none, and answers them as they are then, in the order of the command. What open periods have is right at
/// once; what was invoiced already is put right by one line on the next invoice.
///
/// Voiding an event that was voided before, and amending one to what it is, changes nothing and is no error.
///
/// # Errors
/// An id that no event of the customer has, or several; an id that is named twice; amending a voided event; a time that is more than a
/// day ahead; [`Refusal::BeyondWindow`]; [`Error::NotFound`], [`Refusal::TestClockAdvancing`], [`Refusal::CatchingUp`].
///
/// # Source
/// `docs/pricing.md`, "Corrections".
pub fn correct_events(
    tx: &mut dyn Transaction,
    command: &CorrectEvents,
    now: OffsetDateTime,
) -> Result<Vec<KeptEvent>, Error> {
    let mut account = Account::load(tx, command.customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    let ids: Vec<String> = command.corrections.iter().map(|wanted| wanted.idempotency_id.clone()).collect();
    let found = tx.events().find(command.customer, &ids)?;
    let plan = command.plan(&found, now)?;
    let reasons = Reasons { by: command.by.clone(), reason: command.reason.clone(), job: None };
    carry_out(tx, &mut account, &plan, (&reasons, command.beyond_window), now)?;
    Ok(plan.into_iter().map(|(_, after)| after).collect())
}

/// Who corrects events, and why.
pub(super) struct Reasons {
    pub by: Option<String>,
    pub reason: Option<String>,
    /// The job that does it.
    pub job: Option<JobId>,
}

/// Makes each event of a customer what it is to be, and looks again at what was billed of the time of those that are `beyond_window`.
///
/// # Errors
/// As [`correct_events`].
pub(super) fn carry_out(
    tx: &mut dyn Transaction,
    account: &mut Account,
    plan: &[(KeptEvent, KeptEvent)],
    (reasons, beyond_window): (&Reasons, bool),
    now: OffsetDateTime,
) -> Result<(), Error> {
    let corrections: Vec<EventCorrection> = plan
        .iter()
        .filter(|(before, after)| *before != *after)
        .map(|(before, after)| EventCorrection {
            id: tx.new_uuid().into(),
            before: before.event.clone(),
            after: (after.state != EventState::Voided).then(|| after.event.clone()),
            at: now,
            by: reasons.by.clone(),
            reason: reasons.reason.clone(),
            job: reasons.job,
        })
        .collect();
    let oldest = now - account.organization.event_window();
    let is_beyond = corrections.iter().flat_map(EventCorrection::instants).any(|at| at < oldest);
    if is_beyond && !beyond_window {
        return Err(Refusal::BeyondWindow.into());
    }
    // What is due by now is billed of the events as they were until now.
    finish_due(tx, account, now)?;
    if !corrections.is_empty() {
        let customer = account.customer.key;
        tx.events().correct(customer, &corrections)?;
        if is_beyond {
            reopen(tx, account, &corrections, now)?;
        }
        #[cfg(feature = "service")]
        tx.usage_alerts().mark(customer)?;
        process_due(tx, account, now)?;
    }
    Ok(())
}

impl CorrectEvents {
    /// Each event as it is and as it is to be.
    fn plan(&self, found: &[KeptEvent], now: OffsetDateTime) -> Result<Vec<(KeptEvent, KeptEvent)>, FieldErrors> {
        let (mut errors, mut seen, mut plan) = (FieldErrors::default(), BTreeSet::new(), Vec::new());
        for wanted in &self.corrections {
            let with_id: Vec<&KeptEvent> =
                found.iter().filter(|kept| kept.event.idempotency_id == wanted.idempotency_id).collect();
            let fault = |code, detail: &str| FieldError::new(wanted.attr.clone(), code, detail);
            let one = match with_id[..] {
                _ if !seen.insert(&wanted.idempotency_id) => Err(fault(FieldCode::Invalid, "This id is named twice.")),
                [] => Err(fault(FieldCode::DoesNotExist, "The customer has no such event.")),
                [one] => Ok(one),
                _ => Err(fault(FieldCode::Invalid, "The customer has an event with this id in several months.")),
            };
            let corrected = one.and_then(|before| Ok((before.clone(), wanted.change.of(before, &wanted.attr, now)?)));
            plan.extend(errors.keep("", corrected));
        }
        errors.finish(plan)
    }
}

impl EventChange {
    /// The event as it is to be.
    fn of(&self, before: &KeptEvent, attr: &str, now: OffsetDateTime) -> Result<KeptEvent, FieldError> {
        let Self::Amend { time_created, properties } = self else {
            return Ok(KeptEvent { state: EventState::Voided, ..before.clone() });
        };
        if before.state == EventState::Voided {
            return Err(FieldError::new(attr, FieldCode::Invalid, "The event was voided: it counts for nothing."));
        }
        let time_created = time_created.map_or(before.event.time_created, instant::whole);
        if time_created > now + AHEAD_MAX {
            return Err(FieldError::new(attr, FieldCode::MaxValue, "The event may be at most a day ahead of now."));
        }
        let properties = properties.clone().unwrap_or_else(|| before.event.properties.clone());
        let event = Event { time_created, properties, ..before.event.clone() };
        let state = if event == before.event { before.state } else { EventState::Amended };
        Ok(KeptEvent { event, state })
    }
}

/// Has records that were billed for good wait for late events once more, where one of the corrections changes their usage. What a
/// cancellation dropped or a switch handed on stays as it is.
fn reopen(
    tx: &mut dyn Transaction,
    account: &mut Account,
    corrections: &[EventCorrection],
    now: OffsetDateTime,
) -> Result<(), Error> {
    let customer = account.customer.key;
    let until = now + account.organization.event_window();
    for subscription in tx.subscriptions().list(customer)? {
        for mut record in tx.billing_records().list(customer, subscription.id)? {
            // What was billed may have come to nothing.
            let was_billed = record.has_billed() || record.tax_rate.is_some();
            if record.next_due_at().is_some() || record.usage != UsageBilling::Here || !was_billed {
                continue;
            }
            if !is_touched(tx, account, &record, corrections)? {
                continue;
            }
            record.wait_until(Some(until), now);
            tx.billing_records().update(customer, &record)?;
            account.subscriptions.entry(subscription.id).or_insert_with(|| subscription.clone());
            account.replace(record);
        }
    }
    Ok(())
}

/// Whether the usage of a record may be another one by the corrections: a gauge brings its level along from before.
fn is_touched(
    tx: &mut dyn Transaction,
    account: &mut Account,
    record: &BillingRecord,
    corrections: &[EventCorrection],
) -> Result<bool, Error> {
    let offer = account.offer(tx, record.version)?;
    let Some(Charge::Component(component)) = offer.version.charge(record.charge) else { return Ok(false) };
    let Some(metric) = offer.metrics.get(&component.metric) else { return Ok(false) };
    let metric_type = metric.measure.metric_type();
    let touches = |correction: &EventCorrection| {
        let is_counted = metric_type == MetricType::Custom || metric.event_name == correction.before.name;
        let looks_back = matches!(metric_type, MetricType::Gauge | MetricType::Rate | MetricType::Custom);
        let is_of_time = |at| at < record.period.end() && (looks_back || at >= record.period.start());
        is_counted && correction.instants().any(is_of_time)
    };
    Ok(corrections.iter().any(touches))
}
