//! Ids in paths.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
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
