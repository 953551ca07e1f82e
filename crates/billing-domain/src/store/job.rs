//! Long work in the background: what was ordered, and who is at it.

use time::{Duration, OffsetDateTime};

use super::{Page, PageRequest};
use crate::error::Error;
use crate::id::{JobId, OrganizationId};
use crate::job::Job;

/// The organization's jobs.
pub trait JobRepo {
    /// Keeps a new job, which begins soon after the commit.
    fn insert(&mut self, job: &Job) -> Result<(), Error>;
    /// The job.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn get(&mut self, id: JobId) -> Result<Job, Error>;
    /// Jobs, newest first.
    fn list(&mut self, page: &PageRequest) -> Result<Page<Job>, Error>;
    /// Stops the job for good where it still runs; what it has done stays.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    fn cancel(&mut self, id: JobId, at: OffsetDateTime) -> Result<(), Error>;
}

/// The jobs that somebody has to do. A job is one worker's at a time: whoever leases it has it until the lease is over, and keeps it by
/// noting how far it is; who dies over it leaves it to the next.
pub trait JobQueue: Send + Sync {
    /// Leases a running job that nobody is at, for so long: the one that was looked at least lately.
    fn lease_job(&self, lease: Duration) -> Result<Option<(OrganizationId, Job)>, Error>;
    /// Notes how far a leased job is, and keeps it for so long; one that came to its end is left, and has ended now. Whether it was
    /// still running.
    fn keep_job(&self, organization: OrganizationId, job: &Job, lease: Duration) -> Result<bool, Error>;
    /// Leaves a leased job to whoever comes next, now.
    fn leave_job(&self, organization: OrganizationId, job: JobId) -> Result<(), Error>;
}
