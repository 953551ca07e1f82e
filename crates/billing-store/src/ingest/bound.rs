//! How much one transaction takes in: whoever waits for its key ranges waits for all of it.

use std::collections::HashSet;

use time::OffsetDateTime;
use uuid::Uuid;

use super::Candidate;
use super::rules::IngestState;
use crate::rollup::{BOTH_LEVELS, CachedHotBuckets, ROWS_PER_TRANSACTION_MAX, RolledMetric, hour_after};

/// Whose events of a name share rows of roll-ups: those of one hour.
type Bucket<'c> = (Uuid, &'c str, OffsetDateTime);

/// The rows of roll-ups that the events of one transaction move, never told too few.
struct Estimate<'c, 'p> {
    present: &'p IngestState,
    cached: &'p CachedHotBuckets<'p>,
    counted: HashSet<Bucket<'c>>,
}

impl<'c> Estimate<'c, '_> {
    /// What an event adds, beside those before it.
    fn add(&mut self, candidate: &'c Candidate<'_>) -> usize {
        let (customer, event) = (candidate.row.customer.uuid(), &candidate.row.event);
        let Some(metrics) = self.present.rules.metrics.get(&event.name) else { return 0 };
        let (totals, filtered) = buckets_of(metrics);
        let hour = hour_after(event.time_created);
        let is_open = hour == hour_after(self.present.now_of(customer));
        // Values differ from event to event, and so do the buckets that are kept by them.
        let of_values = filtered * BOTH_LEVELS.len();
        if !self.counted.insert((customer, &event.name, hour)) {
            return of_values;
        }
        // What is known to be of this hour is one row still; what is not may be an hour that is over, and is closed now.
        if is_open && self.cached.has_hour_before(customer, &event.name, hour) {
            return of_values + 1;
        }
        of_values + totals * BOTH_LEVELS.len()
    }
}

/// The rows of one level that an event moves: those of all events, and those of its values.
fn buckets_of(metrics: &[RolledMetric]) -> (usize, usize) {
    let of_all = |metric: &&RolledMetric| metric.key_sets.iter().any(Vec::is_empty);
    let totals = metrics.iter().filter(of_all).count();
    (totals, metrics.iter().map(|metric| metric.key_sets.len()).sum::<usize>() - totals)
}

/// How many of a group's rows, of which these are the candidates, one transaction takes: all of them, or those before the first
/// that would be too much.
pub(super) fn rows_taken(
    rows: usize,
    candidates: &[Candidate<'_>],
    present: &IngestState,
    cached: &CachedHotBuckets<'_>,
) -> usize {
    let metrics = &present.rules.metrics;
    let most = metrics.values().map(|of_name| of_name.iter().map(|metric| metric.key_sets.len()).sum::<usize>()).max();
    if candidates.len() * most.unwrap_or_default() * BOTH_LEVELS.len() <= ROWS_PER_TRANSACTION_MAX {
        return rows;
    }
    let mut estimate = Estimate { present, cached, counted: HashSet::with_capacity(candidates.len()) };
    let mut moved = 0;
    for (place, candidate) in candidates.iter().enumerate() {
        moved += estimate.add(candidate);
        if moved > ROWS_PER_TRANSACTION_MAX && place > 0 {
            return candidate.index;
        }
    }
    rows
}
