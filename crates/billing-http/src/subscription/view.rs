//! Subscriptions as answers show them.

use std::collections::{BTreeMap, BTreeSet};

use billing_domain::Error;
use billing_domain::addon::addon_of;
use billing_domain::customer::Customer;
use billing_domain::id::{AddonSubscriptionId, PlanVersionId, SubscriptionId};
use billing_domain::message::NewSubscription;
use billing_domain::store::Transaction;
use billing_domain::subscription::Subscription;
use billing_domain::workflow::{ListedSubscriptions, list_subscriptions};
use serde_json::{Map, Value};

use crate::addon::AddonBriefView;
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
        addons: Vec<AddonSubscriptionBriefView>,
        /// Free-form, given back as it came.
        metadata: Map<String, Value>,
    }
}

view! {
    /// An add-on of a subscription, as the subscription shows it.
    AddonSubscriptionBriefView {
        /// Its id.
        addon_subscription_id: AddonSubscriptionId,
        /// The first instant inside.
        start_date: Instant,
        /// The last microsecond inside.
        end_date: Instant,
        /// What is attached.
        addon: AddonBriefView,
        /// Whether nothing of it is left to invoice; of what is charged once, as soon as it was billed.
        fully_billed: bool,
        /// Free-form, given back as it came.
        metadata: Map<String, Value>,
    }
}

impl SubscriptionView {
    /// Of one subscription, as it is stored.
    ///
    /// # Errors
    /// Those of the store.
    pub fn new(tx: &mut dyn Transaction, subscription: &Subscription) -> Result<Self, Error> {
        let customer = tx.customers().get(subscription.customer)?;
        let listed = list_subscriptions(tx, &[customer.key])?;
        let stored = listed.all.iter().find(|stored| stored.id == subscription.id);
        Holder::of(&customer, &listed).view(tx, stored.unwrap_or(subscription))
    }

    /// Of one that was just made, without asking the store for it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn of_new(tx: &mut dyn Transaction, new: &NewSubscription) -> Result<Self, Error> {
        let customer = tx.customers().get_even_deleted(new.subscription.customer)?;
        Holder::new(&customer, &new.addons, new.fully_billed.clone(), Names::default()).view(tx, &new.subscription)
    }
}

/// A customer whose subscriptions are shown, and what they share.
pub struct Holder {
    customer: CustomerBriefView,
    fully_billed: BTreeSet<SubscriptionId>,
    attached: Vec<Subscription>,
    names: Names,
}

/// What plans and add-ons are called, each read once.
#[derive(Default)]
pub struct Names {
    plans: BTreeMap<PlanVersionId, PlanVersionBriefView>,
    addons: BTreeMap<PlanVersionId, AddonBriefView>,
}

impl Holder {
    /// Reads what the views of a customer's subscriptions share.
    ///
    /// # Errors
    /// Those of the store.
    pub fn load(tx: &mut dyn Transaction, customer: &Customer) -> Result<Self, Error> {
        let listed = list_subscriptions(tx, &[customer.key])?;
        Ok(Self::of(customer, &listed))
    }

    /// Of all that was listed of the customer.
    pub fn of(customer: &Customer, listed: &ListedSubscriptions) -> Self {
        Self::new(customer, &listed.all, listed.fully_billed.clone(), Names::default())
    }

    /// Of what was read already: all that the customer holds, and what of it has nothing left to bill.
    pub fn new(
        customer: &Customer,
        subscriptions: &[Subscription],
        fully_billed: BTreeSet<SubscriptionId>,
        names: Names,
    ) -> Self {
        let attached = subscriptions.iter().filter(|subscription| subscription.is_addon()).cloned().collect();
        Self { customer: customer.into(), fully_billed, attached, names }
    }

    /// The names that were read, for the next customer.
    pub fn into_names(self) -> Names {
        self.names
    }

    /// One subscription of the customer.
    ///
    /// # Errors
    /// Those of the store.
    pub fn view(&mut self, tx: &mut dyn Transaction, subscription: &Subscription) -> Result<SubscriptionView, Error> {
        let billing_plan = match self.names.plans.get(&subscription.version) {
            Some(known) => known.clone(),
            None => {
                let version = tx.plans().get_version(subscription.version)?;
                let plan = tx.plans().get_even_deleted(version.plan)?;
                let brief = PlanVersionBriefView::new(&plan, &version);
                self.names.plans.insert(subscription.version, brief.clone());
                brief
            }
        };
        let attached: Vec<_> =
            self.attached.iter().filter(|addon| addon.parent == Some(subscription.id)).cloned().collect();
        let addons = attached.iter().map(|addon| self.addon(tx, addon)).collect::<Result<_, _>>()?;
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
            addons,
            metadata: subscription.metadata.clone(),
        })
    }

    /// One add-on of the customer's.
    ///
    /// # Errors
    /// Those of the store.
    pub fn addon(
        &mut self,
        tx: &mut dyn Transaction,
        attached: &Subscription,
    ) -> Result<AddonSubscriptionBriefView, Error> {
        let addon = match self.names.addons.get(&attached.version) {
            Some(known) => known.clone(),
            None => {
                let brief = AddonBriefView::from(&tx.addons().get(addon_of(attached.plan))?);
                self.names.addons.insert(attached.version, brief.clone());
                brief
            }
        };
        Ok(AddonSubscriptionBriefView {
            addon_subscription_id: attached.id.uuid().into(),
            start_date: Instant(attached.period.start()),
            end_date: Instant(attached.period.last_instant()),
            addon,
            fully_billed: self.fully_billed.contains(&attached.id),
            metadata: attached.metadata.clone(),
        })
    }
}
