#![forbid(unsafe_code)]
//! The billing domain's store on Postgres: rows, SQL and migrations, and nothing that decides.
//!
//! [`PgStore`] implements the traits of [`billing_domain::store`]. Its modules:
//!
//! | module | what is in it; each names only those above it |
//! |---|---|
//! | `company`, `issued`, `measured` | whether several organizations use the service; what this process has issued; what was measured of the database |
//! | `pg` | connections that heal, prepared SQL text, columns, the schema and its migrations, locks, a customer's own time, months of events, what a database error means |
//! | `cache` | the one bounded cache, and the tokens of what is in it |
//! | `batcher` | doing together what many ask for at once |
//! | `rollup` | counting events in buckets: the hot bucket, and those by hour and by day |
//! | `custom_sql` | running custom metrics where they can do no harm |
//! | `remembered` | what the process remembers between transactions |
//! | `tallies` | how many events this process has stored, until that is noted |
//! | `told` | who says what stands in messages, and who wants to know of them |
//! | `lanes`, `shared` | the schemas that customers are divided into, with their connections; what everything shares |
//! | `nodes` | making a server ready for lanes |
//! | `reservation` | what transactions of lanes on nodes take of the catalogue's, settled or given back |
//! | `transaction` | one open transaction: its connection, its tenant, what went wrong, whether statements may be sent |
//! | `usage` | reading usage from roll-ups and events |
//! | `repo` | one file per noun: its row, its SQL |
//! | `cached` | a transaction that answers from memory what memory has |
//! | `over_lanes` | a transaction about customers of several lanes |
//! | `run` | running work alone in its scope, and answering a request once |
//! | `ingest` | taking events in |
//! | `access` | questions about access: answered from what is remembered, or by one statement |
//! | `batch` | several customers' work in one transaction |
//! | `backfill` | filling in roll-ups that are younger than their events |
//! | `split` | dividing the customers of one lane into several |
//! | `store` | putting all of it together: connecting, health, durability, and the doors that need no scope |
//!
//! Invariants: whoever changes a customer holds its lock from the first statement on; locks are taken in the
//! order customer, key ranges (ascending), `billing_due`, invoice counter; an event and the roll-ups it is counted
//! in are committed together.

mod access;
mod backfill;
mod batch;
mod batcher;
mod cache;
mod cached;
mod company;
mod custom_sql;
mod ingest;
mod issued;
mod lanes;
mod measured;
mod nodes;
mod over_lanes;
mod pg;
mod remembered;
mod repo;
mod reservation;
mod rollup;
mod run;
mod shared;
mod split;
mod store;
mod tallies;
#[cfg(feature = "testing")]
pub mod testing;
mod told;
mod transaction;
mod usage;

pub use company::Company;
pub use issued::{IssuedAmount, OWN_CURRENCIES};
pub use measured::{ExpiringCredits, Measured, ORGANIZATIONS_TOLD_MAX};
pub use nodes::Moved;
pub use pg::deadline::{Deadline, Waiting};
pub use pg::url::with_timeouts;
pub use remembered::Uncounted;
pub use split::Split;
pub use store::{LaneContents, LaneStatus, Load, PgStore};
