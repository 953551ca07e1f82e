//! What is remembered of usage, by whom and what it is of and when it starts, and how it is known to be so still.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use billing_domain::period::Period;
use billing_domain::totals::Totals;
use billing_domain::usage::UsageRequest;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::access::prefetch::RollupVersion;
use crate::rollup::{dimensions_of, hour_after};

/// Most figures of one kind that are remembered.
const FIGURES_MAX: usize = 100_000;

/// Whose events are counted, for which metric, and by which dimensions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TallyKey {
    pub(crate) customer: Uuid,
    pub(crate) metric: Uuid,
    pub(crate) dimensions: String,
}

/// What a figure belongs to: what is counted, and the first instant of the period.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FigureKey {
    pub(super) tally: TallyKey,
    start: OffsetDateTime,
}

impl FigureKey {
    pub(super) fn of(request: &UsageRequest) -> Self {
        let tally = TallyKey {
            customer: request.customer.uuid(),
            metric: request.metric.id.uuid(),
            dimensions: dimensions_of(&request.filters),
        };
        Self { tally, start: request.period.start() }
    }
}

/// Figures of one kind.
pub(super) struct Figures<K, T>(Mutex<HashMap<K, T>>);

impl<K, T> Default for Figures<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash, T: Clone> Figures<K, T> {
    pub(super) fn find(&self, key: &K, is_so_still: impl FnOnce(&T) -> bool) -> Option<T> {
        // Nobody panics half way through a change in here.
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|figure| is_so_still(figure)).cloned()
    }

    pub(super) fn keep(&self, key: &K, figure: T) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= FIGURES_MAX {
            known.clear();
        }
        known.insert(key.clone(), figure);
    }
}

/// The totals of partial hours, with the number of events that their buckets had then.
#[derive(Default)]
pub(crate) struct PartialHours(Figures<FigureKey, (u64, Totals)>);

impl PartialHours {
    /// What is known, if the bucket has as many events as it had then.
    pub(super) fn find(&self, key: &FigureKey, bucket_count: u64) -> Option<Totals> {
        self.0.find(key, |(then, _)| *then == bucket_count).map(|(_, totals)| totals)
    }

    pub(super) fn keep(&self, key: &FigureKey, bucket_count: u64, totals: Totals) {
        self.0.keep(key, (bucket_count, totals));
    }
}

/// What the buckets of a period come to, without the hot bucket.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    /// That of the roll-ups it was read from.
    pub version: Option<RollupVersion>,
    /// Where the buckets end.
    pub end: OffsetDateTime,
    /// All from the first whole hour on.
    pub whole: Totals,
    /// Events of the hour that the period starts within.
    pub start_count: u64,
}

/// What the buckets of periods come to.
#[derive(Default)]
pub(crate) struct Sums(Figures<FigureKey, Sum>);

impl Sums {
    /// What is known, if the customer's roll-ups have the same version and the period ends in the same hour.
    pub(super) fn find(&self, key: &FigureKey, version: RollupVersion, end: OffsetDateTime) -> Option<Sum> {
        self.0.find(key, |figure| figure.version == Some(version) && figure.end == end)
    }

    /// Nothing is kept of a customer whose version was not read.
    pub(super) fn keep(&self, key: &FigureKey, sum: Sum) {
        if sum.version.is_some() {
            self.0.keep(key, sum);
        }
    }
}

/// That nothing which counts in a tally is dated from an instant on to the end of its hour. Events are never removed or
/// changed: with the same roll-ups and as many in the hot bucket, there are no others.
#[derive(Clone, Debug)]
pub(crate) struct NoFutureEvents {
    pub(crate) rollups: RollupVersion,
    /// The hot bucket and its events.
    pub(crate) open: Option<(OffsetDateTime, u64)>,
    pub(crate) from: OffsetDateTime,
}

/// Where nothing lies ahead.
#[derive(Default)]
pub(crate) struct NoFutureEventsCache(Figures<TallyKey, NoFutureEvents>);

impl NoFutureEventsCache {
    /// The events of the hot bucket when nothing lay ahead the last time.
    pub(crate) fn open_count(&self, tally: &TallyKey) -> Option<u64> {
        self.0.find(tally, |_| true)?.open.map(|(_, count)| count)
    }

    /// Whether nothing lies ahead of the first instant of `part`, to the end of its hour, with these roll-ups and this hot bucket.
    pub(super) fn holds(
        &self,
        tally: &TallyKey,
        part: &Period,
        rollups: RollupVersion,
        open: Option<(OffsetDateTime, u64)>,
    ) -> bool {
        let is_it = |no_future_events: &NoFutureEvents| {
            no_future_events.rollups == rollups
                && no_future_events.open == open
                && no_future_events.from <= part.start()
                && part.end() <= hour_after(no_future_events.from)
        };
        self.0.find(tally, is_it).is_some()
    }

    pub(crate) fn keep(&self, tally: &TallyKey, none_ahead: NoFutureEvents) {
        self.0.keep(tally, none_ahead);
    }
}
