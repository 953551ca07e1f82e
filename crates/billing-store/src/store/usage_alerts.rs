//! Whose figures are to be held against usage alerts.

use std::collections::{BTreeMap, BTreeSet};

use billing_domain::Error;
use billing_domain::store::{AlertQueue, MarkedCustomer};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Nullable, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::PgStore;
use crate::pg::error::Failure;
use crate::pg::node::say_that_nodes_are_known;
use crate::pg::schema::{customers, usage_alerts};
use crate::pg::statement::statement;
use crate::repo::usage_alert::MarkCustomers;

statement! {
    /// The oldest marks of every organization, found organization by organization in the index: one that has many does not
    /// hide the others'.
    ListMarks -> (SqlUuid, SqlUuid, BigInt, Nullable<Timestamptz>) {
        "WITH RECURSIVE organizations AS (
            (SELECT organization_id FROM usage_alert_marks ORDER BY organization_id LIMIT 1)
            UNION ALL
            SELECT (
                SELECT mark.organization_id FROM usage_alert_marks mark
                WHERE mark.organization_id > organizations.organization_id ORDER BY mark.organization_id LIMIT 1
            )
            FROM organizations WHERE organizations.organization_id IS NOT NULL
        )
        SELECT mark.organization_id, mark.customer_key, mark.id, mark.at
        FROM organizations
        CROSS JOIN LATERAL (
            SELECT * FROM usage_alert_marks
            WHERE usage_alert_marks.organization_id = organizations.organization_id
            ORDER BY usage_alert_marks.id LIMIT " each: i64 as BigInt; "
        ) mark"
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
                let mark = MarkCustomers::now(organization, some.into_iter().map(|(_, customer)| customer).collect());
                self.shared.lanes.with(lane, |lane| lane.worker_pool.run(|pg| mark.clone().execute(pg)))?;
            }
        }
        Ok(())
    }
}

impl AlertQueue for PgStore {
    fn list_marked(&self, each: u32) -> Result<Vec<MarkedCustomer>, Error> {
        type Row = (Uuid, Uuid, i64, Option<OffsetDateTime>);
        let mut marked: BTreeMap<(Uuid, Uuid), MarkedCustomer> = BTreeMap::new();
        for lane in self.shared.lanes.all() {
            let statement = ListMarks { each: i64::from(each) };
            let rows =
                self.shared.lanes.with(lane, |lane| lane.worker_pool.run(|pg| statement.clone().load::<Row>(pg)));
            for (organization, customer, mark, at) in rows.map_err(Failure::into_error)? {
                let none = || MarkedCustomer::new((organization.into(), customer.into()), None, Vec::new());
                let of_customer = marked.entry((organization, customer)).or_insert_with(none);
                of_customer.marks.push(mark);
                of_customer.since = [of_customer.since, at].into_iter().flatten().min();
            }
        }
        Ok(marked.into_values().collect())
    }

    fn drop_marks(&self, seen: &[MarkedCustomer]) -> Result<(), Error> {
        for (lane, some) in self.shared.lanes.apart(seen.iter(), |marked| marked.customer) {
            let marks = some.iter().flat_map(|(_, one)| one.marks.iter().map(|mark| (one.customer.uuid(), *mark)));
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
