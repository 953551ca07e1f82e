//! Cancels all of a customer's subscriptions that a plan and filters choose.

use time::OffsetDateTime;

use super::cancel_subscription::{CancelSubscription, cancel_subscription};
use super::find_subscriptions::{FindSubscriptions, find_subscriptions};
use crate::error::Error;
use crate::id::CustomerKey;
use crate::store::Transaction;
use crate::subscription::{Cancellation, InvoicingBehavior, Subscription};

/// Which subscriptions to cancel, and how.
#[derive(Clone, Debug)]
pub struct CancelMatching {
    /// Which; there may be none.
    pub wanted: FindSubscriptions,
    /// What becomes of fees and usage.
    pub cancellation: Cancellation,
    /// When that is invoiced.
    pub invoicing_behavior: InvoicingBehavior,
}

/// Ends them as [`cancel_subscription`] does, all on one invoice.
///
/// # Errors
/// Unknown references by field; those of [`cancel_subscription`].
pub fn cancel_matching(
    tx: &mut dyn Transaction,
    command: &CancelMatching,
    now: OffsetDateTime,
) -> Result<Vec<Subscription>, Error> {
    let subscriptions = find_subscriptions(tx, &command.wanted, now)?;
    let customer = CustomerKey::derive(tx.organization(), &command.wanted.customer);
    let CancelMatching { cancellation, invoicing_behavior, .. } = *command;
    let command = CancelSubscription { customer, subscriptions, cancellation, invoicing_behavior };
    cancel_subscription(tx, &command, now)
}
