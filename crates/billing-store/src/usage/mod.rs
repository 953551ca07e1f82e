//! Reading usage figures: all of one question in one statement, from roll-ups where there are any.

mod current;
mod rollup_start;
mod segments;
mod statement;
mod totals;
mod unchanged;
mod warm;

use std::collections::{BTreeSet, HashMap};

use billing_domain::metric::Measure;
use billing_domain::metric::Totals;
use billing_domain::usage::{Levels, SeenUsage, Step, Usage, UsageRequest};
use billing_domain::{Error, StoreError};
use diesel::prelude::*;

use self::totals::{ReadBuckets, ReadUsage, UsageRow, key_range_of_row};
use self::unchanged::Plan;
use crate::pg::column::count;
use crate::remembered::{EventsVersion, UnchangedFigures};
use crate::rollup::KeyRanges;
use crate::transaction::PgTransaction;

pub(crate) use self::totals::{HOT_TALLY, HotTallySql};
pub(crate) use self::warm::{Open, OpenRow, WarmFacts};

/// How far the events of a key range have come.
#[derive(Clone, Copy, Default)]
struct Reached {
    /// The number of the last event that has arrived, or correction.
    last_arrival: u64,
    last_correction: u64,
}

/// How far the events of each key range have come.
type LastArrivals = HashMap<i32, Reached>;

/// What is read for one request, and what becomes of it.
#[derive(Default)]
struct Found {
    totals: Totals,
    steps: Vec<Step>,
}

impl Found {
    fn usage(self, request: &UsageRequest) -> Usage {
        let Self { totals, steps } = self;
        match &request.metric.measure {
            // Never asked this way.
            Measure::Custom(_) => Usage::zero(),
            Measure::Counter(aggregation) => totals.usage(aggregation),
            Measure::Gauge(gauge) => {
                let carried_in = gauge.level().quantity(&totals);
                Levels { carried_in, steps }.usage(gauge, &request.period, &request.full)
            }
            Measure::Rate(rate) => {
                let event_count = totals.event_count;
                let window = Totals { event_count: totals.distinct, ..totals };
                Usage { quantity: rate.aggregation.quantity(&window), event_count }
            }
        }
    }

    /// What the hours of a plan have, if this is what was found of them.
    fn version(&self, plan: &Plan<'_>, key_ranges: KeyRanges, last_arrivals: &LastArrivals) -> EventsVersion {
        let reached = last_arrivals.get(&key_ranges.of(plan.request.customer));
        let last_correction = reached.map_or(0, |reached| reached.last_correction);
        EventsVersion { event_count: self.totals.event_count, last_correction }
    }

    fn keep(&mut self, row: UsageRow) -> Result<(), Error> {
        match (row.bucket, row.first_at, &row.max, &row.latest) {
            (Some(bucket), Some(first_at), Some(greatest), Some(last)) => {
                let (greatest, last) = (greatest.clone(), last.clone());
                self.steps.push(Step { bucket, first_at, event_count: count(row.event_count)?, greatest, last });
            }
            _ => self.totals = row.try_into()?,
        }
        Ok(())
    }
}

impl PgTransaction<'_> {
    /// The usage behind each request and how far it saw, all from one snapshot, in the order of the requests.
    pub(crate) fn read_usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<SeenUsage>, Error> {
        UsageRequest::refuse_custom(requests)?;
        let (rollup_starts, shared) = (self.rollup_starts(requests)?, self.shared);
        let (mut plans, mut places, mut shared_days) = (Vec::new(), Vec::new(), HashMap::new());
        for (request, from) in requests.iter().zip(rollup_starts) {
            let parts = unchanged::parts(request);
            let is_divided = parts.len() > 1;
            let mut of_request = Vec::with_capacity(parts.len());
            for part in parts {
                // A period and each of its windows may be asked for at once: they stand on the same days.
                let place = match is_divided {
                    true => *shared_days.entry(UnchangedFigures::key_of(&part)).or_insert(plans.len()),
                    false => plans.len(),
                };
                if place == plans.len() {
                    plans.push(Plan::new(part, from, &shared.remembered.unchanged));
                }
                of_request.push(place);
            }
            places.push(of_request);
        }
        let (usages, last_arrivals) = self.read_plans(&mut plans)?;
        let of_request = |places: Vec<usize>| match places[..] {
            [only] => usages[only].clone(),
            _ => unchanged::put_together(places.into_iter().map(|place| usages[place].clone()).collect()),
        };
        let key_ranges = self.shared.key_ranges;
        let seen = |(request, places): (&UsageRequest, Vec<usize>)| {
            of_request(places)
                .seen_to(last_arrivals.get(&key_ranges.of(request.customer)).map_or(0, |reached| reached.last_arrival))
        };
        Ok(requests.iter().zip(places).map(seen).collect())
    }

    /// The usage of each plan and the last arrivals of their key ranges, all from one snapshot.
    fn read_plans(&mut self, plans: &mut [Plan<'_>]) -> Result<(Vec<Usage>, LastArrivals), Error> {
        let (figures, key_ranges) = (&self.shared.remembered.unchanged, self.shared.key_ranges);
        // What is not committed yet is nobody else's to know.
        let is_kept = !self.has_corrected;
        if plans.iter().any(|plan| plan.known().is_some()) {
            // Whether that is so still costs little to know, and much to find out beside what takes reading events.
            let (counts, last_arrivals) = self.read_hours(plans)?;
            forget_changed(plans, &counts, key_ranges, &last_arrivals);
            if let Some(usages) = plans.iter().map(|plan| plan.known().cloned()).collect() {
                return Ok((usages, last_arrivals));
            }
        }
        loop {
            let mut statement = ReadUsage::new(self.tenant());
            for (number, plan) in (0..).zip(&*plans) {
                if !plan.request.period.is_empty() && plan.known().is_none() {
                    statement.add(number, &plan.request, plan.beginning)?;
                }
            }
            let (mut found, last_arrivals) = self.read_with_hours(statement, plans)?;
            let counts: Vec<Found> = found.split_off(plans.len());
            // Something may have come in since the look before: what is remembered would be of another snapshot.
            if forget_changed(plans, &counts, key_ranges, &last_arrivals) {
                continue;
            }
            let usage = |((plan, found), hours): ((&Plan<'_>, Found), Found)| {
                let usage = plan.known().cloned().unwrap_or_else(|| found.usage(&plan.request));
                if is_kept {
                    plan.keep(hours.version(plan, key_ranges, &last_arrivals), &usage, figures);
                }
                usage
            };
            return Ok((plans.iter().zip(found).zip(counts).map(usage).collect(), last_arrivals));
        }
    }

    /// The events of the hours that the figures to be remembered stand on.
    fn read_hours(&mut self, plans: &[Plan<'_>]) -> Result<(Vec<Found>, LastArrivals), Error> {
        let statement = ReadUsage::new(self.tenant());
        let (mut found, last_arrivals) = self.read_with_hours(statement, plans)?;
        Ok((found.split_off(plans.len()), last_arrivals))
    }

    /// What a statement finds for each plan, and behind that the events of each plan's hours, in the same snapshot.
    fn read_with_hours(
        &mut self,
        mut statement: ReadUsage,
        plans: &[Plan<'_>],
    ) -> Result<(Vec<Found>, LastArrivals), Error> {
        let key_ranges = self.shared.key_ranges;
        let key_ranges: BTreeSet<i32> = plans.iter().map(|plan| key_ranges.of(plan.request.customer)).collect();
        statement.key_ranges = key_ranges.into_iter().collect();
        for (number, plan) in (0..).zip(plans) {
            if let Some(hours) = &plan.hours {
                statement.add_hours(number + plans.len() as i32, &plan.request, hours);
            }
        }
        let mut found: Vec<Found> = (0..2 * plans.len()).map(|_| Found::default()).collect();
        let mut last_arrivals = LastArrivals::new();
        for row in self.read_found(statement)? {
            let number = row.request;
            if let Some(key_range) = key_range_of_row(number) {
                let (last_arrival, last_correction) = (count(row.event_count)?, count(row.distinct)?);
                last_arrivals.insert(key_range, Reached { last_arrival, last_correction });
                continue;
            }
            let of_request = usize::try_from(number).ok().and_then(|index| found.get_mut(index));
            of_request.ok_or_else(|| StoreError::Internal(format!("usage of request {number}")))?.keep(row)?;
        }
        Ok((found, last_arrivals))
    }

    /// [`PgTransaction::read_usages`] of several questions; `None` for those whose answer would take reading more events than a few.
    pub(crate) fn read_counted_usages(
        &mut self,
        questions: &[&[UsageRequest]],
    ) -> Result<Vec<Option<Vec<SeenUsage>>>, Error> {
        let requests = questions.concat();
        let mut rollup_starts = self.rollup_starts(&requests)?.into_iter();
        let mut is_counted = |question: &[UsageRequest]| {
            let mut alone = ReadUsage::new(self.tenant());
            for (request, beginning) in question.iter().zip(rollup_starts.by_ref()) {
                if !request.period.is_empty() {
                    alone.add(0, request, beginning)?;
                }
            }
            Ok::<_, Error>(alone.event_requests.is_empty())
        };
        let counted = questions.iter().map(|question| is_counted(question)).collect::<Result<Vec<_>, _>>()?;
        let chosen = questions.iter().zip(&counted).filter(|(_, is_counted)| **is_counted);
        let chosen: Vec<UsageRequest> = chosen.flat_map(|(question, _)| question.iter().cloned()).collect();
        let mut usages = self.read_usages(&chosen)?.into_iter();
        let others = questions.iter().zip(&counted).filter(|(_, is_counted)| !**is_counted);
        let others: Vec<UsageRequest> = others.flat_map(|(question, _)| question.iter().cloned()).collect();
        let mut current = self.read_current_usages(&others)?.into_iter();
        let answer = |(question, is_counted): (&&[UsageRequest], bool)| match is_counted {
            true => Some(usages.by_ref().take(question.len()).collect()),
            false => {
                let of_question: Vec<_> = current.by_ref().take(question.len()).collect();
                of_question.into_iter().collect()
            }
        };
        Ok(questions.iter().zip(counted).map(answer).collect())
    }

    /// In one statement, by the smallest that has room for what is asked.
    fn read_found(&mut self, statement: ReadUsage) -> Result<Vec<UsageRow>, Error> {
        match (statement.bucket_requests.is_empty(), statement.event_requests.is_empty()) {
            (true, true) => Ok(Vec::new()),
            (false, true) => self.query(|pg| ReadBuckets::from(statement).load(pg)),
            (_, false) => self.query(|pg| statement.load(pg)),
        }
    }
}

/// Forgets the figures whose hours have other events now; whether there were any.
fn forget_changed(
    plans: &mut [Plan<'_>],
    counts: &[Found],
    key_ranges: KeyRanges,
    last_arrivals: &LastArrivals,
) -> bool {
    let forget =
        |(plan, hours): (&mut Plan<'_>, &Found)| plan.forget_unless(hours.version(plan, key_ranges, last_arrivals));
    plans.iter_mut().zip(counts).map(forget).fold(false, |any, forgot| any | forgot)
}
