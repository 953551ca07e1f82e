//! Which of a customer's subscriptions a call by customer, plan and filters is about.

use time::OffsetDateTime;

use super::bill_customer::catch_up;
use crate::customer::CustomerId;
use crate::error::{Error, FieldErrors};
use crate::faults::{look_up, look_up_now};
use crate::id::{CustomerKey, PlanId, SubscriptionId};
use crate::store::Transaction;
use crate::subscription::{SubscriptionFilters, SubscriptionStatus};

/// Which are meant.
#[derive(Clone, Debug)]
pub struct FindSubscriptions {
    /// Whose.
    pub customer: CustomerId,
    /// To any version of which plan; `None`: to any.
    pub plan: Option<PlanId>,
    /// Only those that have all of these filters.
    pub filters: SubscriptionFilters,
}

impl FindSubscriptions {
    /// The customer's time. That customer or plan do not exist is noted.
    pub(super) fn look_up(&self, tx: &mut dyn Transaction, errors: &mut FieldErrors) -> Result<OffsetDateTime, Error> {
        let now = look_up_now(errors, tx, &self.customer)?;
        if let Some(plan) = self.plan {
            look_up(errors, "plan_id", tx.plans().get(plan))?;
        }
        Ok(now)
    }
}

/// Those that run or are to come, by start; add-ons are reached by what they are attached to. What is due is processed
/// first, so that one whose end has come is found as what it renewed to.
///
/// # Errors
/// `customer_id` or `plan_id` does not exist; [`TestClockAdvancing`](crate::Refusal::TestClockAdvancing),
/// [`CatchingUp`](crate::Refusal::CatchingUp).
pub fn find_subscriptions(
    tx: &mut dyn Transaction,
    wanted: &FindSubscriptions,
    now: OffsetDateTime,
) -> Result<Vec<SubscriptionId>, Error> {
    let key = CustomerKey::derive(tx.organization(), &wanted.customer);
    let mut errors = FieldErrors::default();
    wanted.look_up(tx, &mut errors)?;
    errors.finish(())?;
    catch_up(tx, key, now)?;
    let mut found = tx.subscriptions().list(key)?;
    found.retain(|subscription| {
        !subscription.is_addon()
            && subscription.status(now) != SubscriptionStatus::Ended
            && wanted.plan.is_none_or(|plan| subscription.plan == plan)
            && wanted.filters.is_subset_of(&subscription.filters)
    });
    Ok(found.into_iter().map(|subscription| subscription.id).collect())
}
