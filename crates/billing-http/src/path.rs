//! Ids in paths.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use billing_domain::FieldErrors;
use serde_json::Value;

use crate::error::ApiError;
use crate::wire::FromJson;

/// The one parameter of a path. Escaped slashes are part of it, dots too.
#[derive(Clone, Debug)]
pub struct PathParam<T>(pub T);

impl<T: FromJson> FromRequest for PathParam<T> {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let mut errors = FieldErrors::default();
        ready(match Self::read(request, &mut errors) {
            Some(value) => Ok(Self(value)),
            None if errors.is_empty() => Err(ApiError::internal("a path without its parameter")),
            None => Err(errors.into()),
        })
    }
}

impl<T: FromJson> PathParam<T> {
    /// The parameter; what is wrong with it is noted.
    pub fn read(request: &HttpRequest, errors: &mut FieldErrors) -> Option<T> {
        let (name, _) = request.match_info().iter().next()?;
        let text = web::Path::<String>::extract(request).into_inner().ok()?.into_inner();
        errors.keep_all(name, T::from_json(Value::String(text)))
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
