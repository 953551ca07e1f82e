//! Servers beside the catalogue's that lanes can be on.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};

use super::citus;
use super::place::{Identity, Place};
use super::schema::nodes;
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

    /// Takes another address for where it is.
    fn is_at(&mut self, host: &str, port: i32) {
        (self.host, self.port) = (host.to_owned(), port);
    }

    /// A server that is no node: no connection to it is taken for one.
    pub(crate) fn strange(name: &str, host: &str, port: i32) -> Self {
        let (name, host, database_name) = (name.to_owned(), host.to_owned(), String::new());
        Self { name, host, port, database_name, system_identifier: 0, database_number: 0 }
    }

    /// Which database must be found there.
    pub(crate) fn identity(&self) -> Identity {
        // Postgres has no number of a database beyond that.
        let database = u32::try_from(self.database_number).unwrap_or_default();
        Identity { server: self.system_identifier, database }
    }
}

/// Every node, by name. Those of an engine are where that has them.
pub(crate) fn all(pg: &mut PgConnection) -> QueryResult<Vec<Node>> {
    let mut all = nodes::table.order(nodes::name).load(pg)?;
    if citus::is_there(pg)? {
        for (group, host, port) in citus::nodes(pg)? {
            let name = citus::node_name(group);
            all.iter_mut().filter(|node: &&mut Node| node.name == name).for_each(|node| node.is_at(&host, port));
        }
    }
    Ok(all)
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
