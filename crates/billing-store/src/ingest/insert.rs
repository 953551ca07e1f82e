//! What is new of a group's events goes into the table of events.
//!
//! Nearly every event is new, and its month's unique index says so when it is inserted: to look its id up as well would
//! cost as much again. So events are stored as if their ids were new in their own month; if one is not, the transaction
//! runs again, and for a while ids are looked up first. Whoever holds the lanes is alone with its customers' events, so
//! what is not known then is still not known when it is inserted.

use std::collections::{BTreeMap, HashSet};

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::{Array, BigInt, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::Candidate;
use crate::error::Failure;
use crate::partition::Month;
use crate::statement::statement;
use crate::wariness::Wariness;

/// An event's key: its customer, and the hash of its id.
type EventKey = (Uuid, Uuid);

/// Those of some keys that have an event in one of the months. Asked of each month by itself: through the partitioned table,
/// with a range of time, the planner would rather read all of a customer's events than look an id up. For the same reason
/// the inner queries stand by themselves: each id is looked up, however small the table was when this was planned. Prepared
/// once for the same months and connection.
struct FindKnown {
    months: Vec<Month>,
    customers: Vec<Uuid>,
    hashes: Vec<Uuid>,
}

impl QueryId for FindKnown {
    type QueryId = ();
    // The text depends on the months; Diesel then finds the prepared statement by its text.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for FindKnown {
    type SqlType = (SqlUuid, SqlUuid);
}

impl QueryFragment<Pg> for FindKnown {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql("SELECT known.* FROM unnest(");
        out.push_bind_param::<Array<SqlUuid>, _>(&self.customers)?;
        out.push_sql(", ");
        out.push_bind_param::<Array<SqlUuid>, _>(&self.hashes)?;
        out.push_sql(") AS sent (customer_key, id_hash) CROSS JOIN LATERAL (");
        for (index, month) in self.months.iter().enumerate() {
            out.push_sql(if index == 0 { "(" } else { " UNION ALL (" });
            out.push_sql("SELECT event.customer_key, event.id_hash FROM ");
            out.push_identifier(&month.table())?;
            out.push_sql(
                " event WHERE event.id_hash = sent.id_hash AND event.customer_key = sent.customer_key OFFSET 0)",
            );
        }
        out.push_sql(") known");
        Ok(())
    }
}

impl RunQueryDsl<PgConnection> for FindKnown {}

statement! {
    /// Stores events.
    InsertEvents -> BigInt {
        "INSERT INTO events
            (organization_id, customer_key, customer_id, id_hash, idempotency_id, event_name, time_created, properties)
        SELECT " organization: Uuid as SqlUuid; ", sent.customer_key, sent.customer_id, sent.id_hash,
            sent.idempotency_id, sent.event_name, sent.time_created, sent.properties::json
        FROM unnest(
            " customers: Vec<Uuid> as Array<SqlUuid>; ",
            " customer_ids: Vec<String> as Array<Text>; ",
            " hashes: Vec<Uuid> as Array<SqlUuid>; ",
            " ids: Vec<String> as Array<Text>; ",
            " names: Vec<String> as Array<Text>; ",
            " times: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " properties: Vec<String> as Array<Text>; "
        ) AS sent (customer_key, customer_id, id_hash, idempotency_id, event_name, time_created, properties)"
    }
}

/// Stores those of the candidates whose ids are new, and drops the others.
pub(super) fn store(
    pg: &mut PgConnection,
    organization: Uuid,
    candidates: &mut Vec<Candidate<'_>>,
    wariness: &Wariness,
) -> Result<(), Failure> {
    if drop_known(pg, candidates, wariness.of_next())? {
        wariness.begin();
    }
    if candidates.is_empty() {
        return Ok(());
    }
    match insert_events(organization, candidates).execute(pg) {
        Err(DieselError::DatabaseError(DatabaseErrorKind::UniqueViolation, _)) => {
            wariness.begin();
            Err(Failure::Conflict("an event is known".to_owned()))
        }
        outcome => Ok(outcome.map(|_| ())?),
    }
}

/// Drops those whose id is known, and says whether there were any. Their own month is asked only if one is wary.
fn drop_known(pg: &mut PgConnection, candidates: &mut Vec<Candidate<'_>>, is_wary: bool) -> QueryResult<bool> {
    let mut by_months: BTreeMap<Vec<Month>, (Vec<Uuid>, Vec<Uuid>)> = BTreeMap::new();
    for candidate in candidates.iter() {
        let months = Month::range(candidate.probed).filter(|month| is_wary || *month != candidate.month).collect();
        let (customers, hashes) = by_months.entry(months).or_default();
        customers.push(candidate.row.customer);
        hashes.push(candidate.row.id_hash);
    }
    let mut known: HashSet<EventKey> = HashSet::new();
    for (months, (customers, hashes)) in by_months {
        if !months.is_empty() {
            known.extend(FindKnown { months, customers, hashes }.load::<EventKey>(pg)?);
        }
    }
    if !known.is_empty() {
        candidates.retain(|candidate| !known.contains(&(candidate.row.customer, candidate.row.id_hash)));
    }
    Ok(!known.is_empty())
}

fn insert_events(organization: Uuid, candidates: &[Candidate<'_>]) -> InsertEvents {
    fn column<'r, T>(candidates: &[Candidate<'r>], value: impl Fn(&Candidate<'r>) -> T) -> Vec<T> {
        candidates.iter().map(value).collect()
    }
    InsertEvents {
        organization,
        customers: column(candidates, |each| each.row.customer),
        customer_ids: column(candidates, |each| each.row.event.customer.as_str().to_owned()),
        hashes: column(candidates, |each| each.row.id_hash),
        ids: column(candidates, |each| each.row.event.idempotency_id.clone()),
        names: column(candidates, |each| each.row.event.name.clone()),
        times: column(candidates, |each| each.row.event.time_created),
        properties: column(candidates, |each| each.row.event.properties.as_json().to_owned()),
    }
}
