//! Subscriptions as answers show them.

use std::collections::{BTreeMap, BTreeSet};

use billing_domain::Error;
use billing_domain::customer::Customer;
use billing_domain::id::{PlanVersionId, SubscriptionId};
use billing_domain::store::Transaction;
use billing_domain::subscription::Subscription;
use serde_json::{Map, Value};

use crate::wire::{CustomerBriefView, FilterView, Instant, PlanVersionBriefView, view};

view! {
    /// A customer's hold on a plan version for one period.
    SubscriptionView {
        /// Its id; a renewal gets a new one.
        subscription_id: SubscriptionId,
        /// The first instant inside.
        start_date: Instant,
        /// The last microsecond inside.
        end_date: Instant,
        /// Whether it renews at its end.
        auto_renew: bool,
        /// False when it came from a renewal.
        is_new: bool,
        /// Only events with all of these properties count.
        subscription_filters: Vec<FilterView>,
        /// Whose.
        customer: CustomerBriefView,
        /// To what.
        billing_plan: PlanVersionBriefView,
        /// Whether nothing of it is left to invoice.
        fully_billed: bool,
        /// Add-ons attached to it.
        addons: Vec<Value>,
        /// Free-form, given back as it came.
        metadata: Map<String, Value>,
    }
}

impl SubscriptionView {
    /// Of one subscription.
    ///
    /// # Errors
    /// Those of the store.
    pub fn new(tx: &mut dyn Transaction, subscription: &Subscription) -> Result<Self, Error> {
        let customer = tx.customers().get(subscription.customer)?;
        Holder::load(tx, &customer)?.view(tx, subscription)
    }
}

/// A customer whose subscriptions are shown, and what they share.
pub struct Holder {
    customer: CustomerBriefView,
    fully_billed: BTreeSet<SubscriptionId>,
    plans: BTreeMap<PlanVersionId, PlanVersionBriefView>,
}

impl Holder {
    /// Reads what the views of a customer's subscriptions share.
    ///
    /// # Errors
    /// Those of the store.
    pub fn load(tx: &mut dyn Transaction, customer: &Customer) -> Result<Self, Error> {
        let fully_billed = tx.billing_records().list_fully_billed(customer.key)?.into_iter().collect();
        Ok(Self { customer: customer.into(), fully_billed, plans: BTreeMap::new() })
    }

    /// One subscription of the customer.
    ///
    /// # Errors
    /// Those of the store.
    pub fn view(&mut self, tx: &mut dyn Transaction, subscription: &Subscription) -> Result<SubscriptionView, Error> {
        let billing_plan = match self.plans.get(&subscription.version) {
            Some(known) => known.clone(),
            None => {
                let version = tx.plans().get_version(subscription.version)?;
                let plan = tx.plans().get(version.plan)?;
                let brief = PlanVersionBriefView::new(&plan, &version);
                self.plans.insert(subscription.version, brief.clone());
                brief
            }
        };
        Ok(SubscriptionView {
            subscription_id: subscription.id,
            start_date: Instant(subscription.period.start()),
            end_date: Instant(subscription.period.last_instant()),
            auto_renew: subscription.auto_renew,
            is_new: subscription.is_new,
            subscription_filters: FilterView::list(&subscription.filters),
            customer: self.customer.clone(),
            billing_plan,
            fully_billed: self.fully_billed.contains(&subscription.id),
            addons: Vec::new(),
            metadata: subscription.metadata.clone(),
        })
    }
}
