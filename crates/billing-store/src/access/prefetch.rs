//! Prefetching: what questions about usage need of their customers.
//!
//! Only in one snapshot that nothing is written in: there, what was read once is what would be read again. Whatever is not in
//! here is read as always; the catalogue is remembered from one snapshot to the next under its version, and what customers hold
//! under their versions.

use std::collections::{BTreeSet, HashMap};

use billing_domain::Error;
use billing_domain::customer::Customer;
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::subscription::Subscription;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Binary, Bool, Nullable, Numeric, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::access::subscription_cache::CachedSubscriptions;
use crate::catalog::VersionedCatalog;
use crate::pg::now::OWN_NOW;
use crate::pg::statement::statement;
use crate::repo::api_key::VALID_KEYS;
use crate::repo::customer::{COLUMNS, CustomerRow, CustomerSql};
use crate::transaction::PgTransaction;
use crate::usage::{HOT_TALLY, NoFutureEvents, Open, OpenRow, TallyKey};

statement! {
    /// Of an organization the version of its catalogue, and which of some keys are valid. Of each customer that exists the time
    /// that it lives at, the versions of its roll-ups and of what it holds, and itself; where there is none, one row without.
    /// Where a metric stands beside the customer, what its hot bucket has of that, and whether there are events ahead, unless
    /// there are as many as when there were none.
    Prefetch -> (
        Nullable<Timestamptz>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<CustomerSql>, Array<Binary>,
        Nullable<SqlUuid>, Nullable<Text>, Nullable<(Timestamptz, BigInt, Numeric, Nullable<Numeric>, Nullable<Numeric>)>,
        Nullable<Bool>
    ) {
        "SELECT customers.now, catalog.version,
            (SELECT version FROM rollup_versions WHERE rollup_versions.customer_key = customers.customer_key),
            (SELECT version FROM subscription_versions WHERE subscription_versions.customer_key = customers.customer_key),
            " [COLUMNS] ", valid.keys, asked.metric_id, asked.dimensions, tally.*,
            CASE WHEN tally.event_count IS DISTINCT FROM asked.known_count
                THEN has_events_ahead(input.organization_id, asked.customer_key, asked.event_name, customers.now)
            END
        FROM (
            SELECT " organization: Uuid as SqlUuid; "::uuid AS organization_id, " prefixes: Vec<String> as Array<Text>; "::text[] AS prefixes
        ) input
        CROSS JOIN LATERAL (SELECT " [VALID_KEYS] " AS keys OFFSET 0) valid
        LEFT JOIN catalog_versions catalog USING (organization_id)
        LEFT JOIN (
            unnest(
                " customers: Vec<Uuid> as Array<SqlUuid>; ",
                " metrics: Vec<Option<Uuid>> as Array<Nullable<SqlUuid>>; ",
                " event_names: Vec<Option<String>> as Array<Nullable<Text>>; ",
                " dimensions: Vec<Option<String>> as Array<Nullable<Text>>; ",
                " known_counts: Vec<Option<i64>> as Array<Nullable<BigInt>>; "
            ) AS asked (customer_key, metric_id, event_name, dimensions, known_count)
            -- Each is looked up, however few there were when this was planned.
            CROSS JOIN LATERAL (
                SELECT customers.*, " [OWN_NOW] " AS now FROM customers
                WHERE customers.customer_key = asked.customer_key
                OFFSET 0
            ) customers
        ) ON customers.organization_id = input.organization_id
        LEFT JOIN LATERAL " [HOT_TALLY] " tally ON true"
    }
}

type PrefetchedRow = (
    Option<OffsetDateTime>,
    Option<Uuid>,
    Option<Uuid>,
    Option<Uuid>,
    Option<CustomerRow>,
    Vec<Vec<u8>>,
    Option<Uuid>,
    Option<String>,
    Option<OpenRow>,
    Option<bool>,
);

impl Prefetch {
    /// Looks at no customer yet.
    pub(crate) fn of(organization: OrganizationId, prefixes: Vec<String>) -> Self {
        Self {
            organization: organization.uuid(),
            prefixes,
            customers: Vec::new(),
            metrics: Vec::new(),
            event_names: Vec::new(),
            dimensions: Vec::new(),
            known_counts: Vec::new(),
        }
    }

    /// Looks at these customers alone.
    pub(crate) fn at(
        organization: OrganizationId,
        prefixes: Vec<String>,
        customers: impl IntoIterator<Item = Uuid>,
    ) -> Self {
        let mut all = Self::of(organization, prefixes);
        customers.into_iter().for_each(|customer| all.add(customer));
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.customers.is_empty()
    }

    /// Adds a customer alone.
    pub(crate) fn add(&mut self, customer: Uuid) {
        self.customers.push(customer);
        self.metrics.push(None);
        self.event_names.push(None);
        self.dimensions.push(None);
        self.known_counts.push(None);
    }

    /// Adds a customer with what its hot bucket has of a metric, and how many events those were when none lay ahead.
    pub(crate) fn add_tally(&mut self, key: TallyKey, event_name: &str, known_count: Option<i64>) {
        self.customers.push(key.customer);
        self.metrics.push(Some(key.metric));
        self.event_names.push(Some(event_name.to_owned()));
        self.dimensions.push(Some(key.dimensions));
        self.known_counts.push(known_count);
    }
}

/// Under the same version a customer's roll-ups are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RollupVersion(Option<Uuid>);

/// Under the same version a customer holds the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubscriptionVersion(Option<Uuid>);

/// A customer as it is in a snapshot.
pub(crate) struct Present {
    pub(crate) customer: Customer,
    /// The time that it lives at.
    pub(crate) now: OffsetDateTime,
    pub(crate) rollups: RollupVersion,
    pub(crate) held: SubscriptionVersion,
}

/// What has been read.
#[derive(Default)]
pub(crate) struct Prefetched {
    pub(crate) customers: HashMap<Uuid, Present>,
    /// Of the customers.
    pub(crate) held: HashMap<Uuid, CachedSubscriptions>,
    /// Of the keys of those who ask: see [`VALID_KEYS`](crate::repo::api_key::VALID_KEYS).
    pub(crate) valid_keys: Vec<Vec<u8>>,
    /// What hot buckets have, where that was asked for.
    pub(crate) tallies: HashMap<TallyKey, Option<Open>>,
}

impl Prefetched {
    /// [`billing_domain::store::SubscriptionRepo::list_current`], where that has been read.
    pub(crate) fn list_current(&self, customer: CustomerKey, instant: OffsetDateTime) -> Option<Vec<Subscription>> {
        self.held.get(&customer.uuid())?.list_current(instant)
    }
}

impl PgTransaction<'_> {
    /// Reads these customers and what they hold, of the catalogue what is not remembered of that and these metrics, and which
    /// of the keys with these prefixes are valid.
    pub(crate) fn prefetch(
        &mut self,
        customers: BTreeSet<Uuid>,
        metrics: BTreeSet<Uuid>,
        prefixes: Vec<String>,
    ) -> Result<(), Error> {
        self.prefetch_by(Prefetch::at(self.organization, prefixes, customers))?;
        self.hold_all()?;
        let held = self.prefetched.held.values().flat_map(CachedSubscriptions::all);
        let versions = held.map(|subscription| subscription.version.uuid()).collect();
        self.remember(versions, metrics)
    }

    /// Reads what is asked for, and takes with it what is remembered under what it finds.
    pub(crate) fn prefetch_by(&mut self, statement: Prefetch) -> Result<(), Error> {
        let (catalog_version, mut prefetched) = self.load_prefetch(statement)?;
        // Without a version it is remembered for this one snapshot.
        let catalog = catalog_version.map_or_else(VersionedCatalog::default, |catalog_version| {
            self.shared.snapshots.at(self.tenant(), catalog_version)
        });
        self.catalog = Some(catalog);
        prefetched.held = self.shared.subscription_cache.find(&prefetched.customers);
        self.prefetched = prefetched;
        Ok(())
    }

    /// Reads what is asked for: the catalogue's version, and the rest.
    pub(crate) fn load_prefetch(&mut self, statement: Prefetch) -> Result<(Option<Uuid>, Prefetched), Error> {
        let rows: Vec<PrefetchedRow> = self.query(|pg| statement.load(pg))?;
        let catalog_version = rows.first().and_then(|(_, catalog_version, ..)| *catalog_version);
        let mut prefetched = Prefetched::default();
        for (now, _, rollups, held, customer, keys, metric, dimensions, tally, has_events_ahead) in rows {
            prefetched.valid_keys = keys;
            let Some((now, customer)) = now.zip(customer) else { continue };
            let customer = Customer::try_from(customer)?;
            let key = customer.key.uuid();
            let (rollups, held) = (RollupVersion(rollups), SubscriptionVersion(held));
            // Of several rows of a customer the last one is of the latest instant: what had no event ahead before that has none then.
            prefetched.customers.insert(key, Present { customer, now, rollups, held });
            if let Some((metric, dimensions)) = metric.zip(dimensions) {
                let open = tally.map(Open::try_from).transpose()?;
                let tally = TallyKey { customer: key, metric, dimensions };
                if has_events_ahead == Some(false) {
                    let none_ahead = NoFutureEvents { rollups, open: open.as_ref().map(Open::count), from: now };
                    self.shared.no_future_events.keep(&tally, none_ahead);
                }
                prefetched.tallies.insert(tally, open);
            }
        }
        Ok((catalog_version, prefetched))
    }

    /// Reads what those customers hold of whom that is not remembered.
    fn hold_all(&mut self) -> Result<(), Error> {
        let unknown = self.prefetched.customers.iter().filter(|(key, _)| !self.prefetched.held.contains_key(key));
        let (unknown, nows): (Vec<Uuid>, Vec<_>) = unknown.map(|(key, present)| (*key, present.now)).unzip();
        let Some(from) = nows.into_iter().min() else { return Ok(()) };
        let mut held: HashMap<Uuid, Vec<Subscription>> = HashMap::new();
        for subscription in self.load_current(&unknown, from)? {
            held.entry(subscription.customer.uuid()).or_default().push(subscription);
        }
        for key in unknown {
            let cached = CachedSubscriptions::new(from, held.remove(&key).unwrap_or_default());
            if let Some(present) = self.prefetched.customers.get(&key) {
                self.shared.subscription_cache.keep(key, present.held, &cached);
            }
            self.prefetched.held.insert(key, cached);
        }
        Ok(())
    }
}
