//! Since when roll-ups are complete.

use std::collections::{HashMap, HashSet};

use billing_domain::Error;
use billing_domain::usage::UsageRequest;
use diesel::prelude::*;
use diesel::sql_types::{Array, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::statement::statement;
use crate::transaction::PgTransaction;

statement! {
    /// From when on roll-ups are complete.
    ReadRollupStarts -> (SqlUuid, Array<Text>, Timestamptz) {
        "SELECT metric_id, filter_keys, greatest(rolled_up_from, '0001-01-01 00:00+00')
        FROM metric_rollups
        WHERE organization_id = " organization: Uuid as SqlUuid; "
            AND metric_id = ANY (" metrics: Vec<Uuid> as Array<SqlUuid>; ")"
    }
}

/// What the roll-ups of a request are remembered by: its metric, and the names of the properties that it is filtered by.
fn key_of(request: &UsageRequest) -> (Uuid, Vec<String>) {
    (request.metric.id.uuid(), request.filters.iter().map(|(name, _)| name.to_owned()).collect())
}

impl PgTransaction<'_> {
    /// Since when the roll-ups of each request are complete; `None`: never, or there are none.
    pub(super) fn rollup_starts(&mut self, requests: &[UsageRequest]) -> Result<Vec<Option<OffsetDateTime>>, Error> {
        let known = &self.shared.remembered.rollup_starts;
        let keys: Vec<_> = requests.iter().map(key_of).collect();
        let mut starts: Vec<Option<OffsetDateTime>> = keys.iter().map(|key| known.find(key)).collect();
        let unknown = keys.iter().zip(&starts).filter(|(_, start)| start.is_none());
        let metrics: HashSet<Uuid> = unknown.map(|((metric, _), _)| *metric).collect();
        if metrics.is_empty() {
            return Ok(starts);
        }
        let statement = ReadRollupStarts { organization: self.tenant(), metrics: metrics.into_iter().collect() };
        let found: Vec<(Uuid, Vec<String>, OffsetDateTime)> = self.query(|pg| statement.load(pg))?;
        let found: HashMap<_, _> = found.into_iter().map(|(metric, names, from)| ((metric, names), from)).collect();
        for (key, start) in keys.iter().zip(&mut starts).filter(|(_, start)| start.is_none()) {
            *start = found.get(key).copied();
        }
        found.into_iter().for_each(|(key, from)| known.keep(key, from));
        Ok(starts)
    }
}
