//! Which of a customer's subscriptions a call by customer, plan and filters is about.

use time::OffsetDateTime;

use super::account::catch_up;
use crate::customer::CustomerId;
use crate::error::Error;
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

/// Those that run or are to come, by start; add-ons are reached by what they are attached to. What is due is processed
/// first, so that one whose end has come is found as what it renewed to.
///
/// # Errors
/// `customer_id` or `plan_id` does not exist; [`TestClockAdvancing`](crate::Refusal::TestClockAdvancing).
pub fn find_subscriptions(
    tx: &mut dyn Transaction,
    wanted: &FindSubscriptions,
    now: OffsetDateTime,
) -> Result<Vec<SubscriptionId>, Error> {
    let key = CustomerKey::derive(tx.organization(), &wanted.customer);
    tx.customers().get(key).map_err(|error| error.at_field("customer_id"))?;
    if let Some(plan) = wanted.plan {
        tx.plans().get(plan).map_err(|error| error.at_field("plan_id"))?;
    }
    catch_up(tx, key, now)?;
    let mut found = tx.subscriptions().list(key)?;
    found.retain(|own| {
        !own.is_addon()
            && own.status(now) != SubscriptionStatus::Ended
            && wanted.plan.is_none_or(|plan| own.plan == plan)
            && wanted.filters.is_subset_of(&own.filters)
    });
    Ok(found.into_iter().map(|own| own.id).collect())
}
