//! Roll-ups: usage counted by hour and by UTC day as events come in.
//!
//! A row holds the events of one customer, metric and bucket, either all of them or those that have certain values
//! in the properties that subscription filters name. Which sets of properties are rolled up is not the power set of
//! what an organization may filter by, but exactly those sets that its subscriptions use, per metric: one event counts
//! once for each set, and a filtered figure is read from the very rows it needs. What is not rolled up is read from the
//! events.
//!
//! What comes in during an hour is in that hour's own row first: see [`hot_bucket`].

mod additions;
mod delta;
pub(crate) mod hot_bucket;
mod hot_bucket_cache;

use std::borrow::Cow;
use std::collections::BTreeMap;

use billing_domain::id::CustomerKey;
use billing_domain::metric::{Aggregation, MetricFilters};
use billing_domain::period::Period;
use billing_domain::subscription::SubscriptionFilters;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Integer, Text, Uuid as SqlUuid};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::ingest;
use crate::pg::lock::LockClass;
use crate::pg::statement::statement;

pub(crate) use self::additions::Additions;
pub(crate) use self::hot_bucket::{Counting, Counts};
pub(crate) use self::hot_bucket_cache::{CachedHotBuckets, HotBucketCache, Transaction, Written};

/// Seconds in an hour.
pub(crate) const HOUR: i64 = 3_600;
/// Hours of the buckets there are.
pub(crate) const BOTH_LEVELS: &[i16] = &[1, 24];
/// The smaller ones alone.
pub(crate) const HOURS_ALONE: &[i16] = &[1];
/// What stands in the place of a bucket's hours where the hot bucket is meant.
pub(crate) const HOT_BUCKET: i16 = 0;
/// Most rows of roll-ups that one transaction writes, unless one event alone moves more: whoever waits for its lanes waits
/// for that long.
pub(crate) const ROWS_PER_TRANSACTION_MAX: usize = 10_000;
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

statement! {
    /// [`LockLanes`] for so many events in each, whose arrival numbers end with the number that is answered. The row is moved
    /// behind the lock, so that what it says is what the one before has committed.
    EnterLanes -> (Integer, BigInt) {
        "INSERT INTO event_arrivals AS known (organization_id, lane, last_arrival)
        SELECT " organization: Uuid as SqlUuid; ", entered.lane, entered.events
        FROM (
            SELECT sent.lane, sent.events, pg_advisory_xact_lock(" class: i32 as Integer; ", sent.lane)
            FROM unnest(" lanes: Vec<i32> as Array<Integer>; ", " events: Vec<i64> as Array<BigInt>; ") AS sent (lane, events)
            OFFSET 0
        ) entered
        ON CONFLICT (organization_id, lane) DO UPDATE SET last_arrival = known.last_arrival + excluded.last_arrival
        RETURNING lane, last_arrival"
    }
}

/// The arrival numbers that a transaction may give to the events of each lane.
pub(crate) struct Arrivals(BTreeMap<i32, i64>);

impl Arrivals {
    /// The next number of a lane.
    pub(crate) fn next(&mut self, lane: i32) -> i64 {
        let last = self.0.entry(lane).or_default();
        *last += 1;
        *last
    }
}

/// Waits for the lanes that so many events go into, and takes numbers for them: of two events of one customer, that which is
/// committed later has the greater.
pub(crate) fn enter_lanes(
    pg: &mut PgConnection,
    organization: Uuid,
    events: &BTreeMap<i32, i64>,
) -> QueryResult<Arrivals> {
    let (lanes, counts) = (events.keys().copied().collect(), events.values().copied().collect());
    let enter = EnterLanes { organization, class: LockClass::Lane.key(), lanes, events: counts };
    let reached: Vec<(i32, i64)> = enter.load(pg)?;
    let before = |(lane, last): (i32, i64)| (lane, last - events.get(&lane).copied().unwrap_or_default());
    Ok(Arrivals(reached.into_iter().map(before).collect()))
}

/// Waits for `lanes`, which must be ascending.
pub(crate) fn lock_lanes(pg: &mut PgConnection, lanes: Vec<i32>) -> QueryResult<()> {
    LockLanes { class: LockClass::Lane.key(), lanes }.execute(pg).map(|_| ())
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
    ingest::renew_ingest_version(pg, organization)
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
pub(crate) fn dimensions(filters: &BTreeMap<&str, Cow<'_, str>>) -> String {
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
    /// From buckets of so many hours, or from the hot bucket if it is in the period.
    Buckets(i16),
}

/// Divides `period` into whole days and hours, where roll-ups are complete, the hot bucket among them, and partial hours.
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
    add(Source::Buckets(HOT_BUCKET), first, last);
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
