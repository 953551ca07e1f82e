//! Until when somebody waits for the work of a thread. Work that nobody waits for any more ends at its next statement and
//! leaves no trace.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use billing_domain::StoreError;

/// Until when somebody waits.
#[derive(Clone, Debug)]
pub struct Deadline {
    at: Instant,
    is_given_up: Arc<AtomicBool>,
}

/// Whoever waits holds it: when it is dropped, nobody does any more.
#[derive(Debug)]
pub struct Waiting(Arc<AtomicBool>);

thread_local! {
    static CURRENT: RefCell<Option<Deadline>> = const { RefCell::new(None) };
}

impl Deadline {
    /// Until `at`, or until the second value is dropped.
    pub fn new(at: Instant) -> (Self, Waiting) {
        let is_given_up = Arc::new(AtomicBool::new(false));
        (Self { at, is_given_up: is_given_up.clone() }, Waiting(is_given_up))
    }

    /// Runs `work` on this thread: its transactions end with [`StoreError::DeadlineExceeded`] once nobody waits for them.
    pub fn run<T>(self, work: impl FnOnce() -> T) -> T {
        struct Restore(Option<Deadline>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(self)));
        work()
    }

    fn is_over(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed) || Instant::now() >= self.at
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether somebody still waits for what this thread does.
pub(crate) fn check() -> Result<(), StoreError> {
    match CURRENT.with_borrow(|current| current.as_ref().is_some_and(Deadline::is_over)) {
        true => Err(StoreError::DeadlineExceeded),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn work_ends_with_its_deadline_or_with_whoever_waits() {
        assert_eq!(check(), Ok(()), "nobody said when");
        let (over, _waiting) = Deadline::new(Instant::now());
        assert_eq!(over.run(check), Err(StoreError::DeadlineExceeded), "it is past");
        let (running, waiting) = Deadline::new(Instant::now() + Duration::from_secs(600));
        let checks = running.run(|| {
            let before = check();
            drop(waiting);
            (before, check())
        });
        assert_eq!(checks, (Ok(()), Err(StoreError::DeadlineExceeded)), "they have gone");
        assert_eq!(check(), Ok(()), "the thread's next work has its own");
    }
}
