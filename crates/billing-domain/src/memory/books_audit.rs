//! Audits of the books.

use std::cmp::Reverse;

use time::{Duration, OffsetDateTime};

use super::MemoryStore;
use super::page::newest_page;
use super::transaction::MemoryTransaction;
use crate::books_audit::{BooksAudit, BooksAuditState, BooksBreach};
use crate::error::{Error, Noun};
use crate::id::{BooksAuditId, OrganizationId};
use crate::store::{BooksAuditQueue, BooksAuditRepo, Page, PageRequest};

/// An audit, what it found, and until when somebody is at it.
#[derive(Clone, Debug)]
pub(super) struct KeptAudit {
    audit: BooksAudit,
    breaches: Vec<BooksBreach>,
    leased_until: Option<OffsetDateTime>,
}

impl KeptAudit {
    fn is_running(&self) -> bool {
        self.audit.state == BooksAuditState::Running
    }
}

impl MemoryTransaction {
    fn kept_audit(&mut self, id: BooksAuditId) -> Result<&KeptAudit, Error> {
        let found = self.tenant()?.books_audits.iter().find(|kept| kept.audit.id == id);
        found.ok_or(Error::NotFound(Noun::BooksAudit))
    }
}

impl BooksAuditRepo for MemoryTransaction {
    fn insert(&mut self, audit: &BooksAudit) -> Result<(), Error> {
        let all = &mut self.tenant()?.books_audits;
        all.push(KeptAudit { audit: audit.clone(), breaches: Vec::new(), leased_until: None });
        all.sort_by_key(|kept| Reverse(kept.audit.id));
        let mut finished = 0;
        all.retain(|kept| {
            finished += usize::from(!kept.is_running());
            kept.is_running() || finished <= BooksAudit::KEPT_MAX
        });
        Ok(())
    }

    fn get(&mut self, id: BooksAuditId) -> Result<BooksAudit, Error> {
        Ok(self.kept_audit(id)?.audit.clone())
    }

    fn list_breaches(&mut self, id: BooksAuditId) -> Result<Vec<BooksBreach>, Error> {
        Ok(self.kept_audit(id)?.breaches.clone())
    }

    fn list(&mut self, page: &PageRequest) -> Result<Page<BooksAudit>, Error> {
        let audits = self.tenant()?.books_audits.iter().map(|kept| kept.audit.clone());
        newest_page(audits.collect(), |audit| audit.id, page)
    }
}

impl BooksAuditQueue for MemoryStore {
    fn lease_books_audit(&self, lease: Duration) -> Result<Option<(OrganizationId, BooksAudit)>, Error> {
        let mut state = self.lock();
        let now = state.now;
        let running = state.tenants.iter().flat_map(|(organization, tenant)| {
            tenant.books_audits.iter().filter(|kept| kept.is_running()).map(move |kept| (*organization, kept))
        });
        let next = running.min_by_key(|(_, kept)| (kept.audit.requested_at, kept.audit.id));
        let free = next.filter(|(_, kept)| kept.leased_until.is_none_or(|until| until <= now));
        let Some((organization, id)) = free.map(|(organization, kept)| (organization, kept.audit.id)) else {
            return Ok(None);
        };
        let Some(tenant) = state.tenants.get_mut(&organization) else { return Ok(None) };
        let Some(kept) = tenant.books_audits.iter_mut().find(|kept| kept.audit.id == id) else { return Ok(None) };
        kept.audit.attempts += 1;
        kept.leased_until = Some(now + lease);
        Ok(Some((organization, kept.audit.clone())))
    }

    fn keep_books_audit(
        &self,
        organization: OrganizationId,
        audit: &BooksAudit,
        breaches: &[BooksBreach],
        lease: Duration,
    ) -> Result<bool, Error> {
        let mut state = self.lock();
        let now = state.now;
        let Some(tenant) = state.tenants.get_mut(&organization) else { return Ok(false) };
        let is_it = |kept: &&mut KeptAudit| (kept.audit.id, kept.audit.attempts) == (audit.id, audit.attempts);
        let running = tenant.books_audits.iter_mut().find(|kept| is_it(kept) && kept.is_running());
        let Some(kept) = running else { return Ok(false) };
        let is_running = audit.state == BooksAuditState::Running;
        kept.audit = BooksAudit { finished_at: (!is_running).then_some(now), ..audit.clone() };
        kept.breaches = breaches.to_vec();
        kept.leased_until = is_running.then(|| now + lease);
        Ok(true)
    }
}
