//! Lists what customers hold, and of which of it nothing is left to invoice.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use super::find_currency;
use crate::addon::{self, Addon, BillingFrequency};
use crate::charge::{BillingRecord, Charge};
use crate::error::Error;
use crate::id::{CustomerKey, PlanVersionId, SubscriptionId};
use crate::store::Transaction;
use crate::subscription::Subscription;

/// What customers hold or held, but for what was replaced by a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedSubscriptions {
    /// Add-ons too; of each customer by start, then by id.
    pub all: Vec<Subscription>,
    /// Those of which nothing is left to invoice.
    pub fully_billed: BTreeSet<SubscriptionId>,
}

/// Everything that `customers` hold or held.
///
/// A subscription is fully billed once no record of it has an invoicing instant to come. An add-on that is charged once is
/// so earlier: as soon as what such an instant would put on an invoice is nothing, although the instant is still there
/// for a cancellation to give back at.
///
/// How many statements that takes depends on how many different add-ons there are, not on how many customers.
///
/// # Errors
/// Those of the store.
pub fn list_subscriptions(tx: &mut dyn Transaction, customers: &[CustomerKey]) -> Result<ListedSubscriptions, Error> {
    let listed = tx.subscriptions().list_with_billing(customers)?;
    let billed = listed.iter().filter(|(_, is_billed)| *is_billed).map(|(subscription, _)| subscription.id);
    let mut fully_billed: BTreeSet<_> = billed.collect();
    let all: Vec<Subscription> = listed.into_iter().map(|(subscription, _)| subscription).collect();
    fully_billed.extend(find_charged_once(tx, &all, &fully_billed)?);
    Ok(ListedSubscriptions { all, fully_billed })
}

/// The add-ons that are charged once and have an invoicing instant to come with nothing to put on the invoice.
fn find_charged_once(
    tx: &mut dyn Transaction,
    all: &[Subscription],
    billed: &BTreeSet<SubscriptionId>,
) -> Result<Vec<SubscriptionId>, Error> {
    let attached: Vec<&Subscription> =
        all.iter().filter(|subscription| subscription.is_addon() && !billed.contains(&subscription.id)).collect();
    let mut addons: BTreeMap<PlanVersionId, PricedAddon> = BTreeMap::new();
    for subscription in &attached {
        if let Entry::Vacant(unread) = addons.entry(subscription.version) {
            unread.insert(PricedAddon::load(tx, subscription)?);
        }
    }
    let is_once =
        |subscription: &&Subscription| addons.get(&subscription.version).is_some_and(PricedAddon::is_charged_once);
    let mut open: BTreeMap<_, _> =
        attached.into_iter().filter(is_once).map(|subscription| (subscription.id, subscription)).collect();
    if open.is_empty() {
        return Ok(Vec::new());
    }
    let holders: BTreeSet<CustomerKey> = open.values().map(|subscription| subscription.customer).collect();
    let holders: Vec<CustomerKey> = holders.into_iter().collect();
    for record in tx.billing_records().list_open_of(&holders)? {
        let is_left = |subscription: &&Subscription| {
            addons.get(&subscription.version).is_none_or(|addon| addon.is_left(subscription, &record))
        };
        if open.get(&record.subscription).is_some_and(is_left) {
            open.remove(&record.subscription);
        }
    }
    Ok(open.into_keys().collect())
}

/// Whether nothing of a subscription is left to invoice, by those of its records that have an invoicing instant to come.
pub(super) fn fully_billed(
    tx: &mut dyn Transaction,
    subscription: &Subscription,
    open: &[BillingRecord],
) -> Result<bool, Error> {
    let is_open =
        |record: &&BillingRecord| record.subscription == subscription.id && record.next_invoicing_at().is_some();
    let mut open = open.iter().filter(is_open).peekable();
    if open.peek().is_none() || !subscription.is_addon() {
        return Ok(open.peek().is_none());
    }
    let addon = PricedAddon::load(tx, subscription)?;
    Ok(addon.is_charged_once() && !open.any(|record| addon.is_left(subscription, record)))
}

/// An add-on, and the minor units it is charged in.
struct PricedAddon {
    addon: Addon,
    decimals: u8,
}

impl PricedAddon {
    fn load(tx: &mut dyn Transaction, attached: &Subscription) -> Result<Self, Error> {
        let addon = tx.addons().get(addon::addon_of(attached.plan))?;
        let decimals = find_currency(tx, &addon.content.currency_code)?.decimals;
        Ok(Self { addon, decimals })
    }

    fn is_charged_once(&self) -> bool {
        self.addon.terms.billing_frequency == BillingFrequency::OneTime
    }

    /// Whether the record still has something to put on an invoice, as things stand.
    fn is_left(&self, attached: &Subscription, record: &BillingRecord) -> bool {
        if record.next_invoicing_at().is_none() {
            return false;
        }
        match self.addon.content.charge(record.charge) {
            Some(Charge::Recurring(fee)) => {
                let charged = record.clone().charge_recurring(fee, attached, self.decimals, record.period.end());
                charged.is_some()
            }
            // Usage may come until the end.
            Some(Charge::Component(_)) | None => true,
        }
    }
}
