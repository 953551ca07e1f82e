//! Servers beside the catalogue's that lanes can be on.

use diesel::prelude::*;

use super::place::{Identity, Place};

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
