//! What the service needs of a store, all in one.

use std::sync::Arc;
use std::time::Duration;

use billing_audit::{AuditError, Report, audit_organization_beside};
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::idempotency::IdempotencyStore;
use billing_domain::memory::MemoryStore;
use billing_domain::store::{
    AlertQueue, ApiKeyLookup, BillingQueue, BooksAuditQueue, Deliveries, EventIngest, Feeds, JobQueue, Overviews,
    Store, Users,
};
use billing_domain::{Error, StoreError};
use billing_store::{Company, Load, PgStore, with_timeouts};

/// A store that can serve: it keeps, takes in events, knows keys and answers, hands out due customers, and tells what became
/// true.
pub trait Backend:
    Store
    + EventIngest
    + ApiKeyLookup
    + BillingQueue
    + IdempotencyStore
    + Feeds
    + Deliveries
    + AlertQueue
    + JobQueue
    + BooksAuditQueue
    + Overviews
    + Users
{
    /// Whether it answers right now.
    ///
    /// # Errors
    /// Why it does not.
    fn ping(&self) -> Result<(), StoreError>;

    /// Brings up to date what it plans by, where it plans; of how many tables that was.
    ///
    /// # Errors
    /// Those of the store.
    fn refresh_statistics(&self) -> Result<usize, Error> {
        Ok(0)
    }

    /// Measures how much room it takes, where that can be told by [`Backend::load`] then.
    ///
    /// # Errors
    /// Those of the store.
    fn measure_database(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Makes room for the events of the coming months before the first of them comes, where that has to be made; for how
    /// many months there was none.
    ///
    /// # Errors
    /// Those of the store.
    fn make_months_ahead(&self) -> Result<usize, Error> {
        Ok(0)
    }

    /// Finds out what became of work whose end was not heard of, where customers are on several servers; whether there is more.
    ///
    /// # Errors
    /// Those of the store.
    fn settle_reservations(&self) -> Result<bool, Error> {
        Ok(false)
    }

    /// The number of the last event or correction that came in of a customer, or of others who wait for each other: it goes up with
    /// each, where it is known.
    ///
    /// # Errors
    /// Those of the store.
    fn last_arrival(&self, _organization: OrganizationId, _customer: CustomerKey) -> Result<u64, Error> {
        Ok(0)
    }

    /// Audits the organization's books, each check within `check_max`; `progress` is told when one begins. `None`: they are in no database.
    fn audit_books(
        &self,
        _organization: OrganizationId,
        _check_max: Duration,
        _progress: &mut dyn FnMut(&'static str),
    ) -> Option<Result<Report, AuditError>> {
        None
    }

    /// What it is busy with, where there is something to tell.
    fn load(&self) -> Option<Load> {
        None
    }

    /// Where it wants to be told which organizations ask for something.
    fn company(&self) -> Arc<Company> {
        Arc::default()
    }
}

impl Backend for MemoryStore {
    fn ping(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Backend for PgStore {
    fn ping(&self) -> Result<(), StoreError> {
        Self::ping(self)
    }

    fn refresh_statistics(&self) -> Result<usize, Error> {
        Self::refresh_statistics(self)
    }

    fn measure_database(&self) -> Result<(), Error> {
        Self::measure_database(self)
    }

    fn make_months_ahead(&self) -> Result<usize, Error> {
        Self::make_months_ahead(self)
    }

    fn settle_reservations(&self) -> Result<bool, Error> {
        Self::settle_reservations(self)
    }

    fn last_arrival(&self, organization: OrganizationId, customer: CustomerKey) -> Result<u64, Error> {
        Self::last_arrival(self, organization, customer)
    }

    fn audit_books(
        &self,
        organization: OrganizationId,
        check_max: Duration,
        progress: &mut dyn FnMut(&'static str),
    ) -> Option<Result<Report, AuditError>> {
        Some(audit_organization_beside(&with_timeouts(self.database_url()), organization.uuid(), check_max, progress))
    }

    fn load(&self) -> Option<Load> {
        Some(Self::load(self))
    }

    fn company(&self) -> Arc<Company> {
        Self::company(self)
    }
}
