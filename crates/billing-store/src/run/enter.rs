//! How a transaction begins: with the lock of its scope, and one statement for what nearly everything in that scope needs.

use std::collections::HashMap;
use std::sync::LazyLock;

use billing_domain::Error;
use billing_domain::api_key::Fingerprint;
use billing_domain::billing_run::LOOK_BACK;
use billing_domain::customer::Customer;
use billing_domain::store::Scope;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Binary, Bool, Nullable, Record, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::cache::CatalogVersion;
use crate::cached::{CachedTransaction, CustomerSnapshot, PrefetchedCustomers, PresentCustomer};
use crate::pg::error::Failure;
use crate::pg::lock::{lock_catalog, lock_customer};
use crate::pg::nested::{Nested, NestedSql, columns_of};
use crate::pg::now::OWN_NOW;
use crate::pg::statement::statement;
use crate::repo::api_key::{self, VALID_KEYS};
use crate::repo::billing_record::BillingRecordRow;
use crate::repo::customer::{COLUMNS, CustomerRow, CustomerSql};
use crate::repo::invoice::FALLS_DUE_AT;
use crate::repo::subscription::SubscriptionRow;
use crate::transaction::PgTransaction;

statement! {
    /// The time that a customer lives at (of one that does not exist: real time), the version of the
    /// organization's catalogue, which of some keys are valid, and the customer.
    Look -> (Timestamptz, Nullable<SqlUuid>, Array<Binary>, Nullable<CustomerSql>) {
        "SELECT " [OWN_NOW] ", catalog.version, " [VALID_KEYS] ", " [COLUMNS] "
        FROM (
            SELECT " organization: Uuid as SqlUuid; "::uuid AS organization_id,
                " customer: Uuid as SqlUuid; "::uuid AS customer_key,
                " prefixes: Vec<String> as Array<Text>; "::text[] AS prefixes
        ) input
        LEFT JOIN catalog_versions catalog USING (organization_id)
        LEFT JOIN customers USING (organization_id, customer_key)"
    }
}

statement! {
    /// What time it is, the version of the organization's catalogue, and which of some keys are valid.
    LookAtCatalog -> (Timestamptz, Nullable<SqlUuid>, Array<Binary>) {
        "SELECT clock_timestamp(), catalog.version, " [VALID_KEYS] "
        FROM (
            SELECT " organization: Uuid as SqlUuid; "::uuid AS organization_id, " prefixes: Vec<String> as Array<Text>; "::text[] AS prefixes
        ) input
        LEFT JOIN catalog_versions catalog USING (organization_id)"
    }
}

/// The open records of `input.customer_key`, in order of making.
static OPEN_RECORDS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "ARRAY(
            SELECT ROW({}) FROM billing_records
            WHERE billing_records.customer_key = input.customer_key
                AND (billing_records.organization_id = input.organization_id) IS TRUE
                AND (billing_records.next_invoicing_at IS NOT NULL OR billing_records.late_until IS NOT NULL)
            ORDER BY billing_records.position
        )",
        columns_of::<BillingRecordRow>()
    )
});

/// What `input.customer_key` holds that ends after `held.from_at` or awaits renewal, and what an open record belongs to; by
/// start, then by id.
static HELD_SUBSCRIPTIONS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "ARRAY(
            SELECT ROW({}) FROM subscriptions
            WHERE subscriptions.customer_key = input.customer_key
                AND (subscriptions.organization_id = input.organization_id) IS TRUE
                AND (
                    subscriptions.replaced_by IS NULL
                        AND (subscriptions.end_at > held.from_at OR subscriptions.auto_renew AND NOT subscriptions.is_renewed)
                    OR subscriptions.id IN (
                        SELECT record.subscription_id FROM billing_records record
                        WHERE record.customer_key = input.customer_key
                            AND (record.next_invoicing_at IS NOT NULL OR record.late_until IS NOT NULL)
                    )
                )
            ORDER BY subscriptions.start_at, subscriptions.id
        )",
        columns_of::<SubscriptionRow>()
    )
});

/// The unpaid invoices of `input.customer_key` that were not noted as past due, with when they fall due.
static FALLING_DUE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "ARRAY(
            SELECT ROW(invoices.id, {FALLS_DUE_AT}) FROM invoices
            WHERE invoices.customer_key = input.customer_key
                AND (invoices.organization_id = input.organization_id) IS TRUE
                AND invoices.payment_status = 'unpaid' AND invoices.past_due_at IS NULL AND invoices.due_at IS NOT NULL
        )"
    )
});

/// Whether `input.customer_key` has credit left.
const HAS_CREDIT: &str = "EXISTS (
    SELECT FROM credits
    WHERE credits.customer_key = input.customer_key
        AND (credits.organization_id = input.organization_id) IS TRUE AND credits.remaining > 0
)";

statement! {
    /// [`Look`] at a customer that is locked, with what billing begins with: the open records, what is held, and whether there
    /// is credit.
    Hold -> (
        Timestamptz, Nullable<SqlUuid>, Array<Binary>, Nullable<CustomerSql>, NestedSql<BillingRecordRow>,
        NestedSql<SubscriptionRow>, Bool, Array<Record<(SqlUuid, Timestamptz)>>
    ) {
        "SELECT held.now, catalog.version, " [VALID_KEYS] ", " [COLUMNS] ", " [&OPEN_RECORDS] ", " [&HELD_SUBSCRIPTIONS] ", " [HAS_CREDIT] ", " [&FALLING_DUE] "
        FROM (
            SELECT " organization: Uuid as SqlUuid; "::uuid AS organization_id, " customer: Uuid as SqlUuid; "::uuid AS customer_key,
                " prefixes: Vec<String> as Array<Text>; "::text[] AS prefixes, " look_back: i64 as BigInt; "::bigint AS look_back
        ) input
        LEFT JOIN catalog_versions catalog USING (organization_id)
        LEFT JOIN customers USING (organization_id, customer_key)
        CROSS JOIN LATERAL (
            SELECT lived.now, lived.now - make_interval(secs => input.look_back) AS from_at
            -- Looked at once: the clock goes on.
            FROM (SELECT " [OWN_NOW] " AS now OFFSET 0) lived
        ) held"
    }
}

type LookRow = (OffsetDateTime, Option<Uuid>, Vec<Vec<u8>>, Option<CustomerRow>);
type HoldRow = (
    OffsetDateTime,
    Option<Uuid>,
    Vec<Vec<u8>>,
    Option<CustomerRow>,
    Nested<BillingRecordRow>,
    Nested<SubscriptionRow>,
    bool,
    Vec<(Uuid, OffsetDateTime)>,
);

/// What a transaction knows once it has its lock.
pub(super) struct Entered {
    pub(super) now: OffsetDateTime,
    /// That of the organization's catalogue; `None`: it is read plainly, because it may be changed.
    catalog_version: Option<CatalogVersion>,
    /// Which of the keys that were asked about are valid.
    valid_keys: Vec<Vec<u8>>,
    customer: Option<Customer>,
    held: Option<HeldRows>,
    /// Whether nothing is written and everything is seen as of one instant.
    is_reading: bool,
}

/// What billing of a customer begins with.
struct HeldRows {
    records: Vec<BillingRecordRow>,
    subscriptions: Vec<SubscriptionRow>,
    has_credit: bool,
    falling_due: Vec<(Uuid, OffsetDateTime)>,
}

impl HeldRows {
    fn snapshot(
        self,
        inner: &mut PgTransaction<'_>,
        customer: Customer,
        now: OffsetDateTime,
    ) -> Result<CustomerSnapshot, Error> {
        let Self { records, subscriptions, has_credit, falling_due } = self;
        let records = inner.open_records(records)?.into_iter().map(|(_, record)| record).collect();
        let held = subscriptions.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        let falling_due = falling_due.into_iter().map(|(id, due_at)| (id.into(), due_at)).collect();
        let snapshot = CustomerSnapshot::new((customer, now), records, (held, now - LOOK_BACK), has_credit);
        Ok(snapshot.with_falling_due(falling_due))
    }
}

impl Entered {
    fn looked((now, version, valid_keys, customer): LookRow) -> Self {
        // One that cannot be understood is read again by whoever needs it.
        let customer = customer.and_then(|row| row.try_into().ok());
        let catalog_version = version.map(CatalogVersion);
        Self { now, catalog_version, valid_keys, customer, held: None, is_reading: true }
    }

    /// Reading the catalogue plainly, statement by statement, as it is then.
    pub(super) fn reading_the_catalog(self) -> Self {
        Self { catalog_version: None, ..self }
    }

    /// The transaction with what is known of it.
    pub(super) fn transaction<'t, 'c>(self, inner: &'t mut PgTransaction<'c>) -> CachedTransaction<'t, 'c> {
        let remembered = &inner.shared.remembered;
        let catalogs = if self.is_reading { &remembered.snapshots } else { &remembered.catalogs };
        let catalog = self.catalog_version.map(|version| catalogs.at(inner.tenant(), version));
        let (now, customer) = (self.now, self.customer);
        if self.is_reading {
            let present = customer.map(|customer| (customer.key.uuid(), PresentCustomer { customer, now }));
            let customers = present.into_iter().collect();
            let prefetched = PrefetchedCustomers { customers, subscriptions: HashMap::new() };
            return CachedTransaction::new(inner, catalog).with_prefetched(prefetched);
        }
        // What cannot be understood is read again by whoever needs it: others may still do without.
        let snapshot =
            customer.clone().zip(self.held).and_then(|(customer, held)| held.snapshot(inner, customer, now).ok());
        CachedTransaction::new(inner, catalog).with_customer(customer).with_snapshot(snapshot)
    }
}

/// What is known where no customer is looked at.
fn look_at_catalog(pg: &mut PgConnection, organization: Uuid, prefixes: Vec<String>) -> QueryResult<Entered> {
    let (now, version, valid_keys) = LookAtCatalog { organization, prefixes }.get_result(pg)?;
    Ok(Entered::looked((now, version, valid_keys, None)))
}

/// Takes the scope's lock, and reads the instant that holds and what the scope is about. Whoever comes with a `key` that is not
/// valid any more gets no further.
pub(super) fn enter(pg: &mut PgConnection, scope: &Scope, key: Option<&Fingerprint>) -> Result<Entered, Failure> {
    let (organization, prefixes) = (scope.organization().uuid(), api_key::prefixes(key.into_iter()));
    let entered = match scope {
        Scope::Customer(_, customer) => {
            lock_customer(pg, customer.uuid())?;
            let look_back = LOOK_BACK.whole_seconds();
            let hold = Hold { organization, customer: customer.uuid(), prefixes, look_back };
            let (now, version, valid_keys, customer, records, subscriptions, has_credit, falling_due): HoldRow =
                hold.get_result(pg)?;
            let held = HeldRows { records: records.0, subscriptions: subscriptions.0, has_credit, falling_due };
            let looked = Entered::looked((now, version, valid_keys, customer));
            Entered { held: Some(held), is_reading: false, ..looked }
        }
        Scope::Catalog(_) => {
            lock_catalog(pg, organization)?;
            Entered { catalog_version: None, is_reading: false, ..look_at_catalog(pg, organization, prefixes)? }
        }
        Scope::Organization(_) => look_at_catalog(pg, organization, prefixes)?,
        Scope::CustomerReading(_, customer) => {
            Entered::looked(Look { organization, customer: customer.uuid(), prefixes }.get_result(pg)?)
        }
    };
    api_key::expect_valid(key, &entered.valid_keys)?;
    Ok(entered)
}
