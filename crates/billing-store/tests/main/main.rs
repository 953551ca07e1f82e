//! The store on a real Postgres: one binary, because each one links libpq.

mod backfill;
mod contract;
mod errors;
mod invariants;
mod schema;
mod sql;
mod usage;
