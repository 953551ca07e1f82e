//! What is read of all customers of a batch before any of them is worked on.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use billing_domain::Error;
use billing_domain::billing_run::LOOK_BACK;
use billing_domain::id::{CustomerKey, SubscriptionId};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Date as SqlDate, Text, Uuid as SqlUuid};
use time::{Date, Duration};
use uuid::Uuid;

use crate::access::prefetch::{Prefetch, Prefetched};
use crate::cache::CatalogVersion;
use crate::cached::{CustomerSnapshot, PresentCustomer};
use crate::pg::lock::customer_lock;
use crate::pg::statement::statement;
use crate::transaction::PgTransaction;

/// Work may be about an instant so long ago, as a run that was told how far to go.
const UNTIL_BACK: Duration = Duration::days(1);

statement! {
    /// Locks those customers that nobody else holds, as the lock of one customer does, and waits for none.
    TryLockCustomers -> (SqlUuid, Bool, Text) {
        "SELECT customer_key, pg_try_advisory_xact_lock(key), set_config('plan_cache_mode', 'force_generic_plan', true)
        FROM unnest(" customers: Vec<Uuid> as Array<SqlUuid>; ", " keys: Vec<i64> as Array<BigInt>; ")
            AS wanted (customer_key, key)"
    }
}

statement! {
    /// How often subscriptions were invoiced by schedule on the latest day that they were.
    ReadInvoicings -> (SqlUuid, SqlDate, BigInt) {
        "SELECT subscription_id, invoiced_on, invoices
        FROM invoicing_counts
        WHERE organization_id = " organization: Uuid as SqlUuid; "
            AND customer_key = ANY (" customers: Vec<Uuid> as Array<SqlUuid>; ")
            AND subscription_id = ANY (" subscriptions: Vec<Uuid> as Array<SqlUuid>; ")"
    }
}

impl PgTransaction<'_> {
    /// Locks those of the customers that are free, and reads what billing begins with of all of them, behind the version of
    /// the catalogue.
    pub(super) fn hold(
        &mut self,
        customers: &[CustomerKey],
    ) -> Result<(Option<CatalogVersion>, Vec<CustomerSnapshot>), Error> {
        let keys: Vec<Uuid> = customers.iter().map(|customer| customer.uuid()).collect();
        let locks = keys.iter().map(|key| customer_lock(*key)).collect();
        let lock = TryLockCustomers { customers: keys, keys: locks };
        let locked: Vec<(Uuid, bool, String)> = self.query(|pg| lock.load(pg))?;
        let keys: Vec<Uuid> = locked.into_iter().filter(|(_, is_free, _)| *is_free).map(|(key, ..)| key).collect();
        let at_them = Prefetch::at(self.organization, Vec::new(), keys.iter().copied().collect());
        let Prefetched { catalog_version, customers: mut present, .. } = at_them.load(self)?;
        let first = present.values().map(|customer| customer.now).min();
        let Some(first) = first else { return Ok((catalog_version, Vec::new())) };
        let current_from = first - LOOK_BACK - UNTIL_BACK;
        let mut records = by_customer(self.load_open(&keys)?);
        let current = self.load_current(&keys, current_from)?;
        let known: HashSet<SubscriptionId> = current.iter().map(|subscription| subscription.id).collect();
        let billed = records.values().flatten().map(|record| record.subscription);
        let billed: BTreeSet<SubscriptionId> = billed.collect();
        let missing: Vec<Uuid> = billed.iter().filter(|id| !known.contains(id)).map(|id| id.uuid()).collect();
        let ended = self.load_subscriptions(&keys, &missing)?;
        let invoicings = self.load_invoicings(&keys, &billed)?;
        let creditors = self.find_creditors(&keys)?;
        let falling_due = self.load_falling_due(&keys)?;
        let mut falling_due =
            by_customer(falling_due.into_iter().map(|(customer, id, due_at)| (customer, (id, due_at))));
        let mut current = by_customer(current.into_iter().map(|subscription| (subscription.customer, subscription)));
        let mut ended = by_customer(ended.into_iter().map(|subscription| (subscription.customer, subscription)));
        let hold = |key: Uuid| {
            let PresentCustomer { customer, now } = present.remove(&key)?;
            let customer_key = customer.key;
            let records = records.remove(&customer_key).unwrap_or_default();
            let billed = records.iter().map(|record| record.subscription);
            let invoicings = billed.filter_map(|id| Some((id, *invoicings.get(&id)?))).collect();
            let mut held = current.remove(&customer_key).unwrap_or_default();
            held.extend(ended.remove(&customer_key).unwrap_or_default());
            let (held, has_credit) = ((held, current_from), creditors.contains(&key));
            let falling_due = falling_due.remove(&customer_key).unwrap_or_default();
            let snapshot = CustomerSnapshot::new((customer, now), records, held, has_credit);
            Some(snapshot.with_invoicings(invoicings).with_falling_due(falling_due))
        };
        Ok((catalog_version, keys.into_iter().filter_map(hold).collect()))
    }

    fn load_invoicings(
        &mut self,
        customers: &[Uuid],
        subscriptions: &BTreeSet<SubscriptionId>,
    ) -> Result<BTreeMap<SubscriptionId, (Date, i64)>, Error> {
        let read = ReadInvoicings {
            organization: self.tenant(),
            customers: customers.to_vec(),
            subscriptions: subscriptions.iter().map(|id| id.uuid()).collect(),
        };
        let rows: Vec<(Uuid, Date, i64)> = self.query(|pg| read.load(pg))?;
        Ok(rows.into_iter().map(|(id, day, invoices)| (id.into(), (day, invoices))).collect())
    }
}

/// Things of several customers, apart, in the same order.
fn by_customer<T>(all: impl IntoIterator<Item = (CustomerKey, T)>) -> BTreeMap<CustomerKey, Vec<T>> {
    let mut apart: BTreeMap<CustomerKey, Vec<T>> = BTreeMap::new();
    for (customer, thing) in all {
        apart.entry(customer).or_default().push(thing);
    }
    apart
}
