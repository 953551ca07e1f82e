//! How long calls of each kind usually take, so that one that has waited is not begun when it cannot end in time.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How much of what was usual so far stays so with each call: seven of eight parts, so that about the last eight count.
const PARTS: u32 = 8;

/// What calls took lately, by kind. Two calls are of one kind when their work is of one type, that is of one handler.
#[derive(Default)]
pub struct UsualTimes(Mutex<BTreeMap<TypeId, Duration>>);

impl UsualTimes {
    /// Counts a call that somebody has waited for until it ended, or was given up.
    pub fn note(&self, kind: TypeId, took: Duration) {
        let mut times = self.lock();
        let usual = times.entry(kind).or_insert(took);
        *usual = (*usual * (PARTS - 1) + took) / PARTS;
    }

    /// Whether a call of this kind usually ends within `left`; one that nothing is known of does.
    pub fn fits(&self, kind: TypeId, left: Duration) -> bool {
        self.lock().get(&kind).is_none_or(|usual| *usual <= left)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TypeId, Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_calls_of_a_kind_say_what_is_usual() {
        let times = UsualTimes::default();
        let (kind, other) = (TypeId::of::<u8>(), TypeId::of::<u16>());
        let seconds = Duration::from_secs;
        assert!(times.fits(kind, Duration::ZERO), "nothing is known");
        times.note(kind, seconds(8));
        assert!(times.fits(kind, seconds(8)) && !times.fits(kind, seconds(7)));
        assert!(times.fits(other, Duration::ZERO), "each kind by itself");
        times.note(kind, seconds(0));
        assert!(times.fits(kind, seconds(7)) && !times.fits(kind, seconds(6)), "an eighth of it is new");
        (0..40).for_each(|_| times.note(kind, Duration::ZERO));
        assert!(times.fits(kind, seconds(1)), "and in the end all of it");
    }
}
