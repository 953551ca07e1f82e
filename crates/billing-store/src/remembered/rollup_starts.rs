//! Since when roll-ups are complete.

use std::time::{Duration, Instant};

use billing_domain::period::instant;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::cache::VersionedCache;

/// How long a beginning is remembered that can become earlier.
const ROLLUP_START_KEPT: Duration = Duration::from_secs(10);
/// Most roll-ups whose beginning is remembered.
const ROLLUP_STARTS_MAX: usize = 100_000;

/// A metric, and a set of property names that it is rolled up by.
pub(crate) type RollupKey = (Uuid, Vec<String>);

/// Since when the roll-ups of a metric by a set of properties are complete, under the moment at which that was read. It only
/// ever changes to an earlier instant, when they have been filled in, so what is remembered may cost a slower read but never
/// a wrong figure.
pub(crate) struct RollupStarts(VersionedCache<RollupKey, Instant, OffsetDateTime>);

impl Default for RollupStarts {
    fn default() -> Self {
        Self(VersionedCache::of_entries(ROLLUP_STARTS_MAX))
    }
}

impl RollupStarts {
    /// What is known, if it cannot become earlier or has been read just now.
    pub(crate) fn find(&self, key: &RollupKey) -> Option<OffsetDateTime> {
        let is_fresh =
            |read_at: &Instant, from: OffsetDateTime| from <= instant::FIRST || read_at.elapsed() < ROLLUP_START_KEPT;
        self.0.look(key, |read_at, from| is_fresh(read_at, *from).then_some(*from))
    }

    /// Remembers what was read just now.
    pub(crate) fn keep(&self, key: RollupKey, from: OffsetDateTime) {
        self.0.keep(key, Instant::now(), from);
    }
}
