//! Whether a key may be used for the call that it came with.

use std::sync::Arc;

use actix_web::http::Method;
use billing_domain::api_key::KeyScope;

use crate::caller::Caller;
use crate::error::{ApiError, codes};

/// The scopes that the calls of one path need, by method.
#[derive(Clone, Debug)]
pub struct Needs(Arc<Vec<(Method, Option<KeyScope>)>>);

impl Needs {
    /// Of the calls of one path.
    pub fn of(calls: impl Iterator<Item = (Method, Option<KeyScope>)>) -> Self {
        Self(Arc::new(calls.collect()))
    }

    /// Refuses a caller whose key may not be used for the call.
    ///
    /// # Errors
    /// [`codes::MISSING_SCOPE`], which names it.
    pub(super) fn check(&self, method: &Method, caller: &Caller) -> Result<(), ApiError> {
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let needed = self.0.iter().find(|(known, _)| known == method).and_then(|(_, needed)| *needed);
        match needed {
            Some(needed) if !caller.scopes.allow(needed) => {
                let detail = format!("This call needs a key with the scope `{}`.", needed.as_str());
                Err(ApiError::new(&codes::MISSING_SCOPE, detail))
            }
            _ => Ok(()),
        }
    }
}
