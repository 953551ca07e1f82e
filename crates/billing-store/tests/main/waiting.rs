//! Waiting for what others do.

use std::thread;
use std::time::{Duration, Instant};

use crate::sql::query;

/// For what happens soon on a machine that is at nothing else.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// Waits until it holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until somebody waits for a key range, or another lock of the store's own, of this database.
pub fn until_a_lock_is_waited_for(url: &str) {
    let waiting = "SELECT pid::text AS value FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    until("somebody waits", || !query(url, waiting).is_empty());
}
