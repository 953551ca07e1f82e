//! Adding to the roll-ups by hour and by day.

use std::collections::BTreeMap;

use billing_domain::event::Event;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::bucket::{BOTH_LEVELS, HOUR, RolledMetric, floor};
use super::delta::{BucketDeltas, for_each_count};
use super::figures::{AddToRollups, BucketDelta, BucketKey};
use crate::pg::statement::statement;

/// Most rows that one statement writes: it ends long before its time is over, also where everything takes ten times as long.
const ROWS_PER_STATEMENT_MAX: usize = 5_000;

/// What one transaction adds to the roll-ups, in the order of their primary key.
#[derive(Default)]
pub(crate) struct Additions {
    buckets: BTreeMap<BucketKey, BucketDelta>,
}

statement! {
    /// Removes buckets of one customer.
    RemoveRollups -> BigInt {
        "DELETE FROM usage_rollup rollup
        USING unnest(
            " customers: Vec<Uuid> as Array<SqlUuid>; ",
            " metrics: Vec<Uuid> as Array<SqlUuid>; ",
            " dimensions: Vec<String> as Array<Text>; ",
            " bucket_hours: Vec<i16> as Array<SmallInt>; ",
            " buckets: Vec<OffsetDateTime> as Array<Timestamptz>; "
        ) AS replaced (customer_key, metric_id, dimensions, bucket_hours, bucket)
        WHERE rollup.customer_key = replaced.customer_key
            AND rollup.metric_id = replaced.metric_id
            AND rollup.dimensions = replaced.dimensions
            AND rollup.bucket_hours = replaced.bucket_hours
            AND rollup.bucket = replaced.bucket"
    }
}

impl Additions {
    /// Counts `event` for every metric in `metrics`, which must be those of its name, in buckets of so many hours.
    pub(crate) fn add(&mut self, levels: &[i16], customer: Uuid, event: &Event, metrics: &[RolledMetric]) {
        for_each_count(event, metrics, |metric, dimensions, measured| {
            for hours in levels {
                let key = (customer, metric.id, dimensions.clone(), *hours, bucket(event.time_created, *hours));
                self.buckets.entry(key).or_default().add(&metric.aggregation, event, measured);
            }
        });
    }

    /// Adds what an hour has gained to it and to its day.
    pub(super) fn add_hour(&mut self, customer: Uuid, dimensions: &str, hour: OffsetDateTime, deltas: BucketDeltas) {
        for (metric, delta) in deltas {
            for hours in BOTH_LEVELS {
                let key = (customer, metric, dimensions.to_owned(), *hours, bucket(hour, *hours));
                self.buckets.entry(key).or_default().merge(delta.clone());
            }
        }
    }

    /// Writes everything in the place of what is there. No bucket that is there can be missing here, because a bucket
    /// has events, and goes with the last one that is voided.
    pub(crate) fn replace(self, pg: &mut PgConnection, organization: Uuid) -> QueryResult<()> {
        let keys: Vec<&BucketKey> = self.buckets.keys().collect();
        for keys in keys.chunks(ROWS_PER_STATEMENT_MAX) {
            let remove = RemoveRollups {
                customers: keys.iter().map(|key| key.0).collect(),
                metrics: keys.iter().map(|key| key.1).collect(),
                dimensions: keys.iter().map(|key| key.2.clone()).collect(),
                bucket_hours: keys.iter().map(|key| key.3).collect(),
                buckets: keys.iter().map(|key| key.4).collect(),
            };
            remove.execute(pg)?;
        }
        self.write(pg, organization)
    }

    /// Writes everything in key order, so that no two transactions wait for each other.
    pub(crate) fn write(self, pg: &mut PgConnection, organization: Uuid) -> QueryResult<()> {
        let mut rows = self.buckets.into_iter().peekable();
        while rows.peek().is_some() {
            let mut statement = AddToRollups::of(organization);
            rows.by_ref().take(ROWS_PER_STATEMENT_MAX).for_each(|(key, delta)| statement.push(key, delta));
            statement.execute(pg)?;
        }
        Ok(())
    }
}

/// The bucket of so many hours that an instant is in.
fn bucket(instant: OffsetDateTime, hours: i16) -> OffsetDateTime {
    floor(instant, i64::from(hours) * HOUR)
}
