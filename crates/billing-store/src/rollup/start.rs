//! Starting to roll a metric up.

use std::collections::{BTreeMap, BTreeSet};

use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use time::macros::datetime;
use uuid::Uuid;

use super::key_range::{KeyRanges, lock_key_ranges};
use crate::pg::node::say_that_nodes_are_known;
use crate::pg::statement::statement;

/// Most sets of properties that one metric is rolled up by; usage under further ones is read from the events.
const KEY_SETS_MAX: i64 = 8;
/// Longest set of property names, in bytes: it is part of an index entry.
const KEYS_BYTES_MAX: usize = 1_500;

/// A beginning behind every event.
const COMPLETE_NOWHERE: OffsetDateTime = datetime!(9000-01-01 00:00 UTC);

statement! {
    /// Says that what ingesting looks at has changed.
    RenewIngestVersion -> BigInt {
        "INSERT INTO ingest_versions (organization_id, version) VALUES (" organization: Uuid as SqlUuid; ", 1)
        ON CONFLICT (organization_id) DO UPDATE SET version = ingest_versions.version + 1"
    }
}

/// Says that what ingesting the organization's events looks at has changed.
pub(crate) fn renew_ingest_version(pg: &mut PgConnection, organization: Uuid) -> QueryResult<()> {
    RenewIngestVersion { organization }.execute(pg).map(drop)
}

statement! {
    /// The metrics that are not rolled up by the properties yet and may be, with the names of their events.
    FindUnrolled -> (SqlUuid, Text) {
        "SELECT metric.id, metric.event_name
        FROM metrics metric, (SELECT " filter_keys: Vec<String> as Array<Text>; "::text[] AS filter_keys) wanted
        WHERE metric.organization_id = " organization: Uuid as SqlUuid; "
            AND metric.id = ANY (" metrics: Vec<Uuid> as Array<SqlUuid>; ")
            AND NOT EXISTS (
                SELECT FROM metric_rollups rollup
                WHERE rollup.organization_id = metric.organization_id
                    AND rollup.metric_id = metric.id
                    AND rollup.filter_keys = wanted.filter_keys
            )
            AND (
                SELECT count(*) FROM metric_rollups rollup
                WHERE rollup.organization_id = metric.organization_id AND rollup.metric_id = metric.id
            ) <= " key_sets_max: i64 as BigInt; ""
    }
}

statement! {
    /// From when on a lane has no event of some names.
    ReadLatestBefore -> (Text, Timestamptz) {
        "SELECT name, latest_before FROM event_names
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND name = ANY (" names: Vec<String> as Array<Text>; ")"
    }
}

statement! {
    /// From now on the metrics are rolled up; complete is what lies behind the last event there was before.
    StartRollups -> BigInt {
        "INSERT INTO metric_rollups (organization_id, metric_id, filter_keys, rolled_up_from)
        SELECT " organization: Uuid as SqlUuid; ", started.metric_id, " filter_keys: Vec<String> as Array<Text>; ",
            coalesce(started.latest_before, '-infinity')
        FROM unnest(
            " metrics: Vec<Uuid> as Array<SqlUuid>; ",
            " latest_before: Vec<Option<OffsetDateTime>> as Array<Nullable<Timestamptz>>; "
        ) AS started (metric_id, latest_before)
        ON CONFLICT DO NOTHING"
    }
}

/// Metrics that are rolled up by some properties from now on, while everybody who stores events waits.
pub(crate) struct Starting {
    organization: Uuid,
    filter_keys: Vec<String>,
    metrics: Vec<(Uuid, String)>,
    /// By name of events, from when on there are none.
    latest_before: BTreeMap<String, OffsetDateTime>,
}

impl Starting {
    /// Those of `metrics` that are not rolled up by `filter_keys` (none: in total) yet and can be; `None`: there are none.
    ///
    /// Takes every key range's lock: whoever stores events afterwards sees the change.
    pub(crate) fn begin(
        pg: &mut PgConnection,
        organization: Uuid,
        key_ranges: KeyRanges,
        metrics: &[Uuid],
        filter_keys: &[String],
    ) -> QueryResult<Option<Self>> {
        let starting = Self::begin_unseen(pg, organization, metrics, filter_keys)?;
        if starting.is_some() {
            lock_key_ranges(pg, key_ranges.all())?;
        }
        Ok(starting)
    }

    /// [`Starting::begin`] without any lock, where whoever stores events may see the change later: the roll-ups must not be complete
    /// anywhere then.
    pub(crate) fn begin_unseen(
        pg: &mut PgConnection,
        organization: Uuid,
        metrics: &[Uuid],
        filter_keys: &[String],
    ) -> QueryResult<Option<Self>> {
        if filter_keys.iter().map(String::len).sum::<usize>() > KEYS_BYTES_MAX {
            return Ok(None);
        }
        let filter_keys = filter_keys.to_vec();
        let (metrics, key_sets_max) = (metrics.to_vec(), KEY_SETS_MAX);
        let find = FindUnrolled { filter_keys: filter_keys.clone(), organization, metrics, key_sets_max };
        let metrics: Vec<(Uuid, String)> = find.load(pg)?;
        let is_any = !metrics.is_empty();
        Ok(is_any.then(|| Self { organization, filter_keys, metrics, latest_before: BTreeMap::new() }))
    }

    /// Says that they are rolled up, and complete nowhere: usage is read from the events until they are filled in. Who does so knows
    /// of nodes.
    pub(crate) fn end_incomplete(&self, pg: &mut PgConnection) -> QueryResult<()> {
        say_that_nodes_are_known(pg)?;
        let metrics: Vec<Uuid> = self.metrics.iter().map(|(id, _)| *id).collect();
        let latest_before = vec![Some(COMPLETE_NOWHERE); metrics.len()];
        let (organization, filter_keys) = (self.organization, self.filter_keys.clone());
        StartRollups { organization, filter_keys, metrics, latest_before }.execute(pg)?;
        renew_ingest_version(pg, organization)
    }

    /// Looks how far one lane's events go.
    pub(crate) fn look(&mut self, pg: &mut PgConnection) -> QueryResult<()> {
        let names: BTreeSet<&String> = self.metrics.iter().map(|(_, name)| name).collect();
        let names = names.into_iter().cloned().collect();
        let read = ReadLatestBefore { organization: self.organization, names };
        for (name, before) in read.load::<(String, OffsetDateTime)>(pg)? {
            let latest = self.latest_before.entry(name).or_insert(before);
            *latest = before.max(*latest);
        }
        Ok(())
    }

    /// Says that they are rolled up, once every lane was looked at.
    pub(crate) fn end(self, pg: &mut PgConnection) -> QueryResult<()> {
        let Self { organization, filter_keys, metrics, latest_before } = self;
        let latest_before = metrics.iter().map(|(_, name)| latest_before.get(name).copied()).collect();
        let metrics = metrics.into_iter().map(|(id, _)| id).collect();
        StartRollups { organization, filter_keys, metrics, latest_before }.execute(pg)?;
        renew_ingest_version(pg, organization)
    }
}
