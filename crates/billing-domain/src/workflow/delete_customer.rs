//! Deletes a customer.

use time::OffsetDateTime;

use super::account::Account;
use super::bill_customer::finish_due;
use super::tell::tell;
use crate::customer::Customer;
use crate::error::Error;
use crate::id::CustomerKey;
use crate::message::{MessageType, Subject};
use crate::store::Transaction;
use crate::subscription::{Cancellation, FlatFeeBehavior, SubscriptionStatus, UsageBehavior};

/// A customer that is gone, and what ended with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedCustomer {
    /// The customer.
    pub customer: Customer,
    /// How many subscriptions were ended.
    pub subscriptions: u64,
    /// How many attached add-ons were ended.
    pub addons: u64,
}

/// Deletes a customer. What is due by now is billed; then everything ends, and nothing is billed or given back any
/// more: one-off lines that wait are gone. Id and e-mail stay taken; invoices and credits stay.
///
/// # Errors
/// [`Error::NotFound`]; [`Refusal::TestClockAdvancing`](crate::Refusal::TestClockAdvancing),
/// [`CatchingUp`](crate::Refusal::CatchingUp).
pub fn delete_customer(
    tx: &mut dyn Transaction,
    key: CustomerKey,
    now: OffsetDateTime,
) -> Result<DeletedCustomer, Error> {
    let mut account = Account::load(tx, key, now)?;
    account.refuse_while_on_the_way(tx)?;
    finish_due(tx, &mut account, now)?;
    for mut record in account.take_records() {
        record.close();
        tx.billing_records().update(key, &record)?;
    }
    let (mut subscriptions, mut addons) = (0, 0);
    let keep =
        Cancellation { flat_fee_behavior: Some(FlatFeeBehavior::ChargeFull), usage_behavior: UsageBehavior::BillNone };
    let mut cancelled = Vec::new();
    for subscription in account.subscriptions.values_mut() {
        if subscription.status(now) == SubscriptionStatus::Ended {
            subscription.auto_renew = false;
        } else {
            *(if subscription.is_addon() { &mut addons } else { &mut subscriptions }) += 1;
            subscription.cancel(keep, now);
            cancelled.extend((!subscription.is_addon()).then_some(subscription.id));
        }
        tx.subscriptions().update(subscription)?;
    }
    for id in cancelled {
        account.untold.subscription(MessageType::SubscriptionCancelled, now, id);
    }
    account.tell(tx, now)?;
    tx.customers().set_billing_due(key, None)?;
    let mut customer = account.customer;
    customer.deleted_at = Some(now);
    let waiting = std::mem::take(&mut customer.one_off_lines);
    tx.customers().update(&customer)?;
    for line in waiting {
        let subject = Subject::OneOffLine(Box::new(line), None);
        tell(tx, &customer, (MessageType::OneOffLineRemoved, now), &subject)?;
    }
    Ok(DeletedCustomer { customer, subscriptions, addons })
}
