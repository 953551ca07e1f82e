//! The log of changes.

use crate::audit::{AuditEntry, AuditFilter, Change};
use crate::error::Error;
use crate::store::{Page, PageRequest};

/// Entries of the audit log. There is no way to change one, or to take one away.
pub trait AuditRepo {
    /// Notes a change that this transaction makes: of the scope's customer where it is a customer's.
    fn insert(&mut self, change: Change) -> Result<(), Error>;
    /// Those that are wanted, newest first. What is added while somebody reads page by page moves nothing on the pages that follow.
    fn list(&mut self, filter: &AuditFilter, page: &PageRequest) -> Result<Page<AuditEntry>, Error>;
}
