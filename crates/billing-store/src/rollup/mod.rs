//! Roll-ups: usage counted by hour and by UTC day as events come in.
//!
//! A row holds the events of one customer, metric and bucket, either all of them or those that have certain values
//! in the properties that subscription filters name. Which sets of properties are rolled up is not the power set of
//! what an organization may filter by, but exactly those sets that its subscriptions use, per metric: one event counts
//! once for each set, and a filtered figure is read from the very rows it needs. What is not rolled up is read from the
//! events.
//!
//! What comes in during an hour is in that hour's own row first: see [`hot_bucket`].

mod bucket;
mod delta;
mod figures;
pub(crate) mod hot_bucket;
mod hot_bucket_cache;
mod key_range;
mod start;
mod upsert;

pub(crate) use self::bucket::{
    BOTH_LEVELS, HOUR, HOURS_ALONE, RolledMetric, Source, ceiling, dimensions_of, floor, hour_after, split,
};
pub(crate) use self::figures::make_day_of_hours;
pub(crate) use self::hot_bucket::{Counting, Counts};
pub(crate) use self::hot_bucket_cache::{CachedHotBuckets, HotBucketCache, Transaction, Written};
pub(crate) use self::key_range::{KeyRanges, enter_key_ranges, lock_key_ranges, top_bits};
pub(crate) use self::start::{Starting, renew_ingest_version};
pub(crate) use self::upsert::Additions;

/// Most rows of roll-ups that one transaction writes, unless one event alone moves more: whoever waits for its key ranges waits
/// for that long.
pub(crate) const ROWS_PER_TRANSACTION_MAX: usize = 10_000;
