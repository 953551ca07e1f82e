//! Who waits for messages of an organization, and waking them when there are some.
//!
//! Whoever waits holds nothing but a bell: no connection to the database and no place at it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use billing_domain::id::OrganizationId;
use tokio::sync::Notify;

/// Requests of one organization that may wait at once.
pub const WAITING_MAX: usize = 16;

/// The bells of those who wait.
#[derive(Debug, Default)]
pub struct FeedSignals {
    waiting: Mutex<BTreeMap<OrganizationId, Arc<Bell>>>,
}

#[derive(Debug, Default)]
struct Bell {
    /// How many wait; changed under the lock of the map alone.
    listeners: AtomicUsize,
    notify: Notify,
}

/// One who waits for messages of an organization, until it is dropped.
#[derive(Debug)]
pub struct Waiting {
    signals: Arc<FeedSignals>,
    organization: OrganizationId,
    bell: Arc<Bell>,
}

impl FeedSignals {
    /// Waits for messages of an organization; `None` when too many do.
    pub fn wait(self: &Arc<Self>, organization: OrganizationId) -> Option<Waiting> {
        let bell = {
            let mut waiting = self.lock();
            let bell = waiting.entry(organization).or_default();
            if bell.listeners.load(Ordering::Relaxed) >= WAITING_MAX {
                return None;
            }
            bell.listeners.fetch_add(1, Ordering::Relaxed);
            Arc::clone(bell)
        };
        Some(Waiting { signals: Arc::clone(self), organization, bell })
    }

    /// Whose messages somebody waits for.
    pub fn organizations(&self) -> Vec<OrganizationId> {
        self.lock().keys().copied().collect()
    }

    /// Wakes those who wait for messages of these organizations.
    pub fn ring(&self, organizations: &[OrganizationId]) {
        let waiting = self.lock();
        for bell in organizations.iter().filter_map(|organization| waiting.get(organization)) {
            bell.notify.notify_waiters();
        }
    }

    /// Wakes everybody who waits.
    pub fn ring_all(&self) {
        self.lock().values().for_each(|bell| bell.notify.notify_waiters());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OrganizationId, Arc<Bell>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// The bell. Nothing that rings after this call is missed, once it is enabled.
    pub fn bell(&self) -> &Notify {
        &self.bell.notify
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waiting = self.signals.lock();
        // The last one takes the bell along. While somebody waits the map has the same bell as they.
        if self.bell.listeners.fetch_sub(1, Ordering::Relaxed) == 1 {
            waiting.remove(&self.organization);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn so_many_of_an_organization_wait_and_leave_nothing_behind() {
        let signals = Arc::new(FeedSignals::default());
        let [ours, theirs] = [1, 2].map(|n| OrganizationId::from(Uuid::from_u128(n)));
        let mut all: Vec<_> = (0..WAITING_MAX).map(|_| signals.wait(ours).expect("a place")).collect();
        assert!(signals.wait(ours).is_none(), "one too many");
        let other = signals.wait(theirs).expect("another organization's");
        assert_eq!(signals.organizations(), [ours, theirs]);
        drop(all.pop());
        all.push(signals.wait(ours).expect("the place that was left"));
        drop((all, other));
        assert_eq!(signals.organizations(), []);
    }

    /// Waiters that go at once, each before the others have let go of the bell, leave none behind either.
    #[test]
    fn waiters_that_go_together_leave_nothing_behind() {
        let signals = Arc::new(FeedSignals::default());
        let organization = OrganizationId::from(Uuid::from_u128(1));
        for _ in 0..200 {
            let all: Vec<_> = (0..4).map(|_| signals.wait(organization).expect("a place")).collect();
            std::thread::scope(|threads| {
                for waiting in all {
                    threads.spawn(move || drop(waiting));
                }
            });
            assert_eq!(signals.organizations(), []);
        }
    }
}
