//! Hot buckets that this process does not read again, because it wrote them last.
//!
//! Memory is never trusted: an hour that is remembered is written on the condition that the row in the database is still the
//! one that this process wrote, by the id of the transaction that wrote it. If it is not, nothing is written, and the
//! transaction runs again from what is in the database.
//!
//! An id means one transaction as long as one is connected to the same database. A database that takes over from another may
//! have lost its last transactions and give their ids away again, but no connection outlives its database: what was written
//! before another connection was made does not hold any more. And ids come round after four thousand million transactions, which no
//! connection lives to see.

use time::OffsetDateTime;
use uuid::Uuid;

use super::bucket::hour_after;
use super::delta::{HotBucketKey, Hour};
use crate::cache::VersionedCache;
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

/// Who wrote an hour, and how many connections had been made before that.
#[derive(Clone, Copy)]
struct Writer {
    connections: u64,
    transaction: Transaction,
}

/// What a hot bucket takes without its texts and its metrics.
const ENTRY_BYTES: usize = 200;
/// What each of its metrics takes.
const METRIC_BYTES: usize = 170;

/// The memory that a hot bucket takes, in bytes, roughly.
fn bytes((_, event_name, dimensions): &HotBucketKey, hour: &Hour) -> usize {
    ENTRY_BYTES + event_name.len() + dimensions.len() + hour.deltas.len() * METRIC_BYTES
}

/// The hot buckets that this process wrote last.
pub(crate) struct HotBucketCache {
    hours: VersionedCache<HotBucketKey, Writer, Hour>,
    cooldown: ConflictCooldown,
}

impl HotBucketCache {
    /// One of so many, which share the memory that is taken.
    pub(crate) fn one_of(caches: usize) -> Self {
        let hours = VersionedCache::of_bytes(BYTES_MAX / caches.max(1), ENTRY_BYTES + METRIC_BYTES, bytes);
        Self { hours, cooldown: ConflictCooldown::default() }
    }
}

impl HotBucketCache {
    /// What is remembered, for one transaction; so many connections have been made, its own among them.
    pub(crate) fn begin(&self, connections: u64, transaction: Transaction) -> CachedHotBuckets<'_> {
        let writer = Writer { connections, transaction };
        CachedHotBuckets { written: self, writer, is_cooling_down: self.cooldown.of_next() }
    }

    /// Remembers what a transaction has written, now that it is committed.
    pub(crate) fn remember(&self, written: Written) {
        for (key, hour) in written.hours {
            self.hours.keep(key, written.writer, hour);
        }
    }
}

/// What is remembered, as one transaction uses it.
pub(crate) struct CachedHotBuckets<'w> {
    written: &'w HotBucketCache,
    writer: Writer,
    is_cooling_down: bool,
}

impl CachedHotBuckets<'_> {
    /// What is remembered of an hour, which is then nobody else's: if the transaction fails it is forgotten.
    pub(super) fn take(&self, key: &HotBucketKey) -> Option<(Transaction, Hour)> {
        if self.is_cooling_down {
            return None;
        }
        let (writer, hour) = self.written.hours.take(key)?;
        (writer.connections == self.writer.connections).then_some((writer.transaction, hour))
    }

    /// Whether what is remembered of the customer's events of a name, all of them, is of the hour that ends at `end`.
    pub(crate) fn has_hour_before(&self, customer: Uuid, event_name: &str, end: OffsetDateTime) -> bool {
        let key = (customer, event_name.to_owned(), String::new());
        let is_it = |writer: &Writer, hour: &Hour| {
            (writer.connections == self.writer.connections && hour_after(hour.start) == end).then_some(())
        };
        !self.is_cooling_down && self.written.hours.look(&key, is_it).is_some()
    }

    /// Something was not so any more: another process writes the same hours.
    pub(super) fn note_conflict(&self) {
        self.written.cooldown.begin();
    }

    /// What the transaction has written.
    pub(super) fn written(&self, hours: Vec<(HotBucketKey, Hour)>) -> Written {
        Written { writer: self.writer, hours }
    }
}

/// What a transaction has written, to be remembered once it is committed.
pub(crate) struct Written {
    writer: Writer,
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
        let written = HotBucketCache::one_of(1);
        let keys = [key(1, ""), key(1, "eu"), key(2, "")];
        let first = written.begin(1, Transaction(7));
        assert_eq!(taken(&first, &keys), [None, None, None]);
        written.remember(first.written(hours(&keys[..2])));
        let second = written.begin(1, Transaction(8));
        written.remember(second.written(hours(&keys[1..])));
        let third = written.begin(1, Transaction(9));
        assert_eq!(taken(&third, &keys), [Some(7), Some(8), Some(8)]);
        assert_eq!(taken(&third, &keys), [None, None, None], "a transaction that fails leaves nothing behind");
        assert_eq!(written.hours.size(), (0, 0));
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
        let written = HotBucketCache::one_of(1);
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
        let written = HotBucketCache::one_of(1);
        let all: Vec<_> = (0..200_000).map(|customer| key(customer, "")).collect();
        written.remember(written.begin(0, Transaction(1)).written(hours(&all)));
        let (entries, bytes) = written.hours.size();
        assert!(entries > 0 && bytes <= BYTES_MAX, "{entries} entries, {bytes} bytes");
    }

    #[test]
    fn the_careful_path_is_taken_after_a_conflict() {
        let written = HotBucketCache::one_of(1);
        let keys = [key(1, "")];
        let first = written.begin(1, Transaction(7));
        written.remember(first.written(hours(&keys)));
        first.note_conflict();
        assert_eq!(taken(&written.begin(1, Transaction(8)), &keys), [None]);
    }
}
