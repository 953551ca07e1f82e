//! Work that sent a query of an organization's own, and whether it may be run again.

use std::cell::Cell;

use billing_domain::StoreError;

use crate::pg::error::Failure;

/// What is known of the attempts at some work. A connection that is lost may have been lost because of a query that the work sent:
/// a Postgres whose process was killed for its memory ends all connections. Such work is not run again.
#[derive(Default)]
pub(crate) struct Attempts {
    is_over: Cell<bool>,
}

impl Attempts {
    /// Refuses another attempt after one that may have done harm.
    pub(crate) fn expect_another(&self) -> Result<(), Failure> {
        if self.is_over.get() {
            return Err(StoreError::Unavailable("the connection was lost under a custom metric".to_owned()).into());
        }
        Ok(())
    }

    /// Notes how an attempt ended. What was in another transaction's way may be run again.
    pub(crate) fn note<T>(&self, has_run_custom: bool, ended: Result<T, Failure>) -> Result<T, Failure> {
        self.is_over.set(has_run_custom && !matches!(ended, Err(Failure::Conflict(_))));
        ended
    }
}
