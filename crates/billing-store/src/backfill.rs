//! Filling in the roll-ups of metrics, and of sets of filters, that are younger than their events.
//!
//! From the moment a roll-up is started every event that comes in adds to it, however it is dated. What came before is
//! missing until it is filled in here, together with others of the same event name: customer by customer, month by month, the buckets are deleted, counted again from
//! the events and inserted, under the lock of the customer's key range, so that nobody adds to them meanwhile. When the last
//! customer is done the roll-up is complete from the beginning of time; a customer that is new by then has brought
//! nothing but events that added to it.
//!
//! A key range is held for at most [`EVENTS_PER_LOCK`] events, or one customer's hour: a month with more goes day by day, such a
//! day hour by hour, and then its total is made of its hours. Whoever stores events waits for one such piece at most,
//! because locks are given in the order in which they were asked for.

use billing_domain::Error;
use billing_domain::event::Event;
use billing_domain::id::CustomerKey;
use billing_domain::metric::Measure;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use serde_json::Value;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::lanes::{Lane, Lanes};
use crate::pg::error::Failure;
use crate::pg::lock::{LockClass, try_lock};
use crate::pg::month::Month;
use crate::pg::node::say_that_nodes_are_known;
use crate::pg::partition;
use crate::pg::statement::statement;
use crate::repo::event::{ANY_ARRIVAL, events_of};
use crate::repo::metric::{self, MEASURE_COLUMNS, MeasureColumns, MeasureSql};
use crate::rollup::{
    Additions, BOTH_LEVELS, HOURS_ALONE, RolledMetric, hot_bucket, lock_key_ranges, make_day_of_hours,
};
use crate::shared::Shared;

/// Most events that are counted under one lock, unless a single hour has more.
pub(crate) const EVENTS_PER_LOCK: i64 = 20_000;
/// Most roll-ups that are filled in by one pass over the events: a month of one customer's has some 800 hours and days of each.
const ROLLUPS_MAX: usize = 10;
/// Most customers in one call.
const CUSTOMERS_MAX: usize = 50;

statement! {
    /// Roll-ups that are not complete, and what is rolled up by them.
    FindIncomplete -> (
        SqlUuid, SqlUuid, Array<Text>, Timestamptz, Nullable<SqlUuid>, Text, MeasureSql, Nullable<Jsonb>,
    ) {
        "SELECT rollup.organization_id, rollup.metric_id, rollup.filter_keys, rollup.rolled_up_from, rollup.filled_to,
            metric.event_name, " [MEASURE_COLUMNS] ", metric.filters
        FROM metric_rollups rollup
        JOIN metrics metric ON metric.organization_id = rollup.organization_id AND metric.id = rollup.metric_id
        WHERE rollup.rolled_up_from > '-infinity' AND metric.metric_type <> 'custom'
        -- What is counted in one pass over the events stands together, and what was begun is ended first.
        ORDER BY rollup.organization_id, metric.event_name, rollup.filled_to DESC NULLS LAST, rollup.metric_id, rollup.filter_keys
        LIMIT " limit: i64 as BigInt; ""
    }
}

/// A row of [`FindIncomplete`].
#[derive(Queryable)]
struct IncompleteRow {
    organization: Uuid,
    metric: Uuid,
    filter_keys: Vec<String>,
    rolled_up_from: OffsetDateTime,
    filled_to: Option<Uuid>,
    event_name: String,
    measure: MeasureColumns,
    filters: Option<Value>,
}

statement! {
    /// The next customer that has events, and whose it is.
    FindCustomer -> (SqlUuid, SqlUuid) {
        "SELECT customer_key, organization_id FROM events
        WHERE customer_key > " after: Uuid as SqlUuid; "
        ORDER BY customer_key
        LIMIT 1"
    }
}

statement! {
    /// Notes how far a roll-up is filled in.
    NoteProgress -> BigInt {
        "UPDATE metric_rollups SET filled_to = " filled_to: Uuid as SqlUuid; "
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND metric_id = " metric: Uuid as SqlUuid; "
            AND filter_keys = " filter_keys: Vec<String> as Array<Text>; ""
    }
}

statement! {
    /// Notes that a roll-up is complete.
    NoteComplete -> BigInt {
        "UPDATE metric_rollups SET rolled_up_from = '-infinity', filled_to = NULL
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND metric_id = " metric: Uuid as SqlUuid; "
            AND filter_keys = " filter_keys: Vec<String> as Array<Text>; ""
    }
}

statement! {
    /// Whether the customer has more than so many events between two instants.
    HasMoreEvents -> Bool {
        "SELECT EXISTS (
            SELECT FROM events
            WHERE customer_key = " customer: Uuid as SqlUuid; "
                AND time_created >= " start: OffsetDateTime as Timestamptz; "
                AND time_created < " end: OffsetDateTime as Timestamptz; "
            OFFSET " events_max: i64 as BigInt; "
        )"
    }
}

/// What is done under one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    /// Hours and days are counted again from the events between two instants, which are midnights.
    Days(OffsetDateTime, OffsetDateTime),
    /// The hour from an instant on is counted again, and its day is not.
    Hour(OffsetDateTime),
    /// The day from a midnight on is made of its hours, which were counted again before.
    DayOfHours(OffsetDateTime),
}

/// A roll-up that is to be filled in.
struct Incomplete {
    organization: Uuid,
    event_name: String,
    metric: RolledMetric,
    filter_keys: Vec<String>,
    rolled_up_from: OffsetDateTime,
    filled_to: Uuid,
}

impl TryFrom<IncompleteRow> for Incomplete {
    type Error = Error;

    fn try_from(row: IncompleteRow) -> Result<Self, Error> {
        let metric = RolledMetric {
            id: row.metric,
            aggregation: Measure::try_from(row.measure)?.aggregation(),
            filters: metric::filters(row.filters)?,
            key_sets: vec![row.filter_keys.clone()],
        };
        Ok(Self {
            organization: row.organization,
            event_name: row.event_name,
            metric,
            filter_keys: row.filter_keys,
            rolled_up_from: row.rolled_up_from,
            filled_to: row.filled_to.unwrap_or(Uuid::nil()),
        })
    }
}

impl Incomplete {
    /// Whose it is, of which events, and how far it is filled in.
    fn place(&self) -> (Uuid, String, Uuid) {
        (self.organization, self.event_name.clone(), self.filled_to)
    }
}

impl Shared {
    /// Fills in a few customers; whether there is more to do.
    pub(crate) fn fill_in(&self, events_per_lock: i64) -> Result<bool, Error> {
        for _ in 0..CUSTOMERS_MAX {
            let next = self.pool.transact(|pg| {
                let step = next_step(pg)?;
                step.map(|step| Ok((step, self.lanes.look_for_nodes(pg)?))).transpose()
            });
            let Some((mut step, has_nodes)) = next.map_err(Failure::into_error)? else { return Ok(false) };
            if step.after.is_nil() && has_nodes {
                self.wait_for_ingestion().map_err(Failure::into_error)?;
            }
            let lane = step.find_customer(&self.lanes).map_err(Failure::into_error)?;
            for month in &step.months {
                let pieces =
                    self.lanes.with(lane, |lane| lane.pool.transact(|pg| step.pieces(pg, *month, events_per_lock)));
                for piece in pieces.map_err(Failure::into_error)? {
                    let counted =
                        self.lanes.with(lane, |lane| lane.pool.transact(|pg| self.count_again(pg, &step, piece)));
                    counted.map_err(Failure::into_error)?;
                }
            }
            // Only now: what was counted before a crash is counted again, which changes nothing.
            let noted = self.pool.transact(|pg| {
                if has_nodes {
                    say_that_nodes_are_known(pg)?;
                }
                step.note(pg)
            });
            noted.map_err(Failure::into_error)?;
            if step.customer.is_none() {
                let gathered = self.lanes.all().try_for_each(|lane| lane.pool.refresh_statistics().map(drop));
                gathered.unwrap_or_else(|error| log::warn!("statistics could not be gathered: {error}"));
            }
        }
        Ok(true)
    }

    /// Counts one piece of a customer's again.
    fn count_again(&self, pg: &mut PgConnection, step: &BackfillStep, piece: Piece) -> Result<(), Failure> {
        let (Some(first), Some(customer)) = (step.rollups.first(), step.customer.as_ref()) else { return Ok(()) };
        lock_key_ranges(pg, vec![self.key_ranges.of(CustomerKey::from(*customer))])?;
        hot_bucket::close(pg, first.organization, *customer, &first.event_name)?;
        let (start, end, levels) = match piece {
            Piece::Days(start, end) => (start, end, BOTH_LEVELS),
            Piece::Hour(start) => (start, start.saturating_add(Duration::HOUR), HOURS_ALONE),
            Piece::DayOfHours(day) => {
                for rollup in &step.rollups {
                    make_day_of_hours(pg, *customer, rollup.metric.id, day)?;
                }
                return Ok(());
            }
        };
        let metrics: Vec<RolledMetric> = step.rollups.iter().map(|rollup| rollup.metric.clone()).collect();
        let mut additions = Additions::default();
        let mut after: Option<Event> = None;
        loop {
            let owner = (first.organization, *customer);
            let page = events_of(pg, owner, &first.event_name, (start, end), &ANY_ARRIVAL, after.as_ref())?;
            for event in &page {
                additions.add(levels, *customer, event, &metrics);
            }
            after = page.into_iter().last();
            if after.is_none() {
                break;
            }
        }
        Ok(additions.replace(pg, first.organization)?)
    }
}

/// What is done next: one customer of some roll-ups, or the note that there is no other.
struct BackfillStep {
    /// Of one organization and event name, filled in equally far.
    rollups: Vec<Incomplete>,
    owner: Uuid,
    /// The customer that was filled in last.
    after: Uuid,
    customer: Option<Uuid>,
    /// Months to be counted again; none for another organization's customer.
    months: Vec<Month>,
}

/// What is to be done next; nothing while somebody else asks the same, or when everything is complete.
fn next_step(pg: &mut PgConnection) -> Result<Option<BackfillStep>, Failure> {
    if !try_lock(pg, LockClass::Backfill)? {
        return Ok(None);
    }
    let rows: Vec<IncompleteRow> = FindIncomplete { limit: ROLLUPS_MAX as i64 }.load(pg)?;
    let mut rollups = rows.into_iter().map(Incomplete::try_from).collect::<Result<Vec<_>, _>>()?;
    let Some((owner, event_name, after)) = rollups.first().map(Incomplete::place) else { return Ok(None) };
    rollups.retain(|rollup| rollup.place() == (owner, event_name.clone(), after));
    Ok(Some(BackfillStep { rollups, owner, after, customer: None, months: Vec::new() }))
}

impl BackfillStep {
    /// Finds the next customer and its months, and answers its lane: lanes are ranges of keys, so that the first one behind a key is in the
    /// first lane that has any.
    fn find_customer<'l>(&mut self, lanes: &'l Lanes) -> Result<&'l Lane, Failure> {
        let (owner, after) = (self.owner, self.after);
        let first = lanes.of(CustomerKey::from(after));
        for lane in lanes.all().skip(first.number) {
            let found = lanes.with(lane, |lane| {
                lane.pool.run(|pg| {
                    let next: Option<(Uuid, Uuid)> = FindCustomer { after }.get_result(pg).optional()?;
                    let is_owners = next.is_some_and(|(_, organization)| organization == owner);
                    Ok((next, if is_owners { partition::list(pg)? } else { Vec::new() }))
                })
            });
            let (next, mut months) = found?;
            if let Some((customer, _)) = next {
                months.retain(|month| self.rollups.iter().any(|rollup| month.start() < rollup.rolled_up_from));
                (self.customer, self.months) = (Some(customer), months);
                return Ok(lane);
            }
        }
        Ok(first)
    }

    /// The pieces that a month is counted again in, so that none has more than so many events, where that can be.
    fn pieces(&self, pg: &mut PgConnection, month: Month, events_max: i64) -> Result<Vec<Piece>, Failure> {
        let Some(customer) = self.customer else { return Ok(Vec::new()) };
        // Each event is counted by all of them.
        let events_max = (events_max / self.rollups.len().max(1) as i64).max(1);
        let mut has_events =
            |start, end, events_max| HasMoreEvents { customer, start, end, events_max }.get_result::<bool>(pg);
        // Months are many, and most have nothing of most customers: no bucket either, since a bucket has events.
        if !has_events(month.start(), month.end(), 0)? {
            return Ok(Vec::new());
        }
        let mut has_more = |start, end| has_events(start, end, events_max);
        if !has_more(month.start(), month.end())? {
            return Ok(vec![Piece::Days(month.start(), month.end())]);
        }
        let (mut pieces, mut day) = (Vec::new(), month.start());
        while day < month.end() {
            let next = day.saturating_add(Duration::DAY);
            if has_more(day, next)? {
                pieces.extend((0..24).map(|hour| Piece::Hour(day.saturating_add(Duration::hours(hour)))));
                pieces.push(Piece::DayOfHours(day));
            } else {
                pieces.push(Piece::Days(day, next));
            }
            day = next;
        }
        Ok(pieces)
    }

    fn note(&self, pg: &mut PgConnection) -> Result<(), Failure> {
        for rollup in &self.rollups {
            let (organization, metric, filter_keys) =
                (rollup.organization, rollup.metric.id, rollup.filter_keys.clone());
            match self.customer {
                Some(filled_to) => NoteProgress { filled_to, organization, metric, filter_keys }.execute(pg)?,
                None => NoteComplete { organization, metric, filter_keys }.execute(pg)?,
            };
        }
        Ok(())
    }
}
