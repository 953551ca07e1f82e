//! Jobs.

use time::{Duration, OffsetDateTime};

use super::MemoryStore;
use super::page::newest_page;
use super::transaction::MemoryTransaction;
use crate::error::{Error, Noun};
use crate::id::{JobId, OrganizationId};
use crate::job::{Job, JobState};
use crate::store::{JobQueue, JobRepo, Page, PageRequest};

/// A job, and until when somebody is at it.
#[derive(Clone, Debug)]
pub(super) struct KeptJob {
    job: Job,
    leased_until: Option<OffsetDateTime>,
}

impl JobRepo for MemoryTransaction {
    fn insert(&mut self, job: &Job) -> Result<(), Error> {
        self.tenant()?.jobs.push(KeptJob { job: job.clone(), leased_until: None });
        Ok(())
    }

    fn get(&mut self, id: JobId) -> Result<Job, Error> {
        let found = self.tenant()?.jobs.iter().find(|kept| kept.job.id == id);
        found.map(|kept| kept.job.clone()).ok_or(Error::NotFound(Noun::Job))
    }

    fn list(&mut self, page: &PageRequest) -> Result<Page<Job>, Error> {
        let jobs = self.tenant()?.jobs.iter().map(|kept| kept.job.clone());
        newest_page(jobs.collect(), |job| job.id, page)
    }

    fn cancel(&mut self, id: JobId, at: OffsetDateTime) -> Result<(), Error> {
        let found = self.tenant()?.jobs.iter_mut().find(|kept| kept.job.id == id);
        let kept = found.ok_or(Error::NotFound(Noun::Job))?;
        if kept.job.state == JobState::Running {
            kept.job.state = JobState::Cancelled;
            kept.job.finished_at = Some(at);
            kept.leased_until = None;
        }
        Ok(())
    }
}

impl JobQueue for MemoryStore {
    fn lease_job(&self, lease: Duration) -> Result<Option<(OrganizationId, Job)>, Error> {
        let mut state = self.lock();
        let now = state.now;
        let free = state
            .tenants
            .iter()
            .flat_map(|(organization, tenant)| tenant.jobs.iter().map(move |kept| (*organization, kept)))
            .filter(|(_, kept)| {
                kept.job.state == JobState::Running && kept.leased_until.is_none_or(|until| until <= now)
            })
            .min_by_key(|(_, kept)| kept.leased_until)
            .map(|(organization, kept)| (organization, kept.job.clone()));
        let Some((organization, job)) = free else { return Ok(None) };
        if let Some(tenant) = state.tenants.get_mut(&organization) {
            let leased = tenant.jobs.iter_mut().filter(|kept| kept.job.id == job.id);
            leased.for_each(|kept| kept.leased_until = Some(now + lease));
        }
        Ok(Some((organization, job)))
    }

    fn keep_job(&self, organization: OrganizationId, job: &Job, lease: Duration) -> Result<bool, Error> {
        let mut state = self.lock();
        let now = state.now;
        let Some(tenant) = state.tenants.get_mut(&organization) else { return Ok(false) };
        let running = tenant.jobs.iter_mut().find(|kept| kept.job.id == job.id && kept.job.state == JobState::Running);
        let Some(kept) = running else { return Ok(false) };
        let is_running = job.state == JobState::Running;
        kept.job = Job { finished_at: (!is_running).then_some(now), ..job.clone() };
        kept.leased_until = is_running.then(|| now + lease);
        Ok(true)
    }

    fn leave_job(&self, organization: OrganizationId, job: JobId) -> Result<(), Error> {
        let mut state = self.lock();
        let now = state.now;
        if let Some(tenant) = state.tenants.get_mut(&organization) {
            tenant.jobs.iter_mut().filter(|kept| kept.job.id == job).for_each(|kept| kept.leased_until = Some(now));
        }
        Ok(())
    }
}
