//! A transaction that answers from memory what memory has: the catalogue under its version, and what was read of customers
//! before it was asked for. Everything else is the plain transaction's.

mod account;
mod catalog;
mod customer;
mod snapshot;

use std::collections::HashMap;

use billing_domain::Error;
use billing_domain::customer::Customer;
use billing_domain::id::OrganizationId;
use billing_domain::store::{
    AddonRepo, ApiKeyRepo, ApprovalRepo, AuditRepo, BillingRecordRepo, BooksAuditRepo, CreditRepo, CurrencyRepo,
    CustomerRepo, EventRepo, FeatureRepo, IdentityRepo, InvoiceRepo, JobRepo, MemberRepo, MessageRepo, MetricRepo,
    OrganizationRepo, PlanRepo, SubscriptionRepo, TestClockRepo, Transaction, UsageAlertRepo, WebhookRepo,
};
use time::OffsetDateTime;
use uuid::Uuid;

pub(crate) use self::snapshot::CustomerSnapshot;
use crate::remembered::{CachedSubscriptions, CatalogCache, Shelf, VersionedCatalog};
use crate::transaction::{PgTransaction, repositories};

/// A customer as it is in a snapshot.
pub(crate) struct PresentCustomer {
    pub(crate) customer: Customer,
    /// The time that it lives at.
    pub(crate) now: OffsetDateTime,
}

/// What was read of customers before it was asked for. Only in one snapshot that nothing is written in: there, what was read
/// once is what would be read again.
#[derive(Default)]
pub(crate) struct PrefetchedCustomers {
    pub(crate) customers: HashMap<Uuid, PresentCustomer>,
    pub(crate) subscriptions: HashMap<Uuid, CachedSubscriptions>,
}

/// A transaction and what is at hand in memory.
pub(crate) struct CachedTransaction<'t, 'c> {
    pub(crate) inner: &'t mut PgTransaction<'c>,
    /// `None`: the catalogue is read, since nothing says what it is, or this transaction has changed it and nobody else sees
    /// that yet.
    catalog: Option<VersionedCatalog<'c>>,
    /// Whether what is not remembered of the catalogue is read even where no statement may be sent otherwise: it is
    /// everybody's, whoever it is for.
    always_reads_catalog: bool,
    /// The customer that the transaction is alone with, as it is.
    own_customer: Option<Customer>,
    /// What was read of that customer, until something of it is changed.
    snapshot: Option<CustomerSnapshot>,
    pub(crate) prefetched: PrefetchedCustomers,
}

impl<'t, 'c> CachedTransaction<'t, 'c> {
    /// `catalog`: what is remembered under the version that the transaction has read.
    pub(crate) fn new(inner: &'t mut PgTransaction<'c>, catalog: Option<VersionedCatalog<'c>>) -> Self {
        let prefetched = PrefetchedCustomers::default();
        Self { inner, catalog, always_reads_catalog: false, own_customer: None, snapshot: None, prefetched }
    }

    /// Alone with this customer.
    pub(crate) fn with_customer(self, own_customer: Option<Customer>) -> Self {
        Self { own_customer, ..self }
    }

    /// Knowing what was read of that customer.
    pub(crate) fn with_snapshot(self, snapshot: Option<CustomerSnapshot>) -> Self {
        Self { snapshot, ..self }
    }

    /// Reading what is not remembered of the catalogue even where no statement may be sent otherwise.
    pub(crate) fn always_reading_catalog(self) -> Self {
        Self { always_reads_catalog: true, ..self }
    }

    /// In a snapshot of which this has been read.
    pub(crate) fn with_prefetched(self, prefetched: PrefetchedCustomers) -> Self {
        Self { prefetched, ..self }
    }

    /// What stands on a shelf of the catalogue under this id, else what `read` finds, which is put there.
    fn remembered<T: Clone>(
        &mut self,
        shelf: fn(&CatalogCache) -> &Shelf<T>,
        id: Uuid,
        read: impl FnOnce(&mut PgTransaction<'c>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if let Some(found) = self.catalog.and_then(|catalog| catalog.find(shelf, id)) {
            return Ok(found);
        }
        let found = if self.always_reads_catalog { self.inner.with_statements(read)? } else { read(self.inner)? };
        if let Some(catalog) = self.catalog {
            catalog.keep(shelf, id, found.clone());
        }
        Ok(found)
    }
}

impl Transaction for CachedTransaction<'_, '_> {
    fn organization(&self) -> OrganizationId {
        self.inner.organization
    }

    fn new_uuid(&mut self) -> Uuid {
        self.inner.new_uuid()
    }

    repositories! { self =>
        organizations: OrganizationRepo,
        currencies: CurrencyRepo,
        metrics: MetricRepo,
        plans: PlanRepo,
        addons: AddonRepo,
        customers: CustomerRepo,
        subscriptions: SubscriptionRepo,
        billing_records: BillingRecordRepo,
        invoices: InvoiceRepo,
        credits: CreditRepo,
        usage_alerts: UsageAlertRepo,
    }

    repositories! { inner =>
        api_keys: ApiKeyRepo,
        features: FeatureRepo,
        test_clocks: TestClockRepo,
        events: EventRepo,
        messages: MessageRepo,
        webhooks: WebhookRepo,
        jobs: JobRepo,
        books_audits: BooksAuditRepo,
        members: MemberRepo,
        identities: IdentityRepo,
        approvals: ApprovalRepo,
        audit_log: AuditRepo,
    }
}
