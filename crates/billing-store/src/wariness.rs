//! Being careful for a while after something was not as it nearly always is.

use std::sync::atomic::{AtomicU32, Ordering};

/// Transactions for which one is wary after a surprise.
const WARY_FOR: u32 = 100;

/// Whether the next transactions expect the usual or look first.
#[derive(Debug, Default)]
pub(crate) struct Wariness {
    left: AtomicU32,
}

impl Wariness {
    /// Whether the next transaction is wary.
    pub(crate) fn of_next(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// After a surprise.
    pub(crate) fn begin(&self) {
        self.left.store(WARY_FOR, Ordering::Relaxed);
    }
}
