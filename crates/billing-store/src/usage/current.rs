//! Usage up to now of many customers at once, in one statement.
//!
//! A period that ends now ends within an hour. To read that hour's events takes as long as there are many; its bucket has counted
//! all of them, and what of them is dated behind now is hardly ever anything. The hour that a period starts within is remembered,
//! as [`super::warm`] says.

use std::collections::{BTreeSet, HashMap};

use billing_domain::metric::Totals;
use billing_domain::usage::{SeenUsage, UsageRequest};
use billing_domain::{Error, StoreError};

use super::statement::Reading;
use super::totals::{ReadUsage, added, key_range_of_row, without};
use super::warm::AskedTally;
use super::{LastArrivals, Reached};
use crate::pg::column::count;
use crate::remembered::EventsVersion;
use crate::rollup::{Source, split};
use crate::transaction::PgTransaction;

/// The numbers of the parts of one figure.
#[derive(Clone, Copy)]
struct Numbers {
    whole: i32,
    start_bucket: i32,
    later: i32,
}

impl Numbers {
    fn of(figure: i32) -> Self {
        Self { whole: figure * 3, start_bucket: figure * 3 + 1, later: figure * 3 + 2 }
    }
}

impl PgTransaction<'_> {
    /// The usage behind each request and how far it saw, all from one snapshot; `None` where buckets and what is remembered of
    /// partial hours are not enough to tell it.
    pub(super) fn read_current_usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<Option<SeenUsage>>, Error> {
        let rollup_starts = self.rollup_starts(requests)?;
        let asked: Vec<_> =
            requests.iter().zip(rollup_starts).map(|(request, from)| AskedTally::of(request, from)).collect();
        let found = self.read_tallies(&asked)?;
        let unknown = requests.iter().zip(&asked).zip(&found).filter(|((_, asked), usage)| {
            usage.is_none() && asked.as_ref().is_some_and(|asked| asked.layout.start.is_some())
        });
        let unknown: Vec<UsageRequest> = unknown.map(|((request, _), _)| request.clone()).collect();
        if unknown.is_empty() {
            return Ok(found);
        }
        self.warm_up(&unknown)?;
        self.read_tallies(&asked)
    }

    fn read_tallies(&mut self, asked: &[Option<AskedTally<'_>>]) -> Result<Vec<Option<SeenUsage>>, Error> {
        let key_ranges = self.shared.key_ranges;
        let mut statement = ReadUsage::new(self.tenant());
        let mut wanted = BTreeSet::new();
        for (number, asked) in (0..).zip(asked) {
            let Some(asked) = asked else { continue };
            wanted.insert(key_ranges.of(asked.request.customer));
            add(&mut statement, Numbers::of(number), asked)?;
        }
        if wanted.is_empty() {
            return Ok(asked.iter().map(|_| None).collect());
        }
        statement.key_ranges = wanted.into_iter().collect();
        let (mut totals, last_arrivals) = self.read_parts(statement)?;
        let usage = |(number, asked): (i32, &Option<AskedTally<'_>>)| {
            let asked = asked.as_ref()?;
            let reached = last_arrivals.get(&key_ranges.of(asked.request.customer)).copied().unwrap_or_default();
            let of_figure = self.put_together(asked, Numbers::of(number), &mut totals, reached)?;
            Some(of_figure.usage(asked.layout.aggregation).seen_to(reached.last_arrival))
        };
        Ok((0..).zip(asked).map(usage).collect())
    }

    fn read_parts(&mut self, statement: ReadUsage) -> Result<(HashMap<i32, Totals>, LastArrivals), Error> {
        let (mut totals, mut last_arrivals) = (HashMap::new(), LastArrivals::new());
        for row in self.read_found(statement)? {
            let number = row.request;
            match key_range_of_row(number) {
                Some(key_range) => {
                    let (last_arrival, last_correction) = (count(row.event_count)?, count(row.distinct)?);
                    last_arrivals.insert(key_range, Reached { last_arrival, last_correction });
                }
                None if totals.insert(number, row.try_into()?).is_none() => {}
                None => return Err(StoreError::Internal(format!("usage of part {number} twice")).into()),
            }
        }
        Ok((totals, last_arrivals))
    }

    /// What a figure comes to; none while its partial hour is unknown.
    fn put_together(
        &self,
        asked: &AskedTally<'_>,
        numbers: Numbers,
        totals: &mut HashMap<i32, Totals>,
        reached: Reached,
    ) -> Option<Totals> {
        let mut all = totals.remove(&numbers.whole).unwrap_or_default();
        if asked.layout.start.is_some() {
            let event_count = totals.get(&numbers.start_bucket).map_or(0, |bucket| bucket.event_count);
            let bucket = EventsVersion { event_count, last_correction: reached.last_correction };
            all = added(all, self.shared.remembered.partial_hours.find(&asked.key, bucket)?);
        }
        let later = totals.remove(&numbers.later).unwrap_or_default();
        without(all, &later, asked.layout.aggregation)
    }
}

/// Adds the parts of a figure to the statement.
fn add(statement: &mut ReadUsage, numbers: Numbers, asked: &AskedTally<'_>) -> Result<(), Error> {
    let AskedTally { request, layout, .. } = asked;
    let start_bucket = layout.start.as_ref().map(|(bucket, _)| (numbers.start_bucket, bucket));
    for (number, period) in [(numbers.whole, &layout.whole)].into_iter().chain(start_bucket) {
        for (source, part) in split(period, Some(period.start())) {
            if let Source::Buckets(hours) = source {
                statement.add_buckets(number, request, layout.aggregation, hours, &part);
            }
        }
    }
    if let Some(later) = &layout.later {
        statement.add_events(numbers.later, request, layout.aggregation, Reading::Totals, later)?;
    }
    Ok(())
}
