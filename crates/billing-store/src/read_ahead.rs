//! Reading for many before each asks: what questions about usage need of the catalogue and of their customers.
//!
//! Only in a transaction that is one snapshot and writes nothing: there, what was read once is what would be read again.
//! Whatever is not in here is read as always.

use std::collections::HashMap;

use billing_domain::Error;
use billing_domain::currency::Currency;
use billing_domain::customer::Customer;
use billing_domain::id::CustomerKey;
use billing_domain::metric::Metric;
use billing_domain::organization::Organization;
use billing_domain::plan::{Plan, PlanVersion};
use billing_domain::store::OrganizationRepo;
use billing_domain::subscription::Subscription;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::transaction::PgTransaction;

/// What has been read.
#[derive(Default)]
pub(crate) struct ReadAhead {
    pub(crate) organization: Option<Organization>,
    pub(crate) currencies: Option<Vec<Currency>>,
    /// With the time that each lives at.
    pub(crate) customers: HashMap<Uuid, (Customer, OffsetDateTime)>,
    pub(crate) metrics: HashMap<Uuid, Metric>,
    pub(crate) versions: HashMap<Uuid, PlanVersion>,
    pub(crate) plans: HashMap<Uuid, Plan>,
    /// Of the customers: what ends after `current_from` or awaits renewal.
    subscriptions: HashMap<Uuid, Vec<Subscription>>,
    current_from: Option<OffsetDateTime>,
}

impl ReadAhead {
    /// [`billing_domain::store::SubscriptionRepo::list_current`], where that has been read.
    pub(crate) fn list_current(&self, customer: CustomerKey, instant: OffsetDateTime) -> Option<Vec<Subscription>> {
        self.current_from.filter(|from| *from <= instant)?;
        self.customers.get(&customer.uuid())?;
        let all = self.subscriptions.get(&customer.uuid()).map(Vec::as_slice).unwrap_or_default();
        Some(all.iter().filter(|own| own.period.end() > instant || own.awaits_renewal()).cloned().collect())
    }
}

impl PgTransaction<'_> {
    /// Reads these customers, what they hold, what that consists of, and these metrics.
    pub(crate) fn read_ahead(&mut self, customers: &[Uuid], metrics: &[Uuid]) -> Result<(), Error> {
        self.ahead.organization = Some(self.get_organization()?);
        self.ahead.customers = self.load_customers(customers)?;
        self.ahead.currencies = Some(self.load_currencies()?);
        let Some(from) = self.ahead.customers.values().map(|(_, now)| *now).min() else { return Ok(()) };
        let held = self.load_current(customers, from)?;
        let versions = self.load_offers(&held)?;
        let mut wanted = metrics.to_vec();
        for (version, plan) in versions {
            wanted.extend(version.metrics().map(|metric| metric.uuid()));
            if let Some(plan) = plan {
                self.ahead.plans.insert(plan.id.uuid(), plan);
            }
            self.ahead.versions.insert(version.id.uuid(), version);
        }
        wanted.sort_unstable();
        wanted.dedup();
        self.ahead.metrics = self.load_metrics(&wanted)?.into_iter().map(|own| (own.id.uuid(), own)).collect();
        for own in held {
            self.ahead.subscriptions.entry(own.customer.uuid()).or_default().push(own);
        }
        self.ahead.current_from = Some(from);
        Ok(())
    }

    fn get_organization(&mut self) -> Result<Organization, Error> {
        OrganizationRepo::get(self)
    }
}
