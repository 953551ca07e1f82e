//! Since when roll-ups are complete.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use billing_domain::Error;
use billing_domain::period::instant;
use billing_domain::usage::UsageRequest;
use diesel::prelude::*;
use diesel::sql_types::{Array, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::statement::statement;
use crate::transaction::PgTransaction;

/// How long a beginning is remembered that can become earlier.
const ROLLUP_START_KEPT: Duration = Duration::from_secs(10);
/// Most roll-ups whose beginning is remembered.
const ROLLUP_STARTS_MAX: usize = 100_000;

statement! {
    /// From when on roll-ups are complete.
    ReadRollupStarts -> (SqlUuid, Array<Text>, Timestamptz) {
        "SELECT metric_id, filter_keys, greatest(rolled_up_from, '0001-01-01 00:00+00')
        FROM metric_rollups
        WHERE organization_id = " organization: Uuid as SqlUuid; "
            AND metric_id = ANY (" metrics: Vec<Uuid> as Array<SqlUuid>; ")"
    }
}

/// Since when the roll-ups of a metric by a set of properties are complete. That only ever changes to an earlier instant,
/// when they have been filled in, so what is remembered may cost a slower read but never a wrong figure.
#[derive(Default)]
pub(crate) struct RollupStarts {
    known: Mutex<HashMap<(Uuid, Vec<String>), RollupStart>>,
}

/// What is known of one roll-up, and since when.
#[derive(Clone, Copy)]
struct RollupStart {
    from: OffsetDateTime,
    found_at: Instant,
}

impl RollupStart {
    /// Whether it may be taken as it is: it cannot become earlier, or has been looked up just now.
    fn is_fresh(&self) -> bool {
        self.from <= instant::FIRST || self.found_at.elapsed() < ROLLUP_START_KEPT
    }
}

impl RollupStarts {
    fn find(&self, requests: &[UsageRequest]) -> Vec<Option<OffsetDateTime>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |request| known.get(&key_of(request)).filter(|known| known.is_fresh()).map(|known| known.from);
        requests.iter().map(find).collect()
    }

    fn keep(&self, found: Vec<(Uuid, Vec<String>, OffsetDateTime)>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > ROLLUP_STARTS_MAX {
            known.clear();
        }
        let found_at = Instant::now();
        known.extend(found.into_iter().map(|(metric, keys, from)| ((metric, keys), RollupStart { from, found_at })));
    }
}

fn key_of(request: &UsageRequest) -> (Uuid, Vec<String>) {
    (request.metric.id.uuid(), request.filters.iter().map(|(name, _)| name.to_owned()).collect())
}

impl PgTransaction<'_> {
    /// Since when the roll-ups of each request are complete; `None`: never, or there are none.
    pub(super) fn rollup_starts(&mut self, requests: &[UsageRequest]) -> Result<Vec<Option<OffsetDateTime>>, Error> {
        let rollup_starts = self.shared.rollup_starts.find(requests);
        let unknown = requests.iter().zip(&rollup_starts).filter(|(_, known)| known.is_none());
        let metrics: HashSet<Uuid> = unknown.map(|(request, _)| request.metric.id.uuid()).collect();
        if metrics.is_empty() {
            return Ok(rollup_starts);
        }
        let statement = ReadRollupStarts { organization: self.tenant(), metrics: metrics.into_iter().collect() };
        let found = self.query(|pg| statement.load(pg))?;
        self.shared.rollup_starts.keep(found);
        Ok(self.shared.rollup_starts.find(requests))
    }
}
