//! A query and the body beside it.

use std::future::Future;
use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use billing_domain::FieldErrors;

use super::extract::{BodyError, value_of};
use crate::error::ApiError;
use crate::query::Query;
use crate::unknown_field;
use crate::wire::FromJson;

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
