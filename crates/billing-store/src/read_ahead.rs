//! Reading for many before each asks: what questions about usage need of their customers.
//!
//! Only in a transaction that is one snapshot and writes nothing: there, what was read once is what would be read again.
//! Whatever is not in here is read as always; the catalogue is remembered from one snapshot to the next, under its stamp.

use std::collections::{BTreeSet, HashMap};

use billing_domain::Error;
use billing_domain::id::CustomerKey;
use billing_domain::subscription::Subscription;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::catalog::Stamped;
use crate::customer::{Entered, Present};
use crate::transaction::PgTransaction;

/// What has been read.
#[derive(Default)]
pub(crate) struct ReadAhead {
    pub(crate) customers: HashMap<Uuid, Present>,
    /// Of the customers: what ends after `current_from` or awaits renewal.
    subscriptions: HashMap<Uuid, Vec<Subscription>>,
    current_from: Option<OffsetDateTime>,
    /// Of the keys of those who ask: see [`VALID_KEYS`](crate::api_key::VALID_KEYS).
    pub(crate) valid_keys: Vec<Vec<u8>>,
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
    /// Reads these customers and what they hold, of the catalogue what is not remembered of that and these metrics, and which
    /// of the keys with these prefixes are valid.
    pub(crate) fn read_ahead(
        &mut self,
        customers: &[Uuid],
        metrics: BTreeSet<Uuid>,
        prefixes: Vec<String>,
    ) -> Result<(), Error> {
        let Entered { stamp, valid_keys, customers: found } = self.enter_all(customers, prefixes)?;
        self.ahead.valid_keys = valid_keys;
        // Without a stamp it is remembered for this one snapshot.
        let catalog = stamp.map_or_else(Stamped::default, |stamp| self.shared.snapshots.at(self.tenant(), stamp));
        self.catalog = Some(catalog);
        self.ahead.customers = found;
        let Some(from) = self.ahead.customers.values().map(|present| present.now).min() else { return Ok(()) };
        let held = self.load_current(customers, from)?;
        self.remember(held.iter().map(|own| own.version.uuid()).collect(), metrics)?;
        for own in held {
            self.ahead.subscriptions.entry(own.customer.uuid()).or_default().push(own);
        }
        self.ahead.current_from = Some(from);
        Ok(())
    }
}
