//! Cancels a subscription and bills what it leaves.

use time::OffsetDateTime;

use super::account::Account;
use super::bill_customer::{finish_due_of, process_due};
use super::issue_invoices::issue_invoices;
use crate::charge::{BillingRecord, Charge, ChargeRef, UsageBilling};
use crate::error::Error;
use crate::id::{CustomerKey, SubscriptionId};
use crate::message::MessageType;
use crate::plan::PlanVersion;
use crate::store::Transaction;
use crate::subscription::{Cancellation, FlatFeeBehavior, InvoicingBehavior, Subscription};

/// Which subscriptions of one customer to cancel, and how.
#[derive(Clone, Debug)]
pub struct CancelSubscription {
    /// Whose.
    pub customer: CustomerKey,
    /// Which: all of them or, when one of them cannot be, none.
    pub subscriptions: Vec<SubscriptionId>,
    /// What becomes of fees and usage.
    pub cancellation: Cancellation,
    /// When that is invoiced.
    pub invoicing_behavior: InvoicingBehavior,
}

/// Ends subscriptions now, or at their start when that is still to come. What was billed in advance for time that
/// is not used comes back as a credit, unless the cancellation says otherwise. Add-ons end with the subscription that
/// they are attached to, in the same way. All are billed on one invoice.
///
/// # Errors
/// [`Error::NotFound`]; [`Subscription::check_open`]; [`TestClockAdvancing`](crate::Refusal::TestClockAdvancing),
/// [`CatchingUp`](crate::Refusal::CatchingUp).
pub fn cancel_subscription(
    tx: &mut dyn Transaction,
    command: &CancelSubscription,
    now: OffsetDateTime,
) -> Result<Vec<Subscription>, Error> {
    let mut account = Account::load(tx, command.customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    let mut cancelled = Vec::with_capacity(command.subscriptions.len());
    for id in &command.subscriptions {
        cancelled.push(finish_due_of(tx, &mut account, *id, now)?);
    }
    let mut settled = cancelled.clone();
    for id in &cancelled {
        let attached = account.attached(*id, now);
        cancel(tx, &mut account, *id, command, now)?;
        tell_cancelled(&mut account, *id, now)?;
        for addon in attached {
            cancel(tx, &mut account, addon.id, command, now)?;
            settled.push(addon.id);
        }
        settled.extend(bring_forward(tx, &mut account, *id, now)?);
    }
    if command.invoicing_behavior == InvoicingBehavior::InvoiceNow {
        let due =
            |record: &BillingRecord| settled.contains(&record.subscription) && record.next_invoicing_at() == Some(now);
        issue_invoices(tx, &mut account, &due, now, now)?;
    }
    process_due(tx, &mut account, now)?;
    cancelled.iter().map(|id| tx.subscriptions().get(command.customer, *id)).collect()
}

/// Of an add-on that is cancelled by itself, what it is attached to is told to have changed.
fn tell_cancelled(account: &mut Account, id: SubscriptionId, now: OffsetDateTime) -> Result<(), Error> {
    match account.subscription(id)?.parent {
        Some(parent) => account.untold.subscription(MessageType::SubscriptionChanged, now, parent),
        None => account.untold.subscription(MessageType::SubscriptionCancelled, now, id),
    }
    Ok(())
}

/// What waits to be billed of the subscriptions that `id` took the place of is billed with it. Where the usage that they
/// handed on is dropped, what was billed of it stays billed.
fn bring_forward(
    tx: &mut dyn Transaction,
    account: &mut Account,
    id: SubscriptionId,
    now: OffsetDateTime,
) -> Result<Vec<SubscriptionId>, Error> {
    let mut replaced = vec![id];
    let mut waiting = Vec::new();
    while let Some(successor) = replaced.pop() {
        let before = account.subscriptions.values().filter(|subscription| subscription.replaced_by == Some(successor));
        let before: Vec<_> = before.map(|subscription| subscription.id).collect();
        replaced.extend(&before);
        waiting.extend(before);
    }
    let mut records = account.records.clone();
    records.retain(|record| waiting.contains(&record.subscription));
    let customer = account.customer.key;
    let drops_usage = account.subscription(id)?.drops_usage();
    for mut record in records {
        if drops_usage && record.usage == UsageBilling::HandedOn {
            record.usage = UsageBilling::Dropped;
        }
        record.invoicing_instants = vec![now];
        tx.billing_records().update(customer, &record)?;
        account.replace(record);
    }
    Ok(waiting)
}

/// Ends one subscription and sets its records up for their last billing.
fn cancel(
    tx: &mut dyn Transaction,
    account: &mut Account,
    id: SubscriptionId,
    command: &CancelSubscription,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let mut subscription = tx.subscriptions().get(command.customer, id)?;
    account.check_open(&subscription, now)?;
    let settled_at = match command.invoicing_behavior {
        InvoicingBehavior::InvoiceNow => now,
        InvoicingBehavior::AddToNextInvoice => subscription.period.end().max(now),
    };
    subscription.cancel(command.cancellation, now);
    tx.subscriptions().update(&subscription)?;
    let offer = account.offer(tx, subscription.version)?;
    for mut record in tx.billing_records().list(command.customer, id)? {
        if record.awaits_late_usage() && subscription.drops_usage() {
            record.late_until = None;
        } else if record.next_invoicing_at().is_some() || comes_back(&record, &subscription) {
            settle(&mut record, &offer.version, &subscription, settled_at);
        } else {
            continue;
        }
        tx.billing_records().update(command.customer, &record)?;
        account.replace(record);
    }
    account.subscriptions.insert(id, subscription);
    Ok(())
}

/// Whether a fee that is billed to its end comes back all the same: with `refund` nothing of the period's fees stays.
fn comes_back(record: &BillingRecord, subscription: &Subscription) -> bool {
    let is_refunded = subscription.flat_fee_behavior() == Some(FlatFeeBehavior::Refund);
    is_refunded && record.has_billed() && matches!(record.charge, ChargeRef::Recurring(_))
}

/// Cuts an open record at the subscription's new end and lets it be billed for the last time at `settled_at`;
/// one that has nothing left to bill is closed. A fee that is charged in full keeps its time, also time to come.
fn settle(record: &mut BillingRecord, version: &PlanVersion, subscription: &Subscription, settled_at: OffsetDateTime) {
    let end = subscription.period.end();
    let has_begun = record.period.start() < end;
    let is_kept = subscription.flat_fee_behavior() == Some(FlatFeeBehavior::ChargeFull)
        && matches!(record.charge, ChargeRef::Recurring(_));
    let is_billed = match version.charge(record.charge) {
        Some(Charge::Component(_)) if has_begun && !subscription.drops_usage() => true,
        Some(Charge::Component(_)) => record.prepaid.is_some() && (has_begun || record.has_billed()),
        Some(Charge::Recurring(_)) => has_begun || record.has_billed() || is_kept,
        None => false,
    };
    if !is_kept {
        record.period = record.period.cut_at(end);
        record.reprice_prepaid();
    }
    if subscription.drops_usage() {
        record.usage = UsageBilling::Dropped;
    }
    record.invoicing_instants = if is_billed { vec![settled_at] } else { Vec::new() };
}
