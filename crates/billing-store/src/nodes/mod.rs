//! Servers beside the catalogue's that lanes can be on: adding one, and moving lanes between them.

mod add;
mod moving;
mod placed;

use diesel::sql_types::{BigInt, Bool, Integer, Text};

use crate::pg::statement::statement;

pub(crate) use self::add::{NewNode, add};
pub use self::moving::Moved;
pub(crate) use self::moving::move_lane;
pub(crate) use self::placed::follow_the_engine;

/// How long is waited for a copy that makes no progress, in seconds.
const STUCK_MAX_SECONDS: u64 = 60;

statement! {
    /// Whether this database takes something from another.
    HasSubscription -> Bool {
        "SELECT EXISTS (
            SELECT FROM pg_subscription
            WHERE subname = " name: String as Text; " AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
        )"
    }
}

statement! {
    /// Has this server keep, for a subscription to come, what changes from now on; waits for the transactions that are at work on it.
    ///
    /// A subscription could make this itself, but would wait in a transaction that has begun to write: two servers that subscribe to each
    /// other at once would wait for each other, and neither would know.
    CreateSlot -> Text {
        "SELECT slot_name::text FROM pg_create_logical_replication_slot(" name: String as Text; ", 'pgoutput')"
    }
}

statement! {
    /// Drops what a subscription has left at home that was never made.
    DropSlot -> Integer {
        "SELECT 1 FROM pg_replication_slots slot, pg_drop_replication_slot(slot.slot_name)
        WHERE slot.slot_name = " name: String as Text; " AND NOT slot.active"
    }
}

statement! {
    /// How many tables of a subscription are not copied yet.
    CountUncopied -> BigInt {
        "SELECT count(*) FROM pg_subscription_rel
        JOIN pg_subscription ON pg_subscription.oid = srsubid
        WHERE srsubstate <> 'r' AND subname = " name: String as Text; "
            AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
     }
}
