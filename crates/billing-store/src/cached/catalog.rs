//! The catalogue: read once under its version. Whoever changes it reads it plainly from there on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use billing_domain::addon::Addon;
use billing_domain::currency::Currency;
use billing_domain::id::{AddonId, CustomerKey, MetricId, PlanId, PlanVersionId, UsageAlertId};
use billing_domain::metric::Metric;
use billing_domain::organization::Organization;
use billing_domain::plan::{Plan, PlanVersion};
use billing_domain::store::{
    AddonRepo, CurrencyRepo, MetricRepo, OrganizationRepo, Page, PageRequest, PlanRepo, Transaction as _,
    UsageAlertRepo, VersionHolder,
};
use billing_domain::usage_alert::{Firing, UsageAlert};
use billing_domain::{Error, Noun};
use time::OffsetDateTime;
use uuid::Uuid;

use super::CachedTransaction;
use crate::transaction::hand_on;

/// Methods that change the catalogue: the transaction reads it itself from then on.
macro_rules! change {
    ($repository:ident => $(fn $name:ident($argument:ident: $type:ty);)*) => {
        $(
            fn $name(&mut self, $argument: $type) -> Result<(), Error> {
                self.catalog = None;
                self.inner.$repository().$name($argument)
            }
        )*
    };
}

impl CachedTransaction<'_, '_> {
    /// Reads all at once what is not remembered of these versions, with their plans, and of these metrics. What is left out
    /// is read when it is asked for.
    pub(crate) fn fill_catalog(&mut self, versions: BTreeSet<Uuid>, metrics: BTreeSet<Uuid>) -> Result<(), Error> {
        let Some(catalog) = self.catalog else { return Ok(()) };
        let lacks_version = |id: &Uuid| catalog.lacks(|all| &all.versions, *id);
        let versions: Vec<Uuid> = versions.into_iter().filter(lacks_version).collect();
        let lacks_metric = |id: &Uuid| catalog.lacks(|all| &all.metrics, *id);
        let metrics: Vec<Uuid> = metrics.into_iter().filter(lacks_metric).collect();
        if !versions.is_empty() {
            for (version, plan) in self.inner.load_offers(&versions)? {
                catalog.keep(|all| &all.plans, version.plan.uuid(), plan);
                catalog.keep(|all| &all.versions, version.id.uuid(), version);
            }
        }
        if !metrics.is_empty() {
            let found = self.inner.load_metrics(&metrics)?;
            found.into_iter().for_each(|metric| catalog.keep(|all| &all.metrics, metric.id.uuid(), metric));
        }
        Ok(())
    }
}

impl OrganizationRepo for CachedTransaction<'_, '_> {
    change! { organizations =>
        fn insert(organization: &Organization);
        fn update(organization: &Organization);
    }

    fn get(&mut self) -> Result<Organization, Error> {
        let id = self.inner.tenant();
        self.remembered(|all| &all.organizations, id, |tx| tx.organizations().get())
    }

    fn add_filter_keys(&mut self, keys: &[&str]) -> Result<(), Error> {
        // Keys are never taken away, so those that were known still are; mostly it is all of them.
        let id = self.inner.tenant();
        let known = self.catalog.and_then(|catalog| catalog.find(|all| &all.organizations, id));
        let is_known =
            |key: &&str| known.iter().any(|known| known.subscription_filter_keys.iter().any(|own| own == key));
        if keys.iter().all(is_known) {
            return Ok(());
        }
        self.catalog = None;
        self.inner.organizations().add_filter_keys(keys)
    }
}

impl CurrencyRepo for CachedTransaction<'_, '_> {
    change! { currencies => fn insert(currency: &Currency); }

    fn list(&mut self) -> Result<Vec<Currency>, Error> {
        let id = self.inner.tenant();
        self.remembered(|all| &all.currencies, id, |tx| tx.currencies().list())
    }
}

impl MetricRepo for CachedTransaction<'_, '_> {
    change! { metrics =>
        fn insert(metric: &Metric);
        fn update(metric: &Metric);
    }

    fn get(&mut self, id: MetricId) -> Result<Metric, Error> {
        self.remembered(|all| &all.metrics, id.uuid(), |tx| tx.metrics().get(id))
    }

    hand_on! { metrics => fn list() -> Vec<Metric>; }
}

impl PlanRepo for CachedTransaction<'_, '_> {
    change! { plans =>
        fn insert(plan: &Plan);
        fn update(plan: &Plan);
        fn insert_version(version: &PlanVersion);
        fn update_version(version: &PlanVersion);
    }

    fn get(&mut self, id: PlanId) -> Result<Plan, Error> {
        let found = self.get_even_deleted(id)?;
        if found.deleted_at.is_some() { Err(Error::NotFound(Noun::Plan)) } else { Ok(found) }
    }

    fn get_even_deleted(&mut self, id: PlanId) -> Result<Plan, Error> {
        let plan = self.remembered(
            |all| &all.plans,
            id.uuid(),
            |tx| match tx.plans().get_even_deleted(id) {
                Err(Error::NotFound(_)) => Ok(None),
                found => found.map(Some),
            },
        )?;
        plan.ok_or(Error::NotFound(Noun::Plan))
    }

    fn get_version(&mut self, id: PlanVersionId) -> Result<PlanVersion, Error> {
        self.remembered(|all| &all.versions, id.uuid(), |tx| tx.plans().get_version(id))
    }

    fn list_versions(&mut self, plan: Option<PlanId>) -> Result<Vec<PlanVersion>, Error> {
        let Some(plan) = plan else { return self.inner.plans().list_versions(None) };
        self.remembered(|all| &all.versions_of, plan.uuid(), |tx| tx.plans().list_versions(Some(plan)))
    }

    hand_on! { plans =>
        fn list() -> Vec<Plan>;
        fn is_held(plan: PlanId, version: Option<PlanVersionId>, now: OffsetDateTime) -> bool;
        fn active_subscriptions(now: OffsetDateTime) -> BTreeMap<PlanVersionId, u64>;
        fn list_holders(version: PlanVersionId, now: OffsetDateTime, page: &PageRequest) -> Page<VersionHolder>;
    }
}

impl AddonRepo for CachedTransaction<'_, '_> {
    change! { addons => fn insert(addon: &Addon); }

    fn get(&mut self, id: AddonId) -> Result<Addon, Error> {
        self.remembered(|all| &all.addons, id.uuid(), |tx| tx.addons().get(id))
    }

    hand_on! { addons => fn list() -> Vec<Addon>; }
}

impl UsageAlertRepo for CachedTransaction<'_, '_> {
    fn insert(&mut self, alert: &UsageAlert) -> Result<(), Error> {
        self.catalog = None;
        self.inner.usage_alerts().insert(alert)
    }

    fn delete(&mut self, id: UsageAlertId) -> Result<(), Error> {
        self.catalog = None;
        self.inner.usage_alerts().delete(id)
    }

    fn list(&mut self) -> Result<Vec<UsageAlert>, Error> {
        let id = self.inner.tenant();
        Ok(self.remembered(|all| &all.usage_alerts, id, |tx| tx.usage_alerts().list().map(Arc::new))?.to_vec())
    }

    hand_on! { usage_alerts =>
        fn get(id: UsageAlertId) -> UsageAlert;
        fn has_fired(firing: &Firing) -> bool;
        fn insert_firing(firing: &Firing, at: OffsetDateTime) -> ();
        fn mark(customer: CustomerKey) -> ();
    }
}
