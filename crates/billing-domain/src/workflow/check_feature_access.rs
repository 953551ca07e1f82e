//! Answers: does this customer have this feature now?

use time::OffsetDateTime;

use super::bundle::{Held, considered};
use crate::catalog::Catalog;
use crate::customer::{Customer, CustomerId};
use crate::error::Error;
use crate::id::{CustomerKey, FeatureId};
use crate::invoice::PlanVersionBrief;
use crate::plan::Feature;
use crate::store::Transaction;
use crate::subscription::{Subscription, SubscriptionFilters, SubscriptionStatus};

/// The question.
#[derive(Clone, Debug)]
pub struct CheckFeatureAccess {
    /// Who.
    pub customer: CustomerId,
    /// What.
    pub feature: FeatureId,
    /// Only subscriptions that have all of these filters are considered.
    pub filters: SubscriptionFilters,
}

/// The answer, and what it stands on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckedFeature {
    /// Who.
    pub customer: Customer,
    /// What.
    pub feature: Feature,
    /// Whether one of the subscriptions grants it.
    pub access: bool,
    /// Every subscription considered, by start: the subscription as of now, its plan version, and whether that
    /// grants the feature.
    pub subscriptions: Vec<(Subscription, PlanVersionBrief, bool)>,
}

/// Checks whether a plan version that the customer runs on, or an add-on to it, grants a feature.
///
/// # Errors
/// `customer_id` or `feature_id` does not exist.
pub fn check_feature_access(
    tx: &mut dyn Transaction,
    command: &CheckFeatureAccess,
    _now: OffsetDateTime,
) -> Result<CheckedFeature, Error> {
    let key = CustomerKey::derive(tx.organization(), &command.customer);
    let customer = tx.customers().get(key).map_err(|error| error.at_field("customer_id"))?;
    let feature = tx.features().get(command.feature).map_err(|error| error.at_field("feature_id"))?;
    let now = tx.customers().now(key)?;
    let subscriptions: Vec<_> = considered(tx, &mut Catalog::default(), key, &command.filters, now)?
        .into_iter()
        .map(|bundle| {
            let running = bundle.parts().filter(|part| part.subscription.status(now) == SubscriptionStatus::Active);
            let granted = running.map(|part| &part.offer.version).any(|version| version.features.contains(&feature.id));
            let Held { subscription, offer } = bundle.base;
            (subscription, offer.brief(), granted)
        })
        .collect();
    let access = subscriptions.iter().any(|(.., granted)| *granted);
    Ok(CheckedFeature { customer, feature, access, subscriptions })
}
