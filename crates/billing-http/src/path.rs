//! Ids in paths.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use billing_domain::FieldErrors;
use serde_json::Value;

use crate::error::ApiError;
use crate::wire::{FromJson, under};

/// The one parameter of a path. Escaped slashes are part of it, dots too.
#[derive(Clone, Debug)]
pub struct PathParam<T>(pub T);

impl<T: FromJson> FromRequest for PathParam<T> {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let name = request.match_info().iter().next().map(|(name, _)| name.to_owned()).unwrap_or_default();
        let text = web::Path::<String>::from_request(request, payload).into_inner();
        ready(match text {
            Ok(text) => {
                T::from_json(Value::String(text.into_inner())).map(Self).map_err(|errors| under(errors, &name).into())
            }
            Err(error) => Err(ApiError::internal(error)),
        })
    }
}

/// The two parameters of a path.
#[derive(Clone, Debug)]
pub struct PathPair<A, B>(pub A, pub B);

impl<A: FromJson, B: FromJson> FromRequest for PathPair<A, B> {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let names: Vec<_> = request.match_info().iter().map(|(name, _)| name.to_owned()).collect();
        let texts = web::Path::<(String, String)>::from_request(request, payload).into_inner();
        ready(texts.map_err(ApiError::internal).and_then(|texts| {
            let (first, second) = texts.into_inner();
            let mut errors = FieldErrors::default();
            let name = |i: usize| names.get(i).map_or("", String::as_str);
            let first = errors.keep_all(name(0), A::from_json(Value::String(first)));
            let second = errors.keep_all(name(1), B::from_json(Value::String(second)));
            match (first, second) {
                (Some(first), Some(second)) => Ok(Self(first, second)),
                _ => Err(errors.into()),
            }
        }))
    }
}
