//! API keys that were valid when somebody last looked.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use billing_domain::api_key::ApiKey;

/// Most keys that are remembered.
const KEYS_MAX: usize = 10_000;

/// Remembers API keys by prefix, whoever asked for them. Any of them may have been deleted since, by this process or another.
#[derive(Default)]
pub struct KnownKeys(Mutex<HashMap<String, ApiKey>>);

impl KnownKeys {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, ApiKey>> {
        // Nobody panics half way through a change in here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key with this prefix as it was.
    pub fn get(&self, prefix: &str) -> Option<ApiKey> {
        self.lock().get(prefix).cloned()
    }

    /// This key is valid.
    pub fn remember(&self, key: &ApiKey) {
        let mut keys = self.lock();
        if keys.len() >= KEYS_MAX {
            keys.clear();
        }
        keys.insert(key.prefix.clone(), key.clone());
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
        assert_eq!(known.get(&last.prefix), Some(last.clone()));
        known.forget(&last.prefix);
        assert_eq!(known.get(&last.prefix), None);
    }
}
