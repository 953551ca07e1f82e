//! How much one organization does at once of what lasts: the rest waits its turn, without a thread, or is refused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use billing_domain::id::OrganizationId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The slots of each organization that holds or awaits one.
pub struct Slots {
    each: usize,
    taken: Mutex<BTreeMap<OrganizationId, Arc<Semaphore>>>,
}

/// The right to go on. Whoever drops it gives it to the next, also by a panic.
pub type Slot = OwnedSemaphorePermit;

impl Slots {
    /// So many for each organization.
    pub fn new(each: usize) -> Self {
        Self { each, taken: Mutex::default() }
    }

    /// A slot that is free now.
    pub fn try_take(&self, organization: OrganizationId) -> Option<Slot> {
        self.of(organization).try_acquire_owned().ok()
    }

    /// The next slot that is free within `wait`.
    pub async fn take(&self, organization: OrganizationId, wait: Duration) -> Option<Slot> {
        let slots = self.of(organization);
        tokio::time::timeout(wait, slots.acquire_owned()).await.ok()?.ok()
    }

    fn of(&self, organization: OrganizationId) -> Arc<Semaphore> {
        // Every change of it is whole.
        let mut slots = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever holds or awaits one has the semaphore, too.
        slots.retain(|_, slots| Arc::strong_count(slots) > 1);
        Arc::clone(slots.entry(organization).or_insert_with(|| Arc::new(Semaphore::new(self.each))))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use uuid::Uuid;

    use super::*;

    #[actix_web::test]
    async fn so_many_go_on_at_once_and_a_panic_keeps_no_slot() {
        let slots = Slots::new(4);
        let [one, other] = [1, 2].map(|id| OrganizationId::from(Uuid::from_u128(id)));
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(slots.take(one, Duration::ZERO).await.expect("free"));
        }
        assert!(slots.take(one, Duration::ZERO).await.is_none(), "only so many");
        assert!(slots.try_take(one).is_none(), "however it is asked for");
        assert!(slots.take(other, Duration::ZERO).await.is_some(), "which is nobody else's");
        assert!(slots.try_take(other).is_some());
        let slot = held.pop();
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            let _slot = slot;
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        held.extend(slots.take(one, Duration::ZERO).await);
        assert_eq!(held.len(), 4, "the slot of one that panicked is free again");
        let (waited, ()) = tokio::join!(biased; slots.take(one, Duration::from_secs(60)), async { held.clear() });
        assert!(waited.is_some(), "and whoever waits gets the next");
        drop(waited);
        drop(slots.of(other));
        assert_eq!(slots.taken.lock().expect("the slots").len(), 1, "nothing is kept of who has gone");
    }
}
