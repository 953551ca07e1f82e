//! How many events this process has stored, until a worker notes it for everybody to see: no row of the database is written for it by those
//! who send events.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use billing_domain::id::OrganizationId;
use billing_domain::store::EventTally;

/// Most organizations whose events are counted at once. Of others nothing is counted until those are noted.
const ORGANIZATIONS_MAX: usize = 10_000;

/// What is not noted yet, by organization.
#[derive(Default)]
pub(crate) struct EventTallies(Mutex<BTreeMap<OrganizationId, EventTally>>);

impl EventTallies {
    /// Adds what was counted of an organization's events.
    pub(crate) fn add(&self, organization: OrganizationId, tally: EventTally) {
        let mut all = self.lock();
        if all.len() < ORGANIZATIONS_MAX || all.contains_key(&organization) {
            all.entry(organization).or_default().join(tally);
        }
    }

    /// Everything, which is to be noted from here on.
    pub(crate) fn take(&self) -> BTreeMap<OrganizationId, EventTally> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OrganizationId, EventTally>> {
        // Nobody panics half way through counting.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn memory_is_bounded() {
        let tallies = EventTallies::default();
        for number in 0..2 * ORGANIZATIONS_MAX as u128 {
            tallies.add(Uuid::from_u128(number).into(), EventTally::default());
        }
        assert_eq!(tallies.take().len(), ORGANIZATIONS_MAX);
        assert_eq!(tallies.take().len(), 0, "what was taken is taken");
    }
}
