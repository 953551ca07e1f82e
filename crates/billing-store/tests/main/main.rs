//! The store on a real Postgres: one binary, because each one links libpq.

mod contract;
mod schema;
