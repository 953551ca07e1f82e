//! A subscription with its add-ons: what renews, is checked and is previewed as one.

use std::rc::Rc;

use time::OffsetDateTime;

use super::account::{Catalog, Offer};
use crate::error::Error;
use crate::id::{CustomerKey, MetricId};
use crate::plan::Component;
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
        let mut hold = |own: &Subscription| {
            let offer = catalog.offer(tx, own.version)?;
            Ok::<_, Error>(Held { subscription: own.clone(), offer })
        };
        let addons = held.iter().filter(|own| own.parent == Some(base.id)).map(&mut hold).collect::<Result<_, _>>()?;
        Ok(Self { base: hold(base)?, addons })
    }

    /// The subscription, then its add-ons.
    pub fn parts(&self) -> impl Iterator<Item = &Held> {
        std::iter::once(&self.base).chain(&self.addons)
    }

    /// The component that meters `metric`, of the subscription or of an add-on that runs at `now`.
    pub fn component_of(&self, metric: MetricId, now: OffsetDateTime) -> Option<(&Component, &Subscription)> {
        let running = self.parts().filter(|own| own.subscription.status(now) == SubscriptionStatus::Active);
        running.filter_map(|own| Some((own.offer.version.component_of(metric)?, &own.subscription))).next()
    }

    /// The bundle of the period behind this one, still with the ids of this one; `None`: it does not go on.
    ///
    /// Where the version has another that takes its place, the subscription goes on with that. An add-on goes on
    /// when it is to renew, has lasted as long as its parent, and meters nothing that the next version does.
    pub fn renewed(&self, tx: &mut dyn Transaction, catalog: &mut Catalog) -> Result<Option<Self>, Error> {
        let ended = &self.base.subscription;
        let offer = match self.base.offer.version.replace_with {
            Some(next) if next != ended.version => catalog.offer(tx, next)?,
            _ => self.base.offer.clone(),
        };
        let Some(next) = ended.next_period(offer.plan.duration, offer.version.anchors) else { return Ok(None) };
        let mut subscription = Subscription { version: offer.version.id, ..ended.clone() };
        subscription.enter(&next);
        let goes_on = |own: &&Held| {
            own.subscription.awaits_renewal()
                && own.subscription.period.end() == ended.period.end()
                && !own.offer.version.shares_metric(&offer.version)
        };
        let addons = self.addons.iter().filter(goes_on).map(|own| {
            let mut addon = own.clone();
            addon.subscription.enter_with(&subscription);
            addon
        });
        let addons = addons.collect();
        Ok(Some(Self { base: Held { subscription, offer }, addons }))
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
    customer: CustomerKey,
    filters: &SubscriptionFilters,
    now: OffsetDateTime,
) -> Result<Vec<Bundle>, Error> {
    let mut catalog = Catalog::default();
    let mut considered = Vec::new();
    let held = tx.subscriptions().list_current(customer, now)?;
    for base in held.iter().filter(|own| !own.is_addon() && filters.is_subset_of(&own.filters)) {
        let bundle = Bundle::load(tx, &mut catalog, base, &held)?.at(tx, &mut catalog, now)?;
        if bundle.base.subscription.status(now) == SubscriptionStatus::Active {
            considered.push(bundle);
        }
    }
    Ok(considered)
}
