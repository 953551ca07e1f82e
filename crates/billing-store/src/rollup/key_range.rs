//! Key ranges: ranges of customers, of which one transaction at a time stores and counts events; and the numbers in which those arrive.

use std::collections::BTreeMap;

use billing_domain::id::CustomerKey;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Integer, Uuid as SqlUuid};
use uuid::Uuid;

use crate::pg::lock::LockClass;
use crate::pg::statement::statement;

/// So many top bits of a customer's key, at most eight.
pub(crate) fn top_bits(customer: CustomerKey, bits: u8) -> u8 {
    let [first, ..] = *customer.uuid().as_bytes();
    (u16::from(first) >> (8 - bits)) as u8
}

/// How customers are divided into key ranges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRanges {
    bits: u8,
}

impl KeyRanges {
    pub(crate) fn new(bits: u8) -> Self {
        Self { bits: bits.min(8) }
    }

    /// The key range of a customer: the top bits of its key.
    pub(crate) fn of(self, customer: CustomerKey) -> i32 {
        i32::from(top_bits(customer, self.bits))
    }

    /// How many there are.
    pub(crate) fn count(self) -> u32 {
        1 << self.bits
    }

    /// Every key range, ascending.
    pub(crate) fn all(self) -> Vec<i32> {
        (0..1 << self.bits).collect()
    }
}

statement! {
    /// Waits for the key ranges, in the order given, which must be ascending; held until the transaction ends.
    LockKeyRanges -> BigInt {
        "SELECT pg_advisory_xact_lock(" class: i32 as Integer; ", key_range) FROM unnest(" key_ranges: Vec<i32> as Array<Integer>; ") AS key_range"
    }
}

statement! {
    /// [`LockKeyRanges`] for so many events in each, whose arrival numbers end with the number that is answered. The row is moved
    /// behind the lock, so that what it says is what the one before has committed.
    EnterKeyRanges -> (Integer, BigInt) {
        "INSERT INTO event_arrivals AS known (organization_id, key_range, last_arrival)
        SELECT " organization: Uuid as SqlUuid; ", entered.key_range, entered.events
        FROM (
            SELECT sent.key_range, sent.events, pg_advisory_xact_lock(" class: i32 as Integer; ", sent.key_range)
            FROM unnest(" key_ranges: Vec<i32> as Array<Integer>; ", " events: Vec<i64> as Array<BigInt>; ") AS sent (key_range, events)
            OFFSET 0
        ) entered
        ON CONFLICT (organization_id, key_range) DO UPDATE SET last_arrival = known.last_arrival + excluded.last_arrival
        RETURNING key_range, last_arrival"
    }
}

/// The arrival numbers that a transaction may give to the events of each key range.
pub(crate) struct Arrivals(BTreeMap<i32, i64>);

impl Arrivals {
    /// The next number of a key range.
    pub(crate) fn next(&mut self, key_range: i32) -> i64 {
        let last = self.0.entry(key_range).or_default();
        *last += 1;
        *last
    }
}

/// Waits for the key ranges that so many events go into, and takes numbers for them: of two events of one customer, that which is
/// committed later has the greater.
pub(crate) fn enter_key_ranges(
    pg: &mut PgConnection,
    organization: Uuid,
    events: &BTreeMap<i32, i64>,
) -> QueryResult<Arrivals> {
    let (key_ranges, counts) = (events.keys().copied().collect(), events.values().copied().collect());
    let enter = EnterKeyRanges { organization, class: LockClass::KeyRange.key(), key_ranges, events: counts };
    let reached: Vec<(i32, i64)> = enter.load(pg)?;
    let before =
        |(key_range, last): (i32, i64)| (key_range, last - events.get(&key_range).copied().unwrap_or_default());
    Ok(Arrivals(reached.into_iter().map(before).collect()))
}

/// Waits for `key ranges`, which must be ascending.
pub(crate) fn lock_key_ranges(pg: &mut PgConnection, key_ranges: Vec<i32>) -> QueryResult<()> {
    LockKeyRanges { class: LockClass::KeyRange.key(), key_ranges }.execute(pg).map(|_| ())
}
