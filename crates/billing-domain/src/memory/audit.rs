//! The log of changes: in the order in which they were made, since no two transactions interleave.

use uuid::Uuid;

use super::MemoryTransaction;
use crate::audit::{AuditEntry, AuditFilter, Change};
use crate::error::{Error, FieldError};
use crate::store::{AuditRepo, Page, PageRequest};

impl AuditRepo for MemoryTransaction {
    fn insert(&mut self, change: Change) -> Result<(), Error> {
        let at = self.state.now;
        let tenant = self.tenant()?;
        let account = change.customer.and_then(|key| tenant.accounts.get(&key)?.customer.clone());
        let id = Uuid::from_u128((tenant.audit_log.len() as u128 + 1) << 64).into();
        tenant.audit_log.push(AuditEntry { id, at, customer: account.map(|customer| customer.id), change });
        Ok(())
    }

    fn list(&mut self, filter: &AuditFilter, page: &PageRequest) -> Result<Page<AuditEntry>, Error> {
        let log = &self.tenant()?.audit_log;
        // Where the page before has ended: what is added later stands behind it.
        let end = match page.after.as_deref() {
            None => log.len(),
            Some(after) => after.parse().map_err(|_| FieldError::bad_cursor())?,
        };
        let wanted = log.iter().enumerate().take(end).rev().filter(|(_, entry)| filter.keeps(entry));
        let mut found: Vec<(usize, &AuditEntry)> = wanted.take(page.limit as usize + 1).collect();
        let is_last = found.len() <= page.limit as usize;
        found.truncate(page.limit as usize);
        let next = found.last().filter(|_| !is_last).map(|(place, _)| place.to_string());
        Ok(Page { items: found.into_iter().map(|(_, entry)| entry.clone()).collect(), next })
    }
}
