//! Changes end, renewal and metadata of a subscription.

use time::OffsetDateTime;

use super::account::Account;
use super::bill_customer::{finish_due_of, process_due};
use crate::charge::{BillingRecord, count_records};
use crate::error::{Error, FieldCode, FieldError, FieldErrors, Refusal};
use crate::id::{CustomerKey, SubscriptionId};
use crate::message::MessageType;
use crate::period::{Period, instant};
use crate::store::Transaction;
use crate::subscription::Subscription;

/// What to change; `None` leaves it as it is.
#[derive(Clone, Debug)]
pub struct UpdateSubscription {
    /// Whose.
    pub customer: CustomerKey,
    /// Which.
    pub subscription: SubscriptionId,
    /// The first instant after it.
    pub end: Option<OffsetDateTime>,
    /// Whether it stops renewing.
    pub turn_off_auto_renew: bool,
    /// The caller's own, whole.
    pub metadata: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Changes a subscription. With another end, what is billed for the time that is gained or lost is billed (or
/// taken back) at the next invoicing instant. Add-ons end when it does, and stop renewing when it does.
///
/// # Errors
/// [`Error::NotFound`]; an `end_date` in the past or before the start; [`Refusal::AlreadyEnded`],
/// [`Refusal::OverlappingPlans`], [`Refusal::TestClockAdvancing`],
/// [`Refusal::CatchingUp`].
pub fn update_subscription(
    tx: &mut dyn Transaction,
    command: &UpdateSubscription,
    now: OffsetDateTime,
) -> Result<Subscription, Error> {
    let mut account = Account::load(tx, command.customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    let id = finish_due_of(tx, &mut account, command.subscription, now)?;
    let mut subscription = tx.subscriptions().get(command.customer, id)?;
    account.check_open(&subscription, now)?;
    command.faults_of(&subscription, now).finish(())?;
    if command.turn_off_auto_renew {
        subscription.auto_renew = false;
    }
    if let Some(metadata) = &command.metadata {
        subscription.metadata.clone_from(metadata);
    }
    let end = command.end.map(instant::whole).filter(|end| *end != subscription.period.end());
    if let Some(end) = end {
        subscription.period = Period::new(subscription.period.start(), end).map_err(|_| ends_before_start())?;
        let others = tx.subscriptions().list(command.customer)?;
        if others.iter().any(|other| other.id != subscription.id && other.overlaps(&subscription)) {
            return Err(Refusal::OverlappingPlans.into());
        }
    }
    let ended = account.subscription(subscription.id)?.period.end();
    tx.subscriptions().update(&subscription)?;
    account.subscriptions.insert(subscription.id, subscription.clone());
    if end.is_some() {
        reschedule(tx, &mut account, &subscription, now)?;
    }
    for mut addon in account.attached(subscription.id, now) {
        addon.auto_renew &= subscription.auto_renew;
        let follows = addon.period.end() == ended && end.is_some();
        if follows {
            let end = subscription.period.end().max(addon.period.start());
            addon.period = Period::new(addon.period.start(), end).unwrap_or(addon.period);
        }
        tx.subscriptions().update(&addon)?;
        account.subscriptions.insert(addon.id, addon.clone());
        if follows {
            reschedule(tx, &mut account, &addon, now)?;
        }
    }
    account.untold.subscription(MessageType::SubscriptionChanged, now, id);
    process_due(tx, &mut account, now)?;
    tx.subscriptions().get(command.customer, id)
}

impl UpdateSubscription {
    /// The end that the subscription has already is as good as none.
    fn faults_of(&self, subscription: &Subscription, now: OffsetDateTime) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let end = self.end.map(instant::whole).filter(|end| *end != subscription.period.end());
        if let Some(end) = end {
            let starts_before = if end < subscription.period.start() { Err(ends_before_start()) } else { Ok(()) };
            errors.keep("", check_end(end, now).and(starts_before));
        }
        errors
    }
}

/// Whether an end is still to come.
pub(super) fn check_end(end: OffsetDateTime, now: OffsetDateTime) -> Result<(), FieldError> {
    let detail = "Cannot set end date to a date in the past.";
    if end <= now { Err(FieldError::new("end_date", FieldCode::Invalid, detail)) } else { Ok(()) }
}

fn ends_before_start() -> FieldError {
    FieldError::new("end_date", FieldCode::Invalid, "The end must not be before the start.")
}

/// Gives the subscription's records the intervals and instants that they would have had with the new end. What
/// was billed of them stays; one that has no place any more gives back what was billed of it. Usage that a switch brought
/// along keeps its start.
fn reschedule(
    tx: &mut dyn Transaction,
    account: &mut Account,
    subscription: &Subscription,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let offer = account.offer(tx, subscription.version)?;
    if count_records(&offer.version, subscription) > BillingRecord::PER_SUBSCRIPTION_MAX {
        let detail = "The period holds too many reset intervals of the plan.";
        return Err(FieldError::new("end_date", FieldCode::Invalid, detail).into());
    }
    let customer = account.customer.key;
    let mut fresh = offer.records_of(tx, subscription)?;
    for mut record in tx.billing_records().list(customer, subscription.id)? {
        let same = |planned: &BillingRecord| {
            planned.charge == record.charge && planned.period.start() == record.period.start()
        };
        let pending = std::mem::take(&mut record.invoicing_instants);
        if let Some(i) = fresh.iter().position(same) {
            let planned = fresh.swap_remove(i);
            record.period = planned.period;
            record.full = planned.full;
            record.reprice_prepaid();
            let is_to_come = |instant: &OffsetDateTime| *instant > now || pending.contains(instant);
            record.invoicing_instants = planned.invoicing_instants.into_iter().filter(is_to_come).collect();
        } else {
            record.period = record.period.cut_at(subscription.period.end());
            record.reprice_prepaid();
            if record.has_billed() {
                record.invoicing_instants = vec![subscription.period.end()];
            }
        }
        tx.billing_records().update(customer, &record)?;
        account.replace(record);
    }
    fresh.sort_by_key(|record| record.id);
    tx.billing_records().insert(customer, &fresh)?;
    account.records.extend(fresh);
    Ok(())
}
