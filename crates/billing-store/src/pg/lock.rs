//! Advisory locks: which there are, and taking them.
//!
//! A customer's lock is the one key of its own. All others have two keys: a class, and a number in it.

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Integer, Text};
use uuid::Uuid;

use super::statement::statement;

/// What a lock with two keys is about. The numbers are those that every process on the database uses: they never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockClass {
    /// The events and roll-ups of a range of customers; the number is the key range's.
    KeyRange = 1,
    /// An organization's catalogue.
    Catalog = 2,
    /// Bringing the database up to date.
    Migration = 3,
    /// Making months of events: the database function that makes them takes it.
    #[expect(dead_code, reason = "the database takes it")]
    Partition = 4,
    /// Filling in roll-ups.
    Backfill = 5,
    /// Gathering statistics.
    Statistics = 6,
    /// Giving messages their places.
    Messages = 7,
    /// Making what the service works with on a node that an engine has put a lane on.
    Arrangement = 8,
}

impl LockClass {
    /// The first key.
    pub(crate) fn key(self) -> i32 {
        self as i32
    }
}

statement! {
    /// Waits until nobody else holds the customer; held until the transaction ends. For as long, statements are not planned
    /// anew for the values they come with: whatever is one customer's is found by its key.
    LockCustomer -> (BigInt, Text) {
        "SELECT pg_advisory_xact_lock(" key: i64 as BigInt; "), set_config('plan_cache_mode', 'force_generic_plan', true)"
    }
}

statement! {
    /// Waits for a lock of a class; held until the transaction ends.
    Lock -> Integer { "SELECT pg_advisory_xact_lock(" class: i32 as Integer; ", " number: i32 as Integer; ")" }
}

statement! {
    /// Takes a class as a whole if nobody else has it; held until the transaction ends.
    TryLock -> Bool { "SELECT pg_try_advisory_xact_lock(" class: i32 as Integer; ", 0)" }
}

statement! {
    /// Waits for a class as a whole; held until the connection closes.
    LockForConnection -> Integer { "SELECT pg_advisory_lock(" class: i32 as Integer; ", 0)" }
}

/// Waits until nobody else holds the customer with this key; held until the transaction ends.
pub(crate) fn lock_customer(pg: &mut PgConnection, customer: Uuid) -> QueryResult<()> {
    LockCustomer { key: customer_lock(customer) }.execute(pg).map(drop)
}

/// Waits until nobody else changes the organization's catalogue; held until the transaction ends.
pub(crate) fn lock_catalog(pg: &mut PgConnection, organization: Uuid) -> QueryResult<()> {
    Lock { class: LockClass::Catalog.key(), number: last_four_bytes(organization) }.execute(pg).map(drop)
}

/// Waits for the class as a whole; held until the transaction ends.
pub(crate) fn lock(pg: &mut PgConnection, class: LockClass) -> QueryResult<()> {
    Lock { class: class.key(), number: 0 }.execute(pg).map(drop)
}

/// Whether nobody else has the class as a whole; if so it is held until the transaction ends.
pub(crate) fn try_lock(pg: &mut PgConnection, class: LockClass) -> QueryResult<bool> {
    TryLock { class: class.key() }.get_result(pg)
}

/// Waits for the class as a whole; held until the connection closes.
pub(crate) fn lock_for_connection(pg: &mut PgConnection, class: LockClass) -> QueryResult<()> {
    LockForConnection { class: class.key() }.execute(pg).map(drop)
}

/// The lock of the customer with this key: its first eight bytes. Two customers that share one only wait for each other.
pub(crate) fn customer_lock(customer: Uuid) -> i64 {
    i64::from_be_bytes((customer.as_u64_pair().0).to_be_bytes())
}

/// A lock number for an organization: the random end of its id.
fn last_four_bytes(uuid: Uuid) -> i32 {
    let [.., a, b, c, d] = *uuid.as_bytes();
    i32::from_be_bytes([a, b, c, d])
}
