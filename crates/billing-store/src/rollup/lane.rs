//! Lanes: ranges of customers, of which one transaction at a time stores and counts events; and the numbers in which those arrive.

use std::collections::BTreeMap;

use billing_domain::id::CustomerKey;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Integer, Uuid as SqlUuid};
use uuid::Uuid;

use crate::pg::lock::LockClass;
use crate::pg::statement::statement;

/// How customers are divided into lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lanes {
    bits: u8,
}

impl Lanes {
    pub(crate) fn new(bits: u8) -> Self {
        Self { bits: bits.min(8) }
    }

    /// The lane of a customer: the top bits of its key.
    pub(crate) fn of(self, customer: CustomerKey) -> i32 {
        let [first, ..] = *customer.uuid().as_bytes();
        i32::from(u16::from(first) >> (8 - self.bits))
    }

    /// How many there are.
    pub(crate) fn count(self) -> u32 {
        1 << self.bits
    }

    /// Every lane, ascending.
    pub(crate) fn all(self) -> Vec<i32> {
        (0..1 << self.bits).collect()
    }
}

statement! {
    /// Waits for the lanes, in the order given, which must be ascending; held until the transaction ends.
    LockLanes -> BigInt {
        "SELECT pg_advisory_xact_lock(" class: i32 as Integer; ", lane) FROM unnest(" lanes: Vec<i32> as Array<Integer>; ") AS lane"
    }
}

statement! {
    /// [`LockLanes`] for so many events in each, whose arrival numbers end with the number that is answered. The row is moved
    /// behind the lock, so that what it says is what the one before has committed.
    EnterLanes -> (Integer, BigInt) {
        "INSERT INTO event_arrivals AS known (organization_id, lane, last_arrival)
        SELECT " organization: Uuid as SqlUuid; ", entered.lane, entered.events
        FROM (
            SELECT sent.lane, sent.events, pg_advisory_xact_lock(" class: i32 as Integer; ", sent.lane)
            FROM unnest(" lanes: Vec<i32> as Array<Integer>; ", " events: Vec<i64> as Array<BigInt>; ") AS sent (lane, events)
            OFFSET 0
        ) entered
        ON CONFLICT (organization_id, lane) DO UPDATE SET last_arrival = known.last_arrival + excluded.last_arrival
        RETURNING lane, last_arrival"
    }
}

/// The arrival numbers that a transaction may give to the events of each lane.
pub(crate) struct Arrivals(BTreeMap<i32, i64>);

impl Arrivals {
    /// The next number of a lane.
    pub(crate) fn next(&mut self, lane: i32) -> i64 {
        let last = self.0.entry(lane).or_default();
        *last += 1;
        *last
    }
}

/// Waits for the lanes that so many events go into, and takes numbers for them: of two events of one customer, that which is
/// committed later has the greater.
pub(crate) fn enter_lanes(
    pg: &mut PgConnection,
    organization: Uuid,
    events: &BTreeMap<i32, i64>,
) -> QueryResult<Arrivals> {
    let (lanes, counts) = (events.keys().copied().collect(), events.values().copied().collect());
    let enter = EnterLanes { organization, class: LockClass::Lane.key(), lanes, events: counts };
    let reached: Vec<(i32, i64)> = enter.load(pg)?;
    let before = |(lane, last): (i32, i64)| (lane, last - events.get(&lane).copied().unwrap_or_default());
    Ok(Arrivals(reached.into_iter().map(before).collect()))
}

/// Waits for `lanes`, which must be ascending.
pub(crate) fn lock_lanes(pg: &mut PgConnection, lanes: Vec<i32>) -> QueryResult<()> {
    LockLanes { class: LockClass::Lane.key(), lanes }.execute(pg).map(|_| ())
}
