//! A subscription with its add-ons: what renews, is checked and is previewed as one.

use std::rc::Rc;

use time::OffsetDateTime;

use crate::catalog::{Catalog, Offer};
use crate::error::Error;
use crate::id::{CustomerKey, MetricId};
use crate::plan::{Component, choose_version};
use crate::store::Transaction;
use crate::subscription::{Subscription, SubscriptionFilters, SubscriptionStatus};

/// A subscription and what it is to.
#[derive(Clone)]
pub(super) struct Held {
    pub subscription: Subscription,
    pub offer: Rc<Offer>,
}

/// A subscription and the add-ons attached to it.
pub(super) struct Bundle {
    pub base: Held,
    pub addons: Vec<Held>,
}

impl Bundle {
    /// `base` with those of `held` that are attached to it.
    pub fn load(
        tx: &mut dyn Transaction,
        catalog: &mut Catalog,
        base: &Subscription,
        held: &[Subscription],
    ) -> Result<Self, Error> {
        let mut hold = |subscription: &Subscription| {
            let offer = catalog.offer(tx, subscription.version)?;
            Ok::<_, Error>(Held { subscription: subscription.clone(), offer })
        };
        let addons = held
            .iter()
            .filter(|subscription| subscription.parent == Some(base.id))
            .map(&mut hold)
            .collect::<Result<_, _>>()?;
        Ok(Self { base: hold(base)?, addons })
    }

    /// The subscription, then its add-ons.
    pub fn parts(&self) -> impl Iterator<Item = &Held> {
        std::iter::once(&self.base).chain(&self.addons)
    }

    /// The component that meters `metric`, of the subscription or of an add-on that runs at `now`.
    pub fn component_of(&self, metric: MetricId, now: OffsetDateTime) -> Option<(&Component, &Subscription)> {
        let running = self.parts().filter(|part| part.subscription.status(now) == SubscriptionStatus::Active);
        running.filter_map(|part| Some((part.offer.version.component_of(metric)?, &part.subscription))).next()
    }

    /// The bundle of the period behind this one, still with the ids of this one; `None`: it does not go on.
    ///
    /// Where the version has another that takes its place, the subscription goes on with that. An add-on goes on
    /// when it is to renew, has lasted as long as its parent, and meters nothing that the next version does.
    pub fn renewed(&self, tx: &mut dyn Transaction, catalog: &mut Catalog) -> Result<Option<Self>, Error> {
        let ended = &self.base.subscription;
        let offer = self.next_offer(tx, catalog)?;
        let Some(next) = ended.next_period(offer.plan.duration, offer.version.anchors) else { return Ok(None) };
        let mut subscription = Subscription { plan: offer.plan.id, version: offer.version.id, ..ended.clone() };
        if offer.version.id != ended.version {
            subscription.prepaid_units = ended.prepaid_units_under(&self.base.offer.version, &offer.version);
        }
        subscription.enter(&next);
        let goes_on = |held: &&Held| {
            held.subscription.awaits_renewal()
                && held.subscription.period.end() == ended.period.end()
                && !held.offer.version.shares_metric(&offer.version)
        };
        let addons = self.addons.iter().filter(goes_on).map(|held| {
            let mut addon = held.clone();
            addon.subscription.enter_with(&subscription);
            addon
        });
        let addons = addons.collect();
        Ok(Some(Self { base: Held { subscription, offer }, addons }))
    }

    /// What the subscription goes on with: the version that its plan's successor has for the customer, else the version
    /// that replaces its own, else its own. One that was deleted, is made for others, or needs prepaid units that
    /// nobody named is passed over: a renewal has nobody to ask.
    fn next_offer(&self, tx: &mut dyn Transaction, catalog: &mut Catalog) -> Result<Rc<Offer>, Error> {
        let (current, ended) = (&self.base.offer, &self.base.subscription);
        let suits = |offer: &Offer| {
            let held = ended.prepaid_units_under(&current.version, &offer.version);
            let units = |component: &Component| {
                let has_default = component.prepaid_charge.as_ref().is_none_or(|charge| charge.units.is_some());
                has_default || held.contains_key(&component.metric)
            };
            offer.version.is_offered_to(ended.customer)
                && offer.version.deleted_at.is_none()
                && offer.plan.deleted_at.is_none()
                && offer.version.components.iter().all(units)
        };
        if let Some(plan) = current.version.transition_to {
            let versions = tx.plans().list_versions(Some(plan))?;
            let organization = tx.organizations().get()?;
            let currencies = [current.currency.code.as_str(), &organization.default_currency_code];
            if let Ok(version) = choose_version(&versions, ended.customer, currencies, ended.period.end()) {
                let offer = catalog.offer(tx, version.id)?;
                if suits(&offer) && offer.plan.duration.is_some() {
                    return Ok(offer);
                }
            }
        }
        match current.version.replace_with {
            Some(next) if next != ended.version => {
                let offer = catalog.offer(tx, next)?;
                Ok(if suits(&offer) { offer } else { current.clone() })
            }
            _ => Ok(current.clone()),
        }
    }

    /// The bundle as it stands at `now`, taken as renewed where its renewal is due but not yet made.
    fn at(mut self, tx: &mut dyn Transaction, catalog: &mut Catalog, now: OffsetDateTime) -> Result<Self, Error> {
        while self.base.subscription.awaits_renewal() && self.base.subscription.status(now) == SubscriptionStatus::Ended
        {
            let Some(next) = self.renewed(tx, catalog)? else { break };
            self = next;
        }
        Ok(self)
    }
}

/// The subscriptions that an access check looks at: those that run at `now` and have all of `filters`, taken as
/// renewed where their renewal is due but not yet made, each with its add-ons.
pub(super) fn considered(
    tx: &mut dyn Transaction,
    catalog: &mut Catalog,
    customer: CustomerKey,
    filters: &SubscriptionFilters,
    now: OffsetDateTime,
) -> Result<Vec<Bundle>, Error> {
    let held = tx.subscriptions().list_current(customer, now)?;
    considered_of(tx, catalog, &held, filters, now)
}

/// [`considered`] of what a customer holds at `now`.
pub(super) fn considered_of(
    tx: &mut dyn Transaction,
    catalog: &mut Catalog,
    held: &[Subscription],
    filters: &SubscriptionFilters,
    now: OffsetDateTime,
) -> Result<Vec<Bundle>, Error> {
    let mut considered = Vec::new();
    for base in
        held.iter().filter(|subscription| !subscription.is_addon() && filters.is_subset_of(&subscription.filters))
    {
        let bundle = Bundle::load(tx, catalog, base, held)?.at(tx, catalog, now)?;
        if bundle.base.subscription.status(now) == SubscriptionStatus::Active {
            considered.push(bundle);
        }
    }
    Ok(considered)
}
