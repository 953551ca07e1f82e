//! Custom metrics: a program of the domain, printed as SQL of our own and run where it can do no harm.
//!
//! No text of a customer's is ever part of a statement: `printer` writes every name itself and binds every literal.
//! Behind that wall stand others, each of which would do alone: one statement of the extended protocol in a read-only
//! transaction, as a role that can read one view, on connections of their own, with limits on time and memory.

mod attempt;
mod budget;
mod printer;
mod reader;
mod share;

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use bigdecimal::BigDecimal;
use billing_domain::Error;
use billing_domain::custom_sql::{CustomFailure, CustomResult, CustomUsageRequest};
use billing_domain::usage::{SeenUsage, Usage};
use diesel::connection::SimpleConnection;
use diesel::deserialize::QueryableByName;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Numeric, Text, Timestamptz, Uuid as SqlUuid};
use uuid::Uuid;

use self::reader::limits;
use crate::pg::column::count;
use crate::pg::deadline;
use crate::pg::error::Failure;
use crate::pg::statement::statement;
use crate::rollup::KeyRanges;

pub(crate) use self::attempt::Attempts;
pub(crate) use self::budget::Budget;
pub(crate) use self::printer::{Bind, Printed, print};
pub(crate) use self::reader::{Reader, failure_of, prepare};

/// The one row that a printed program answers.
#[derive(QueryableByName)]
struct ResultRow {
    #[diesel(sql_type = Bool)]
    is_invalid: bool,
    #[diesel(sql_type = Nullable<Numeric>)]
    least: Option<BigDecimal>,
    #[diesel(sql_type = Nullable<Numeric>)]
    greatest: Option<BigDecimal>,
    #[diesel(sql_type = BigInt)]
    event_count: i64,
}

impl Printed {
    fn run(self, pg: &mut PgConnection) -> QueryResult<ResultRow> {
        let mut query = diesel::sql_query(self.sql).into_boxed();
        for bind in self.binds {
            query = match bind {
                Bind::Uuid(value) => query.bind::<SqlUuid, _>(value),
                Bind::Time(value) => query.bind::<Timestamptz, _>(value),
                Bind::Text(value) => query.bind::<Text, _>(value),
            };
        }
        query.get_result(pg)
    }
}

impl ResultRow {
    fn usage(self) -> Result<Result<Usage, CustomFailure>, Error> {
        let event_count = count(self.event_count)?;
        let result = CustomResult { is_invalid: self.is_invalid, least: self.least, greatest: self.greatest };
        Ok(result.quantity().map(|quantity| Usage { quantity, event_count }))
    }
}

statement! {
    /// How far the arrival numbers of an organization's events have come in some key ranges.
    LastArrivals -> (Integer, BigInt) {
        "SELECT key_range, last_arrival FROM event_arrivals
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND key_range = ANY (" key_ranges: Vec<i32> as Array<Integer>; ")"
    }
}

impl Reader {
    /// The usage behind each request and how far it saw, all from one snapshot, in the order of the requests, within `budget`.
    pub(crate) fn usages(
        &self,
        organization: Uuid,
        key_ranges: KeyRanges,
        requests: &[CustomUsageRequest],
        budget: &mut Budget,
    ) -> Result<Vec<Result<SeenUsage, CustomFailure>>, Failure> {
        self.run(organization, |pg| {
            let of_requests: BTreeSet<i32> = requests.iter().map(|request| key_ranges.of(request.customer)).collect();
            let last_arrivals = LastArrivals { organization, key_ranges: of_requests.into_iter().collect() };
            let last_arrivals: HashMap<i32, i64> = last_arrivals.load::<(i32, i64)>(pg)?.into_iter().collect();
            let behind = (0..requests.len()).rev();
            let usage = |(request, behind): (&CustomUsageRequest, usize)| {
                let last_arrival = last_arrivals.get(&key_ranges.of(request.customer)).copied().unwrap_or_default();
                let last_arrival = count(last_arrival)?;
                let usage = usage(pg, organization, request, (&mut *budget, behind))?;
                Ok(usage.map(|usage| usage.seen_to(last_arrival)))
            };
            requests.iter().zip(behind).map(usage).collect::<Result<Vec<_>, Failure>>()
        })
    }
}

fn usage(
    pg: &mut PgConnection,
    organization: Uuid,
    request: &CustomUsageRequest,
    (budget, behind): (&mut Budget, usize),
) -> Result<Result<Usage, CustomFailure>, Failure> {
    if request.period.is_empty() {
        return Ok(Ok(Usage::zero()));
    }
    if let Err(failure) = request.sql.expect_runnable() {
        return Ok(Err(failure));
    }
    // No further query is sent for somebody who has gone.
    deadline::check()?;
    let Some(time) = budget.next(behind) else { return Ok(Err(CustomFailure::TimedOut)) };
    let printed = print(organization, request);
    let begun = Instant::now();
    // A savepoint: one query that fails leaves the snapshot to the others.
    let row = pg.transaction(|pg| {
        pg.batch_execute(&limits(time, printed.keeping))?;
        printed.run(pg).map_err(Failure::from)
    });
    budget.spend(begun.elapsed());
    match row {
        Ok(row) => Ok(row.usage()?),
        Err(failure) => failure_of(failure).map(Err),
    }
}
