//! May this customer use this metric now? The pure decision is run against the caches; where they miss something, everything it
//! could need is read in one statement, and it is run again.
//!
//! ```text
//! remembered, each under its version   the catalogue, what customers hold, what closed hours come to
//! prefetched, in one statement      the versions; keys, customers and their time; hot buckets, whether events lie ahead
//! ```
//!
//! Questions of one organization that wait at the same time are answered together.

mod answer_from_cache;
mod asked;
pub(crate) mod prefetch;
mod snapshot;

use billing_domain::store::Answered;
use billing_domain::{Error, StoreError};

use self::asked::answered;
use self::prefetch::Prefetch;
use self::snapshot::Snapshot;
use crate::batcher::Job;
use crate::lanes::Lane;
use crate::pg::error::Failure;
use crate::shared::Shared;
use crate::transaction::PgTransaction;

pub(crate) use self::asked::PendingQuestion;

/// Answers questions of one organization, lane by lane.
pub(crate) fn serve(shared: &Shared, jobs: Vec<PendingQuestion>) {
    if let Some(lane) = shared.lanes.only() {
        return serve_in(shared, lane, jobs);
    }
    for (lane, jobs) in shared.lanes.apart(jobs, |job| job.question.customer()) {
        serve_in(shared, lane, jobs.into_iter().map(|(_, job)| job).collect());
    }
}

/// Answers questions about a lane's customers: out of memory where that is enough, the others in one snapshot, a few statements
/// however many they are.
fn serve_in(shared: &Shared, lane: &Lane, jobs: Vec<PendingQuestion>) {
    let mut jobs = answer_from_cache::answer(shared, lane, jobs);
    let Some(organization) = jobs.first().map(|job| job.requester.organization) else { return };
    let served = lane.worker_pool.read_together(|pg| {
        if jobs.is_empty() {
            // All have their answers: it was only COMMIT that failed.
            return Ok(());
        }
        let mut tx = PgTransaction::new(pg, shared, organization, Some(lane));
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
        // It is where their own transactions find it, which wait for it if need be, as nobody has to who asks about another lane.
        Err(Failure::Missing(_)) => jobs.into_iter().for_each(|job| job.question.conclude(Answered::Alone)),
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

fn answer(tx: &mut PgTransaction<'_>, jobs: &mut [PendingQuestion]) -> Result<Vec<Answered>, Error> {
    let customers = jobs.iter().map(|job| job.question.customer().uuid());
    let prefetch = Prefetch::at(tx.organization, PendingQuestion::prefixes(jobs), customers.collect());
    let prefetch = prefetch.with_corrections(tx.shared.key_ranges);
    let mut snapshot = Snapshot::read(tx, prefetch)?;
    snapshot.read_the_rest(jobs.iter().map(|job| job.question.metric().uuid()).collect())?;
    let mut requests = Vec::new();
    let mut prepared = Vec::with_capacity(jobs.len());
    for job in jobs {
        match snapshot.prepare(job) {
            Ok(asked) => {
                prepared.push(Ok(asked.len()));
                requests.extend(asked);
            }
            // After a failed statement nothing more can be read.
            Err(error) if snapshot.has_failed() => return Err(error),
            Err(error) => prepared.push(Err(error)),
        }
    }
    let mut usages = snapshot.usages(&requests)?.into_iter();
    let outcome = |count: Result<usize, Error>| match count {
        Err(error) => Answered::Failed(error),
        Ok(count) => answered(usages.by_ref().take(count)),
    };
    Ok(prepared.into_iter().map(outcome).collect())
}
