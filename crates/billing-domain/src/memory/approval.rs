//! Requests for approvals.

use time::OffsetDateTime;

use super::page::newest_page;
use super::transaction::MemoryTransaction;
use crate::approval::{Approval, ApprovalState};
use crate::error::{Error, Noun};
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
        let kept = self.tenant()?.approvals.iter();
        let found = kept.filter(|kept| state.is_none_or(|state| kept.state_at(now) == state));
        newest_page(found.cloned().collect(), |kept| kept.id, page)
    }

    fn update(&mut self, approval: &Approval) -> Result<(), Error> {
        let found = self.tenant()?.approvals.iter_mut().find(|kept| kept.id == approval.id);
        approval.clone_into(found.ok_or(Error::NotFound(Noun::Approval))?);
        Ok(())
    }
}
