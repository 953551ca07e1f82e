//! Answers to requests whose body is not read to its end.
//!
//! A chunked body that nobody holds any more is drained for as long as its sender pleases. One that is still held
//! when its answer goes out makes the server close the connection after a short wait, so these answers hold it.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::web::Bytes;
use actix_web::{HttpMessage, HttpResponse, ResponseError};

use crate::error::ApiError;

/// Answers `request` with `error`.
pub fn refuse(mut request: ServiceRequest, error: &ApiError) -> ServiceResponse<BoxBody> {
    let rest = request.take_payload();
    request.into_response(hold(error.error_response(), rest))
}

/// Marks an answer to a request whose body is not read to its end.
#[derive(Clone, Copy, Debug)]
pub struct Unread;

/// The answer, holding the `rest` of a body until it is sent.
pub fn hold<R: Unpin + 'static>(mut answer: HttpResponse, rest: R) -> HttpResponse {
    answer.extensions_mut().insert(Unread);
    answer.map_body(|_, body| BoxBody::new(Holding { body, _rest: rest }))
}

struct Holding<R> {
    body: BoxBody,
    _rest: R,
}

impl<R: Unpin + 'static> MessageBody for Holding<R> {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_next(context)
    }
}
