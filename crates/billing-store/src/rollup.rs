//! Roll-ups: usage counted by hour and by UTC day as events come in.
//!
//! A row holds the events of one customer, metric and bucket, either all of them or those that have certain values
//! in the properties that subscription filters name. Which sets of properties are rolled up is not the power set of
//! what an organization may filter by, but exactly those sets that its subscriptions use, per metric: one event adds
//! one row for each set, and a filtered figure is read from the very rows it needs. What is not rolled up is read
//! from the events.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use billing_domain::event::{Event, property_text};
use billing_domain::id::CustomerKey;
use billing_domain::metric::{Aggregation, Measured, MetricFilters};
use billing_domain::period::Period;
use billing_domain::subscription::SubscriptionFilters;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Numeric, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::ingest;
use crate::statement::statement;
use crate::transaction::LOCK_CLASS_LANE;

/// Seconds in an hour.
pub(crate) const HOUR: i64 = 3_600;
/// Hours of the buckets there are.
pub(crate) const BOTH_LEVELS: &[i16] = &[1, 24];
/// The smaller ones alone.
pub(crate) const HOURS_ALONE: &[i16] = &[1];
/// Most sets of properties that one metric is rolled up by; usage under further ones is read from the events.
const KEY_SETS_MAX: i64 = 8;
/// Longest set of property names, in bytes: it is part of an index entry.
const KEYS_BYTES_MAX: usize = 1_500;
/// Longest text of dimensions, in bytes, before a digest stands in for it: it is part of an index entry.
const DIMENSIONS_BYTES_MAX: usize = 500;

/// How customers are divided into lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes {
    bits: u8,
}

impl Lanes {
    pub(crate) fn new(bits: u8) -> Self {
        Self { bits: bits.min(8) }
    }

    /// The lane of a customer: the top bits of its key.
    pub(crate) fn of(self, customer: CustomerKey) -> i32 {
        let [first, ..] = *customer.uuid().as_bytes();
        i32::from(u16::from(first) >> (8 - self.bits))
    }

    /// How many there are.
    pub(crate) fn count(self) -> u32 {
        1 << self.bits
    }

    /// Every lane, ascending.
    pub(crate) fn all(self) -> Vec<i32> {
        (0..1 << self.bits).collect()
    }
}

statement! {
    /// Waits for the lanes, in the order given, which must be ascending; held until the transaction ends.
    LockLanes -> BigInt {
        "SELECT pg_advisory_xact_lock(" class: i32 as Integer; ", lane) FROM unnest(" lanes: Vec<i32> as Array<Integer>; ") AS lane"
    }
}

/// Waits for `lanes`, which must be ascending.
pub(crate) fn lock_lanes(pg: &mut PgConnection, lanes: Vec<i32>) -> QueryResult<()> {
    LockLanes { class: LOCK_CLASS_LANE, lanes }.execute(pg).map(|_| ())
}

statement! {
    /// The metrics that are not rolled up by the properties yet and may be.
    FindUnrolled -> SqlUuid {
        "SELECT metric.id
        FROM metrics metric, (SELECT " filter_keys: Vec<String> as Array<Text>; "::text[] AS filter_keys) wanted
        WHERE metric.organization_id = " organization: Uuid as SqlUuid; "
            AND metric.id = ANY (" metrics: Vec<Uuid> as Array<SqlUuid>; ")
            -- Different texts do not add up: see Aggregation::adds_up.
            AND metric.aggregation_type <> 'unique'
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
/// Takes every lane's lock: whoever stores events afterwards sees the change.
pub(crate) fn start(
    pg: &mut PgConnection,
    organization: Uuid,
    lanes: Lanes,
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
    lock_lanes(pg, lanes.all())?;
    StartRollups { filter_keys: filter_keys.to_vec(), organization, metrics }.execute(pg)?;
    ingest::move_epoch(pg, organization)
}

/// What of a metric is rolled up.
#[derive(Clone, Debug)]
pub(crate) struct RolledMetric {
    pub(crate) id: Uuid,
    pub(crate) aggregation: Aggregation,
    pub(crate) filters: MetricFilters,
    /// Sets of property names, each in order; the empty one is the total.
    pub(crate) key_sets: Vec<Vec<String>>,
}

/// The `dimensions` of a set of property values.
pub(crate) fn dimensions(filters: &BTreeMap<&str, String>) -> String {
    if filters.is_empty() {
        return String::new();
    }
    bounded(serde_json::to_string(filters).unwrap_or_default())
}

/// The `dimensions` that filters select; the same text as [`dimensions`] makes of an event that passes them.
pub(crate) fn dimensions_of(filters: &SubscriptionFilters) -> String {
    if filters.is_empty() { String::new() } else { bounded(filters.canonical()) }
}

fn bounded(text: String) -> String {
    if text.len() <= DIMENSIONS_BYTES_MAX {
        return text;
    }
    let digest: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digest}")
}

type BucketKey = (Uuid, Uuid, String, i16, OffsetDateTime);

/// What one bucket gains. Only what the metric's aggregation needs is there.
#[derive(Default)]
struct Gain {
    event_count: i64,
    sum: BigDecimal,
    max: Option<BigDecimal>,
    min: Option<BigDecimal>,
    latest: Option<(OffsetDateTime, String, BigDecimal)>,
}

impl Gain {
    fn add(&mut self, aggregation: &Aggregation, event: &Event, measured: &Measured) {
        self.event_count += 1;
        let Measured::Number(number) = measured else { return };
        match aggregation {
            Aggregation::Sum { .. } | Aggregation::Average { .. } => self.sum += number,
            Aggregation::Max { .. } if self.max.as_ref().is_none_or(|max| number > max) => {
                self.max = Some(number.clone());
            }
            Aggregation::Min { .. } if self.min.as_ref().is_none_or(|min| number < min) => {
                self.min = Some(number.clone());
            }
            Aggregation::Latest { .. } => {
                let key = (event.time_created, event.idempotency_id.as_str());
                if self.latest.as_ref().is_none_or(|(at, id, _)| key > (*at, id.as_str())) {
                    self.latest = Some((key.0, key.1.to_owned(), number.clone()));
                }
            }
            Aggregation::Max { .. } | Aggregation::Min { .. } | Aggregation::Count | Aggregation::Unique { .. } => {}
        }
    }
}

/// What one transaction adds to the roll-ups, in the order of their primary key.
#[derive(Default)]
pub(crate) struct Additions {
    buckets: BTreeMap<BucketKey, Gain>,
}

statement! {
    /// Adds to the roll-ups.
    AddToRollups -> BigInt {
        "INSERT INTO usage_rollup AS rollup (organization_id, customer_key, metric_id, dimensions, bucket_hours, bucket,
            event_count, sum, max, min, latest, latest_at, latest_id)
        SELECT " organization: Uuid as SqlUuid; ", addition.*
        FROM unnest(
            " customers: Vec<Uuid> as Array<SqlUuid>; ",
            " metrics: Vec<Uuid> as Array<SqlUuid>; ",
            " dimensions: Vec<String> as Array<Text>; ",
            " bucket_hours: Vec<i16> as Array<SmallInt>; ",
            " buckets: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " event_counts: Vec<i64> as Array<BigInt>; ",
            " sums: Vec<BigDecimal> as Array<Numeric>; ",
            " maxima: Vec<Option<BigDecimal>> as Array<Nullable<Numeric>>; ",
            " minima: Vec<Option<BigDecimal>> as Array<Nullable<Numeric>>; ",
            " latest: Vec<Option<BigDecimal>> as Array<Nullable<Numeric>>; ",
            " latest_times: Vec<Option<OffsetDateTime>> as Array<Nullable<Timestamptz>>; ",
            " latest_ids: Vec<Option<String>> as Array<Nullable<Text>>; "
        ) AS addition
        ON CONFLICT (customer_key, metric_id, dimensions, bucket_hours, bucket) DO UPDATE SET
            event_count = rollup.event_count + excluded.event_count,
            sum = rollup.sum + excluded.sum,
            max = greatest(rollup.max, excluded.max),
            min = least(rollup.min, excluded.min),
            latest = CASE WHEN (excluded.latest_at, excluded.latest_id) > (rollup.latest_at, rollup.latest_id)
                THEN excluded.latest ELSE rollup.latest END,
            latest_at = CASE WHEN (excluded.latest_at, excluded.latest_id) > (rollup.latest_at, rollup.latest_id)
                THEN excluded.latest_at ELSE rollup.latest_at END,
            latest_id = CASE WHEN (excluded.latest_at, excluded.latest_id) > (rollup.latest_at, rollup.latest_id)
                THEN excluded.latest_id ELSE rollup.latest_id END"
    }
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
    /// Counts `event` for every metric in `metrics`, which must be those of its name.
    pub(crate) fn add(&mut self, customer: Uuid, event: &Event, metrics: &[RolledMetric]) {
        self.add_to(BOTH_LEVELS, customer, event, metrics);
    }

    /// As [`Additions::add`], in buckets of so many hours.
    pub(crate) fn add_to(&mut self, levels: &[i16], customer: Uuid, event: &Event, metrics: &[RolledMetric]) {
        for metric in metrics {
            if !metric.filters.matches(&event.properties) {
                continue;
            }
            let Some(measured) = metric.aggregation.measured(event) else { continue };
            for keys in &metric.key_sets {
                let Some(dimensions) = event_dimensions(event, keys) else { continue };
                for hours in levels {
                    let bucket = floor(event.time_created, i64::from(*hours) * HOUR);
                    let key = (customer, metric.id, dimensions.clone(), *hours, bucket);
                    self.buckets.entry(key).or_default().add(&metric.aggregation, event, &measured);
                }
            }
        }
    }

    /// Writes everything in the place of what is there. No bucket that is there can be missing here, because a bucket
    /// has events and those are never removed.
    pub(crate) fn replace(self, pg: &mut PgConnection, organization: Uuid) -> QueryResult<()> {
        let keys = || self.buckets.keys();
        let remove = RemoveRollups {
            customers: keys().map(|key| key.0).collect(),
            metrics: keys().map(|key| key.1).collect(),
            dimensions: keys().map(|key| key.2.clone()).collect(),
            bucket_hours: keys().map(|key| key.3).collect(),
            buckets: keys().map(|key| key.4).collect(),
        };
        remove.execute(pg)?;
        self.write(pg, organization)
    }

    /// Writes everything in key order, so that no two transactions wait for each other.
    pub(crate) fn write(self, pg: &mut PgConnection, organization: Uuid) -> QueryResult<()> {
        if self.buckets.is_empty() {
            return Ok(());
        }
        let rows = self.buckets.len();
        let mut statement = AddToRollups {
            organization,
            customers: Vec::with_capacity(rows),
            metrics: Vec::with_capacity(rows),
            dimensions: Vec::with_capacity(rows),
            bucket_hours: Vec::with_capacity(rows),
            buckets: Vec::with_capacity(rows),
            event_counts: Vec::with_capacity(rows),
            sums: Vec::with_capacity(rows),
            maxima: Vec::with_capacity(rows),
            minima: Vec::with_capacity(rows),
            latest: Vec::with_capacity(rows),
            latest_times: Vec::with_capacity(rows),
            latest_ids: Vec::with_capacity(rows),
        };
        for ((customer, metric, dimensions, hours, bucket), gain) in self.buckets {
            statement.customers.push(customer);
            statement.metrics.push(metric);
            statement.dimensions.push(dimensions);
            statement.bucket_hours.push(hours);
            statement.buckets.push(bucket);
            statement.event_counts.push(gain.event_count);
            statement.sums.push(gain.sum);
            statement.maxima.push(gain.max);
            statement.minima.push(gain.min);
            let (at, id, number) =
                gain.latest.map_or((None, None, None), |(at, id, number)| (Some(at), Some(id), Some(number)));
            statement.latest.push(number);
            statement.latest_times.push(at);
            statement.latest_ids.push(id);
        }
        statement.execute(pg).map(|_| ())
    }
}

/// The dimensions of an event under a set of property names; none if it lacks one of them.
fn event_dimensions(event: &Event, keys: &[String]) -> Option<String> {
    let values: Option<BTreeMap<&str, String>> =
        keys.iter().map(|key| Some((key.as_str(), property_text(&event.properties, key)?))).collect();
    values.map(|values| dimensions(&values))
}

pub(crate) fn floor(instant: OffsetDateTime, seconds: i64) -> OffsetDateTime {
    let bucket = instant.unix_timestamp().div_euclid(seconds) * seconds;
    OffsetDateTime::from_unix_timestamp(bucket).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// The first boundary at or after `instant`; none beyond the calendar.
pub(crate) fn ceiling(instant: OffsetDateTime, seconds: i64) -> Option<OffsetDateTime> {
    let below = floor(instant, seconds);
    if below == instant {
        Some(below)
    } else {
        OffsetDateTime::from_unix_timestamp(below.unix_timestamp() + seconds).ok()
    }
}

/// The whole hour after everything that is dated before `instant` or at it.
pub(crate) fn hour_after(instant: OffsetDateTime) -> OffsetDateTime {
    let below = floor(instant, HOUR).unix_timestamp();
    OffsetDateTime::from_unix_timestamp(below + HOUR).unwrap_or(billing_domain::period::instant::LAST)
}

/// Where a part of a usage figure is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// From the events.
    Events,
    /// From buckets of so many hours.
    Buckets(i16),
}

/// Divides `period` into whole days and hours, where roll-ups are complete, and ragged ends.
pub(crate) fn split(period: &Period, rolled_up_from: Option<OffsetDateTime>) -> Vec<(Source, Period)> {
    let mut parts = Vec::new();
    let mut add = |source, start, end| {
        if start < end
            && let Ok(part) = Period::new(start, end)
        {
            parts.push((source, part));
        }
    };
    let (start, end) = (period.start(), period.end());
    let first = rolled_up_from.and_then(|from| ceiling(start.max(from), HOUR));
    let (Some(first), last) = (first, floor(end, HOUR)) else {
        add(Source::Events, start, end);
        return parts;
    };
    if first >= last {
        add(Source::Events, start, end);
        return parts;
    }
    add(Source::Events, start, first);
    match (ceiling(first, 24 * HOUR), floor(last, 24 * HOUR)) {
        (Some(first_day), last_day) if first_day < last_day => {
            add(Source::Buckets(1), first, first_day);
            add(Source::Buckets(24), first_day, last_day);
            add(Source::Buckets(1), last_day, last);
        }
        _ => add(Source::Buckets(1), first, last),
    }
    add(Source::Events, last, end);
    parts
}
