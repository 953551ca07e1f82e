//! Usage up to now at a cost that does not grow with events: whole buckets only, and what is remembered of a partial hour.
//!
//! ```text
//! period            [------------------------------------------)now
//! buckets     ------|      |      |      |      |      |       :      |
//! read as     remembered   [ whole hours and days, the current one too )
//!                                                              [ later )  read from the events, and taken off again
//! ```
//!
//! The start is read from the events by whoever asks in a transaction of its own, and remembered with the number of
//! events in its bucket and that of the last correction. As long as both are the same the start is too. Most periods begin with
//! an hour: the last correction is read for those alone that do not.
//!
//! Roll-ups hardly ever change within an hour, for what comes in is in the hot bucket first. So what they come to is
//! remembered under the version of the customer's roll-ups, and beside it that nothing lies ahead: what is left to be read is
//! one row, the hot bucket.

use std::collections::{BTreeSet, HashMap};

use billing_domain::Error;
use billing_domain::id::CustomerKey;
use billing_domain::metric::Totals;
use billing_domain::metric::{Aggregation, Measure};
use billing_domain::period::Period;
use billing_domain::usage::{Usage, UsageRequest};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Integer, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::segments::{ReadBucketSegments, ReadEventSegments, ReadHotBuckets};
use super::totals::{TotalsRow, added, without};
use crate::cache::RollupVersion;
use crate::pg::column::count;
use crate::pg::statement::statement;
use crate::remembered::{BucketSum, EventsVersion, FigureKey, NoFutureEvents, TallyKey};
use crate::rollup::{HOUR, Source, ceiling, floor, split};
use crate::transaction::PgTransaction;

statement! {
    /// The number of the last correction in each of these key ranges that has events.
    ReadLastCorrections -> (Integer, BigInt) {
        "SELECT key_range, last_correction FROM event_arrivals
        WHERE organization_id = " organization: Uuid as SqlUuid; "
            AND key_range = ANY (" key_ranges: Vec<i32> as Array<Integer>; ")"
    }
}

/// What is read of a hot bucket: its hour, and what it has.
pub(crate) type OpenRow = (OffsetDateTime, TotalsRow);

/// How a period lies in the buckets.
pub(super) struct Layout<'r> {
    pub(super) aggregation: &'r Aggregation,
    /// The bucket that the period starts within, and what of the bucket is in the period.
    pub(super) start: Option<(Period, Period)>,
    /// Whole hours, the one that the period ends within too.
    pub(super) whole: Period,
    /// What of that hour lies behind the period.
    pub(super) later: Option<Period>,
}

impl<'r> Layout<'r> {
    /// None for a metric whose buckets do not add up or tell too little, and for a period within an hour.
    fn of(request: &'r UsageRequest) -> Option<Self> {
        let Measure::Counter(aggregation) = &request.metric.measure else { return None };
        if !aggregation.adds_up() || matches!(aggregation, Aggregation::Latest { .. }) {
            return None;
        }
        let (start, end) = (request.period.start(), request.period.end());
        let (first, last) = (ceiling(start, HOUR)?, ceiling(end, HOUR)?);
        if first > floor(end, HOUR) {
            return None;
        }
        let period = |from, to| Period::new(from, to).ok().filter(|period| !period.is_empty());
        let partial = period(floor(start, HOUR), first).zip(period(start, first)).filter(|_| start < first);
        Some(Self { aggregation, start: partial, whole: period(first, last)?, later: period(end, last) })
    }
}

/// One figure that is asked for.
pub(super) struct AskedTally<'r> {
    pub(super) request: &'r UsageRequest,
    pub(super) key: FigureKey,
    pub(super) layout: Layout<'r>,
}

impl<'r> AskedTally<'r> {
    /// None where buckets cannot tell it: see [`Layout::of`]; nor those that are complete only from a later instant than
    /// the first one needed.
    pub(super) fn of(request: &'r UsageRequest, complete_from: Option<OffsetDateTime>) -> Option<Self> {
        let layout = Layout::of(request)?;
        let first = layout.start.as_ref().map_or(layout.whole.start(), |(bucket, _)| bucket.start());
        complete_from.filter(|from| *from <= first)?;
        Some(Self { request, key: FigureKey::of(request), layout })
    }
}

/// What a hot bucket has of a metric.
#[derive(Clone)]
pub(crate) struct Open {
    hour: OffsetDateTime,
    totals: Totals,
}

impl TryFrom<OpenRow> for Open {
    type Error = Error;

    fn try_from((hour, totals): OpenRow) -> Result<Self, Error> {
        Ok(Self { hour, totals: totals.try_into()? })
    }
}

impl Open {
    /// Its hour and how many events it has.
    pub(crate) fn count(&self) -> (OffsetDateTime, u64) {
        (self.hour, self.totals.event_count)
    }

    fn within(open: Option<&Self>, part: &Period) -> Totals {
        open.filter(|open| part.contains(open.hour)).map(|open| open.totals.clone()).unwrap_or_default()
    }
}

/// What a snapshot is known to say of usage before it is read.
#[derive(Default)]
pub(crate) struct WarmFacts {
    /// Of each customer the version of its roll-ups.
    pub(crate) rollups: HashMap<Uuid, RollupVersion>,
    /// Of each customer of whom that was asked for, the number of the last correction in its key range.
    pub(crate) corrections: HashMap<Uuid, u64>,
    /// What hot buckets have, where that has been read.
    pub(crate) tallies: HashMap<TallyKey, Option<Open>>,
}

impl WarmFacts {
    /// Makes room for so many more customers.
    pub(crate) fn reserve(&mut self, customers: usize) {
        self.rollups.reserve(customers);
        self.corrections.reserve(customers);
        self.tallies.reserve(customers);
    }
}

/// What the buckets of one figure come to, and under what it is to be remembered if it was read just now.
struct Summed {
    sum: BucketSum,
    new: Option<(RollupVersion, OffsetDateTime)>,
}

/// The numbers of the bucket segments of one figure.
#[derive(Clone, Copy)]
struct Numbers {
    whole: i32,
    start_bucket: i32,
}

impl Numbers {
    fn of(figure: i32) -> Self {
        Self { whole: figure * 2, start_bucket: figure * 2 + 1 }
    }
}

impl PgTransaction<'_> {
    /// The usage behind each request, from one snapshot of which this much is known, where buckets and memory are enough to
    /// tell it.
    pub(crate) fn read_warm_usages(
        &mut self,
        requests: &[UsageRequest],
        facts: &WarmFacts,
    ) -> Result<Vec<Option<Usage>>, Error> {
        let rollup_starts = self.rollup_starts(requests)?;
        let (mut distinct, mut places): (Vec<AskedTally<'_>>, HashMap<_, usize>) = Default::default();
        let mut place_of = Vec::with_capacity(requests.len());
        for (request, from) in requests.iter().zip(rollup_starts) {
            place_of.push(AskedTally::of(request, from).map(|asked| {
                // Many may ask the same at once.
                *places.entry((asked.key.clone(), request.period.end())).or_insert_with(|| {
                    distinct.push(asked);
                    distinct.len() - 1
                })
            }));
        }
        let usages = self.read_distinct(&distinct, facts)?;
        Ok(place_of.into_iter().map(|place| usages.get(place?)?.clone()).collect())
    }

    fn read_distinct(&mut self, asked: &[AskedTally<'_>], facts: &WarmFacts) -> Result<Vec<Option<Usage>>, Error> {
        let open = self.read_hot_buckets(asked, facts)?;
        let sums = self.sums(asked, facts)?;
        let later = self.read_later(asked, &open, facts)?;
        let remembered = &self.shared.remembered;
        let usage = |(number, (asked, summed)): (i32, (&AskedTally<'_>, Summed))| {
            let (layout, open, sum) = (&asked.layout, open.get(&number), summed.sum);
            let mut all = added(sum.whole.clone(), Open::within(open, &layout.whole));
            if let Some((bucket, _)) = &layout.start {
                let event_count = sum.start_count + Open::within(open, bucket).event_count;
                let Some(last_correction) = facts.corrections.get(&asked.key.tally.customer).copied() else {
                    remembered.partial_hours.want(&asked.key.tally);
                    return None;
                };
                let bucket = EventsVersion { event_count, last_correction };
                all = added(all, remembered.partial_hours.find(&asked.key, bucket)?);
            }
            // Not where the start is unknown: that of a window that moves will never be asked for again.
            if let Some((version, end)) = summed.new {
                remembered.sums.keep(&asked.key, version, end, sum);
            }
            let later = later.get(&number).cloned().unwrap_or_default();
            Some(without(all, &later, layout.aggregation)?.usage(layout.aggregation))
        };
        Ok((0..).zip(asked.iter().zip(sums)).map(usage).collect())
    }

    /// Reads those of the partial hours of these requests from the events that are not known, and remembers them. Where the
    /// transaction is not one snapshot, what comes in meanwhile makes that useless, but not wrong: buckets are counted first.
    pub(crate) fn warm_up(&mut self, requests: &[UsageRequest]) -> Result<(), Error> {
        let asked = requests.iter().filter_map(|request| {
            let layout = Layout::of(request)?;
            layout.start.is_some().then(|| AskedTally { request, key: FigureKey::of(request), layout })
        });
        let asked: Vec<AskedTally<'_>> = asked.collect();
        if asked.is_empty() || self.has_corrected {
            return Ok(());
        }
        let corrections = self.last_corrections(asked.iter().map(|asked| asked.request.customer))?;
        let open = self.read_hot_buckets(&asked, &WarmFacts::default())?;
        let mut buckets = ReadBucketSegments::new(self.tenant());
        for (number, asked) in (0..).zip(&asked) {
            if let Some((bucket, _)) = &asked.layout.start {
                buckets.add(number, asked.request, 1, bucket);
            }
        }
        let counts = self.read_buckets(&buckets)?;
        let mut unknown = Vec::new();
        let mut events = ReadEventSegments::new(self.tenant());
        for (number, asked) in (0..).zip(&asked) {
            let Some((bucket, start)) = &asked.layout.start else { continue };
            let closed = counts.get(&number).map_or(0, |count| count.event_count);
            let event_count = closed + Open::within(open.get(&number), bucket).event_count;
            let last_correction = corrections.get(&asked.key.tally.customer).copied().unwrap_or_default();
            let bucket = EventsVersion { event_count, last_correction };
            if self.shared.remembered.partial_hours.find(&asked.key, bucket).is_none() {
                events.add(number, asked.request, asked.layout.aggregation, start)?;
                unknown.push((number, &asked.key, bucket));
            }
        }
        let mut starts = self.read_events(&events)?;
        for (number, key, bucket) in unknown {
            self.shared.remembered.partial_hours.keep(key, bucket, starts.remove(&number).unwrap_or_default());
        }
        Ok(())
    }

    /// Of each customer the number of the last correction in its key range.
    fn last_corrections(&mut self, customers: impl Iterator<Item = CustomerKey>) -> Result<HashMap<Uuid, u64>, Error> {
        let key_ranges = self.shared.key_ranges;
        let of_customers: HashMap<Uuid, i32> =
            customers.map(|customer| (customer.uuid(), key_ranges.of(customer))).collect();
        let wanted: BTreeSet<i32> = of_customers.values().copied().collect();
        let read = ReadLastCorrections { organization: self.tenant(), key_ranges: wanted.into_iter().collect() };
        let found: HashMap<i32, i64> = self.query(|pg| read.load::<(i32, i64)>(pg))?.into_iter().collect();
        let number = |(customer, key_range)| Ok((customer, count(found.get(&key_range).copied().unwrap_or_default())?));
        of_customers.into_iter().map(number).collect()
    }

    /// What the buckets of each figure come to: remembered, or read.
    fn sums(&mut self, asked: &[AskedTally<'_>], facts: &WarmFacts) -> Result<Vec<Summed>, Error> {
        let mut buckets = ReadBucketSegments::new(self.tenant());
        let mut sums = Vec::with_capacity(asked.len());
        for (number, AskedTally { request, key, layout }) in (0..).zip(asked) {
            let version = facts.rollups.get(&request.customer.uuid()).copied();
            let end = layout.whole.end();
            let known = version.and_then(|version| self.shared.remembered.sums.find(key, version, end));
            if known.is_none() {
                let numbers = Numbers::of(number);
                for (source, part) in split(&layout.whole, Some(layout.whole.start())) {
                    if let Source::Buckets(hours @ 1..) = source {
                        buckets.add(numbers.whole, request, hours, &part);
                    }
                }
                if let Some((bucket, _)) = &layout.start {
                    buckets.add(numbers.start_bucket, request, 1, bucket);
                }
            }
            // Nothing is remembered of a customer whose version was not read.
            sums.push((version.map(|version| (version, end)), known));
        }
        let mut totals = self.read_buckets(&buckets)?;
        let sum = |(number, (new, known)): (i32, (_, Option<BucketSum>))| {
            if let Some(sum) = known {
                return Summed { sum, new: None };
            }
            let numbers = Numbers::of(number);
            let whole = totals.remove(&numbers.whole).unwrap_or_default();
            let start_count = totals.get(&numbers.start_bucket).map_or(0, |total| total.event_count);
            Summed { sum: BucketSum { whole, start_count }, new }
        };
        Ok((0..).zip(sums).map(sum).collect())
    }

    /// What lies behind each period within its last hour, where it is not known that nothing does.
    fn read_later(
        &mut self,
        asked: &[AskedTally<'_>],
        open: &HashMap<i32, Open>,
        facts: &WarmFacts,
    ) -> Result<HashMap<i32, Totals>, Error> {
        let no_future_events = &self.shared.remembered.no_future_events;
        let mut events = ReadEventSegments::new(self.tenant());
        let mut unknown = Vec::new();
        for (number, AskedTally { request, key, layout }) in (0..).zip(asked) {
            let Some(later) = &layout.later else { continue };
            let rollups = facts.rollups.get(&key.tally.customer).copied();
            let open = open.get(&number).map(Open::count);
            if rollups.is_none_or(|rollups| !no_future_events.holds(&key.tally, later, rollups, open)) {
                events.add(number, request, layout.aggregation, later)?;
                unknown.extend(
                    rollups.map(|rollups| (number, key, rollups, NoFutureEvents { open, from: later.start() })),
                );
            }
        }
        let later = self.read_events(&events)?;
        for (number, key, rollups, none_ahead) in unknown {
            if later.get(&number).is_some_and(|found| found.event_count == 0) {
                no_future_events.keep(&key.tally, rollups, none_ahead);
            }
        }
        Ok(later)
    }

    fn read_hot_buckets(&mut self, asked: &[AskedTally<'_>], facts: &WarmFacts) -> Result<HashMap<i32, Open>, Error> {
        let tallies = asked.iter().map(|asked| facts.tallies.get(&asked.key.tally));
        if let Some(tallies) = tallies.collect::<Option<Vec<_>>>() {
            let open = |(number, open): (i32, &Option<Open>)| Some((number, open.clone()?));
            return Ok((0..).zip(tallies).filter_map(open).collect());
        }
        let mut statement = ReadHotBuckets::new(self.tenant());
        (0..).zip(asked).for_each(|(number, asked)| statement.add(number, asked.request));
        let rows: Vec<(i32, OpenRow)> = self.query(|pg| statement.load(pg))?;
        rows.into_iter().map(|(number, row)| Ok((number, row.try_into()?))).collect()
    }

    fn read_buckets(&mut self, statement: &ReadBucketSegments) -> Result<HashMap<i32, Totals>, Error> {
        if statement.numbers.is_empty() {
            return Ok(HashMap::new());
        }
        by_number(self.query(|pg| statement.clone().load(pg))?)
    }

    fn read_events(&mut self, statement: &ReadEventSegments) -> Result<HashMap<i32, Totals>, Error> {
        if statement.numbers.is_empty() {
            return Ok(HashMap::new());
        }
        by_number(self.query(|pg| statement.clone().load(pg))?)
    }
}

fn by_number(rows: Vec<(i32, TotalsRow)>) -> Result<HashMap<i32, Totals>, Error> {
    let mut totals: HashMap<i32, Totals> = HashMap::new();
    for (number, row) in rows {
        let so_far = totals.remove(&number).unwrap_or_default();
        totals.insert(number, added(so_far, row.try_into()?));
    }
    Ok(totals)
}
