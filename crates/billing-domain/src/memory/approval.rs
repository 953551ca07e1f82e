//! Requests for approvals.

use std::cmp::Reverse;

use time::OffsetDateTime;

use super::transaction::MemoryTransaction;
use crate::approval::{Approval, ApprovalState};
use crate::error::{Error, FieldError, Noun};
use crate::id::ApprovalId;
use crate::store::{ApprovalRepo, Page, PageRequest};

impl ApprovalRepo for MemoryTransaction {
    fn insert(&mut self, approval: &Approval) -> Result<(), Error> {
        self.tenant()?.approvals.push(approval.clone());
        Ok(())
    }

    fn get(&mut self, id: ApprovalId) -> Result<Approval, Error> {
        let found = self.tenant()?.approvals.iter().find(|kept| kept.id == id);
        found.cloned().ok_or(Error::NotFound(Noun::Approval))
    }

    fn list(
        &mut self,
        state: Option<ApprovalState>,
        now: OffsetDateTime,
        page: &PageRequest,
    ) -> Result<Page<Approval>, Error> {
        let bad = || FieldError::bad_cursor();
        let after: Option<ApprovalId> =
            page.after.as_deref().map(|text| text.parse().map_err(|_| bad())).transpose()?;
        let mut found: Vec<Approval> = self.tenant()?.approvals.iter().cloned().collect();
        found.sort_by_key(|kept| Reverse(kept.id));
        found.retain(|kept| state.is_none_or(|state| kept.state_at(now) == state));
        found.retain(|kept| after.is_none_or(|after| kept.id < after));
        let is_last = found.len() <= page.limit as usize;
        found.truncate(page.limit as usize);
        let next = found.last().filter(|_| !is_last).map(|kept| kept.id.to_string());
        Ok(Page { items: found, next })
    }

    fn update(&mut self, approval: &Approval) -> Result<(), Error> {
        let found = self.tenant()?.approvals.iter_mut().find(|kept| kept.id == approval.id);
        approval.clone_into(found.ok_or(Error::NotFound(Noun::Approval))?);
        Ok(())
    }
}
