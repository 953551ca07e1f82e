//! How the catalogue is looked up.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::addon::{self, AddonTerms, InvoiceWhen};
use crate::catalog::{Catalog, Offer};
use crate::charge::{BillingRecord, records_of};
use crate::error::{Error, Refusal};
use crate::id::PlanVersionId;
use crate::organization::AccessPolicy;
use crate::plan::{Plan, PlanVersion};
use crate::store::Transaction;
use crate::subscription::Subscription;

impl Catalog {
    /// The plan version and what belongs to it.
    pub(super) fn offer(&mut self, tx: &mut dyn Transaction, id: PlanVersionId) -> Result<Rc<Offer>, Error> {
        if let Some(offer) = self.offers.get(&id) {
            return Ok(offer.clone());
        }
        let version = tx.plans().get_version(id)?;
        let (plan, addon) = match tx.plans().get_even_deleted(version.plan) {
            Err(Error::NotFound(_)) => {
                let addon = tx.addons().get(addon::addon_of(version.plan))?;
                (addon.plan(), Some(addon.terms))
            }
            plan => (plan?, None),
        };
        let offer = Rc::new(Offer::new(tx, plan, addon, version)?);
        self.offers.insert(id, offer.clone());
        Ok(offer)
    }

    /// The rule by which the organization gives access.
    pub(super) fn access_policy(&mut self, tx: &mut dyn Transaction) -> Result<AccessPolicy, Error> {
        if let Some(policy) = self.access_policy {
            return Ok(policy);
        }
        let policy = tx.organizations().get()?.access_policy;
        self.access_policy = Some(policy);
        Ok(policy)
    }
}

impl Offer {
    /// A version with what belongs to it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn new(
        tx: &mut dyn Transaction,
        plan: Plan,
        addon: Option<AddonTerms>,
        version: PlanVersion,
    ) -> Result<Self, Error> {
        let currency = super::find_currency(tx, &version.currency_code)?;
        let mut metrics = BTreeMap::new();
        for metric in version.metrics() {
            metrics.insert(metric, tx.metrics().get(metric)?);
        }
        Ok(Self { plan, addon, version, currency, metrics })
    }

    /// The billing records of a new subscription to it.
    ///
    /// # Errors
    /// As [`records_of`].
    pub fn records_of(
        &self,
        tx: &mut dyn Transaction,
        subscription: &Subscription,
    ) -> Result<Vec<BillingRecord>, Refusal> {
        let mut records = records_of(&self.version, subscription, &mut || tx.new_uuid())?;
        if self.addon.is_some_and(|terms| terms.invoice_when == InvoiceWhen::InvoiceOnSubscriptionEnd) {
            records.iter_mut().for_each(BillingRecord::wait_behind_start);
        }
        Ok(records)
    }
}
