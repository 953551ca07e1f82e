//! What a request asks for with its path or query and its body together.

use std::future::Future;
use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use billing_domain::FieldErrors;
use billing_domain::workflow::Faults;

use super::extract::{BodyError, refusal, value_of};
use crate::error::ApiError;
use crate::unknown_field;
use crate::wire::FromJson;

/// What is made of a body and of what the path or the query says beside it.
pub trait Ask: Faults + Sized {
    /// The body.
    type Body: FromJson;

    /// Puts both together; what is wrong with path and query is noted. `None`: there is nothing to be put together.
    ///
    /// # Errors
    /// When path or query cannot be read at all.
    fn read(
        request: &HttpRequest,
        body: Option<Self::Body>,
        errors: &mut FieldErrors,
    ) -> Result<Option<Self>, ApiError>;
}

/// An ordinary body and what stands beside it, both read to their end: a bad one is refused with everything that is
/// wrong with either.
pub struct Asked<T>(pub T);

impl<T: Ask + Send + 'static> FromRequest for Asked<T> {
    type Error = BodyError;
    type Future = Pin<Box<dyn Future<Output = Result<Self, BodyError>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let value = value_of(request, payload);
        let request = request.clone();
        Box::pin(async move {
            let value = value.await?;
            let unknown = unknown_field::of_body(&request, &value);
            let (mut errors, mut in_body) = (FieldErrors::default(), FieldErrors::default());
            let body = T::Body::read_on(value, &mut in_body);
            let asked = T::read(&request, body, &mut errors)?;
            errors.0.extend(in_body.0);
            errors.0.extend(unknown.0);
            match asked {
                Some(asked) if errors.is_empty() => Ok(Self(asked)),
                asked => Err(refusal(&request, asked, errors).await.into()),
            }
        })
    }
}
