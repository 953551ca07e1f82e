//! What the lanes are like, for whoever runs the service.

use billing_domain::{Error, StoreError};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text, Uuid as SqlUuid};
use uuid::Uuid;

use super::{PgStore, expect_versions};
use crate::lanes::Lane;
use crate::pg::column::count;
use crate::pg::error::Failure;
use crate::pg::lane::bounds;
use crate::pg::migration;
use crate::pg::node;
use crate::pg::statement::statement;
use crate::pg::statistics::NAMESPACE;

/// A lane as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneStatus {
    /// From 0 on.
    pub number: u16,
    /// The schema that holds what its customers own.
    pub schema: String,
    /// The role as which the service works there; `None`: as itself.
    pub role: Option<String>,
    /// Where its connections go, `host:port/database`; `-`: where the catalogue's go.
    pub address: String,
    /// What is in it; `None`: its server does not answer.
    pub contents: Option<LaneContents>,
}

/// What is in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneContents {
    /// Customers, those that are deleted among them.
    pub customers: u64,
    /// What its tables and indexes take, in bytes.
    pub bytes: u64,
}

statement! {
    /// How many customers there are, and what the tables of this schema take.
    Measure -> (BigInt, BigInt) {
        "SELECT (SELECT count(*) FROM customers), coalesce(sum(pg_total_relation_size(oid)), 0)::bigint
        FROM pg_class
        WHERE relnamespace = " [NAMESPACE] " AND relkind = 'r' AND " ones: i64 as BigInt; " = 1"
    }
}

statement! {
    /// The tables here that say whose a row is, without the months of a table of months.
    ListOwned -> Text {
        "SELECT class.relname::text
        FROM pg_class class JOIN pg_attribute attribute ON attribute.attrelid = class.oid AND attribute.attname = 'customer_key'
        WHERE class.relnamespace = " [NAMESPACE] " AND class.relkind IN ('r', 'p')
            AND to_regclass(quote_ident(class.relname)) IS NOT NULL AND NOT class.relispartition AND NOT attribute.attisdropped AND class.relname <> ALL (" but: Vec<String> as diesel::sql_types::Array<Text>; ")
        ORDER BY 1"
    }
}

/// A row outside of two keys.
#[derive(QueryableByName)]
struct Strange {
    #[diesel(sql_type = SqlUuid)]
    customer_key: Uuid,
}

/// Tables of the catalogue that name customers of any lane.
const OF_ALL_LANES: [&str; 5] =
    ["customer_emails", "feed_entries", "invoice_numbers", "lane_reservations", "plan_version_targets"];

impl PgStore {
    /// Every lane, by number, with what is in it.
    ///
    /// # Errors
    /// Those of the connections, but of one to a node that does not answer.
    pub fn lanes(&self) -> Result<Vec<LaneStatus>, Error> {
        let status = |lane: &Lane| {
            let (mut found, is_on_node) = (lane, lane.replica.is_some());
            let measured = self.shared.lanes.with(lane, |lane| {
                found = lane;
                lane.pool.transact(|pg| Ok(measure(pg)?))
            });
            let contents = match measured {
                Ok((customers, bytes)) => Some(LaneContents { customers: count(customers)?, bytes: count(bytes)? }),
                Err(failure) if is_on_node && failure.is_of_the_connection() => None,
                Err(failure) => return Err(failure.into_error()),
            };
            Ok(LaneStatus {
                number: count(found.number as i64)?,
                schema: found.schema.clone(),
                role: found.role.clone(),
                address: found.place.to_string(),
                contents,
            })
        };
        self.shared.lanes.all().map(status).collect()
    }

    /// Every node by name, with where it is: `host:port/database`.
    ///
    /// # Errors
    /// Those of the catalogue's connections.
    pub fn nodes(&self) -> Result<Vec<(String, String)>, Error> {
        let all = self.shared.pool.run(node::all);
        let all = all.map_err(Failure::into_error)?;
        Ok(all.into_iter().map(|node| (node.name.clone(), node.place().to_string())).collect())
    }

    /// What is wrong with the lanes: an address that leads nowhere or to another database, a migration that one lacks, and rows of
    /// customers that are another lane's. Nothing: they are as they should be. `progress` is told of each lane.
    ///
    /// # Errors
    /// Those of the catalogue's connections, and of a lane that is lost while it is looked at.
    pub fn check_lanes(&self, progress: &mut dyn FnMut(u16)) -> Result<Vec<String>, Error> {
        let (lanes, mut faults) = (&self.shared.lanes, Vec::new());
        let versions = migration::customers_versions()?;
        for lane in lanes.all() {
            let lane = lanes.found(lane);
            progress(count(lane.number as i64)?);
            match expect_versions(&lane.pool, &versions) {
                Err(StoreError::Internal(fault)) => faults.push(format!("lane {}: {fault}", lane.number)),
                Err(StoreError::Unavailable(fault)) if !lane.place.is_home() => {
                    faults.push(format!("lane {} is not to be had at {}: {fault}", lane.number, lane.place));
                    continue;
                }
                other => other?,
            }
            let found = lane.pool.run(|pg| strangers(pg, bounds(lane.number, lanes.bits())));
            let found = found.map_err(Failure::into_error)?.into_iter();
            faults.extend(found.map(|(table, key)| {
                format!("lane {}: {table} has rows of customers of other lanes, such as {key}", lane.number)
            }));
        }
        Ok(faults)
    }
}

/// Customers, and bytes.
fn measure(pg: &mut PgConnection) -> QueryResult<(i64, i64)> {
    // Counting may take long, and nobody waits for it but the one who asks.
    pg.batch_execute("SET LOCAL statement_timeout = 0")?;
    Measure { ones: 1 }.get_result(pg)
}

/// The tables that have rows of customers outside of two keys, each with one of those.
fn strangers(pg: &mut PgConnection, (first, last): (Uuid, Uuid)) -> QueryResult<Vec<(String, Uuid)>> {
    let but = OF_ALL_LANES.map(str::to_owned).to_vec();
    let mut found = Vec::new();
    for table in (ListOwned { but }).load::<String>(pg)? {
        // Each half by the index, which begins with the key.
        let sql = format!(
            "(SELECT customer_key FROM {table} WHERE customer_key < $1 LIMIT 1)
            UNION ALL (SELECT customer_key FROM {table} WHERE customer_key > $2 LIMIT 1)"
        );
        let query = diesel::sql_query(sql).bind::<SqlUuid, _>(first).bind::<SqlUuid, _>(last);
        let strange: Vec<Strange> = query.load(pg)?;
        found.extend(strange.first().map(|row| (table, row.customer_key)));
    }
    Ok(found)
}
