//! Repositories of what an organization defines: settings, keys, metrics, features, plans, add-ons, clocks.

use std::collections::BTreeMap;

use time::OffsetDateTime;

#[cfg(feature = "service")]
use super::Reply;
use super::{Page, PageRequest};
use crate::addon::Addon;
#[cfg(feature = "service")]
use crate::api_key::{ApiKey, KeyKind};
use crate::currency::Currency;
use crate::customer::CustomerId;
use crate::error::Error;
#[cfg(feature = "service")]
use crate::id::OrganizationId;
use crate::id::{AddonId, CustomerKey, FeatureId, MetricId, PlanId, PlanVersionId, SubscriptionId, TestClockId};
use crate::metric::Metric;
use crate::organization::Organization;
use crate::period::Period;
use crate::plan::{Feature, Plan, PlanVersion};
use crate::test_clock::TestClock;

/// The organization of the transaction.
pub trait OrganizationRepo {
    /// Keeps a new organization. Its id must be that of the transaction.
    fn insert(&mut self, organization: &Organization) -> Result<(), Error>;
    /// The organization.
    fn get(&mut self) -> Result<Organization, Error>;
    /// Writes all settings back, but for the filter keys, which only [`OrganizationRepo::add_filter_keys`] changes.
    fn update(&mut self, organization: &Organization) -> Result<(), Error>;
    /// Adds event properties that subscription filters may name; known ones change nothing. Safe beside
    /// transactions of other customers that do the same. Usage by a new key is right for all events, those
    /// that came before too.
    ///
    /// # Errors
    /// A field error at `subscription_filters` beyond
    /// [`Organization::SUBSCRIPTION_FILTER_KEYS_MAX`](crate::organization::Organization::SUBSCRIPTION_FILTER_KEYS_MAX).
    fn add_filter_keys(&mut self, keys: &[&str]) -> Result<(), Error>;
}

#[cfg(feature = "service")]
/// API keys and access tokens of the organization.
pub trait ApiKeyRepo {
    /// Keeps a new key.
    fn insert(&mut self, key: &ApiKey) -> Result<(), Error>;
    /// All keys of a kind, oldest first, expired ones too.
    fn list(&mut self, kind: KeyKind) -> Result<Vec<ApiKey>, Error>;
    /// Removes a key of a kind for good; it is worthless from the commit on.
    fn delete(&mut self, kind: KeyKind, prefix: &str) -> Result<(), Error>;
}

/// Currencies that the organization added to those of ISO 4217.
pub trait CurrencyRepo {
    /// Keeps a new currency.
    fn insert(&mut self, currency: &Currency) -> Result<(), Error>;
    /// All added currencies, by code.
    fn list(&mut self) -> Result<Vec<Currency>, Error>;
}

/// Metrics of the organization.
pub trait MetricRepo {
    /// Keeps a new metric. Events that arrive from the commit on are counted for it as they arrive; those
    /// that came before count too, they only cost more to read.
    fn insert(&mut self, metric: &Metric) -> Result<(), Error>;
    /// The metric, archived or not.
    fn get(&mut self, id: MetricId) -> Result<Metric, Error>;
    /// All metrics, oldest first, archived ones too.
    fn list(&mut self) -> Result<Vec<Metric>, Error>;
    /// Writes back what can change: name and archival.
    fn update(&mut self, metric: &Metric) -> Result<(), Error>;
}

/// Features of the organization.
pub trait FeatureRepo {
    /// Keeps a new feature.
    fn insert(&mut self, feature: &Feature) -> Result<(), Error>;
    /// The feature.
    fn get(&mut self, id: FeatureId) -> Result<Feature, Error>;
    /// All features, oldest first.
    fn list(&mut self) -> Result<Vec<Feature>, Error>;
}

/// Plans and their versions.
pub trait PlanRepo {
    /// Keeps a new plan.
    fn insert(&mut self, plan: &Plan) -> Result<(), Error>;
    /// The plan; add-ons are none, and what was deleted is not found.
    fn get(&mut self, id: PlanId) -> Result<Plan, Error>;
    /// The plan, deleted or not.
    fn get_even_deleted(&mut self, id: PlanId) -> Result<Plan, Error>;
    /// Writes back what can change: names, tags, links, deletion.
    fn update(&mut self, plan: &Plan) -> Result<(), Error>;
    /// All plans that were not deleted, newest first, then by name.
    fn list(&mut self) -> Result<Vec<Plan>, Error>;
    /// Keeps a new version.
    fn insert_version(&mut self, version: &PlanVersion) -> Result<(), Error>;
    /// The version, deleted or not.
    fn get_version(&mut self, id: PlanVersionId) -> Result<PlanVersion, Error>;
    /// The versions of one plan, or of all plans and add-ons, that were not deleted, oldest first.
    fn list_versions(&mut self, plan: Option<PlanId>) -> Result<Vec<PlanVersion>, Error>;
    /// Writes back what can change: active span, replacement, transition, names, targets, deletion.
    fn update_version(&mut self, version: &PlanVersion) -> Result<(), Error>;
    /// Whether a subscription to the plan (or to one version of it) has not ended, or is to renew. Customers with a test
    /// clock are judged by the time they live at, all others by `now`.
    fn is_held(&mut self, plan: PlanId, version: Option<PlanVersionId>, now: OffsetDateTime) -> Result<bool, Error>;
    /// How many subscriptions of each version run, those of customers with a test clock at the time they live at, all others
    /// at `now`; versions without any are left out.
    fn active_subscriptions(&mut self, now: OffsetDateTime) -> Result<BTreeMap<PlanVersionId, u64>, Error>;
    /// The subscriptions to a version that [run](PlanRepo::active_subscriptions), with their customers: by end, then by id.
    ///
    /// # Errors
    /// A cursor that no page gave.
    fn list_holders(
        &mut self,
        version: PlanVersionId,
        now: OffsetDateTime,
        page: &PageRequest,
    ) -> Result<Page<VersionHolder>, Error>;
}

/// A subscription to a plan version, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionHolder {
    /// The customer, by the caller's own id.
    pub customer: CustomerId,
    /// How the customer is called.
    pub customer_name: Option<String>,
    /// The customer's e-mail address.
    pub email: Option<String>,
    /// The subscription.
    pub subscription: SubscriptionId,
    /// For how long it lasts.
    pub period: Period,
    /// Whether another follows when it ends.
    pub auto_renew: bool,
}

/// Add-ons of the organization. Each is a plan with one version that [`PlanRepo`] finds by version id alone.
pub trait AddonRepo {
    /// Keeps a new add-on and its content.
    fn insert(&mut self, addon: &Addon) -> Result<(), Error>;
    /// The add-on.
    fn get(&mut self, id: AddonId) -> Result<Addon, Error>;
    /// All add-ons, newest first, then by name.
    fn list(&mut self) -> Result<Vec<Addon>, Error>;
}

/// Test clocks of the organization.
pub trait TestClockRepo {
    /// Keeps a new clock.
    fn insert(&mut self, clock: &TestClock) -> Result<(), Error>;
    /// The clock.
    fn get(&mut self, id: TestClockId) -> Result<TestClock, Error>;
    /// All clocks, oldest first.
    fn list(&mut self) -> Result<Vec<TestClock>, Error>;
    /// Writes time and status back.
    fn update(&mut self, clock: &TestClock) -> Result<(), Error>;
    /// The customers that live by the clock and were not deleted, in order of key.
    fn list_customers(&mut self, id: TestClockId) -> Result<Vec<CustomerKey>, Error>;
    /// The plan versions of what those customers hold that ends after `instant` or still awaits renewal, add-ons too, in
    /// order of id.
    fn list_versions(&mut self, id: TestClockId, instant: OffsetDateTime) -> Result<Vec<HeldVersion>, Error>;
}

/// A plan version that some customers hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldVersion {
    /// The version.
    pub version: PlanVersionId,
    /// Whether a subscription to it awaits renewal.
    pub renews: bool,
    /// When the last of the subscriptions to it ends.
    pub ends_at: OffsetDateTime,
}

#[cfg(feature = "service")]
/// Finds keys before the organization is known.
pub trait ApiKeyLookup: Send + Sync {
    /// The key of whatever kind with this prefix and the present instant, if there is such a key.
    fn find_key(&self, prefix: &str) -> Result<Option<(ApiKey, OffsetDateTime)>, Error>;
    /// [`ApiKeyLookup::find_key`] without blocking, together with the keys of others who come at the same time. The key is
    /// looked up after the call: one that was removed before is not found.
    fn find_key_then(&self, prefix: String, reply: Reply<Option<(ApiKey, OffsetDateTime)>>) {
        reply(self.find_key(&prefix));
    }
    /// Notes that the keys with these prefixes were used by now, of those of which that was not noted within the last minute.
    fn note_uses(&self, prefixes: &[String]) -> Result<(), Error>;
    /// Every organization's id, oldest first.
    fn list_organizations(&self) -> Result<Vec<OrganizationId>, Error>;
}
