//! Lists what of a metric, or of an event, would be billed now.

use bigdecimal::BigDecimal;
use bigdecimal::Zero;
use time::OffsetDateTime;

use super::bundle::{Held, considered};
use crate::catalog::Catalog;
use crate::charge::reset_period_at;
use crate::customer::CustomerId;
use crate::error::{Error, FieldCode, FieldError};
use crate::id::{CustomerKey, MetricId};
use crate::invoice::PlanVersionBrief;
use crate::metric::Metric;
use crate::period::MICROSECOND;
use crate::store::Transaction;
use crate::subscription::{Subscription, SubscriptionFilters, SubscriptionStatus};
use crate::usage::UsageRequest;

/// The question.
#[derive(Clone, Debug)]
pub struct ListBillableUsage {
    /// Who.
    pub customer: CustomerId,
    /// Which components.
    pub metered: MeteredBy,
    /// Only subscriptions that have all of these filters are considered.
    pub filters: SubscriptionFilters,
}

/// Which components are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeteredBy {
    /// Those that meter this metric.
    Metric(MetricId),
    /// Those that meter any metric of events of this name.
    EventName(String),
}

/// The components of one subscription and of its add-ons.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BillableUsage {
    /// The subscription, as renewed where its renewal is due but not yet made.
    pub subscription: Subscription,
    /// Its plan version.
    pub plan: PlanVersionBrief,
    /// Those that were asked for.
    pub components: Vec<ComponentUsage>,
}

/// What is known of one component.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ComponentUsage {
    /// What it meters.
    pub metric: Metric,
    /// The usage of the current reset interval as it would be billed: of a gauge the peak, not the present level.
    pub usage: BigDecimal,
    /// Up to here usage is free; `None`: none is, or all.
    pub free_limit: Option<BigDecimal>,
    /// From here on there is no access; `None`: no limit.
    pub total_limit: Option<BigDecimal>,
}

/// Lists the usage of every subscription that runs now, by start.
///
/// # Errors
/// `customer_id`, `metric_id` or `event_name` does not exist.
pub fn list_billable_usage(
    tx: &mut dyn Transaction,
    command: &ListBillableUsage,
    _now: OffsetDateTime,
) -> Result<Vec<BillableUsage>, Error> {
    let key = CustomerKey::derive(tx.organization(), &command.customer);
    tx.customers().get(key).map_err(|error| error.at_field("customer_id"))?;
    match &command.metered {
        MeteredBy::Metric(metric) => {
            tx.metrics().get(*metric).map_err(|error| error.at_field("metric_id"))?;
        }
        MeteredBy::EventName(_) if tx.metrics().list()?.iter().any(|metric| command.metered.is(metric)) => {}
        MeteredBy::EventName(_) => {
            let detail = "No metric counts events of this name.";
            return Err(FieldError::new("event_name", FieldCode::DoesNotExist, detail).into());
        }
    }
    let now = tx.customers().now(key)?;
    let (mut listed, mut requests) = (Vec::new(), Vec::new());
    for bundle in considered(tx, &mut Catalog::default(), key, &command.filters, now)? {
        let mut components = Vec::new();
        let running = bundle.parts().filter(|part| part.subscription.status(now) == SubscriptionStatus::Active);
        for (part, component) in
            running.flat_map(|part| part.offer.version.components.iter().map(move |each| (part, each)))
        {
            let metric = part.offer.metrics.get(&component.metric).filter(|metric| command.metered.is(metric));
            let (Some(metric), Some(period)) = (metric, reset_period_at(component, &part.subscription, now)) else {
                continue;
            };
            let (filters, period) = (bundle.base.subscription.filters.clone(), period.cut_at(now + MICROSECOND));
            requests.push(UsageRequest::billed(key, metric.clone(), filters, period, &part.subscription.full));
            components.push(ComponentUsage {
                metric: metric.clone(),
                usage: BigDecimal::zero(),
                free_limit: component.tiers.free_limit().filter(|limit| !limit.is_zero()),
                total_limit: component.tiers.total_limit(),
            });
        }
        let Held { subscription, offer } = bundle.base;
        listed.push(BillableUsage { subscription, plan: offer.brief(), components });
    }
    let usages = super::usages::usages(tx, &requests)?;
    for (component, usage) in listed.iter_mut().flat_map(|one| &mut one.components).zip(usages) {
        component.usage = usage.quantity;
    }
    Ok(listed)
}

impl MeteredBy {
    fn is(&self, metric: &Metric) -> bool {
        match self {
            Self::Metric(id) => metric.id == *id,
            Self::EventName(name) => metric.event_name == *name,
        }
    }
}
