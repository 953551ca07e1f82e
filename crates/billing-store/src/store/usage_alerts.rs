//! Whose figures are to be held against usage alerts, and whose need not be for a while.
//!
//! A look at a customer may find *headroom*: for each event name an arrival number of the customer's key range up to which no such event of
//! theirs can make an alert fire. Ingestion marks nobody for an event that is within it (`ingest/headroom.rs`). So that nothing is missed:
//!
//! - **Events alone** never take back what was found: it counts every event that may still come as if it reached what is nearest. What
//!   was found before stays right when a later look finds none, and is left.
//! - **Whatever else marks a customer** ends it in its own transaction: a trigger of `usage_alert_marks` sets it to nothing and counts
//!   the change. A look that began before keeps nothing, for it has seen another count of changes.
//! - **Whoever stores events beside such a change** may have read the headroom of before, and commit later than the change. So the marks
//!   of changes are looked at only when everybody who stores events of their customers at that moment is done: they hold the locks of the
//!   key ranges, which are taken and let go in between. Whoever begins later sees the change.
//! - **An alert that is made or deleted** gives ingestion another version, under which there is no headroom of before. Where copies of the
//!   catalogue are late, `mark_concerned` waits for those who have not seen it, and marks everybody, which is a change as any other.

use std::collections::{BTreeMap, BTreeSet};

use billing_domain::Error;
use billing_domain::store::{AlertQueue, HeadroomVersion, MarkedCustomer};
use billing_domain::usage_alert::AlertHeadroom;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{PgStore, later_looks};
use crate::lanes::Lane;
use crate::pg::error::Failure;
use crate::pg::node::say_that_nodes_are_known;
use crate::pg::schema::{customers, usage_alerts};
use crate::pg::statement::statement;
use crate::repo::usage_alert::MarkCustomers;
use crate::rollup::lock_key_ranges;

statement! {
    /// Who has the oldest marks of every organization, found organization by organization in the index: one that has many does not
    /// hide the others'. Each with the marks, the earliest instant of those for events, whether there are others, whether events may lie
    /// ahead, and what headroom stands on in the same snapshot.
    ListMarked -> (SqlUuid, SqlUuid, Array<BigInt>, Nullable<Timestamptz>, Bool, Bool, Nullable<BigInt>, Nullable<BigInt>) {
        "WITH RECURSIVE organizations AS (
            (SELECT organization_id FROM usage_alert_marks ORDER BY organization_id LIMIT 1)
            UNION ALL
            SELECT (
                SELECT mark.organization_id FROM usage_alert_marks mark
                WHERE mark.organization_id > organizations.organization_id ORDER BY mark.organization_id LIMIT 1
            )
            FROM organizations WHERE organizations.organization_id IS NOT NULL
        ), marked AS (
            SELECT mark.organization_id, mark.customer_key, array_agg(mark.id) AS ids, min(mark.at) AS since,
                bool_or(mark.at IS NULL) AS has_changed, bool_or(mark.at IS NULL OR mark.may_lie_ahead) AS may_lie_ahead
            FROM organizations
            CROSS JOIN LATERAL (
                SELECT * FROM usage_alert_marks
                WHERE usage_alert_marks.organization_id = organizations.organization_id
                ORDER BY usage_alert_marks.id LIMIT " each: i64 as BigInt; "
            ) mark
            GROUP BY mark.organization_id, mark.customer_key
        )
        SELECT marked.*,
            (SELECT known.changes FROM usage_alert_headroom known WHERE known.customer_key = marked.customer_key),
            (SELECT version.version FROM ingest_versions version WHERE version.organization_id = marked.organization_id)
        FROM marked"
    }
}

/// A row of [`ListMarked`].
#[derive(Queryable)]
struct MarkedRow {
    organization: Uuid,
    customer: Uuid,
    marks: Vec<i64>,
    since: Option<OffsetDateTime>,
    has_changed: bool,
    may_lie_ahead: bool,
    changes: Option<i64>,
    ingest_version: Option<i64>,
}

statement! {
    /// Makes the row of a customer's headroom, with none.
    BeginHeadroom -> BigInt {
        "INSERT INTO usage_alert_headroom (customer_key, organization_id)
        VALUES (" customer: Uuid as SqlUuid; ", " organization: Uuid as SqlUuid; ") ON CONFLICT DO NOTHING"
    }
}

statement! {
    /// Takes the rows of some customers' headroom, with the changes that they stand on. What somebody else is at work with is changing
    /// right now: it is not waited for.
    ///
    /// By itself: in one statement with what is kept, Postgres would take all rows again for each of them where it knows of few, which is
    /// 1.5 s for a thousand on a quiet machine.
    TakeHeadroom -> (SqlUuid, BigInt) {
        "SELECT customer_key, changes FROM usage_alert_headroom
        WHERE customer_key = ANY (" customers: Vec<Uuid> as Array<SqlUuid>; ") FOR UPDATE SKIP LOCKED"
    }
}

statement! {
    /// Keeps the headroom of customers whose rows were taken.
    KeepHeadroom -> BigInt {
        "UPDATE usage_alert_headroom known SET ingest_version = found.ingest_version, until_arrivals = found.until_arrivals::jsonb,
            holds_from = found.holds_from, holds_until = found.holds_until
        FROM unnest(
            " customers: Vec<Uuid> as Array<SqlUuid>; ", " versions: Vec<i64> as Array<BigInt>; ",
            " until_arrivals: Vec<String> as Array<Text>; ", " froms: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " untils: Vec<OffsetDateTime> as Array<Timestamptz>; "
        ) AS found (customer_key, ingest_version, until_arrivals, holds_from, holds_until)
        WHERE known.customer_key = found.customer_key"
    }
}

/// Keeps the headroom that was found of those of whom nothing has changed since their marks were listed.
fn keep_headroom(pg: &mut PgConnection, found: &[(&MarkedCustomer, &AlertHeadroom)]) -> QueryResult<()> {
    let customers = found.iter().map(|(one, _)| one.customer.uuid()).collect();
    let taken: BTreeMap<Uuid, i64> = TakeHeadroom { customers }.load::<(Uuid, i64)>(pg)?.into_iter().collect();
    let is_kept = |one: &MarkedCustomer| {
        taken.get(&one.customer.uuid()).is_some_and(|changes| one.version.changes.unwrap_or_default() == *changes)
    };
    let kept: Vec<_> = found.iter().copied().filter(|(one, _)| is_kept(one)).collect();
    if !kept.is_empty() {
        KeepHeadroom::of(&kept).execute(pg)?;
    }
    Ok(())
}

impl KeepHeadroom {
    fn of(found: &[(&MarkedCustomer, &AlertHeadroom)]) -> Self {
        // Greater numbers are never given.
        let until = |arrival: u64| i64::try_from(arrival).unwrap_or(i64::MAX);
        let arrivals = |headroom: &AlertHeadroom| {
            let all = headroom.until_arrivals.iter().map(|(name, arrival)| (name.clone(), until(*arrival).into()));
            Value::Object(all.collect()).to_string()
        };
        Self {
            customers: found.iter().map(|(one, _)| one.customer.uuid()).collect(),
            versions: found.iter().map(|(one, _)| one.version.ingest_version).collect(),
            until_arrivals: found.iter().map(|(_, headroom)| arrivals(headroom)).collect(),
            froms: found.iter().map(|(_, headroom)| headroom.from).collect(),
            untils: found.iter().map(|(_, headroom)| headroom.until).collect(),
        }
    }
}

statement! {
    /// Drops marks.
    DropMarks -> BigInt {
        "DELETE FROM usage_alert_marks mark
        USING unnest(" customers: Vec<Uuid> as Array<SqlUuid>; ", " marks: Vec<i64> as Array<BigInt>; ") AS seen (customer_key, id)
        WHERE mark.customer_key = seen.customer_key AND mark.id = seen.id"
    }
}

impl PgStore {
    /// Marks all customers of an organization, a page at a time.
    fn mark_everybody(&self, organization: Uuid, page: u32) -> Result<(), Failure> {
        for lane in self.shared.lanes.all() {
            let mut after = Uuid::nil();
            loop {
                let some = customers::table
                    .filter(customers::organization_id.eq(organization).and(customers::deleted_at.is_null()))
                    .filter(customers::list_key.gt(after))
                    .order(customers::list_key)
                    .limit(i64::from(page))
                    .select((customers::list_key, customers::customer_key));
                let some: Vec<(Uuid, Uuid)> =
                    self.shared.lanes.with(lane, |lane| lane.worker_pool.run(|pg| some.load(pg)))?;
                let Some((last, _)) = some.last() else { break };
                after = *last;
                let mut some: Vec<Uuid> = some.into_iter().map(|(_, customer)| customer).collect();
                // In the order in which a batch marks its customers: their headroom is locked.
                some.sort_unstable();
                let mark = MarkCustomers::now(organization, some);
                self.shared.lanes.with(lane, |lane| lane.worker_pool.run(|pg| mark.clone().execute(pg)))?;
            }
        }
        Ok(())
    }

    /// Waits until everybody is done who stores events in these key ranges of a lane at this moment; those where that takes too long.
    fn find_busy(&self, lane: &Lane, key_ranges: BTreeSet<i32>) -> Result<BTreeSet<i32>, Failure> {
        let mut busy = BTreeSet::new();
        // One after the other, each let go at once: nobody waits for more than one of them.
        for key_range in key_ranges {
            let wait = |lane: &Lane| lane.worker_pool.run(|pg| lock_key_ranges(pg, vec![key_range]));
            match self.shared.lanes.with(lane, wait) {
                Err(Failure::Conflict(message)) => {
                    log::info!("usage alerts of a key range are looked at later: {message}");
                    busy.insert(key_range);
                }
                waited => waited?,
            }
        }
        Ok(busy)
    }
}

impl From<MarkedRow> for MarkedCustomer {
    fn from(row: MarkedRow) -> Self {
        let MarkedRow { organization, customer, marks, since, has_changed: _, may_lie_ahead, changes, ingest_version } =
            row;
        let mut marked = Self::new((organization.into(), customer.into()), since, marks);
        marked.may_lie_ahead = may_lie_ahead;
        marked.version = HeadroomVersion { changes, ingest_version: ingest_version.unwrap_or_default() };
        marked
    }
}

impl AlertQueue for PgStore {
    fn list_marked(&self, each: u32) -> Result<Vec<MarkedCustomer>, Error> {
        let mut marked = Vec::new();
        for lane in self.shared.lanes.all() {
            self.shared.lanes.with(lane, later_looks::mark_who_is_due).map_err(Failure::into_error)?;
            let statement = ListMarked { each: i64::from(each) };
            let load = |lane: &Lane| lane.worker_pool.run(|pg| statement.clone().load::<MarkedRow>(pg));
            let rows = self.shared.lanes.with(lane, load).map_err(Failure::into_error)?;
            let key_range_of = |row: &MarkedRow| self.shared.key_ranges.of(row.customer.into());
            let changed = rows.iter().filter(|row| row.has_changed).map(key_range_of);
            let busy = self.find_busy(lane, changed.collect()).map_err(Failure::into_error)?;
            // Their marks stay for the next time.
            let is_left = |row: &MarkedRow| !row.has_changed || !busy.contains(&key_range_of(row));
            marked.extend(rows.into_iter().filter(is_left).map(MarkedCustomer::from));
        }
        marked.sort_by_key(|one| (one.organization, one.customer));
        Ok(marked)
    }

    fn drop_marks(&self, seen: &[MarkedCustomer]) -> Result<(), Error> {
        for (lane, some) in self.shared.lanes.apart(seen.iter(), |marked| marked.customer) {
            let some: Vec<&MarkedCustomer> = some.into_iter().map(|(_, one)| one).collect();
            // One by one: whoever waits for a row of another transaction holds none.
            for new in some.iter().filter(|one| one.headroom.is_some() && one.version.changes.is_none()) {
                let begin = BeginHeadroom { customer: new.customer.uuid(), organization: new.organization.uuid() };
                let begun = self.shared.lanes.with(lane, |lane| lane.worker_pool.run(|pg| begin.clone().execute(pg)));
                begun.map_err(Failure::into_error)?;
            }
            // By itself: it is right whatever becomes of the marks.
            let found: Vec<_> = some.iter().filter_map(|one| Some((*one, one.headroom.as_ref()?))).collect();
            if !found.is_empty() {
                let keep = |lane: &Lane| lane.worker_pool.transact_again(|pg| Ok(keep_headroom(pg, &found)?));
                self.shared.lanes.with(lane, keep).map_err(Failure::into_error)?;
            }
            let later = some.iter().filter_map(|one| Some((one.organization.uuid(), one.customer, one.later?)));
            let later: Vec<_> = later.collect();
            let kept = self.shared.lanes.with(lane, |lane| later_looks::keep(lane, &later));
            kept.map_err(Failure::into_error)?;
            let marks = some.iter().flat_map(|one| one.marks.iter().map(|mark| (one.customer.uuid(), *mark)));
            let (customers, marks) = marks.unzip();
            let statement = DropMarks { customers, marks };
            let dropped = self.shared.lanes.with(lane, |lane| lane.worker_pool.run(|pg| statement.clone().execute(pg)));
            dropped.map_err(Failure::into_error)?;
        }
        Ok(())
    }

    fn mark_concerned(&self, page: u32) -> Result<usize, Error> {
        let new = usage_alerts::table
            .filter(usage_alerts::is_introduced.eq(false))
            .order(usage_alerts::created_at)
            .select((usage_alerts::organization_id, usage_alerts::id, usage_alerts::customer_key));
        let new = self.shared.worker_pool.run(|pg| new.load::<(Uuid, Uuid, Option<Uuid>)>(pg));
        let new = new.map_err(Failure::into_error)?;
        if new.is_empty() {
            return Ok(0);
        }
        let has_nodes = self.shared.worker_pool.run(|pg| self.shared.lanes.look_for_nodes(pg));
        let has_nodes = has_nodes.map_err(Failure::into_error)?;
        if has_nodes {
            // Whoever stores events and has not seen it yet marks nobody for it.
            self.shared.wait_for_ingestion().map_err(Failure::into_error)?;
        }
        // However many alerts of an organization are about everybody: they are marked once.
        let of_all: BTreeSet<Uuid> =
            new.iter().filter(|(_, _, customer)| customer.is_none()).map(|(organization, ..)| *organization).collect();
        for organization in &of_all {
            self.mark_everybody(*organization, page).map_err(Failure::into_error)?;
        }
        for (organization, alert, customer) in &new {
            if let Some(customer) = customer.filter(|_| !of_all.contains(organization)) {
                let mark = MarkCustomers::now(*organization, vec![customer]);
                let lane = self.shared.lanes.of(customer.into());
                let marked = self.shared.lanes.with(lane, |lane| lane.worker_pool.run(|pg| mark.clone().execute(pg)));
                marked.map_err(Failure::into_error)?;
            }
            // Not before: whoever dies in between begins again, and who was looked at is looked at twice.
            let introduced = self.shared.worker_pool.transact_again(|pg| {
                if has_nodes {
                    say_that_nodes_are_known(pg)?;
                }
                let target = usage_alerts::table.find((organization, alert));
                Ok(diesel::update(target).set(usage_alerts::is_introduced.eq(true)).execute(pg).map(drop)?)
            });
            introduced.map_err(Failure::into_error)?;
        }
        self.shared.messages.ring_for_marks_if(true);
        Ok(new.len())
    }

    fn on_marks(&self, bell: Box<dyn Fn() + Send + Sync>) {
        self.shared.messages.set_marks_bell(bell);
    }
}
