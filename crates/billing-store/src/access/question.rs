//! Questions about usage, answered together: one snapshot, a few statements, however many ask at once.

use billing_domain::store::{Answered, Question, Requester};
use billing_domain::usage::{Usage, UsageRequest};
use billing_domain::{Error, StoreError};

use crate::access::answer_from_cache;
use crate::batcher::{BatchBudget, Job};
use crate::pg::error::Failure;
use crate::repo::api_key;
use crate::store::PgStore;
use crate::transaction::PgTransaction;

/// Most questions in one snapshot.
const QUESTIONS_MAX: usize = 200;

/// A question and who asks it.
pub(crate) struct Asked {
    pub(crate) requester: Requester,
    pub(crate) question: Box<dyn Question>,
}

impl Asked {
    /// The usage that must be known for an answer, to whoever has a valid key.
    pub(crate) fn prepare(&mut self, tx: &mut PgTransaction<'_>) -> Result<Vec<UsageRequest>, Error> {
        api_key::expect_valid(self.requester.key.as_ref(), &tx.prefetched.valid_keys)?;
        self.question.prepare(tx)
    }

    /// The prefixes of the keys of those who ask.
    pub(crate) fn prefixes(jobs: &[Self]) -> Vec<String> {
        api_key::prefixes(jobs.iter().filter_map(|job| job.requester.key.as_ref()))
    }
}

impl Job for Asked {
    fn joins_batch(&self, first: &Self, budget: &mut BatchBudget) -> bool {
        self.requester.organization == first.requester.organization && budget.take(1, QUESTIONS_MAX)
    }

    fn refuse(self, error: Error) {
        self.question.conclude(Answered::Failed(error));
    }
}

/// Answers questions of one organization: out of memory where that is enough.
pub(crate) fn serve(store: &PgStore, jobs: Vec<Asked>) {
    let mut jobs = answer_from_cache::answer(store, jobs);
    let Some(organization) = jobs.first().map(|job| job.requester.organization) else { return };
    let served = store.shared.worker_pool.read_together(|pg| {
        if jobs.is_empty() {
            // All have their answers: it was only COMMIT that failed.
            return Ok(());
        }
        let mut tx = PgTransaction::new(pg, &store.shared, organization);
        let outcomes = answer(&mut tx, &mut jobs);
        let outcomes = match (tx.into_failure(), outcomes) {
            (Some(failure), _) => return Err(failure),
            (None, outcomes) => outcomes?,
        };
        // Nobody has to wait for the end of a transaction that only reads: it cannot make the answers wrong any more.
        jobs.drain(..).zip(outcomes).for_each(|(job, outcome)| job.question.conclude(outcome));
        Ok(())
    });
    match served {
        Ok(()) => {}
        // Whatever it was, one of them need not have it because of another.
        Err(Failure::Final(Error::Store(StoreError::Internal(_) | StoreError::DeadlineExceeded))) if jobs.len() > 1 => {
            jobs.into_iter().for_each(|job| job.question.conclude(Answered::Alone));
        }
        Err(failure) => {
            let error = failure.into_error();
            jobs.into_iter().for_each(|job| job.refuse(error.clone()));
        }
    }
}

fn answer(tx: &mut PgTransaction<'_>, jobs: &mut [Asked]) -> Result<Vec<Answered>, Error> {
    let customers = jobs.iter().map(|job| job.question.customer().uuid()).collect();
    let metrics = jobs.iter().map(|job| job.question.metric().uuid()).collect();
    tx.prefetch(customers, metrics, Asked::prefixes(jobs))?;
    let mut requests = Vec::new();
    let mut prepared = Vec::with_capacity(jobs.len());
    for job in jobs {
        match job.prepare(tx) {
            Ok(asked) => {
                prepared.push(Ok(asked.len()));
                requests.extend(asked);
            }
            // After a failed statement nothing more can be read.
            Err(error) if tx.has_failed() => return Err(error),
            Err(error) => prepared.push(Err(error)),
        }
    }
    let mut usages = tx.read_warm_usages(&requests)?.into_iter();
    let outcome = |count: Result<usize, Error>| match count {
        Err(error) => Answered::Failed(error),
        Ok(count) => answered(usages.by_ref().take(count)),
    };
    Ok(prepared.into_iter().map(outcome).collect())
}

/// The answer when all of these usages are known.
pub(crate) fn answered(usages: impl IntoIterator<Item = Option<Usage>>) -> Answered {
    usages.into_iter().collect::<Option<_>>().map_or(Answered::Alone, Answered::Known)
}
