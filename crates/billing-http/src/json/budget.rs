//! How much memory bodies may take while they come in, all of them together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{ApiError, codes};

/// Most bytes of bodies that are being received or read.
const BYTES_MAX: usize = 48 * 1024 * 1024;

/// The bytes that are taken up, shared by all workers.
#[derive(Clone, Debug, Default)]
pub struct BodyBudget(Arc<AtomicUsize>);

/// What one body takes up, until it is dropped.
#[derive(Debug)]
pub struct Share {
    taken: usize,
    budget: BodyBudget,
}

impl BodyBudget {
    /// A share of nothing yet.
    pub fn share(&self) -> Share {
        Share { taken: 0, budget: self.clone() }
    }
}

impl Share {
    /// Takes so many bytes more.
    ///
    /// # Errors
    /// [`codes::TOO_MANY_IN_FLIGHT`] when all bodies together would take too much.
    pub fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.taken += bytes;
        match self.budget.0.fetch_add(bytes, Ordering::Relaxed) + bytes > BYTES_MAX {
            true => Err(ApiError::plain(&codes::TOO_MANY_IN_FLIGHT)),
            false => Ok(()),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let budget = BodyBudget::default();
        let mut most = budget.share();
        most.grow(BYTES_MAX).expect("room");
        let mut other = budget.share();
        assert_eq!(other.grow(1).expect_err("full").title(), "too_many_in_flight");
        drop((most, other));
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
        budget.share().grow(BYTES_MAX).expect("room again");
    }
}
