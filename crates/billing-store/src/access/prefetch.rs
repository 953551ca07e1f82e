//! Prefetching: what questions about usage need of their customers beside what is remembered, in one statement.

use std::collections::{BTreeSet, HashMap};

use billing_domain::Error;
use billing_domain::customer::Customer;
use billing_domain::id::OrganizationId;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Binary, Bool, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::cache::{CatalogVersion, RollupVersion, SubscriptionVersion};
use crate::cached::PresentCustomer;
use crate::pg::column::count;
use crate::pg::now::OWN_NOW;
use crate::pg::statement::statement;
use crate::remembered::{NoFutureEvents, TallyKey};
use crate::repo::api_key::VALID_KEYS;
use crate::repo::customer::{COLUMNS, CustomerRow, CustomerSql};
use crate::rollup::KeyRanges;
use crate::transaction::PgTransaction;
use crate::usage::{HOT_TALLY, HotTallySql, Open, OpenRow, WarmFacts};

statement! {
    /// Of an organization the version of its catalogue, and which of some keys are valid. Of each customer that exists the time
    /// that it lives at, the versions of its roll-ups and of what it holds, and itself; where there is none, one row without.
    /// Where a metric stands beside the customer, what its hot bucket has of that, and whether there are events ahead, unless
    /// there are as many as when there were none. Where a key range does, the number of the last correction in it.
    Prefetch -> (
        Nullable<Timestamptz>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<CustomerSql>, Array<Binary>,
        Nullable<SqlUuid>, Nullable<Text>, Nullable<HotTallySql>,
        Nullable<Bool>, Nullable<BigInt>
    ) {
        "SELECT customers.now, catalog.version,
            (SELECT version FROM rollup_versions WHERE rollup_versions.customer_key = customers.customer_key),
            (SELECT version FROM subscription_versions WHERE subscription_versions.customer_key = customers.customer_key),
            " [COLUMNS] ", valid.keys, asked.metric_id, asked.dimensions, tally.*,
            CASE WHEN tally.event_count IS DISTINCT FROM asked.known_count
                THEN has_events_ahead(input.organization_id, asked.customer_key, asked.event_name, customers.now)
            END,
            CASE WHEN asked.key_range IS NOT NULL THEN coalesce((
                SELECT last_correction FROM event_arrivals arrivals
                WHERE arrivals.organization_id = input.organization_id AND arrivals.key_range = asked.key_range
            ), 0) END
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
                " known_counts: Vec<Option<i64>> as Array<Nullable<BigInt>>; ",
                " key_ranges: Vec<Option<i32>> as Array<Nullable<Integer>>; "
            ) AS asked (customer_key, metric_id, event_name, dimensions, known_count, key_range)
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

/// A row of [`Prefetch`].
#[derive(Queryable)]
struct PrefetchedRow {
    now: Option<OffsetDateTime>,
    catalog: Option<Uuid>,
    rollups: Option<Uuid>,
    subscriptions: Option<Uuid>,
    customer: Option<CustomerRow>,
    valid_keys: Vec<Vec<u8>>,
    metric: Option<Uuid>,
    dimensions: Option<String>,
    tally: Option<OpenRow>,
    has_events_ahead: Option<bool>,
    last_correction: Option<i64>,
}

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
            key_ranges: Vec::new(),
        }
    }

    /// Looks at these customers alone.
    pub(crate) fn at(organization: OrganizationId, prefixes: Vec<String>, customers: BTreeSet<Uuid>) -> Self {
        let mut all = Self::of(organization, prefixes);
        customers.into_iter().for_each(|customer| all.add(customer));
        all
    }

    /// Asks of each of its customers for the last correction, too.
    pub(crate) fn with_corrections(mut self, key_ranges: KeyRanges) -> Self {
        self.key_ranges = self.customers.iter().map(|customer| Some(key_ranges.of((*customer).into()))).collect();
        self
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
        self.key_ranges.push(None);
    }

    /// Adds a customer with what its hot bucket has of a metric, how many events those were when none lay ahead, and the key range
    /// whose last correction is asked for.
    pub(crate) fn add_tally(
        &mut self,
        key: TallyKey,
        event_name: &str,
        (known_count, key_range): (Option<i64>, Option<i32>),
    ) {
        self.customers.push(key.customer);
        self.metrics.push(Some(key.metric));
        self.event_names.push(Some(event_name.to_owned()));
        self.dimensions.push(Some(key.dimensions));
        self.known_counts.push(known_count);
        self.key_ranges.push(key_range);
    }
}

/// What a [`Prefetch`] has found.
#[derive(Default)]
pub(crate) struct Prefetched {
    /// That of the organization's catalogue.
    pub(crate) catalog_version: Option<CatalogVersion>,
    pub(crate) customers: HashMap<Uuid, PresentCustomer>,
    /// Of each customer, that of what it holds.
    pub(crate) versions: HashMap<Uuid, SubscriptionVersion>,
    /// Of the keys of those who ask: see [`VALID_KEYS`].
    pub(crate) valid_keys: Vec<Vec<u8>>,
    pub(crate) facts: WarmFacts,
}

impl Prefetched {
    fn with_room(rows: usize) -> Self {
        let mut prefetched = Self::default();
        prefetched.customers.reserve(rows);
        prefetched.versions.reserve(rows);
        prefetched.facts.reserve(rows);
        prefetched
    }
}

impl Prefetch {
    /// Reads what is asked for, and remembers of whom no events lie ahead.
    pub(crate) fn load(self, tx: &mut PgTransaction<'_>) -> Result<Prefetched, Error> {
        let rows: Vec<PrefetchedRow> = tx.query(|pg| RunQueryDsl::load(self, pg))?;
        let catalog_version = rows.first().and_then(|row| row.catalog).map(CatalogVersion);
        let mut prefetched = Prefetched { catalog_version, ..Prefetched::with_room(rows.len()) };
        for row in rows {
            prefetched.valid_keys = row.valid_keys;
            let Some((now, customer)) = row.now.zip(row.customer) else { continue };
            let customer = Customer::try_from(customer)?;
            let key = customer.key.uuid();
            let rollups = RollupVersion(row.rollups);
            // Of several rows of a customer the last one is of the latest instant: what had no event ahead before that has none then.
            prefetched.customers.insert(key, PresentCustomer { customer, now });
            prefetched.versions.insert(key, SubscriptionVersion(row.subscriptions));
            prefetched.facts.rollups.insert(key, rollups);
            if let Some(last_correction) = row.last_correction {
                prefetched.facts.corrections.insert(key, count(last_correction)?);
            }
            if let Some((metric, dimensions)) = row.metric.zip(row.dimensions) {
                let open = row.tally.map(Open::try_from).transpose()?;
                let tally = TallyKey { customer: key, metric, dimensions };
                if row.has_events_ahead == Some(false) {
                    let none_ahead = NoFutureEvents { open: open.as_ref().map(Open::count), from: now };
                    tx.shared.remembered.no_future_events.keep(&tally, rollups, none_ahead);
                }
                prefetched.facts.tallies.insert(tally, open);
            }
        }
        Ok(prefetched)
    }
}
