//! How many calls ask one organization's provider at once: the others wait their turn, without a thread.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use billing_domain::id::OrganizationId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Questions of calls to one organization's provider at once.
const CALLS_AT_ONCE_MAX: usize = 4;

/// The slots of each organization that is asking.
#[derive(Default)]
pub struct Slots(Mutex<BTreeMap<OrganizationId, Arc<Semaphore>>>);

/// The right to ask. Whoever drops it gives it to the next, also by a panic.
pub type Slot = OwnedSemaphorePermit;

impl Slots {
    /// The next slot that is free within `wait`.
    pub async fn take(&self, organization: OrganizationId, wait: Duration) -> Option<Slot> {
        let slots = self.of(organization);
        tokio::time::timeout(wait, slots.acquire_owned()).await.ok()?.ok()
    }

    fn of(&self, organization: OrganizationId) -> Arc<Semaphore> {
        // Every change of it is whole.
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever holds or awaits one has the semaphore, too.
        slots.retain(|_, slots| Arc::strong_count(slots) > 1);
        Arc::clone(slots.entry(organization).or_insert_with(|| Arc::new(Semaphore::new(CALLS_AT_ONCE_MAX))))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use uuid::Uuid;

    use super::*;

    #[actix_web::test]
    async fn so_many_ask_at_once_and_a_panic_keeps_no_slot() {
        let slots = Slots::default();
        let [one, other] = [1, 2].map(|id| OrganizationId::from(Uuid::from_u128(id)));
        let mut held = Vec::new();
        for _ in 0..CALLS_AT_ONCE_MAX {
            held.push(slots.take(one, Duration::ZERO).await.expect("free"));
        }
        assert!(slots.take(one, Duration::ZERO).await.is_none(), "only so many");
        assert!(slots.take(other, Duration::ZERO).await.is_some(), "which is nobody else's");
        let slot = held.pop();
        let panicked = catch_unwind(AssertUnwindSafe(move || {
            let _slot = slot;
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        held.extend(slots.take(one, Duration::ZERO).await);
        assert_eq!(held.len(), CALLS_AT_ONCE_MAX, "the slot of a question that panicked is free again");
        let (waited, ()) = tokio::join!(biased; slots.take(one, Duration::from_secs(60)), async { held.clear() });
        assert!(waited.is_some(), "and whoever waits gets the next");
        drop(waited);
        drop(slots.of(other));
        assert_eq!(slots.0.lock().expect("the slots").len(), 1, "nothing is kept of who asks no more");
    }
}
