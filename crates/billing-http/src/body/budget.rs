//! How much memory bodies may take while they come in, all of them together, and those of one organization.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{ApiError, codes};
use crate::places::Holder;

/// Most bytes of bodies that are being received or read.
const BYTES_MAX: usize = 48 * 1024 * 1024;
/// Most of them that one organization's take: a quarter is left to others, however many it sends, and however slowly.
const BYTES_OF_ONE_MAX: usize = BYTES_MAX / 4 * 3;

/// The bytes that are taken up, shared by all workers.
#[derive(Clone, Debug, Default)]
pub struct BodyBudget(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    by_holder: BTreeMap<Holder, usize>,
}

/// What one body takes up, until it is dropped.
#[derive(Debug)]
pub struct Share {
    taken: usize,
    holder: Holder,
    budget: BodyBudget,
}

impl BodyBudget {
    /// A share of nothing yet, for a body that `holder` sends.
    pub fn share(&self, holder: Holder) -> Share {
        Share { taken: 0, holder, budget: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Takes so many bytes more.
    ///
    /// # Errors
    /// [`codes::TOO_MANY_IN_FLIGHT`] when all bodies together, or those of the organization, would take too much.
    pub fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        let mut taken = self.budget.lock();
        let held = taken.by_holder.get(&self.holder).copied().unwrap_or_default();
        if taken.total + bytes > BYTES_MAX || held + bytes > BYTES_OF_ONE_MAX {
            return Err(ApiError::plain(&codes::TOO_MANY_IN_FLIGHT));
        }
        taken.total += bytes;
        taken.by_holder.insert(self.holder, held + bytes);
        self.taken += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.taken == 0 {
            return;
        }
        let mut taken = self.budget.lock();
        taken.total -= self.taken;
        let held = taken.by_holder.remove(&self.holder).unwrap_or_default() - self.taken;
        if held > 0 {
            taken.by_holder.insert(self.holder, held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn organization(n: u128) -> Holder {
        Some(uuid::Uuid::from_u128(n).into())
    }

    #[test]
    fn what_is_taken_is_given_back() {
        let budget = BodyBudget::default();
        let mut most = budget.share(organization(1));
        most.grow(BYTES_OF_ONE_MAX).expect("room");
        let mut again = budget.share(organization(1));
        assert_eq!(again.grow(1).expect_err("its part is full").title(), "too_many_in_flight");
        let mut other = budget.share(organization(2));
        other.grow(BYTES_MAX - BYTES_OF_ONE_MAX).expect("a quarter is left to others");
        assert_eq!(other.grow(1).expect_err("all is full").title(), "too_many_in_flight");
        drop((most, again, other));
        assert!(matches!(&*budget.lock(), Taken { total: 0, by_holder } if by_holder.is_empty()));
        budget.share(organization(1)).grow(BYTES_OF_ONE_MAX).expect("room again");
    }
}
