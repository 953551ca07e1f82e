//! Who is to be looked at again for usage alerts: whoever has events that are dated ahead, once these count.
//!
//! A look at a customer finds the next of them, and leaves a row that says when it is due. What comes due becomes a mark as any other: in
//! one transaction, so that it is looked at whoever dies in between, and once.

use std::collections::BTreeMap;

use billing_domain::id::CustomerKey;
use billing_domain::usage_alert::LaterLook;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::lanes::Lane;
use crate::pg::error::Failure;
use crate::pg::now::OWN_NOW;
use crate::pg::statement::statement;
use crate::repo::usage_alert::MarkCustomers;

/// Customers of a lane who are marked at once.
const DUE_MAX: i64 = 1_000;

statement! {
    /// Who is due, in real time or by the time of their clocks: the organization, the customer, since when.
    ListDue -> (SqlUuid, SqlUuid, Timestamptz) {
        "(
            SELECT organization_id, customer_key, due_at FROM usage_alert_looks
            WHERE NOT is_on_clock AND due_at <= statement_timestamp() ORDER BY due_at LIMIT " each: i64 as BigInt; "
        ) UNION ALL (
            SELECT looks.organization_id, looks.customer_key, looks.due_at FROM usage_alert_looks looks
            LEFT JOIN customers ON customers.organization_id = looks.organization_id AND customers.customer_key = looks.customer_key
            WHERE looks.is_on_clock AND looks.due_at <= (" [OWN_NOW] ") LIMIT " clocks: i64 as BigInt; "
        )"
    }
}

statement! {
    /// Takes those who are due, unless somebody else has.
    TakeDue -> (SqlUuid, SqlUuid, Timestamptz) {
        "DELETE FROM usage_alert_looks looks
        USING unnest(" customers: Vec<Uuid> as Array<SqlUuid>; ", " dues: Vec<OffsetDateTime> as Array<Timestamptz>; ") AS due (customer_key, due_at)
        WHERE looks.customer_key = due.customer_key AND looks.due_at = due.due_at
        RETURNING looks.organization_id, looks.customer_key, looks.due_at"
    }
}

statement! {
    /// Keeps when customers are to be looked at again; the earlier of two instants.
    KeepLaterLooks -> BigInt {
        "INSERT INTO usage_alert_looks AS known (organization_id, customer_key, is_on_clock, due_at)
        SELECT * FROM unnest(
            " organizations: Vec<Uuid> as Array<SqlUuid>; ", " customers: Vec<Uuid> as Array<SqlUuid>; ",
            " are_on_clocks: Vec<bool> as Array<Bool>; ", " dues: Vec<OffsetDateTime> as Array<Timestamptz>; "
        )
        ON CONFLICT (customer_key) DO UPDATE SET due_at = least(known.due_at, excluded.due_at), is_on_clock = excluded.is_on_clock"
    }
}

/// Who is due: the organization, the customer, since when.
type Due = (Uuid, Uuid, OffsetDateTime);

/// Marks the customers of a lane who are due.
pub(super) fn mark_who_is_due(lane: &Lane) -> Result<(), Failure> {
    let list = ListDue { each: DUE_MAX, clocks: DUE_MAX };
    let due: Vec<Due> = lane.worker_pool.run(|pg| list.clone().load(pg))?;
    if due.is_empty() {
        return Ok(());
    }
    lane.worker_pool.transact_again(|pg| {
        let (customers, dues) = due.iter().map(|(_, customer, due)| (*customer, *due)).unzip();
        let taken: Vec<Due> = TakeDue { customers, dues }.load(pg)?;
        let mut marked: BTreeMap<Uuid, BTreeMap<Uuid, (OffsetDateTime, bool)>> = BTreeMap::new();
        for (organization, customer, due) in taken {
            marked.entry(organization).or_default().insert(customer, (due, true));
        }
        for (organization, customers) in marked {
            MarkCustomers::at(organization, customers).execute(pg)?;
        }
        Ok(())
    })
}

/// Keeps when these customers of a lane are to be looked at again, each of an organization.
pub(super) fn keep(lane: &Lane, looks: &[(Uuid, CustomerKey, LaterLook)]) -> Result<(), Failure> {
    if looks.is_empty() {
        return Ok(());
    }
    let keep = KeepLaterLooks {
        organizations: looks.iter().map(|(organization, ..)| *organization).collect(),
        customers: looks.iter().map(|(_, customer, _)| customer.uuid()).collect(),
        are_on_clocks: looks.iter().map(|(.., look)| look.is_on_clock).collect(),
        dues: looks.iter().map(|(.., look)| look.at).collect(),
    };
    lane.worker_pool.transact_again(|pg| Ok(keep.clone().execute(pg).map(drop)?))
}
