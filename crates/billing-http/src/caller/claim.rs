//! The claim of a request with an `Idempotency-Key`, and the transaction that honours it.

use std::sync::atomic::{AtomicBool, Ordering};

use billing_domain::idempotency::{Answer, Attempt, Claim};
use billing_domain::store::{Scope, Transaction};
use billing_domain::{Error, StoreError};
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;

use crate::backend::Backend;
use crate::error::ApiError;

/// What a route says about its answers.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The status of success.
    pub status: u16,
    /// The field that is shown once and kept nowhere.
    pub secret: Option<&'static str>,
}

/// The claim of one request, on its way to the transaction that does the work.
#[derive(Debug)]
pub struct Pending {
    claim: Claim,
    terms: Terms,
    is_settled: AtomicBool,
}

impl Pending {
    /// The claim of a request to a route with these terms.
    pub fn new(claim: Claim, terms: Terms) -> Self {
        Self { claim, terms, is_settled: AtomicBool::new(false) }
    }

    /// The same claim, answered with another status.
    #[must_use]
    pub fn answered_with(&self, status: u16) -> Self {
        Self::new(self.claim.clone(), Terms { status, secret: None })
    }

    /// What is claimed.
    pub fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Whether a transaction has kept the answer.
    pub fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Relaxed)
    }

    /// Runs `work` in `scope`, once for all requests with the key.
    ///
    /// # Errors
    /// Those of `work` and of the store.
    pub fn run<T: Serialize>(
        &self,
        backend: &dyn Backend,
        scope: &Scope,
        request_id: &str,
        mut work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>,
    ) -> Result<T, ApiError> {
        let mut outcome = None;
        backend.run_once(scope, &self.claim, &mut |tx, now| match work(tx, now) {
            Ok(value) => {
                let answer = self.answer(&value).map_err(|error| StoreError::Internal(error.to_string()))?;
                outcome = Some(Ok(value));
                Ok(Attempt::Done(answer))
            }
            Err(error) if error.is_final() => {
                let error = ApiError::from(error);
                let answer = error.answer(request_id);
                outcome = Some(Err(error));
                Ok(Attempt::Refused(answer))
            }
            Err(error) => Err(error),
        })?;
        self.is_settled.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|| Err(ApiError::internal("the store committed without running the work")))
    }

    /// The answer that stands for `value`, to the byte as the handler gives it, but for its secret.
    fn answer(&self, value: &impl Serialize) -> serde_json::Result<Answer> {
        let text = match self.terms.secret {
            None => serde_json::to_string(value)?,
            Some(secret) => {
                let mut value = serde_json::to_value(value)?;
                if let Value::Object(fields) = &mut value {
                    fields.remove(secret);
                }
                value.to_string()
            }
        };
        Ok(Answer { status: self.terms.status, text })
    }
}
