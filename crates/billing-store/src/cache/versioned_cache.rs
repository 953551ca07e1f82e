//! The one cache of the store: bounded, and of each value it says under which version it was read.

use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use quick_cache::unsync::Cache;
use quick_cache::{Equivalent, Weighter};

/// Values by key, each with the version that it was read under, within a limit that they never exceed. What is not used again
/// makes room for what comes; a value larger than the limit is not kept.
///
/// Nothing that is found here is trusted for being here: whoever looks says which version, or what else, makes it hold.
pub(crate) struct VersionedCache<K, V, T> {
    entries: Mutex<Cache<K, (V, T), Weigh<K, T>>>,
}

/// What an entry counts against the limit: 1, or its memory in bytes, roughly.
#[derive(Clone)]
struct Weigh<K, T>(fn(&K, &T) -> usize);

impl<K, V, T> Weighter<K, (V, T)> for Weigh<K, T> {
    fn weight(&self, key: &K, (_, value): &(V, T)) -> u64 {
        // What weighs nothing would never make room.
        (self.0)(key, value).max(1) as u64
    }
}

impl<K: Eq + Hash, V, T> VersionedCache<K, V, T> {
    /// A cache of at most so many entries.
    pub(crate) fn of_entries(entries_max: usize) -> Self {
        Self::new(entries_max, entries_max, |_, _| 1)
    }

    /// A cache of at most so many bytes, counted by `bytes`, of which an entry takes `entry_bytes` at least.
    pub(crate) fn of_bytes(bytes_max: usize, entry_bytes: usize, bytes: fn(&K, &T) -> usize) -> Self {
        Self::new(bytes_max / entry_bytes.max(1), bytes_max, bytes)
    }

    fn new(entries_expected: usize, weight_max: usize, weight: fn(&K, &T) -> usize) -> Self {
        Self { entries: Mutex::new(Cache::with_weighter(entries_expected, weight_max as u64, Weigh(weight))) }
    }

    fn lock(&self) -> MutexGuard<'_, Cache<K, (V, T), Weigh<K, T>>> {
        // Nobody panics half way through a change in here.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `look` makes of what is there under the key.
    pub(crate) fn look<R>(&self, key: &impl KeyLike<K>, look: impl FnOnce(&V, &T) -> Option<R>) -> Option<R> {
        self.lock().get(key).and_then(|(version, value)| look(version, value))
    }

    /// What is there under the key, if it was read under this version.
    pub(crate) fn find(&self, key: &impl KeyLike<K>, version: &V) -> Option<T>
    where
        V: PartialEq,
        T: Clone,
    {
        self.look(key, |read_under, value| (read_under == version).then(|| value.clone()))
    }

    /// What is there under the key, whatever it was read under.
    pub(crate) fn latest(&self, key: &impl KeyLike<K>) -> Option<T>
    where
        T: Clone,
    {
        self.look(key, |_, value| Some(value.clone()))
    }

    /// Keeps a value that was read under a version, in the place of what is there.
    pub(crate) fn keep(&self, key: K, version: V, value: T) {
        self.lock().insert(key, (version, value));
    }

    /// Takes what is there under the key away.
    pub(crate) fn take(&self, key: &impl KeyLike<K>) -> Option<(V, T)> {
        self.lock().remove(key).map(|(_, entry)| entry)
    }

    /// How many entries there are, and what they count against the limit.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        let entries = self.lock();
        (entries.len(), entries.weight() as usize)
    }
}

/// What a key is looked up by: itself, or what it is equivalent to.
pub(crate) trait KeyLike<K>: Hash + Equivalent<K> {}

impl<K, Q: Hash + Equivalent<K>> KeyLike<K> for Q {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_under_the_version_it_was_read_under() {
        let cache = VersionedCache::of_entries(10);
        cache.keep("a", 1, "one");
        #[rustfmt::skip]
        let cases = [
            // key, version, found,       why
            ("a",   1,       Some("one"), "it was read under this version"),
            ("a",   2,       None,        "something has changed since"),
            ("b",   1,       None,        "nothing was read"),
        ];
        for (key, version, found, why) in cases {
            assert_eq!(cache.find(&key, &version), found, "{why}");
        }
        cache.keep("a", 2, "two");
        assert_eq!((cache.find(&"a", &1), cache.latest(&"a")), (None, Some("two")), "one takes the place of the other");
        assert_eq!((cache.take(&"a"), cache.latest(&"a"), cache.size()), (Some((2, "two")), None, (0, 0)));
    }

    #[test]
    fn no_number_of_keys_makes_it_larger_than_its_limit() {
        const MAX: usize = 1_000;
        let by_number = VersionedCache::of_entries(MAX);
        let by_bytes = VersionedCache::of_bytes(MAX, 10, |_: &u64, text: &String| text.len());
        let most = |size: (usize, usize), number: u64| assert!(size.1 <= MAX, "after {number}: {size:?}");
        for number in 0..20 * MAX as u64 {
            by_number.keep(number, (), number);
            most(by_number.size(), number);
            // Every hundredth is as large as a fifth of all; every third replaces an older one by one of another size.
            let bytes = if number.is_multiple_of(100) { MAX / 5 } else { 10 + number as usize % 7 };
            by_bytes.keep(if number.is_multiple_of(3) { number / 2 } else { number }, (), "x".repeat(bytes));
            most(by_bytes.size(), number);
        }
        assert!(by_number.size().0 > MAX / 2, "it makes room for what comes, and does not empty itself");
        by_bytes.keep(1, (), "x".repeat(MAX + 1));
        assert_eq!(by_bytes.latest(&1), None, "what is larger than all may be is not kept");
    }

    #[test]
    fn what_is_used_again_stays() {
        let cache = VersionedCache::of_entries(1_000);
        for number in 0..50_000_u64 {
            cache.keep(number, (), number);
            assert_eq!(cache.latest(&0), Some(0), "it is asked for all the time");
        }
    }
}
