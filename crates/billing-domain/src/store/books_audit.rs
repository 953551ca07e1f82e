//! Audits of organizations' books: what was asked for, and who is at it.

use time::Duration;

use super::{Page, PageRequest};
use crate::books_audit::{BooksAudit, BooksBreach};
use crate::error::Error;
use crate::id::{BooksAuditId, OrganizationId};

/// The organization's audits.
pub trait BooksAuditRepo {
    /// Keeps a new audit, which begins soon after the commit, and drops the oldest of more than [`BooksAudit::KEPT_MAX`].
    fn insert(&mut self, audit: &BooksAudit) -> Result<(), Error>;
    /// The audit.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn get(&mut self, id: BooksAuditId) -> Result<BooksAudit, Error>;
    /// What the audit found, in the order of its checks; at most [`BooksAudit::BREACHES_MAX`].
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn list_breaches(&mut self, id: BooksAuditId) -> Result<Vec<BooksBreach>, Error>;
    /// Audits, newest first.
    fn list(&mut self, page: &PageRequest) -> Result<Page<BooksAudit>, Error>;
}

/// The audits that somebody has to carry out: one at a time, whoever's, in the order in which they were asked for. Whoever leases one has it
/// until the lease is over, and keeps it by noting how far it is; who dies over it leaves it to the next.
pub trait BooksAuditQueue: Send + Sync {
    /// Leases the audit that is next for so long, and counts that it is begun; `None` while somebody is at one.
    fn lease_books_audit(&self, lease: Duration) -> Result<Option<(OrganizationId, BooksAudit)>, Error>;
    /// Notes how far a leased audit is, and keeps it for so long; one that came to its end is left with what it found, and has ended now.
    /// Whether it was still running, and nobody had begun it anew.
    fn keep_books_audit(
        &self,
        organization: OrganizationId,
        audit: &BooksAudit,
        breaches: &[BooksBreach],
        lease: Duration,
    ) -> Result<bool, Error>;
}
