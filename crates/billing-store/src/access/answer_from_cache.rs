//! Answering from the caches, after one statement that reads their version tokens.
//!
//! One statement is one snapshot. What it finds and what is remembered under the versions that it finds are together what a
//! transaction on that snapshot would have read. Whoever needs more is left for a transaction, which remembers it.

use std::collections::BTreeSet;

use billing_domain::store::Answered;

use super::asked::{PendingQuestion, answered};
use super::prefetch::Prefetch;
use super::snapshot::Snapshot;
use crate::lanes::Lane;
use crate::remembered::TallyKey;
use crate::rollup::dimensions_of;
use crate::shared::Shared;
use crate::transaction::PgTransaction;

/// Most hot buckets that are looked at for one question.
const TALLIES_MAX: usize = 16;

/// Answers those questions of one organization that memory has the rest of, and gives back the others.
pub(super) fn answer(shared: &Shared, lane: &Lane, mut jobs: Vec<PendingQuestion>) -> Vec<PendingQuestion> {
    let Some((prefetch, organization)) =
        what_to_prefetch(shared, &jobs).zip(jobs.first().map(|job| job.requester.organization))
    else {
        return jobs;
    };
    let outcomes = lane.worker_pool.try_read(|pg| {
        let mut tx = PgTransaction::new(pg, shared, organization, Some(lane));
        let outcomes = Snapshot::read(&mut tx, prefetch.clone()).map(|mut snapshot| {
            let outcome = |job| snapshot.without_statements(|snapshot| outcome(snapshot, job));
            jobs.iter_mut().map(outcome).collect::<Vec<_>>()
        });
        outcomes.map_err(|error| tx.into_failure().unwrap_or_else(|| error.into()))
    });
    // Whatever went wrong, a transaction will tell whether it goes on.
    let Ok(outcomes) = outcomes else { return jobs };
    let conclude = |(job, outcome): (PendingQuestion, Option<Answered>)| match outcome {
        Some(outcome) => {
            job.question.conclude(outcome);
            None
        }
        None => Some(job),
    };
    jobs.into_iter().zip(outcomes).filter_map(conclude).collect()
}

/// What to look at, as far as memory tells; `None`: it tells of nobody who is asked about.
fn what_to_prefetch(shared: &Shared, jobs: &[PendingQuestion]) -> Option<Prefetch> {
    let organization = jobs.first()?.requester.organization;
    let mut prefetch = Prefetch::of(organization, PendingQuestion::prefixes(jobs));
    let asked: BTreeSet<_> = jobs.iter().map(|job| (job.question.customer(), job.question.metric())).collect();
    for (key, metric) in asked {
        let (customer, metric) = (key.uuid(), metric.uuid());
        let Some(event_name) = shared.remembered.snapshots.event_name(organization.uuid(), metric) else { continue };
        let Some(cached) = shared.remembered.subscriptions.latest(customer) else { continue };
        let dimensions: BTreeSet<String> =
            cached.all().map(|subscription| dimensions_of(&subscription.filters)).collect();
        match dimensions.len() {
            0 => prefetch.add(customer),
            1..=TALLIES_MAX => dimensions.into_iter().for_each(|dimensions| {
                let tally = TallyKey { customer, metric, dimensions };
                let known_count =
                    shared.remembered.no_future_events.open_count(&tally).and_then(|count| count.try_into().ok());
                let key_range = shared.remembered.partial_hours.are_wanted(&tally).then(|| shared.key_ranges.of(key));
                prefetch.add_tally(tally, &event_name, (known_count, key_range));
            }),
            _ => {}
        }
    }
    (!prefetch.is_empty()).then_some(prefetch)
}

fn outcome(snapshot: &mut Snapshot<'_, '_>, job: &mut PendingQuestion) -> Answered {
    match snapshot.prepare(job).and_then(|requests| snapshot.usages(&requests)) {
        Ok(usages) => answered(usages),
        Err(error) => Answered::Failed(error),
    }
}
