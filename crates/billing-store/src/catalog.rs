//! What is remembered of organizations' catalogues: what everybody is billed by is read once, not with every customer.
//!
//! An organization's catalogue has a version in the database, another one with every change. A transaction reads the version
//! before anything of the catalogue; what is remembered under that version is then at least as new as what the version came
//! with, and what another transaction changes later is what this one might have read too early as well.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use billing_domain::Error;
use billing_domain::addon::Addon;
use billing_domain::currency::Currency;
use billing_domain::metric::Metric;
use billing_domain::organization::Organization;
use billing_domain::plan::{Plan, PlanVersion};
use diesel::prelude::*;
use uuid::Uuid;

use crate::transaction::PgTransaction;

/// Most organizations whose catalogue is remembered.
const ORGANIZATIONS_MAX: usize = 1_000;
/// Most things of one kind that are remembered of an organization.
const THINGS_MAX: usize = 10_000;

/// What is remembered of one organization.
#[derive(Default)]
pub(crate) struct Catalog {
    pub(crate) organization: Option<Organization>,
    pub(crate) currencies: Option<Vec<Currency>>,
    pub(crate) metrics: Shelf<Metric>,
    /// `None`: no plan but an add-on.
    pub(crate) plans: Shelf<Option<Plan>>,
    pub(crate) addons: Shelf<Addon>,
    pub(crate) versions: Shelf<PlanVersion>,
}

/// Things of one kind by id.
pub(crate) struct Shelf<T>(HashMap<Uuid, T>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Clone> Shelf<T> {
    pub(crate) fn find(&self, id: Uuid) -> Option<T> {
        self.get(id).cloned()
    }

    fn get(&self, id: Uuid) -> Option<&T> {
        self.0.get(&id)
    }

    fn lacks(&self, id: Uuid) -> bool {
        !self.0.contains_key(&id)
    }

    pub(crate) fn keep(&mut self, id: Uuid, thing: T) {
        if self.0.len() >= THINGS_MAX {
            self.0.clear();
        }
        self.0.insert(id, thing);
    }
}

/// A catalogue as of one version, shared by the transactions that found that version.
pub(crate) type VersionedCatalog = Arc<Mutex<Catalog>>;

/// The catalogues of all organizations.
#[derive(Default)]
pub(crate) struct Catalogs {
    known: Mutex<HashMap<Uuid, (Uuid, VersionedCatalog)>>,
}

impl Catalogs {
    /// What is remembered under the version; what was under another is forgotten.
    pub(crate) fn at(&self, organization: Uuid, catalog_version: Uuid) -> VersionedCatalog {
        let mut known = lock(&self.known);
        match known.get(&organization) {
            Some((known_version, catalog)) if *known_version == catalog_version => catalog.clone(),
            _ => {
                if known.len() >= ORGANIZATIONS_MAX {
                    known.clear();
                }
                let catalog = VersionedCatalog::default();
                known.insert(organization, (catalog_version, catalog.clone()));
                catalog
            }
        }
    }

    /// The name of the events that a metric counted when that was read last.
    pub(crate) fn event_name(&self, organization: Uuid, metric: Uuid) -> Option<String> {
        let catalog = lock(&self.known).get(&organization).map(|(_, catalog)| catalog.clone())?;
        let known = lock(&catalog);
        known.metrics.get(metric).map(|metric| metric.event_name.clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nobody panics half way through a change in here.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PgTransaction<'_> {
    /// What is remembered, else what `read` finds, which is remembered then.
    pub(crate) fn remembered<T: Clone>(
        &mut self,
        find: impl FnOnce(&Catalog) -> Option<T>,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
        keep: impl FnOnce(&mut Catalog, T),
    ) -> Result<T, Error> {
        // What is read is everybody's, whoever of a batch it is for.
        let read = |tx: &mut Self| {
            let batch_member = tx.batch_member.take();
            let read = read(tx);
            tx.batch_member = batch_member;
            read
        };
        let Some(catalog) = self.catalog.clone() else { return read(self) };
        let found = find(&lock(&catalog));
        if let Some(found) = found {
            return Ok(found);
        }
        let read = read(self)?;
        keep(&mut lock(&catalog), read.clone());
        Ok(read)
    }

    /// Reads all at once what is not remembered of these versions, with their plans, and of these metrics. What is left
    /// out is read when it is asked for.
    pub(crate) fn remember(&mut self, mut versions: BTreeSet<Uuid>, mut metrics: BTreeSet<Uuid>) -> Result<(), Error> {
        let Some(catalog) = self.catalog.clone() else { return Ok(()) };
        {
            let known = lock(&catalog);
            versions.retain(|id| known.versions.lacks(*id));
            metrics.retain(|id| known.metrics.lacks(*id));
        }
        if !versions.is_empty() {
            let found = self.load_offers(&Vec::from_iter(versions))?;
            let mut known = lock(&catalog);
            for (version, plan) in found {
                known.plans.keep(version.plan.uuid(), plan);
                known.versions.keep(version.id.uuid(), version);
            }
        }
        if !metrics.is_empty() {
            let found = self.load_metrics(&Vec::from_iter(metrics))?;
            let mut known = lock(&catalog);
            found.into_iter().for_each(|metric| known.metrics.keep(metric.id.uuid(), metric));
        }
        Ok(())
    }

    /// Changes the catalogue. From here on the transaction reads it itself: nobody else sees its changes yet.
    pub(crate) fn change_catalog<T>(
        &mut self,
        change: impl FnOnce(&mut PgConnection) -> QueryResult<T>,
    ) -> Result<T, Error> {
        self.catalog = None;
        self.query(change)
    }
}
