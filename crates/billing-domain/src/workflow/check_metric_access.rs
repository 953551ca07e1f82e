//! Answers: may this customer use this metric now?

use time::OffsetDateTime;

use super::bundle::{Held, considered};
use super::usages::usages;
use crate::access::{MetricAccess, decide};
use crate::charge::reset_period_at;
use crate::customer::{Customer, CustomerId};
use crate::error::Error;
use crate::id::{CustomerKey, MetricId};
use crate::invoice::PlanVersionBrief;
use crate::metric::Metric;
use crate::period::MICROSECOND;
use crate::store::Transaction;
use crate::subscription::{Subscription, SubscriptionFilters};
use crate::usage::UsageRequest;

/// The question.
#[derive(Clone, Debug)]
pub struct CheckMetricAccess {
    /// Who.
    pub customer: CustomerId,
    /// What.
    pub metric: MetricId,
    /// Only subscriptions that have all of these filters are considered.
    pub filters: SubscriptionFilters,
}

/// The answer, and what it stands on.
#[derive(Clone, Debug)]
pub struct CheckedAccess {
    /// Who.
    pub customer: Customer,
    /// What.
    pub metric: Metric,
    /// Whether they may.
    pub access: bool,
    /// Every subscription considered, by start.
    pub subscriptions: Vec<SubscriptionAccess>,
}

/// What one subscription says.
#[derive(Clone, Debug)]
pub struct SubscriptionAccess {
    /// The subscription, as renewed where its renewal is due but not yet made.
    pub subscription: Subscription,
    /// Its plan version.
    pub plan: PlanVersionBrief,
    /// Usage and limits.
    pub access: MetricAccess,
}

/// Checks access by the usage of each subscription's current reset interval, up to and with now. What an add-on
/// meters belongs to the subscription that it is attached to.
///
/// # Errors
/// `customer_id` or `metric_id` does not exist; [`Refusal::CustomMetricFailed`](crate::Refusal::CustomMetricFailed).
pub fn check_metric_access(
    tx: &mut dyn Transaction,
    command: &CheckMetricAccess,
    _now: OffsetDateTime,
) -> Result<CheckedAccess, Error> {
    let key = CustomerKey::derive(tx.organization(), &command.customer);
    let customer = tx.customers().get(key).map_err(|error| error.at_field("customer_id"))?;
    let metric = tx.metrics().get(command.metric).map_err(|error| error.at_field("metric_id"))?;
    let policy = tx.organizations().get()?.access_policy;
    let now = tx.customers().now(key)?;

    let mut subscriptions = Vec::new();
    let mut requests = Vec::new();
    for bundle in considered(tx, key, &command.filters, now)? {
        let mut access = MetricAccess::absent();
        let metered = bundle.component_of(metric.id, now);
        if let Some((component, period)) =
            metered.and_then(|(component, own)| Some((component, reset_period_at(component, own, now)?)))
        {
            access.has_metric = true;
            access.free_limit = component.tiers.free_limit();
            access.total_limit = component.tiers.total_limit();
            let period = period.cut_at(now + MICROSECOND);
            let filters = bundle.base.subscription.filters.clone();
            requests.push(UsageRequest::current(key, metric.clone(), filters, period));
        }
        let Held { subscription, offer } = bundle.base;
        subscriptions.push(SubscriptionAccess { subscription, plan: offer.brief(), access });
    }
    let usages = usages(tx, &requests)?;
    let metered = subscriptions.iter_mut().filter(|considered| considered.access.has_metric);
    for (considered, usage) in metered.zip(usages) {
        considered.access.usage = usage.quantity;
    }
    let access = decide(policy, subscriptions.iter().map(|considered| &considered.access));
    Ok(CheckedAccess { customer, metric, access, subscriptions })
}
