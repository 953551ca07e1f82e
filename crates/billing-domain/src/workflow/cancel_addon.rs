//! Cancels an add-on that is attached to a subscription.

use time::OffsetDateTime;

use super::bill_customer::catch_up;
use super::cancel_subscription::{CancelSubscription, cancel_subscription};
use crate::addon;
use crate::error::{Error, Noun, Refusal};
use crate::id::{AddonId, CustomerKey, PlanVersionId, SubscriptionId};
use crate::store::Transaction;
use crate::subscription::{Cancellation, InvoicingBehavior, Subscription, SubscriptionStatus};

/// Which add-on to cancel, and how.
#[derive(Clone, Debug)]
pub struct CancelAddon {
    /// Whose.
    pub customer: CustomerKey,
    /// Attached to what.
    pub parent: SubscriptionId,
    /// Which.
    pub addon: AttachedAddon,
    /// What becomes of fees and usage.
    pub cancellation: Cancellation,
    /// When that is invoiced.
    pub invoicing_behavior: InvoicingBehavior,
}

/// How an attached add-on is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachedAddon {
    /// By the add-on: all that are attached of it.
    Addon(AddonId),
    /// By the add-on's content: all that are attached of it.
    Version(PlanVersionId),
    /// By its own id.
    Attached(SubscriptionId),
}

impl AttachedAddon {
    fn names(self, attached: &Subscription) -> bool {
        match self {
            Self::Addon(id) => attached.plan == addon::plan_of(id),
            Self::Version(id) => attached.version == id,
            Self::Attached(id) => attached.id == id,
        }
    }
}

/// Ends an add-on now, as [`cancel_subscription`] ends a subscription; its parent goes on. The last one attached is
/// answered when several are meant.
///
/// # Errors
/// [`Error::NotFound`] when it was never attached; [`Refusal::AlreadyEnded`]; [`Refusal::TestClockAdvancing`],
/// [`Refusal::CatchingUp`].
pub fn cancel_addon(
    tx: &mut dyn Transaction,
    command: &CancelAddon,
    now: OffsetDateTime,
) -> Result<Subscription, Error> {
    catch_up(tx, command.customer, now)?;
    let mut attached = tx.subscriptions().list(command.customer)?;
    attached.retain(|addon| addon.parent == Some(command.parent) && command.addon.names(addon));
    if attached.is_empty() {
        return Err(Error::NotFound(Noun::AddonSubscription));
    }
    attached.retain(|addon| addon.status(now) != SubscriptionStatus::Ended);
    let cancel = CancelSubscription {
        customer: command.customer,
        subscriptions: attached.iter().map(|addon| addon.id).collect(),
        cancellation: command.cancellation,
        invoicing_behavior: command.invoicing_behavior,
    };
    let cancelled = cancel_subscription(tx, &cancel, now)?;
    cancelled.into_iter().next_back().ok_or_else(|| Refusal::AlreadyEnded.into())
}
