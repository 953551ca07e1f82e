//! What is new of a group's events goes into the table of events.
//!
//! Nearly every event is new, and its month's unique index says so when it is inserted: to look its id up as well would
//! cost as much again. In the other months in which its id would be known it is looked up by the insert itself. So events are
//! stored as if their ids were new; if one is not, the transaction runs again, and for a while ids are looked up first.
//! Whoever holds the key ranges is alone with its customers' events, so what is not known then is still not known when it is
//! inserted.

use std::collections::{BTreeMap, HashSet};

use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::{Array, BigInt, Json, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Candidate, EventKey, Months, Row};
use crate::pg::column::JsonText;
use crate::pg::conflict_cooldown::ConflictCooldown;
use crate::pg::error::Failure;
use crate::pg::month::Month;

/// What of a month's events is the one that was sent.
const OF_SENT: &str = " event WHERE event.id_hash = sent.id_hash AND event.customer_key = sent.customer_key OFFSET 0)";

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
            out.push_sql(OF_SENT);
        }
        out.push_sql(") known");
        Ok(())
    }
}

impl RunQueryDsl<PgConnection> for FindKnown {}

/// Stores those events whose ids are not known in the months given, none of which is an event's own. Rows come one by one
/// out of the select list: a function in `FROM` would write all of them down first. Prepared once for the same months and
/// connection.
struct InsertEvents<'e> {
    organization: Uuid,
    elsewhere: Vec<Month>,
    customers: Vec<Uuid>,
    customer_ids: Vec<&'e str>,
    hashes: Vec<Uuid>,
    ids: Vec<&'e str>,
    names: Vec<&'e str>,
    times: Vec<OffsetDateTime>,
    properties: Vec<JsonText<&'e str>>,
    arrivals: Vec<i64>,
}

impl<'e> InsertEvents<'e> {
    fn new(organization: Uuid, elsewhere: Vec<Month>, candidates: &[&Candidate<'e>]) -> Self {
        fn column<'e, T>(candidates: &[&Candidate<'e>], value: impl Fn(&'e Row) -> T) -> Vec<T> {
            candidates.iter().map(|candidate| value(candidate.row)).collect()
        }
        Self {
            organization,
            elsewhere,
            customers: column(candidates, |row| row.customer.uuid()),
            customer_ids: column(candidates, |row| row.event.customer.as_str()),
            hashes: column(candidates, |row| row.id_hash),
            ids: column(candidates, |row| &*row.event.idempotency_id),
            names: column(candidates, |row| &*row.event.name),
            times: column(candidates, |row| row.event.time_created),
            properties: column(candidates, |row| JsonText(row.event.properties.as_json())),
            arrivals: candidates.iter().map(|candidate| candidate.arrival).collect(),
        }
    }
}

impl QueryId for InsertEvents<'_> {
    type QueryId = ();
    // As that of the look-up.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl QueryFragment<Pg> for InsertEvents<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        out.push_sql(
            "INSERT INTO events
                (organization_id, customer_key, customer_id, id_hash, idempotency_id, event_name, time_created, properties,
                arrival)
            SELECT ",
        );
        out.push_bind_param::<SqlUuid, _>(&self.organization)?;
        out.push_sql(
            ", sent.customer_key, sent.customer_id, sent.id_hash, sent.idempotency_id, sent.event_name, sent.time_created,
                sent.properties, sent.arrival
            FROM (SELECT unnest(",
        );
        out.push_bind_param::<Array<SqlUuid>, _>(&self.customers)?;
        out.push_sql(") AS customer_key, unnest(");
        out.push_bind_param::<Array<Text>, _>(&self.customer_ids)?;
        out.push_sql(") AS customer_id, unnest(");
        out.push_bind_param::<Array<SqlUuid>, _>(&self.hashes)?;
        out.push_sql(") AS id_hash, unnest(");
        out.push_bind_param::<Array<Text>, _>(&self.ids)?;
        out.push_sql(") AS idempotency_id, unnest(");
        out.push_bind_param::<Array<Text>, _>(&self.names)?;
        out.push_sql(") AS event_name, unnest(");
        out.push_bind_param::<Array<Timestamptz>, _>(&self.times)?;
        out.push_sql(") AS time_created, unnest(");
        out.push_bind_param::<Array<Json>, _>(&self.properties)?;
        out.push_sql(") AS properties, unnest(");
        out.push_bind_param::<Array<BigInt>, _>(&self.arrivals)?;
        out.push_sql(") AS arrival) AS sent");
        for (index, month) in self.elsewhere.iter().enumerate() {
            out.push_sql(if index == 0 { " WHERE " } else { " AND " });
            out.push_sql("NOT EXISTS (SELECT FROM ");
            out.push_identifier(&month.table())?;
            out.push_sql(OF_SENT);
        }
        Ok(())
    }
}

impl RunQueryDsl<PgConnection> for InsertEvents<'_> {}

/// Stores those of the candidates whose ids are new, and drops the others.
pub(super) fn store(
    pg: &mut PgConnection,
    organization: Uuid,
    candidates: &mut Vec<Candidate<'_>>,
    cooldown: &ConflictCooldown,
) -> Result<(), Failure> {
    let are_looked_up = cooldown.of_next();
    if are_looked_up && drop_known(pg, candidates)? {
        cooldown.begin();
    }
    for (months, candidates) in by_months(candidates) {
        let elsewhere = if are_looked_up { Vec::new() } else { months.elsewhere().collect() };
        match InsertEvents::new(organization, elsewhere, &candidates).execute(pg) {
            Ok(stored) if stored == candidates.len() => {}
            Ok(_) | Err(DieselError::DatabaseError(DatabaseErrorKind::UniqueViolation, _)) => {
                cooldown.begin();
                return Err(Failure::Conflict("an event is known".to_owned()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Drops those whose id is known, and says whether there were any.
fn drop_known(pg: &mut PgConnection, candidates: &mut Vec<Candidate<'_>>) -> QueryResult<bool> {
    let mut known: HashSet<EventKey> = HashSet::new();
    for (months, candidates) in by_months(candidates) {
        let months = Month::range(months.probed).collect();
        let (customers, hashes) = candidates.iter().map(|candidate| candidate.row.key()).unzip();
        known.extend(FindKnown { months, customers, hashes }.load::<EventKey>(pg)?);
    }
    if !known.is_empty() {
        candidates.retain(|candidate| !known.contains(&candidate.row.key()));
    }
    Ok(!known.is_empty())
}

/// The candidates by the months that matter to them.
fn by_months<'c, 'e>(candidates: &'c [Candidate<'e>]) -> BTreeMap<Months, Vec<&'c Candidate<'e>>> {
    let mut by_months: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for candidate in candidates {
        by_months.entry(candidate.months).or_default().push(candidate);
    }
    by_months
}
