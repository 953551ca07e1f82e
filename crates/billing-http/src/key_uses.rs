//! When API keys were used, as it is to be noted: now and then, by a worker, and never by what a key is used for.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the use of one key is noted at most.
const NOTED_EVERY: Duration = Duration::from_secs(60);
/// Most keys of which it is remembered when that was.
const KEYS_MAX: usize = 10_000;

/// Keys that were used, by prefix.
#[derive(Default)]
pub struct KeyUses(Mutex<Uses>);

#[derive(Default)]
struct Uses {
    /// When the use of each was noted last.
    noted: HashMap<String, Instant>,
    unnoted: BTreeSet<String>,
}

impl KeyUses {
    fn lock(&self) -> MutexGuard<'_, Uses> {
        // Nobody panics half way through a change in here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A valid key was used.
    pub fn note(&self, prefix: &str, now: Instant) {
        let mut uses = self.lock();
        if uses.noted.get(prefix).is_some_and(|at| now.saturating_duration_since(*at) < NOTED_EVERY) {
            return;
        }
        if uses.noted.len() >= KEYS_MAX {
            uses.noted.clear();
        }
        uses.noted.insert(prefix.to_owned(), now);
        uses.unnoted.insert(prefix.to_owned());
    }

    /// Those that are to be noted, which they are from here on.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().unnoted).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_noted_once_a_minute() {
        let uses = KeyUses::default();
        let start = Instant::now();
        #[rustfmt::skip]
        let cases: [(&[u64], &[&str], &str); 4] = [
            // seconds,        to be noted,  why
            (&[0, 1, 2],       &["a"],       "once, however often it is used"),
            (&[3, 59],         &[],          "it was noted less than a minute ago"),
            (&[60],            &["a"],       "a minute later"),
            (&[],              &[],          "not used"),
        ];
        for (seconds, noted, why) in cases {
            seconds.iter().for_each(|second| uses.note("a", start + Duration::from_secs(*second)));
            assert_eq!(uses.take(), noted, "{why}");
        }
        (0..3 * KEYS_MAX).for_each(|number| uses.note(&number.to_string(), start));
        assert!(uses.lock().noted.len() <= KEYS_MAX, "memory is bounded");
    }
}
