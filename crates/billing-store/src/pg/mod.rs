//! Postgres as such: connections, prepared statements, the schema, what errors mean. Knows nothing of the store above it.

pub(crate) mod catalogue_copy;
pub(crate) mod citus;
pub(crate) mod column;
pub(crate) mod conflict_cooldown;
pub(crate) mod cursor;
pub(crate) mod deadline;
pub(crate) mod error;
pub(crate) mod lane;
pub(crate) mod lock;
pub(crate) mod migration;
pub(crate) mod month;
pub(crate) mod nested;
pub(crate) mod node;
pub(crate) mod now;
pub(crate) mod outage;
pub(crate) mod partition;
pub(crate) mod place;
pub(crate) mod pool;
pub(crate) mod replica;
pub(crate) mod schema;
pub(crate) mod sql_file;
pub(crate) mod statement;
pub(crate) mod statistics;
pub(crate) mod transact;
pub(crate) mod url;
