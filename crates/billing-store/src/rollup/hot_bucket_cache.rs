//! Hot buckets that this process does not read again, because it wrote them last.
//!
//! Memory is never trusted: an hour that is remembered is written on the condition that the row in the database is still the
//! one that this process wrote, by the id of the transaction that wrote it. If it is not, nothing is written, and the
//! transaction runs again from what is in the database.
//!
//! An id means one transaction as long as one is connected to the same database. A database that takes over from another may
//! have lost its last transactions and give their ids away again, but no connection outlives its database: with every
//! connection that is made everything is forgotten. And ids come round after four thousand million transactions, which no
//! connection lives to see.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use time::OffsetDateTime;
use uuid::Uuid;

use super::hot_bucket::{HotBucketKey, Hour};
use super::hour_after;
use crate::pg::conflict_cooldown::ConflictCooldown;

/// Most memory that is taken, in bytes, roughly.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// The id of a transaction, as rows carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transaction(pub(crate) i64);

impl Transaction {
    /// As it is compared with that of a row: an integer of the same 32 bits.
    pub(super) fn as_written(self) -> i32 {
        self.0 as i32
    }
}

#[derive(Default)]
struct Memory {
    /// How many connections had been made before all of it.
    connections: u64,
    /// Each with who wrote it.
    hours: HashMap<HotBucketKey, (Transaction, Hour)>,
    weight: usize,
}

/// The memory that a hot bucket takes, in bytes, roughly.
fn weight((_, event_name, dimensions): &HotBucketKey, hour: &Hour) -> usize {
    200 + event_name.len() + dimensions.len() + hour.deltas.len() * 170
}

impl Memory {
    fn forget(&mut self, connections: u64) {
        *self = Self { connections, ..Self::default() };
    }

    fn take(&mut self, key: &HotBucketKey) -> Option<(Transaction, Hour)> {
        let taken = self.hours.remove(key)?;
        self.weight -= weight(key, &taken.1);
        Some(taken)
    }

    fn keep(&mut self, key: HotBucketKey, writer: Transaction, hour: Hour) {
        // Somebody else may have been faster to remember.
        self.take(&key);
        let weight = weight(&key, &hour);
        if self.weight + weight > BYTES_MAX {
            self.forget(self.connections);
        }
        self.weight += weight;
        self.hours.insert(key, (writer, hour));
    }
}

/// The hot buckets that this process wrote last.
#[derive(Default)]
pub(crate) struct HotBucketCache {
    memory: Mutex<Memory>,
    cooldown: ConflictCooldown,
}

impl HotBucketCache {
    fn lock(&self) -> MutexGuard<'_, Memory> {
        // Nobody panics half way through a change in here.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered, for one transaction; so many connections have been made, its own among them.
    pub(crate) fn begin(&self, connections: u64, transaction: Transaction) -> CachedHotBuckets<'_> {
        let mut memory = self.lock();
        if memory.connections != connections {
            memory.forget(connections);
        }
        CachedHotBuckets { written: self, connections, transaction, is_cooling_down: self.cooldown.of_next() }
    }

    /// Remembers what a transaction has written, now that it is committed.
    pub(crate) fn remember(&self, written: Written) {
        let mut memory = self.lock();
        if memory.connections != written.connections {
            return;
        }
        for (key, hour) in written.hours {
            memory.keep(key, written.transaction, hour);
        }
    }
}

/// What is remembered, as one transaction uses it.
pub(crate) struct CachedHotBuckets<'w> {
    written: &'w HotBucketCache,
    connections: u64,
    transaction: Transaction,
    is_cooling_down: bool,
}

impl CachedHotBuckets<'_> {
    /// What is remembered of an hour, which is then nobody else's: if the transaction fails it is forgotten.
    pub(super) fn take(&self, key: &HotBucketKey) -> Option<(Transaction, Hour)> {
        if self.is_cooling_down { None } else { self.written.lock().take(key) }
    }

    /// Whether what is remembered of the customer's events of a name, all of them, is of the hour that ends at `end`.
    pub(crate) fn has_hour_before(&self, customer: Uuid, event_name: &str, end: OffsetDateTime) -> bool {
        let key = (customer, event_name.to_owned(), String::new());
        !self.is_cooling_down
            && self.written.lock().hours.get(&key).is_some_and(|(_, hour)| hour_after(hour.start) == end)
    }

    /// Something was not so any more: another process writes the same hours.
    pub(super) fn note_conflict(&self) {
        self.written.cooldown.begin();
    }

    /// What the transaction has written.
    pub(super) fn written(&self, hours: Vec<(HotBucketKey, Hour)>) -> Written {
        Written { connections: self.connections, transaction: self.transaction, hours }
    }
}

/// What a transaction has written, to be remembered once it is committed.
pub(crate) struct Written {
    connections: u64,
    transaction: Transaction,
    hours: Vec<(HotBucketKey, Hour)>,
}

#[cfg(test)]
mod tests {
    use billing_domain::period::instant;

    use super::*;
    use crate::rollup::delta::BucketDeltas;

    fn key(customer: u128, dimensions: &str) -> HotBucketKey {
        (Uuid::from_u128(customer), "call".to_owned(), dimensions.to_owned())
    }

    fn hours(keys: &[HotBucketKey]) -> Vec<(HotBucketKey, Hour)> {
        let hour = || Hour { start: instant::LAST, deltas: BucketDeltas::of_at_most(0) };
        keys.iter().map(|key| (key.clone(), hour())).collect()
    }

    fn taken(cached: &CachedHotBuckets<'_>, keys: &[HotBucketKey]) -> Vec<Option<i64>> {
        keys.iter().map(|key| cached.take(key).map(|(writer, _)| writer.0)).collect()
    }

    #[test]
    fn an_hour_is_remembered_until_somebody_takes_it() {
        let written = HotBucketCache::default();
        let keys = [key(1, ""), key(1, "eu"), key(2, "")];
        let first = written.begin(1, Transaction(7));
        assert_eq!(taken(&first, &keys), [None, None, None]);
        written.remember(first.written(hours(&keys[..2])));
        let second = written.begin(1, Transaction(8));
        written.remember(second.written(hours(&keys[1..])));
        let third = written.begin(1, Transaction(9));
        assert_eq!(taken(&third, &keys), [Some(7), Some(8), Some(8)]);
        assert_eq!(taken(&third, &keys), [None, None, None], "a transaction that fails leaves nothing behind");
        assert!(written.lock().hours.is_empty() && written.lock().weight == 0);
    }

    #[test]
    fn ids_have_32_bits_with_a_sign_or_without() {
        #[rustfmt::skip]
        let cases = [
            // id,           as written, why
            (3,              3,          "the first of all"),
            (2_147_483_647,  i32::MAX,   "the last without a sign"),
            (2_147_483_648,  i32::MIN,   "the first with one: `xid = int4` compares bits"),
            (4_294_967_295,  -1,         "the last"),
        ];
        for (id, written, why) in cases {
            assert_eq!(Transaction(id).as_written(), written, "{why}");
        }
    }

    #[test]
    fn a_new_connection_may_be_to_another_database() {
        let written = HotBucketCache::default();
        let keys = [key(1, "")];
        let (old, other) = (written.begin(1, Transaction(7)), written.begin(1, Transaction(8)));
        written.remember(old.written(hours(&keys)));
        let new = written.begin(2, Transaction(3));
        assert_eq!(taken(&new, &keys), [None], "all is forgotten");
        written.remember(other.written(hours(&keys)));
        assert_eq!(taken(&new, &keys), [None], "also what was written over a connection of before");
        written.remember(new.written(hours(&keys)));
        assert_eq!(taken(&written.begin(2, Transaction(4)), &keys), [Some(3)]);
    }

    #[test]
    fn memory_is_bounded() {
        let written = HotBucketCache::default();
        let all: Vec<_> = (0..200_000).map(|customer| key(customer, "")).collect();
        written.remember(written.begin(0, Transaction(1)).written(hours(&all)));
        let memory = written.lock();
        assert_eq!(memory.weight, memory.hours.iter().map(|(key, (_, hour))| weight(key, hour)).sum::<usize>());
        assert!(memory.weight <= BYTES_MAX && memory.weight > 0);
    }

    #[test]
    fn the_careful_path_is_taken_after_a_conflict() {
        let written = HotBucketCache::default();
        let keys = [key(1, "")];
        let first = written.begin(1, Transaction(7));
        written.remember(first.written(hours(&keys)));
        first.note_conflict();
        assert_eq!(taken(&written.begin(1, Transaction(8)), &keys), [None]);
    }
}
