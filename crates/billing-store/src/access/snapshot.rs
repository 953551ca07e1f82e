//! One snapshot in which questions are answered: what was prefetched, and what is remembered under the versions that it has.

use std::collections::{BTreeSet, HashMap};

use billing_domain::Error;
use billing_domain::catalog::Catalog;
use billing_domain::subscription::Subscription;
use billing_domain::usage::{Usage, UsageRequest};
use uuid::Uuid;

use super::asked::PendingQuestion;
use super::prefetch::{Prefetch, Prefetched};
use crate::cache::SubscriptionVersion;
use crate::cached::{CachedTransaction, PrefetchedCustomers};
use crate::remembered::CachedSubscriptions;
use crate::repo::api_key;
use crate::transaction::PgTransaction;
use crate::usage::WarmFacts;

/// What questions are answered from.
pub(super) struct Snapshot<'t, 'c> {
    tx: CachedTransaction<'t, 'c>,
    /// What questions before have looked up of the catalogue.
    catalog: Catalog,
    /// Of each customer, that of what it holds.
    versions: HashMap<Uuid, SubscriptionVersion>,
    /// Of the keys of those who ask: see [`VALID_KEYS`](crate::repo::api_key::VALID_KEYS).
    valid_keys: Vec<Vec<u8>>,
    facts: WarmFacts,
}

impl<'t, 'c> Snapshot<'t, 'c> {
    /// Reads what is asked for, and takes with it what is remembered under the versions that it finds.
    pub(super) fn read(tx: &'t mut PgTransaction<'c>, prefetch: Prefetch) -> Result<Self, Error> {
        let Prefetched { catalog_version, customers, versions, valid_keys, facts } = prefetch.load(tx)?;
        let remembered = &tx.shared.remembered;
        let catalog = catalog_version.map(|version| remembered.snapshots.at(tx.tenant(), version));
        let held = |(customer, version): (&Uuid, &SubscriptionVersion)| {
            let now = customers.get(customer)?.now;
            Some((*customer, remembered.subscriptions.find(*customer, *version, now)?))
        };
        let subscriptions = versions.iter().filter_map(held).collect();
        let prefetched = PrefetchedCustomers { customers, subscriptions };
        let tx = CachedTransaction::new(tx, catalog).with_prefetched(prefetched);
        Ok(Self { tx, catalog: Catalog::default(), versions, valid_keys, facts })
    }

    /// Reads what is not remembered: what the customers hold, and of the catalogue what that is of and these metrics.
    pub(super) fn read_the_rest(&mut self, metrics: BTreeSet<Uuid>) -> Result<(), Error> {
        self.read_subscriptions()?;
        let held = self.tx.prefetched.subscriptions.values().flat_map(CachedSubscriptions::all);
        let versions = held.map(|subscription| subscription.version.uuid()).collect();
        self.tx.fill_catalog(versions, metrics)
    }

    /// Reads what those customers hold of whom that is not remembered.
    fn read_subscriptions(&mut self) -> Result<(), Error> {
        let PrefetchedCustomers { customers, subscriptions } = &mut self.tx.prefetched;
        let unknown = customers.iter().filter(|(key, _)| !subscriptions.contains_key(key));
        let (unknown, nows): (Vec<Uuid>, Vec<_>) = unknown.map(|(key, present)| (*key, present.now)).unzip();
        let Some(from) = nows.into_iter().min() else { return Ok(()) };
        let mut held: HashMap<Uuid, Vec<Subscription>> = HashMap::new();
        for subscription in self.tx.inner.load_current(&unknown, from)? {
            held.entry(subscription.customer.uuid()).or_default().push(subscription);
        }
        for key in unknown {
            let cached = CachedSubscriptions::new(from, held.remove(&key).unwrap_or_default());
            if let Some(version) = self.versions.get(&key) {
                self.tx.inner.shared.remembered.subscriptions.keep(key, *version, &cached);
            }
            subscriptions.insert(key, cached);
        }
        Ok(())
    }

    /// The usage that must be known for an answer, to whoever has a valid key.
    pub(super) fn prepare(&mut self, job: &mut PendingQuestion) -> Result<Vec<UsageRequest>, Error> {
        api_key::expect_valid(job.requester.key.as_ref(), &self.valid_keys)?;
        job.question.prepare(&mut self.tx, &mut self.catalog)
    }

    /// The usage behind each request, where buckets and memory are enough to tell it.
    pub(super) fn usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<Option<Usage>>, Error> {
        self.tx.inner.read_warm_usages(requests, &self.facts)
    }

    /// What `work` comes to without a statement; `None` where it misses one.
    pub(super) fn without_statements<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.tx.inner.refuse_statements();
        let done = work(self);
        let has_missed = self.tx.inner.allow_statements();
        (!has_missed).then_some(done)
    }

    /// Whether a statement has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.tx.inner.has_failed()
    }
}
