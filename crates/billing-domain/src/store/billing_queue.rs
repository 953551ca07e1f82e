//! Who is due for billing, and who failed.

use time::OffsetDateTime;

use crate::customer::CustomerId;
use crate::error::Error;
use crate::id::{CustomerKey, OrganizationId, TestClockId};

/// A customer whose billing is due, leased to one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased {
    /// Whose customer.
    pub organization: OrganizationId,
    /// The customer.
    pub customer: CustomerKey,
    /// How often in a row its billing has failed.
    pub failures: u32,
}

/// A customer that is left alone because its billing failed too often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// Whose customer.
    pub organization: OrganizationId,
    /// The customer, by the caller's own id.
    pub customer: CustomerId,
    /// The earliest instant at which anything was due.
    pub due_at: OffsetDateTime,
    /// How often in a row its billing has failed.
    pub failures: u32,
    /// Why it failed the last time.
    pub reason: String,
}

/// How far billing is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Customers in real time whose billing is due.
    pub customers: u64,
    /// How long ago the first of them fell due who is not catching up; zero when there is none.
    pub lag: time::Duration,
    /// Those of them whose last billing failed and that will be tried again.
    pub failing: u64,
    /// Those of them that are left alone because their billing failed too often.
    pub parked: u64,
    /// Those of them who are catching up with what fell due before it was known.
    pub catching_up: u64,
}

/// Hands out the customers that have something to be billed.
pub trait BillingQueue: Send + Sync {
    /// Leases up to `limit` customers in real time whose billing is due (by `until`, when given, and in any case by
    /// now) for `lease`, the longest overdue first; nobody else gets them meanwhile. Parked ones are left out, those
    /// of the organizations `tax_waits` who [wait for a tax rate](BillingQueue::wait_for_tax), and those who are catching up:
    /// [`BillingQueue::lease_catching_up`].
    fn lease_due(
        &self,
        limit: u32,
        lease: time::Duration,
        until: Option<OffsetDateTime>,
        tax_waits: &[OrganizationId],
    ) -> Result<Vec<Leased>, Error>;
    /// [`BillingQueue::lease_due`] of customers who are catching up: at most one of each organization, so that nobody's
    /// many years keep others waiting. When there are more organizations than `limit`, each is as likely as another.
    fn lease_catching_up(
        &self,
        limit: u32,
        lease: time::Duration,
        until: Option<OffsetDateTime>,
        tax_waits: &[OrganizationId],
    ) -> Result<Vec<Leased>, Error>;
    /// Notes that the billing of a leased customer failed and why; it comes up again after `retry_after`. A customer that was
    /// billed meanwhile is left as it is. To be left alone instead: [`CustomerRepo::park_billing`](super::CustomerRepo::park_billing).
    fn put_off(&self, leased: &Leased, reason: &str, retry_after: time::Duration) -> Result<(), Error>;
    /// Gives back leased customers who need tax rates that nobody could be asked for. For `at_most` they are left out of leases that
    /// name their organization among those of which enough waits, or until they are billed: those who need no rate go on.
    fn wait_for_tax(&self, leased: &[Leased], at_most: time::Duration) -> Result<(), Error>;
    /// Up to `limit` of the parked customers, the longest overdue first.
    fn list_parked(&self, limit: u32) -> Result<Vec<Parked>, Error>;
    /// Lets every parked customer be tried again at once; how many there were.
    fn release_parked(&self) -> Result<u64, Error>;
    /// What is due by now and not done yet, leased or not, failed or not.
    fn backlog(&self) -> Result<Backlog, Error>;
    /// The clocks that were told to advance and have not arrived.
    fn list_advancing_clocks(&self) -> Result<Vec<(OrganizationId, TestClockId)>, Error>;
    /// Up to `each` of every organization's customers who are catching up under a clock that stands and has not failed,
    /// with their clocks.
    fn list_catching_up(&self, each: u32) -> Result<Vec<(OrganizationId, TestClockId, CustomerKey)>, Error>;
}
