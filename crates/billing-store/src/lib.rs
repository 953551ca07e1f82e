#![forbid(unsafe_code)]
//! The billing domain's store on Postgres: rows, SQL and migrations, and nothing that decides.
//!
//! [`PgStore`] implements the traits of [`billing_domain::store`]. Its modules:
//!
//! | module | what is in it |
//! |---|---|
//! | `pg` | connections that heal, prepared SQL text, columns, the schema and its migrations, months of events, what a database error means |
//! | `store` | connecting, health, durability |
//! | `transaction` | scopes, locks, the instant that holds, retries |
//! | `repo` | one file per noun: its row, its SQL |
//! | `batcher` | doing together what many ask for at once |
//! | `access` | questions about access: answered from what is remembered, or by one statement |
//! | `catalog` | what is remembered of what an organization offers |
//! | `batch` | several customers' work in one transaction |
//! | `ingest`, `rollup` | taking events in: lanes, months, roll-ups |
//! | `usage` | reading usage from roll-ups |
//! | `custom_sql` | running custom metrics where they can do no harm |
//!
//! Invariants: whoever changes a customer holds its lock from the first statement on; locks are taken in the
//! order customer, lanes (ascending), `billing_due`, invoice counter; an event and the roll-ups it is counted
//! in are committed together.

mod access;
mod backfill;
mod batch;
mod batcher;
mod catalog;
mod custom_sql;
mod ingest;
mod pg;
mod repo;
mod rollup;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod transaction;
mod usage;

pub use pg::deadline::{Deadline, Waiting};
pub use store::{Load, PgStore};
