//! What is remembered of usage, by whom and what it is of and when it starts, and how it is known to be so still.

use billing_domain::metric::Totals;
use billing_domain::period::Period;
use billing_domain::usage::{Usage, UsageRequest};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::cache::{RollupVersion, VersionedCache};
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
pub(crate) struct FigureKey {
    pub(crate) tally: TallyKey,
    start: OffsetDateTime,
}

impl FigureKey {
    /// What the figure that is asked for belongs to.
    pub(crate) fn of(request: &UsageRequest) -> Self {
        let tally = TallyKey {
            customer: request.customer.uuid(),
            metric: request.metric.id.uuid(),
            dimensions: dimensions_of(&request.filters),
        };
        Self { tally, start: request.period.start() }
    }
}

/// How many events some hours have, and the number of the last correction in their customer's key range: while both are the same,
/// the events are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventsVersion {
    pub(crate) event_count: u64,
    pub(crate) last_correction: u64,
}

/// The totals of partial hours, under what their buckets had then.
pub(crate) struct PartialHours {
    totals: VersionedCache<FigureKey, EventsVersion, Totals>,
    /// The tallies that have one: most periods begin with an hour.
    wanted: VersionedCache<TallyKey, (), ()>,
}

impl Default for PartialHours {
    fn default() -> Self {
        Self { totals: VersionedCache::of_entries(FIGURES_MAX), wanted: VersionedCache::of_entries(FIGURES_MAX) }
    }
}

impl PartialHours {
    /// Whether one of a tally will be asked for: whoever prefetches reads what tells that it is still the same.
    pub(crate) fn are_wanted(&self, tally: &TallyKey) -> bool {
        self.wanted.find(tally, &()).is_some()
    }

    /// One of a tally was asked for: the next prefetch reads what tells that it is still the same.
    pub(crate) fn want(&self, tally: &TallyKey) {
        self.wanted.keep(tally.clone(), (), ());
    }

    /// What is known, if the bucket has the events that it had then.
    pub(crate) fn find(&self, key: &FigureKey, bucket: EventsVersion) -> Option<Totals> {
        self.totals.find(key, &bucket)
    }

    /// Remembers the totals of a partial hour whose bucket has these events.
    pub(crate) fn keep(&self, key: &FigureKey, bucket: EventsVersion, totals: Totals) {
        self.want(&key.tally);
        self.totals.keep(key.clone(), bucket, totals);
    }
}

/// What the buckets of a period come to, without the hot bucket.
#[derive(Clone, Debug)]
pub(crate) struct BucketSum {
    /// All from the first whole hour on.
    pub(crate) whole: Totals,
    /// Events of the hour that the period starts within.
    pub(crate) start_count: u64,
}

/// What the buckets of periods come to, under the version of the roll-ups and where the buckets end.
pub(crate) struct Sums(VersionedCache<FigureKey, (RollupVersion, OffsetDateTime), BucketSum>);

impl Default for Sums {
    fn default() -> Self {
        Self(VersionedCache::of_entries(FIGURES_MAX))
    }
}

impl Sums {
    /// What is known, if the customer's roll-ups have the same version and the period ends in the same hour.
    pub(crate) fn find(&self, key: &FigureKey, version: RollupVersion, end: OffsetDateTime) -> Option<BucketSum> {
        self.0.find(key, &(version, end))
    }

    /// Remembers what buckets that end at `end` come to.
    pub(crate) fn keep(&self, key: &FigureKey, version: RollupVersion, end: OffsetDateTime, sum: BucketSum) {
        self.0.keep(key.clone(), (version, end), sum);
    }
}

/// That nothing which counts in a tally is dated from an instant on to the end of its hour. Whoever corrects an event moves it into
/// the roll-ups: with the same roll-ups and as many in the hot bucket, there are no others.
#[derive(Clone, Debug)]
pub(crate) struct NoFutureEvents {
    /// The hot bucket and its events.
    pub(crate) open: Option<(OffsetDateTime, u64)>,
    pub(crate) from: OffsetDateTime,
}

/// Where nothing lies ahead.
pub(crate) struct NoFutureEventsCache(VersionedCache<TallyKey, RollupVersion, NoFutureEvents>);

impl Default for NoFutureEventsCache {
    fn default() -> Self {
        Self(VersionedCache::of_entries(FIGURES_MAX))
    }
}

impl NoFutureEventsCache {
    /// The events of the hot bucket when nothing lay ahead the last time.
    pub(crate) fn open_count(&self, tally: &TallyKey) -> Option<u64> {
        self.0.look(tally, |_, none_ahead| none_ahead.open.map(|(_, count)| count))
    }

    /// Whether nothing lies ahead of the first instant of `part`, to the end of its hour, with these roll-ups and this hot bucket.
    pub(crate) fn holds(
        &self,
        tally: &TallyKey,
        part: &Period,
        rollups: RollupVersion,
        open: Option<(OffsetDateTime, u64)>,
    ) -> bool {
        let is_it = |version: &RollupVersion, none_ahead: &NoFutureEvents| {
            let holds = *version == rollups
                && none_ahead.open == open
                && none_ahead.from <= part.start()
                && part.end() <= hour_after(none_ahead.from);
            holds.then_some(())
        };
        self.0.look(tally, is_it).is_some()
    }

    /// Remembers that nothing lies ahead with these roll-ups.
    pub(crate) fn keep(&self, tally: &TallyKey, rollups: RollupVersion, none_ahead: NoFutureEvents) {
        self.0.keep(tally.clone(), rollups, none_ahead);
    }
}

/// Figures that were read from the events, by their first instant and their end, under what their hours had then.
pub(crate) struct UnchangedFigures(VersionedCache<(FigureKey, OffsetDateTime), EventsVersion, Usage>);

impl Default for UnchangedFigures {
    fn default() -> Self {
        Self(VersionedCache::of_entries(FIGURES_MAX))
    }
}

impl UnchangedFigures {
    /// What is known, and what the hours had then.
    pub(crate) fn find(&self, request: &UsageRequest) -> Option<(EventsVersion, Usage)> {
        self.0.look(&Self::key_of(request), |hours, usage| Some((*hours, usage.clone())))
    }

    /// Remembers a figure whose hours have these events.
    pub(crate) fn keep(&self, request: &UsageRequest, hours: EventsVersion, usage: &Usage) {
        self.0.keep(Self::key_of(request), hours, usage.clone());
    }

    /// What the figure of a request belongs to.
    pub(crate) fn key_of(request: &UsageRequest) -> (FigureKey, OffsetDateTime) {
        (FigureKey::of(request), request.period.end())
    }
}
