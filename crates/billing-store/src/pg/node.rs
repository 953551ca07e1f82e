//! Servers beside the catalogue's that lanes can be on.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};

use super::place::{Identity, Place};
use super::statement::statement;

/// A row of the directory of nodes.
#[derive(Clone, Debug, Queryable)]
pub(crate) struct Node {
    pub(crate) name: String,
    host: String,
    port: i32,
    database_name: String,
    system_identifier: i64,
    database_number: i64,
}

impl Node {
    /// Where its connections go.
    pub(crate) fn place(&self) -> Place {
        Place::of(&self.host, self.port, &self.database_name)
    }

    /// Which database must be found there.
    pub(crate) fn identity(&self) -> Identity {
        // Postgres has no number of a database beyond that.
        let database = u32::try_from(self.database_number).unwrap_or_default();
        Identity { server: self.system_identifier, database }
    }
}

statement! {
    /// Whether there is any, by names from one on.
    HasNodes -> Bool { "SELECT EXISTS (SELECT FROM nodes WHERE name >= " first: String as Text; ")" }
}

/// Whether there is any.
pub(crate) fn has_nodes(pg: &mut PgConnection) -> QueryResult<bool> {
    HasNodes { first: String::new() }.get_result(pg)
}

/// Has the rest of a transaction change what only those may change who know whether there are nodes.
pub(crate) fn say_that_nodes_are_known(pg: &mut PgConnection) -> QueryResult<()> {
    pg.batch_execute("SET LOCAL billing.knows_of_nodes = 'on'")
}
