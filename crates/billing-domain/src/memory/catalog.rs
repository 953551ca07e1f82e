//! The organization's catalogue: settings, keys, currencies, metrics, features, plans, clocks.

use std::collections::BTreeMap;

use time::OffsetDateTime;

use super::Tenant;
use super::page::page_of;
use super::shared::Shared;
use super::transaction::MemoryTransaction;
use crate::addon::Addon;
#[cfg(feature = "service")]
use crate::api_key::{ApiKey, KeyKind};
use crate::currency::Currency;
use crate::error::{Error, FieldCode, FieldError, Noun, Refusal};
use crate::id::{AddonId, CustomerKey, FeatureId, MetricId, PlanId, PlanVersionId, TestClockId};
use crate::metric::Metric;
use crate::organization::Organization;
use crate::plan::{Feature, Plan, PlanVersion};
#[cfg(feature = "service")]
use crate::store::ApiKeyRepo;
use crate::store::{
    AddonRepo, CurrencyRepo, FeatureRepo, HeldVersion, MetricRepo, OrganizationRepo, Page, PageRequest, PlanRepo,
    TestClockRepo, Transaction as _, VersionHolder,
};
use crate::subscription::{Subscription, SubscriptionStatus};
use crate::test_clock::TestClock;

impl OrganizationRepo for MemoryTransaction {
    fn insert(&mut self, organization: &Organization) -> Result<(), Error> {
        let tenant = Tenant {
            organization: organization.clone(),
            #[cfg(feature = "service")]
            api_keys: Shared::default(),
            currencies: Shared::default(),
            metrics: Shared::default(),
            features: Shared::default(),
            plans: Shared::default(),
            versions: Shared::default(),
            addons: Shared::default(),
            test_clocks: Shared::default(),
            accounts: Shared::default(),
            invoices: Shared::default(),
            invoice_sequence: 0,
            credit_notes: Shared::default(),
            messages: Shared::default(),
            messages_dropped: 0,
            #[cfg(feature = "service")]
            approvals: Shared::default(),
            #[cfg(feature = "service")]
            audit_log: Shared::default(),
            #[cfg(feature = "service")]
            tally: Shared::default(),
            #[cfg(feature = "service")]
            jobs: Shared::default(),
            #[cfg(feature = "service")]
            books_audits: Shared::default(),
            #[cfg(feature = "service")]
            alerts: Shared::default(),
            #[cfg(feature = "service")]
            endpoints: Shared::default(),
            #[cfg(feature = "service")]
            answers: Shared::default(),
        };
        self.state.tenants.insert(organization.id, Shared::new(tenant));
        Ok(())
    }

    fn get(&mut self) -> Result<Organization, Error> {
        Ok(self.tenant()?.organization.clone())
    }

    fn update(&mut self, organization: &Organization) -> Result<(), Error> {
        let stored = &mut self.tenant()?.organization;
        let subscription_filter_keys = std::mem::take(&mut stored.subscription_filter_keys);
        *stored = Organization { subscription_filter_keys, ..organization.clone() };
        Ok(())
    }

    fn add_filter_keys(&mut self, keys: &[&str]) -> Result<(), Error> {
        let known = &mut self.tenant()?.organization.subscription_filter_keys;
        for key in keys {
            if !known.iter().any(|other| other == key) {
                known.push((*key).to_owned());
            }
        }
        if known.len() > Organization::SUBSCRIPTION_FILTER_KEYS_MAX {
            let detail = "The organization has too many subscription filter keys.";
            return Err(FieldError::new("subscription_filters", FieldCode::ListTooLong, detail).into());
        }
        Ok(())
    }
}

#[cfg(feature = "service")]
impl ApiKeyRepo for MemoryTransaction {
    fn insert(&mut self, key: &ApiKey) -> Result<(), Error> {
        self.tenant()?.api_keys.insert(key.prefix.clone(), key.clone());
        Ok(())
    }

    fn list(&mut self, kind: KeyKind) -> Result<Vec<ApiKey>, Error> {
        let mut keys: Vec<_> = self.tenant()?.api_keys.values().filter(|key| key.kind == kind).cloned().collect();
        keys.sort_by_key(|key| key.created_at);
        Ok(keys)
    }

    fn delete(&mut self, kind: KeyKind, prefix: &str) -> Result<(), Error> {
        let keys = &mut self.tenant()?.api_keys;
        keys.get(prefix).filter(|key| key.kind == kind).ok_or(Error::NotFound(kind.noun()))?;
        keys.remove(prefix);
        Ok(())
    }
}

impl CurrencyRepo for MemoryTransaction {
    fn insert(&mut self, currency: &Currency) -> Result<(), Error> {
        match self.tenant()?.currencies.insert(currency.code.clone(), currency.clone()) {
            None => Ok(()),
            Some(_) => Err(Refusal::DuplicateResource("A currency with this code already exists").into()),
        }
    }

    fn list(&mut self) -> Result<Vec<Currency>, Error> {
        Ok(self.tenant()?.currencies.values().cloned().collect())
    }
}

impl MetricRepo for MemoryTransaction {
    fn insert(&mut self, metric: &Metric) -> Result<(), Error> {
        self.tenant()?.metrics.insert(metric.id, metric.clone());
        Ok(())
    }

    fn get(&mut self, id: MetricId) -> Result<Metric, Error> {
        self.tenant()?.metrics.get(&id).cloned().ok_or(Error::NotFound(Noun::Metric))
    }

    fn list(&mut self) -> Result<Vec<Metric>, Error> {
        Ok(self.tenant()?.metrics.values().cloned().collect())
    }

    fn update(&mut self, metric: &Metric) -> Result<(), Error> {
        let stored = self.tenant()?.metrics.get_mut(&metric.id).ok_or(Error::NotFound(Noun::Metric))?;
        stored.name.clone_from(&metric.name);
        stored.archived_at = metric.archived_at;
        Ok(())
    }
}

impl FeatureRepo for MemoryTransaction {
    fn insert(&mut self, feature: &Feature) -> Result<(), Error> {
        self.tenant()?.features.insert(feature.id, feature.clone());
        Ok(())
    }

    fn get(&mut self, id: FeatureId) -> Result<Feature, Error> {
        self.tenant()?.features.get(&id).cloned().ok_or(Error::NotFound(Noun::Feature))
    }

    fn list(&mut self) -> Result<Vec<Feature>, Error> {
        Ok(self.tenant()?.features.values().cloned().collect())
    }
}

impl MemoryTransaction {
    /// Every subscription with the time its customer lives at: `now` without a test clock.
    fn with_present(
        &mut self,
        now: OffsetDateTime,
    ) -> Result<impl Iterator<Item = (&Subscription, OffsetDateTime)>, Error> {
        let (organization, state) = (self.organization, &self.state);
        let tenant = state.tenants.get(&organization).ok_or(Error::NotFound(Noun::Organization))?;
        Ok(tenant.accounts.iter().flat_map(move |(key, account)| {
            let has_clock = account.lives_by_clock();
            let present = if has_clock { state.now_of(organization, *key) } else { now };
            account.subscriptions.values().map(move |subscription| (subscription, present))
        }))
    }
}

impl PlanRepo for MemoryTransaction {
    fn insert(&mut self, plan: &Plan) -> Result<(), Error> {
        self.tenant()?.plans.insert(plan.id, plan.clone());
        Ok(())
    }

    fn get(&mut self, id: PlanId) -> Result<Plan, Error> {
        let found = PlanRepo::get_even_deleted(self, id)?;
        if found.deleted_at.is_some() { Err(Error::NotFound(Noun::Plan)) } else { Ok(found) }
    }

    fn get_even_deleted(&mut self, id: PlanId) -> Result<Plan, Error> {
        self.tenant()?.plans.get(&id).cloned().ok_or(Error::NotFound(Noun::Plan))
    }

    fn update(&mut self, plan: &Plan) -> Result<(), Error> {
        let stored = self.tenant()?.plans.get_mut(&plan.id).ok_or(Error::NotFound(Noun::Plan))?;
        let (duration, created_at) = (stored.duration, stored.created_at);
        *stored = Plan { duration, created_at, ..plan.clone() };
        Ok(())
    }

    fn list(&mut self) -> Result<Vec<Plan>, Error> {
        let kept = self.tenant()?.plans.values().filter(|plan| plan.deleted_at.is_none());
        let mut plans: Vec<_> = kept.cloned().collect();
        plans.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.name.cmp(&b.name)));
        Ok(plans)
    }

    fn insert_version(&mut self, version: &PlanVersion) -> Result<(), Error> {
        self.tenant()?.versions.insert(version.id, version.clone());
        Ok(())
    }

    fn get_version(&mut self, id: PlanVersionId) -> Result<PlanVersion, Error> {
        self.tenant()?.versions.get(&id).cloned().ok_or(Error::NotFound(Noun::PlanVersion))
    }

    fn list_versions(&mut self, plan: Option<PlanId>) -> Result<Vec<PlanVersion>, Error> {
        let of_plan =
            |version: &&PlanVersion| version.deleted_at.is_none() && plan.is_none_or(|plan| version.plan == plan);
        let mut versions: Vec<_> = self.tenant()?.versions.values().filter(of_plan).cloned().collect();
        versions.sort_by_key(|version| (version.created_at, version.id));
        Ok(versions)
    }

    fn update_version(&mut self, version: &PlanVersion) -> Result<(), Error> {
        let stored = self.tenant()?.versions.get_mut(&version.id).ok_or(Error::NotFound(Noun::PlanVersion))?;
        stored.localized_name.clone_from(&version.localized_name);
        stored.description.clone_from(&version.description);
        stored.active_from = version.active_from;
        stored.active_to = version.active_to;
        stored.replace_with = version.replace_with;
        stored.transition_to = version.transition_to;
        stored.target_customers.clone_from(&version.target_customers);
        stored.deleted_at = version.deleted_at;
        Ok(())
    }

    fn is_held(&mut self, plan: PlanId, version: Option<PlanVersionId>, now: OffsetDateTime) -> Result<bool, Error> {
        Ok(self.with_present(now)?.any(|(subscription, present)| {
            subscription.plan == plan
                && version.is_none_or(|version| subscription.version == version)
                && subscription.replaced_by.is_none()
                && (subscription.period.end() > present || subscription.awaits_renewal())
        }))
    }

    fn active_subscriptions(&mut self, now: OffsetDateTime) -> Result<BTreeMap<PlanVersionId, u64>, Error> {
        let mut counts = BTreeMap::new();
        let is_active =
            |(subscription, present): &(&Subscription, _)| subscription.status(*present) == SubscriptionStatus::Active;
        for (subscription, _) in self.with_present(now)?.filter(is_active) {
            *counts.entry(subscription.version).or_default() += 1;
        }
        Ok(counts)
    }

    fn list_holders(
        &mut self,
        version: PlanVersionId,
        now: OffsetDateTime,
        page: &PageRequest,
    ) -> Result<Page<VersionHolder>, Error> {
        let is_active = |(subscription, present): &(&Subscription, OffsetDateTime)| {
            subscription.version == version && subscription.status(*present) == SubscriptionStatus::Active
        };
        let running = self.with_present(now)?.filter(is_active).map(|(subscription, _)| subscription.clone());
        let mut running: Vec<Subscription> = running.collect();
        running.sort_by_key(|subscription| (subscription.period.end(), subscription.id));
        let holder = |subscription: Subscription| {
            let customer = self.customers().get_even_deleted(subscription.customer)?;
            Ok(VersionHolder {
                customer: customer.id,
                customer_name: customer.fields.name,
                email: customer.email,
                subscription: subscription.id,
                period: subscription.period,
                auto_renew: subscription.auto_renew,
            })
        };
        page_of(running.into_iter().map(holder).collect::<Result<_, Error>>()?, page)
    }
}

impl AddonRepo for MemoryTransaction {
    fn insert(&mut self, addon: &Addon) -> Result<(), Error> {
        let tenant = self.tenant()?;
        tenant.addons.insert(addon.id, addon.clone());
        tenant.versions.insert(addon.content.id, addon.content.clone());
        Ok(())
    }

    fn get(&mut self, id: AddonId) -> Result<Addon, Error> {
        self.tenant()?.addons.get(&id).cloned().ok_or(Error::NotFound(Noun::Addon))
    }

    fn list(&mut self) -> Result<Vec<Addon>, Error> {
        let mut addons: Vec<_> = self.tenant()?.addons.values().cloned().collect();
        addons.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.name.cmp(&b.name)));
        Ok(addons)
    }
}

impl TestClockRepo for MemoryTransaction {
    fn insert(&mut self, clock: &TestClock) -> Result<(), Error> {
        self.tenant()?.test_clocks.insert(clock.id, clock.clone());
        Ok(())
    }

    fn get(&mut self, id: TestClockId) -> Result<TestClock, Error> {
        self.tenant()?.test_clocks.get(&id).cloned().ok_or(Error::NotFound(Noun::TestClock))
    }

    fn list(&mut self) -> Result<Vec<TestClock>, Error> {
        Ok(self.tenant()?.test_clocks.values().cloned().collect())
    }

    fn update(&mut self, clock: &TestClock) -> Result<(), Error> {
        let stored = self.tenant()?.test_clocks.get_mut(&clock.id).ok_or(Error::NotFound(Noun::TestClock))?;
        stored.frozen_time = clock.frozen_time;
        stored.status = clock.status;
        Ok(())
    }

    fn list_customers(&mut self, id: TestClockId) -> Result<Vec<CustomerKey>, Error> {
        let accounts = self.tenant()?.accounts.iter();
        Ok(accounts.filter(|(_, account)| account.lives_by(id)).map(|(key, _)| *key).collect())
    }

    fn list_versions(&mut self, id: TestClockId, instant: OffsetDateTime) -> Result<Vec<HeldVersion>, Error> {
        let accounts = self.tenant()?.accounts.values().filter(|account| account.lives_by(id));
        let subscriptions = accounts.flat_map(|account| account.subscriptions.values());
        let mut held: BTreeMap<PlanVersionId, HeldVersion> = BTreeMap::new();
        for subscription in subscriptions.filter(|subscription| subscription.is_current(instant)) {
            let first =
                HeldVersion { version: subscription.version, renews: false, ends_at: subscription.period.end() };
            let version = held.entry(subscription.version).or_insert(first);
            version.renews |= subscription.awaits_renewal();
            version.ends_at = version.ends_at.max(subscription.period.end());
        }
        Ok(held.into_values().collect())
    }
}

impl super::AccountState {
    /// Whether it is of a customer who lives by the clock and was not deleted.
    fn lives_by(&self, clock: TestClockId) -> bool {
        self.customer
            .as_ref()
            .is_some_and(|customer| customer.test_clock == Some(clock) && customer.deleted_at.is_none())
    }
}
