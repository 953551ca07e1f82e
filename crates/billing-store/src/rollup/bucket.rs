//! Buckets: what of a metric is in which, and which of them a period is made of.

use std::borrow::Cow;
use std::collections::BTreeMap;

use billing_domain::metric::{Aggregation, MetricFilters};
use billing_domain::period::Period;
use billing_domain::subscription::SubscriptionFilters;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

/// Seconds in an hour.
pub(crate) const HOUR: i64 = 3_600;
/// Hours of the buckets there are.
pub(crate) const BOTH_LEVELS: &[i16] = &[1, 24];
/// The smaller ones alone.
pub(crate) const HOURS_ALONE: &[i16] = &[1];
/// What stands in the place of a bucket's hours where the hot bucket is meant.
pub(crate) const HOT_BUCKET: i16 = 0;
/// Longest text of dimensions, in bytes, before a digest stands in for it: it is part of an index entry.
const DIMENSIONS_BYTES_MAX: usize = 500;

/// What of a metric is rolled up.
#[derive(Clone, Debug, PartialEq)]
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

/// The last boundary at or before `instant`, of those that are so many seconds apart.
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
