//! What is remembered of usage, by whom and what it is of and when it starts, and how it is known to be so still.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use billing_domain::usage::{Totals, UsageRequest};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::customer::RollupMark;
use crate::rollup::dimensions_of;

/// Most figures of one kind that are remembered.
const FIGURES_MAX: usize = 100_000;

/// What a figure belongs to: customer, metric, dimensions, and the first instant of the period.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FigureKey {
    customer: Uuid,
    metric: Uuid,
    dimensions: String,
    start: OffsetDateTime,
}

impl FigureKey {
    pub(super) fn of(request: &UsageRequest) -> Self {
        Self {
            customer: request.customer.uuid(),
            metric: request.metric.id.uuid(),
            dimensions: dimensions_of(&request.filters),
            start: request.period.start(),
        }
    }
}

/// Figures of one kind.
struct Figures<T>(Mutex<HashMap<FigureKey, T>>);

impl<T> Default for Figures<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Figures<T> {
    fn find(&self, key: &FigureKey, is_so_still: impl FnOnce(&T) -> bool) -> Option<T> {
        // Nobody panics half way through a change in here.
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|own| is_so_still(own)).cloned()
    }

    fn keep(&self, key: &FigureKey, figure: T) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= FIGURES_MAX {
            known.clear();
        }
        known.insert(key.clone(), figure);
    }
}

/// The totals of ragged starts, with the number of events that their buckets had then.
#[derive(Default)]
pub(crate) struct RaggedStarts(Figures<(u64, Totals)>);

impl RaggedStarts {
    /// What is known, if the bucket has as many events as it had then.
    pub(super) fn find(&self, key: &FigureKey, bucket_count: u64) -> Option<Totals> {
        self.0.find(key, |(then, _)| *then == bucket_count).map(|(_, totals)| totals)
    }

    pub(super) fn keep(&self, key: &FigureKey, bucket_count: u64, totals: Totals) {
        self.0.keep(key, (bucket_count, totals));
    }
}

/// What the buckets of a period come to, without the open hour.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    /// That of the roll-ups it was read from.
    pub mark: Option<RollupMark>,
    /// Where the buckets end.
    pub end: OffsetDateTime,
    /// All from the first whole hour on.
    pub whole: Totals,
    /// Events of the hour that the period starts within.
    pub start_count: u64,
    /// When nothing lay ahead.
    pub calm: Option<Calm>,
}

/// That no event was dated from an instant on to the end of its hour, while the open hour had so many. Events are never
/// removed or changed: with the same roll-ups and as many in the open hour, there are no others.
#[derive(Clone, Debug)]
pub(super) struct Calm {
    pub open: Option<(OffsetDateTime, u64)>,
    pub from: OffsetDateTime,
}

impl Calm {
    /// Whether nothing lies ahead of `now`, with this in the open hour.
    pub(super) fn holds(&self, now: OffsetDateTime, open: Option<(OffsetDateTime, u64)>) -> bool {
        self.open == open && self.from <= now
    }
}

/// What the buckets of periods come to.
#[derive(Default)]
pub(crate) struct Sums(Figures<Sum>);

impl Sums {
    /// What is known, if the customer's roll-ups have the same mark and the period ends in the same hour.
    pub(super) fn find(&self, key: &FigureKey, mark: RollupMark, end: OffsetDateTime) -> Option<Sum> {
        self.0.find(key, |own| own.mark == Some(mark) && own.end == end)
    }

    /// Nothing is kept of a customer whose mark was not read.
    pub(super) fn keep(&self, key: &FigureKey, sum: Sum) {
        if sum.mark.is_some() {
            self.0.keep(key, sum);
        }
    }
}
