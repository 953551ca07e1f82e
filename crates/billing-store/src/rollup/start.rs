//! Starting to roll a metric up.

use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Text, Uuid as SqlUuid};
use uuid::Uuid;

use super::key_range::{KeyRanges, lock_key_ranges};
use crate::pg::statement::statement;

/// Most sets of properties that one metric is rolled up by; usage under further ones is read from the events.
const KEY_SETS_MAX: i64 = 8;
/// Longest set of property names, in bytes: it is part of an index entry.
const KEYS_BYTES_MAX: usize = 1_500;

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
    /// The metrics that are not rolled up by the properties yet and may be.
    FindUnrolled -> SqlUuid {
        "SELECT metric.id
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
    /// From now on the metrics are rolled up; complete is what lies behind the last event there was before.
    StartRollups -> BigInt {
        "INSERT INTO metric_rollups (organization_id, metric_id, filter_keys, rolled_up_from)
        SELECT metric.organization_id, metric.id, " filter_keys: Vec<String> as Array<Text>; ",
            coalesce(name.latest_before, '-infinity')
        FROM metrics metric
        LEFT JOIN event_names name
            ON name.organization_id = metric.organization_id AND name.name = metric.event_name
        WHERE metric.organization_id = " organization: Uuid as SqlUuid; "
            AND metric.id = ANY (" metrics: Vec<Uuid> as Array<SqlUuid>; ")
        ON CONFLICT DO NOTHING"
    }
}

/// Starts rolling `metrics` up by `filter_keys` (none: in total), unless that goes on already or cannot be.
///
/// Takes every key range's lock: whoever stores events afterwards sees the change.
pub(crate) fn start(
    pg: &mut PgConnection,
    organization: Uuid,
    key_ranges: KeyRanges,
    metrics: &[Uuid],
    filter_keys: &[String],
) -> QueryResult<()> {
    if filter_keys.iter().map(String::len).sum::<usize>() > KEYS_BYTES_MAX {
        return Ok(());
    }
    let find = FindUnrolled {
        filter_keys: filter_keys.to_vec(),
        organization,
        metrics: metrics.to_vec(),
        key_sets_max: KEY_SETS_MAX,
    };
    let metrics: Vec<Uuid> = find.load(pg)?;
    if metrics.is_empty() {
        return Ok(());
    }
    lock_key_ranges(pg, key_ranges.all())?;
    StartRollups { filter_keys: filter_keys.to_vec(), organization, metrics }.execute(pg)?;
    renew_ingest_version(pg, organization)
}
