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

use crate::statement::statement;
use crate::transaction::PgTransaction;

/// How long a beginning is remembered that can become earlier.
const BEGINNING_KEPT: Duration = Duration::from_secs(10);
/// Most roll-ups whose beginning is remembered.
const BEGINNINGS_MAX: usize = 100_000;

statement! {
    /// From when on roll-ups are complete.
    ReadBeginnings -> (SqlUuid, Array<Text>, Timestamptz) {
        "SELECT metric_id, filter_keys, greatest(rolled_up_from, '0001-01-01 00:00+00')
        FROM metric_rollups
        WHERE organization_id = " organization: Uuid as SqlUuid; "
            AND metric_id = ANY (" metrics: Vec<Uuid> as Array<SqlUuid>; ")"
    }
}

/// Since when the roll-ups of a metric by a set of properties are complete. That only ever changes to an earlier instant,
/// when they have been filled in, so what is remembered may cost a slower read but never a wrong figure.
#[derive(Default)]
pub(crate) struct Beginnings {
    known: Mutex<HashMap<(Uuid, Vec<String>), Beginning>>,
}

/// What is known of one roll-up, and since when.
#[derive(Clone, Copy)]
struct Beginning {
    from: OffsetDateTime,
    found_at: Instant,
}

impl Beginning {
    /// Whether it may be taken as it is: it cannot become earlier, or has been looked up just now.
    fn is_fresh(&self) -> bool {
        self.from <= instant::FIRST || self.found_at.elapsed() < BEGINNING_KEPT
    }
}

impl Beginnings {
    fn find(&self, requests: &[UsageRequest]) -> Vec<Option<OffsetDateTime>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |request| known.get(&key_of(request)).filter(|known| known.is_fresh()).map(|known| known.from);
        requests.iter().map(find).collect()
    }

    fn keep(&self, found: Vec<(Uuid, Vec<String>, OffsetDateTime)>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > BEGINNINGS_MAX {
            known.clear();
        }
        let found_at = Instant::now();
        known.extend(found.into_iter().map(|(metric, keys, from)| ((metric, keys), Beginning { from, found_at })));
    }
}

fn key_of(request: &UsageRequest) -> (Uuid, Vec<String>) {
    (request.metric.id.uuid(), request.filters.iter().map(|(name, _)| name.to_owned()).collect())
}

impl PgTransaction<'_> {
    /// Since when the roll-ups of each request are complete; `None`: never, or there are none.
    pub(super) fn beginnings(&mut self, requests: &[UsageRequest]) -> Result<Vec<Option<OffsetDateTime>>, Error> {
        let beginnings = self.shared.beginnings.find(requests);
        let unknown = requests.iter().zip(&beginnings).filter(|(_, known)| known.is_none());
        let metrics: HashSet<Uuid> = unknown.map(|(request, _)| request.metric.id.uuid()).collect();
        if metrics.is_empty() {
            return Ok(beginnings);
        }
        let statement = ReadBeginnings { organization: self.tenant(), metrics: metrics.into_iter().collect() };
        let found = self.query(|pg| statement.load(pg))?;
        self.shared.beginnings.keep(found);
        Ok(self.shared.beginnings.find(requests))
    }
}
