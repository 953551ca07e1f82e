//! Answers: may this customer use this metric now?

use time::OffsetDateTime;

use super::bundle::{Held, considered};
use super::usages::usages;
use crate::access::{MetricAccess, decide};
use crate::catalog::Catalog;
use crate::charge::reset_period_at;
use crate::customer::{Customer, CustomerId};
use crate::error::Error;
#[cfg(feature = "service")]
use crate::id::OrganizationId;
use crate::id::{CustomerKey, MetricId};
use crate::invoice::PlanVersionBrief;
use crate::metric::Metric;
use crate::organization::AccessPolicy;
use crate::period::MICROSECOND;
use crate::store::Transaction;
#[cfg(feature = "service")]
use crate::store::{Answered, Question, Reply};
use crate::subscription::{Subscription, SubscriptionFilters};
use crate::usage::{Usage, UsageRequest};

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
#[non_exhaustive]
pub struct SubscriptionAccess {
    /// The subscription, as renewed where its renewal is due but not yet made.
    pub subscription: Subscription,
    /// Its plan version.
    pub plan: PlanVersionBrief,
    /// Usage and limits.
    pub access: MetricAccess,
}

/// A check that lacks only the usage of its subscriptions.
pub struct PreparedCheck {
    checked: CheckedAccess,
    policy: AccessPolicy,
    /// What must be known: the usage of every subscription that has the metric, in order.
    pub requests: Vec<UsageRequest>,
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
    let prepared = prepare_metric_access(tx, command)?;
    let usages = usages(tx, &prepared.requests)?;
    #[cfg(feature = "service")]
    tx.events().warm_up(&prepared.requests)?;
    Ok(prepared.decide(usages))
}

/// The part of [`check_metric_access`] that comes before usage is read.
///
/// # Errors
/// `customer_id` or `metric_id` does not exist.
pub fn prepare_metric_access(tx: &mut dyn Transaction, command: &CheckMetricAccess) -> Result<PreparedCheck, Error> {
    let key = CustomerKey::derive(tx.organization(), &command.customer);
    prepare_for(tx, &mut Catalog::default(), key, command)
}

/// [`prepare_metric_access`] of the customer whose key this is.
fn prepare_for(
    tx: &mut dyn Transaction,
    catalog: &mut Catalog,
    key: CustomerKey,
    command: &CheckMetricAccess,
) -> Result<PreparedCheck, Error> {
    let customer = tx.customers().get(key).map_err(|error| error.at_field("customer_id"))?;
    let metric = tx.metrics().get(command.metric).map_err(|error| error.at_field("metric_id"))?;
    let policy = catalog.access_policy(tx)?;
    let now = tx.customers().now(key)?;

    let mut subscriptions = Vec::new();
    let mut requests = Vec::new();
    for bundle in considered(tx, catalog, key, &command.filters, now)? {
        let mut access = MetricAccess::absent();
        let metered = bundle.component_of(metric.id, now);
        if let Some((component, period)) = metered
            .and_then(|(component, subscription)| Some((component, reset_period_at(component, subscription, now)?)))
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
    Ok(PreparedCheck { checked: CheckedAccess { customer, metric, access: false, subscriptions }, policy, requests })
}

impl PreparedCheck {
    /// The answer. `usages` belong to [`PreparedCheck::requests`], in the same order.
    pub fn decide(self, usages: Vec<Usage>) -> CheckedAccess {
        let Self { mut checked, policy, .. } = self;
        let metered = checked.subscriptions.iter_mut().filter(|considered| considered.access.has_metric);
        for (considered, usage) in metered.zip(usages) {
            considered.access.usage = usage.quantity;
        }
        checked.access = decide(policy, checked.subscriptions.iter().map(|considered| &considered.access));
        checked
    }
}

#[cfg(feature = "service")]
/// [`check_metric_access`] as a question to be answered together with others.
pub struct AccessQuestion {
    customer: CustomerKey,
    command: CheckMetricAccess,
    prepared: Option<PreparedCheck>,
    reply: Reply<Option<CheckedAccess>>,
}

#[cfg(feature = "service")]
impl AccessQuestion {
    /// Asks `command` of the organization; the reply has nothing in it when that must be asked in a transaction of its own.
    pub fn new(organization: OrganizationId, command: CheckMetricAccess, reply: Reply<Option<CheckedAccess>>) -> Self {
        let customer = CustomerKey::derive(organization, &command.customer);
        Self { customer, command, prepared: None, reply }
    }
}

#[cfg(feature = "service")]
impl Question for AccessQuestion {
    fn customer(&self) -> CustomerKey {
        self.customer
    }

    fn metric(&self) -> MetricId {
        self.command.metric
    }

    fn prepare(&mut self, tx: &mut dyn Transaction, catalog: &mut Catalog) -> Result<Vec<UsageRequest>, Error> {
        let mut prepared = prepare_for(tx, catalog, self.customer, &self.command)?;
        // The answer needs what they come to, and not what was asked.
        let requests = std::mem::take(&mut prepared.requests);
        self.prepared = Some(prepared);
        Ok(requests)
    }

    fn conclude(self: Box<Self>, outcome: Answered) {
        let Self { prepared, reply, .. } = *self;
        reply(match (outcome, prepared) {
            (Answered::Known(usages), Some(prepared)) => Ok(Some(prepared.decide(usages))),
            (Answered::Failed(error), _) => Err(error),
            (Answered::Known(_) | Answered::Alone, _) => Ok(None),
        });
    }
}
