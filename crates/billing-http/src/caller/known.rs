//! API keys that were valid when somebody last looked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use billing_domain::api_key::{ApiKey, Fingerprint};

use super::Caller;

/// Most keys that are remembered.
const KEYS_MAX: usize = 10_000;

/// Remembers API keys by prefix, whoever asked for them. Any of them may have been deleted since, by this process or another.
#[derive(Default)]
pub struct KnownKeys(Mutex<HashMap<String, KnownKey>>);

/// A key as it was.
#[derive(Clone)]
pub struct KnownKey {
    /// What its text is held against.
    pub fingerprint: Fingerprint,
    /// Whoever has it.
    pub caller: Arc<Caller>,
}

impl KnownKeys {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, KnownKey>> {
        // Nobody panics half way through a change in here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key with this prefix as it was.
    pub fn get(&self, prefix: &str) -> Option<KnownKey> {
        self.lock().get(prefix).cloned()
    }

    /// This key is valid.
    pub fn remember(&self, key: &ApiKey) {
        let mut keys = self.lock();
        if keys.len() >= KEYS_MAX {
            keys.clear();
        }
        let known = KnownKey { fingerprint: key.fingerprint(), caller: Arc::new(Caller::of_key(key)) };
        keys.insert(key.prefix.clone(), known);
    }

    /// No key with this prefix is valid.
    pub fn forget(&self, prefix: &str) {
        self.lock().remove(prefix);
    }
}

#[cfg(test)]
mod tests {
    use billing_domain::testing::build::api_key;
    use time::macros::datetime;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn memory_is_bounded() {
        let known = KnownKeys::default();
        let key = |number: usize| api_key(Uuid::nil().into(), &format!("{number:08}"), datetime!(2026-01-01 00:00 UTC));
        (0..3 * KEYS_MAX).for_each(|number| known.remember(&key(number)));
        let last = key(3 * KEYS_MAX - 1);
        assert!(known.lock().len() <= KEYS_MAX);
        let fingerprint = || known.get(&last.prefix).map(|known| known.fingerprint);
        assert_eq!(fingerprint(), Some(last.fingerprint()));
        known.forget(&last.prefix);
        assert_eq!(fingerprint(), None);
    }
}
