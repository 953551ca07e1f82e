//! The store on a real Postgres: one binary, because each one links libpq.

mod contract;
mod errors;
mod invariants;
mod schema;
mod sql;
mod usage;
