#![forbid(unsafe_code)]
//! The billing domain's store on Postgres: rows, SQL and migrations, and nothing that decides.
//!
//! [`PgStore`] implements the traits of [`billing_domain::store`]. One file per aggregate holds its row
//! structs (private), their conversions and its SQL; beside them:
//!
//! | module | what is in it |
//! |---|---|
//! | `store`, `pool`, `migration` | connecting, health, durability; connections that heal; bringing a database up to date |
//! | `transaction` | scopes, locks, the instant that holds, retries |
//! | `batcher`, `question`, `prefetch` | answering together what many ask at once |
//! | `answer_from_cache`, `catalog`, `subscription_cache` | answering out of memory what still holds |
//! | `batch` | several customers' work in one transaction |
//! | `error` | what a database error means |
//! | `ingest`, `partition`, `rollup` | taking events in: lanes, months, roll-ups |
//! | `billing_queue` | who is due for billing, who failed, which clocks are on their way |
//! | `event`, `usage` | reading events, and usage from roll-ups |
//! | `custom_sql` | running custom metrics where they can do no harm |
//! | `statement`, `column` | prepared SQL text; column values |
//!
//! Invariants: whoever changes a customer holds its lock from the first statement on; locks are taken in the
//! order customer, lanes (ascending), `billing_due`, invoice counter; an event and the roll-ups it is counted
//! in are committed together.

mod addon;
mod answer_from_cache;
mod api_key;
mod backfill;
mod batch;
mod batcher;
mod billing_queue;
mod billing_record;
mod catalog;
mod column;
mod conflict_cooldown;
mod credit;
mod currency;
mod custom_sql;
mod customer;
mod deadline;
mod error;
mod event;
mod feature;
mod idempotency;
mod ingest;
mod invoice;
mod metric;
mod migration;
mod organization;
mod partition;
mod plan;
mod pool;
mod prefetch;
mod question;
mod rollup;
mod schema;
mod statement;
mod statistics;
mod store;
mod subscription;
mod subscription_cache;
mod test_clock;
#[cfg(feature = "testing")]
pub mod testing;
mod transaction;
mod usage;

pub use deadline::{Deadline, Waiting};
pub use store::{Load, PgStore};
