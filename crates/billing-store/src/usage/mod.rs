//! Reading usage figures: all of one question in one statement, from roll-ups where there are any.

mod beginnings;
mod buckets;
mod remembered;
mod segments;
mod statement;
mod warm;

use std::collections::{BTreeSet, HashMap};

use billing_domain::metric::Measure;
use billing_domain::usage::{Levels, SeenUsage, Step, Totals, Usage, UsageRequest};
use billing_domain::{Error, StoreError};
use diesel::prelude::*;

use self::buckets::ReadBuckets;
use self::statement::{ReadUsage, UsageRow, lane_of_row};
use crate::column::count;
use crate::transaction::PgTransaction;

pub(crate) use self::beginnings::Beginnings;
pub(crate) use self::remembered::{Calm, Calms, RaggedStarts, Sums, TallyKey};
pub(crate) use self::segments::OPEN_TALLY;
pub(crate) use self::warm::{Open, OpenRow};

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

    fn keep(&mut self, row: UsageRow) -> Result<(), Error> {
        let (_, bucket, first_at, event_count, sum, max, min, latest, distinct) = row;
        let (event_count, distinct) = (count(event_count)?, count(distinct)?);
        match (bucket, first_at, max, latest) {
            (Some(bucket), Some(first_at), Some(greatest), Some(last)) => {
                self.steps.push(Step { bucket, first_at, event_count, greatest, last });
            }
            (_, _, max, latest) => self.totals = Totals { event_count, sum, max, min, latest, distinct },
        }
        Ok(())
    }
}

impl PgTransaction<'_> {
    /// The usage behind each request and how far it saw, all from one snapshot, in the order of the requests.
    pub(crate) fn read_usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<SeenUsage>, Error> {
        UsageRequest::refuse_custom(requests)?;
        let mut statement = ReadUsage::new(self.tenant());
        let lanes = self.shared.ingest.lanes();
        let lane_of = |request: &UsageRequest| lanes.of(request.customer);
        statement.lanes = requests.iter().map(lane_of).collect::<BTreeSet<i32>>().into_iter().collect();
        let beginnings = self.beginnings(requests)?;
        for (number, (request, beginning)) in (0..).zip(requests.iter().zip(beginnings)) {
            if !request.period.is_empty() {
                statement.add(number, request, beginning)?;
            }
        }
        let mut found: Vec<Found> = requests.iter().map(|_| Found::default()).collect();
        let mut last_arrivals: HashMap<i32, u64> = HashMap::new();
        for row in self.read_found(statement)? {
            let number = row.0;
            if let Some(lane) = lane_of_row(number) {
                last_arrivals.insert(lane, count(row.3)?);
                continue;
            }
            let of_request = usize::try_from(number).ok().and_then(|index| found.get_mut(index));
            of_request.ok_or_else(|| StoreError::Internal(format!("usage of request {number}")))?.keep(row)?;
        }
        let usage = |(request, found): (&UsageRequest, Found)| {
            found.usage(request).seen_to(last_arrivals.get(&lane_of(request)).copied().unwrap_or_default())
        };
        Ok(requests.iter().zip(found).map(usage).collect())
    }

    /// [`PgTransaction::read_usages`] of several questions; `None` for those whose answer would take reading events.
    pub(crate) fn read_counted_usages(
        &mut self,
        questions: &[&[UsageRequest]],
    ) -> Result<Vec<Option<Vec<SeenUsage>>>, Error> {
        let requests = questions.concat();
        let mut beginnings = self.beginnings(&requests)?.into_iter();
        let mut is_counted = |question: &[UsageRequest]| {
            let mut alone = ReadUsage::new(self.tenant());
            for (request, beginning) in question.iter().zip(beginnings.by_ref()) {
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
        let answer = |(question, is_counted): (&&[UsageRequest], bool)| {
            is_counted.then(|| usages.by_ref().take(question.len()).collect())
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
