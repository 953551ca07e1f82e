//! What is remembered of organizations' catalogues: what everybody is billed by is read once, not with every customer.
//!
//! An organization's catalogue has a version in the database, another one with every change. A transaction reads the version
//! before anything of the catalogue; what is remembered under that version is then at least as new as what the version came
//! with, and what another transaction changes later is what this one might have read too early as well.

use std::sync::Arc;

use billing_domain::addon::Addon;
use billing_domain::currency::Currency;
use billing_domain::id::FeatureId;
use billing_domain::metric::Metric;
use billing_domain::organization::Organization;
use billing_domain::plan::{Component, Plan, PlanVersion, RecurringCharge, TargetCustomer};
use billing_domain::usage_alert::UsageAlert;
use uuid::Uuid;

use crate::cache::{CatalogVersion, VersionedCache};

/// Most things of one kind that are remembered, of all organizations together.
const THINGS_MAX: usize = 10_000;
/// Most plans whose list of versions is remembered.
const LISTS_MAX: usize = 1_000;

/// Things of one kind, by organization and id. What an organization has one of stands under its own id.
pub(crate) type Shelf<T> = VersionedCache<(Uuid, Uuid), CatalogVersion, T>;

/// What is remembered of all organizations' catalogues.
pub(crate) struct CatalogCache {
    pub(crate) organizations: Shelf<Organization>,
    pub(crate) currencies: Shelf<Vec<Currency>>,
    pub(crate) metrics: Shelf<Metric>,
    /// `None`: no plan but an add-on.
    pub(crate) plans: Shelf<Option<Plan>>,
    pub(crate) addons: Shelf<Addon>,
    pub(crate) versions: Shelf<PlanVersion>,
    /// All of a plan that are not deleted, by the plan, as they are listed.
    pub(crate) versions_of: Shelf<Vec<PlanVersion>>,
    pub(crate) usage_alerts: Shelf<Arc<Vec<UsageAlert>>>,
}

impl Default for CatalogCache {
    fn default() -> Self {
        Self {
            organizations: Shelf::of_entries(THINGS_MAX),
            currencies: Shelf::of_entries(THINGS_MAX),
            metrics: Shelf::of_entries(THINGS_MAX),
            plans: Shelf::of_entries(THINGS_MAX),
            addons: Shelf::of_entries(THINGS_MAX),
            versions: Shelf::of_entries(THINGS_MAX),
            versions_of: Shelf::of_entries(LISTS_MAX),
            usage_alerts: Shelf::of_entries(LISTS_MAX),
        }
    }
}

impl CatalogCache {
    /// What is remembered of an organization's catalogue under a version.
    pub(crate) fn at(&self, organization: Uuid, version: CatalogVersion) -> VersionedCatalog<'_> {
        VersionedCatalog { cache: self, organization, version }
    }

    /// The name of the events that a metric counted when that was read last.
    pub(crate) fn event_name(&self, organization: Uuid, metric: Uuid) -> Option<String> {
        self.metrics.look(&(organization, metric), |_, metric| Some(metric.event_name.clone()))
    }
}

/// One organization's catalogue as of one version, as far as it is remembered.
#[derive(Clone, Copy)]
pub(crate) struct VersionedCatalog<'c> {
    cache: &'c CatalogCache,
    organization: Uuid,
    version: CatalogVersion,
}

impl VersionedCatalog<'_> {
    /// What stands on a shelf under this id.
    pub(crate) fn find<T: Clone>(self, shelf: fn(&CatalogCache) -> &Shelf<T>, id: Uuid) -> Option<T> {
        shelf(self.cache).find(&(self.organization, id), &self.version)
    }

    /// Whether nothing stands on a shelf under this id.
    pub(crate) fn lacks<T>(self, shelf: fn(&CatalogCache) -> &Shelf<T>, id: Uuid) -> bool {
        let is_known = |version: &CatalogVersion, _: &T| (*version == self.version).then_some(());
        shelf(self.cache).look(&(self.organization, id), is_known).is_none()
    }

    /// Puts what was read on a shelf.
    pub(crate) fn keep<T>(self, shelf: fn(&CatalogCache) -> &Shelf<T>, id: Uuid, thing: T) {
        shelf(self.cache).keep((self.organization, id), self.version, thing);
    }
}

/// What one version of a plan consists of besides its own row.
#[derive(Clone, Default)]
pub(crate) struct VersionParts {
    pub(crate) components: Vec<Component>,
    pub(crate) recurring_charges: Vec<RecurringCharge>,
    pub(crate) features: Vec<FeatureId>,
    pub(crate) target_customers: Vec<TargetCustomer>,
}

/// What versions consist of, but for whom they are made for. That never changes: an edit makes another version.
pub(crate) struct Contents(VersionedCache<Uuid, (), VersionParts>);

impl Default for Contents {
    fn default() -> Self {
        Self(VersionedCache::of_entries(THINGS_MAX))
    }
}

impl Contents {
    /// What the version consists of, if that is remembered.
    pub(crate) fn find(&self, version: Uuid) -> Option<VersionParts> {
        self.0.latest(&version)
    }

    /// Remembers what the version consists of.
    pub(crate) fn keep(&self, version: Uuid, parts: VersionParts) {
        self.0.keep(version, (), parts);
    }
}
