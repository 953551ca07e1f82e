//! Lanes that an engine places: each of its nodes gets a copy of the catalogue, each new lane is given to it, and on the node that it has
//! chosen there is what the service works with.

use billing_domain::StoreError;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Text};

use super::HasSubscription;
use super::add::{NewNode, copy_to};
use crate::pg::catalogue_copy::SUBSCRIPTION;
use crate::pg::citus;
use crate::pg::error::Failure;
use crate::pg::lane::{CATALOGUE, LaneRow, directory};
use crate::pg::lock::{LockClass, lock_for_connection};
use crate::pg::node;
use crate::pg::place::search_path;
use crate::pg::statement::statement;
use crate::pg::url::connect;

statement! {
    /// What the database is called, here as on the engine's nodes.
    DatabaseName -> Text { "SELECT current_database()::text" }
}

statement! {
    /// Whether nobody is in a schema of customers.
    IsEmpty -> Bool { "SELECT NOT EXISTS (SELECT FROM customers) AND NOT EXISTS (SELECT FROM events WHERE arrival >= " first: i64 as BigInt; ")" }
}

/// Where an engine places lanes: gives its nodes copies of the catalogue, and the lanes that nobody is in yet to it, and does there what is
/// `left` to do behind a migration. A lane with customers in it stays where it is. Of what is there already nothing is done; where the
/// database is no engine's or has one lane nothing at all.
pub(crate) fn follow_the_engine(
    url: &str,
    is_migrated: bool,
    left: impl Fn(&mut PgConnection),
) -> Result<(), StoreError> {
    let followed = (|| -> Result<(), Failure> {
        let mut home = connect(url)?;
        if !citus::is_there(&mut home)? || directory(&mut home)?.iter().any(|row| row.schema == CATALOGUE) {
            return Ok(());
        }
        lock_for_connection(&mut home, LockClass::Migration)?;
        citus::keep_what_is_made(&mut home)?;
        copy_to_all((url, &mut home))?;
        for row in directory(&mut home)?.into_iter().filter(is_left_to_place) {
            if is_empty(&mut home, &row.schema)? {
                citus::distribute(&mut home, &row.schema)?;
            }
        }
        for row in directory(&mut home)? {
            match arrange((url, &mut home), &row, is_migrated, &left) {
                Err(failure) if row.node.is_some() && failure.is_of_the_connection() => {
                    log::warn!("lane {} is not looked at: {}", row.number, failure.into_store_error());
                }
                arranged => arranged?,
            }
        }
        Ok(())
    })();
    followed.map_err(Failure::into_store_error)
}

/// Gives each node a copy that has none. One that has been given one and does not answer is passed over.
fn copy_to_all((url, home): (&str, &mut PgConnection)) -> Result<(), Failure> {
    let database: String = DatabaseName {}.get_result(home)?;
    let known = node::all(home)?;
    for (group, host, port) in citus::nodes(home)? {
        let name = citus::node_name(group);
        if let Some(node) = known.iter().find(|node| node.name == name) {
            let has_copy = connect(&node.place().url(url)).map_err(Failure::from).and_then(|mut there| {
                Ok(HasSubscription { name: SUBSCRIPTION.to_owned() }.get_result::<bool>(&mut there)?)
            });
            match has_copy {
                Ok(false) => {}
                Ok(true) => continue,
                Err(failure) => {
                    log::warn!("the node {name} is not looked at: {}", failure.into_store_error());
                    continue;
                }
            }
        }
        log::info!("{name} at {host}:{port} gets a copy of the catalogue");
        let port = u16::try_from(port).unwrap_or_default();
        let node = NewNode { name: &name, host: &host, port, database: &database };
        copy_to((url, home), &node, |_| {}, &mut |_| {})?;
    }
    Ok(())
}

/// Whether a lane is an ordinary schema beside the catalogue.
fn is_left_to_place(row: &LaneRow) -> bool {
    row.placed.is_none() && row.node.is_none() && row.place.is_home() && row.role.is_none()
}

fn is_empty(home: &mut PgConnection, schema: &str) -> QueryResult<bool> {
    home.transaction(|home| {
        home.batch_execute(&search_path(schema).replace("SET ", "SET LOCAL "))?;
        IsEmpty { first: 0 }.get_result(home)
    })
}

/// Makes what the service works with where a lane is, if it is not there, or `is_anew`.
fn arrange(
    (url, home): (&str, &mut PgConnection),
    row: &LaneRow,
    is_anew: bool,
    left: &impl Fn(&mut PgConnection),
) -> Result<(), Failure> {
    let Some(schema) = &row.placed else { return Ok(()) };
    let url = row.node.as_ref().map_or_else(|| url.to_owned(), |node| node.place().url(url));
    let mut there = connect(&url)?;
    there.batch_execute(citus::ON_THE_OWNER)?;
    let described = citus::describe(home, schema)?;
    there.transaction(|there| {
        if citus::is_placed_here(there, schema)? && citus::arrange(there, schema, &described, is_anew)? {
            left(there);
        }
        Ok(())
    })
}

/// Has the engine move a lane to a node of its own, or to the coordinator, and makes there what the service works with.
pub(super) fn move_placed(
    (url, home): (&str, &mut PgConnection),
    (row, to): (&LaneRow, Option<&str>),
    left: impl Fn(&mut PgConnection),
    progress: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let Some(schema) = &row.placed else { return Ok(()) };
    let Some(group) = citus::group_named(home, to)? else {
        let message = format!("the engine has no node {}: `lanes list` shows them", to.unwrap_or_default());
        return Err(StoreError::Internal(message).into());
    };
    progress("moving");
    citus::move_to(home, schema, group)?;
    for row in directory(home)?.iter().filter(|moved| moved.number == row.number) {
        arrange((url, home), row, false, &left)?;
    }
    Ok(())
}
