//! Being careful for a while after something was not as it nearly always is.

use std::sync::atomic::{AtomicU32, Ordering};

/// Transactions that take the careful path after a conflict.
const COOLDOWN_TRANSACTIONS: u32 = 100;

/// Whether the next transactions expect the usual or look first.
#[derive(Debug, Default)]
pub(crate) struct ConflictCooldown {
    left: AtomicU32,
}

impl ConflictCooldown {
    /// Whether the next transaction is careful.
    pub(crate) fn of_next(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
    }

    /// After a conflict.
    pub(crate) fn begin(&self) {
        self.left.store(COOLDOWN_TRANSACTIONS, Ordering::Relaxed);
    }
}
