//! Bodies of calls as JSON, alone or beside a query: everything that is wrong with their form is told together.

use std::future::Future;
use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use billing_domain::FieldErrors;
use serde_json::Value;

use crate::body::{BODY_BYTES_MAX, BodyError, RawBody, decode, parse_or_empty};
use crate::error::ApiError;
use crate::query::Query;
use crate::unknown_field;
use crate::wire::FromJson;

/// An ordinary body, read as `T`. None at all is an object without fields, so a call that needs none can be made without.
///
/// A bad one is refused with everything that is wrong with its form. What the rules and the store have to say is asked once
/// the form is right.
pub struct ApiJson<T>(pub T);

impl<T: FromJson + 'static> FromRequest for ApiJson<T> {
    type Error = BodyError;
    type Future = Pin<Box<dyn Future<Output = Result<Self, BodyError>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let value = value_of(request, payload);
        let request = request.clone();
        Box::pin(async move {
            let value = value.await?;
            let unknown = unknown_field::of_body(&request, &value);
            Ok(Self(known(T::from_json(value), unknown)?))
        })
    }
}

/// The value of an ordinary body; without one it is an object without fields.
fn value_of(request: &HttpRequest, payload: &mut Payload) -> impl Future<Output = Result<Value, BodyError>> + use<> {
    let body = RawBody::<BODY_BYTES_MAX>::from_request(request, payload);
    async move { Ok(parse_or_empty(&decode(body.await?, BODY_BYTES_MAX)?)?) }
}

/// What was read of a body, if it had no fields that are `unknown`.
///
/// # Errors
/// Everything that is wrong with its form, then what is unknown.
pub fn known<T>(read: Result<T, FieldErrors>, unknown: FieldErrors) -> Result<T, ApiError> {
    match read {
        Ok(read) => Ok(unknown.finish(read)?),
        Err(mut errors) => {
            errors.0.extend(unknown.0);
            Err(errors.into())
        }
    }
}

/// What the parameters of a query say.
pub trait FromQuery: Sized {
    /// Reads them. `None`: they are bad, and that is noted.
    fn from_query(query: &mut Query) -> Option<Self>;
}

/// What a query says, and an ordinary body: everything that is wrong with the form of either is told together.
pub struct QueryAndBody<Q, B>(pub Q, pub B);

impl<Q: FromQuery + 'static, B: FromJson + 'static> FromRequest for QueryAndBody<Q, B> {
    type Error = BodyError;
    type Future = Pin<Box<dyn Future<Output = Result<Self, BodyError>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let value = value_of(request, payload);
        let request = request.clone();
        Box::pin(async move {
            let value = value.await?;
            let unknown = unknown_field::of_body(&request, &value);
            let mut query = Query::parse(request.query_string())?;
            let asked = Q::from_query(&mut query);
            let mut errors: FieldErrors = query.into_errors();
            let body = errors.keep_all("", B::from_json(value));
            errors.0.extend(unknown.0);
            match (asked, body) {
                (Some(asked), Some(body)) if errors.is_empty() => Ok(Self(asked, body)),
                _ => Err(ApiError::from(errors).into()),
            }
        })
    }
}
