//! What surrounds every request: its id, its line in the log, its headers, and a net under panics.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::http::header::{CACHE_CONTROL, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, HttpRequest, ResponseError, web};

use crate::app::App;
use crate::caller::{Bearer, Caller};
use crate::compress::compress;
use crate::connections::{AtWork, Listed};
use crate::decimal_form::present;
use crate::endpoint::Matched;
use crate::error::{ApiError, ErrorCode, codes};
use crate::request_id::{self, Request, TRACERESPONSE};
use crate::telemetry::route_label;
use crate::unread::{Unread, refuse};

/// Longest path with query, in bytes.
const URI_BYTES_MAX: usize = 8 * 1024;
const CONTENT_TYPE_OPTIONS: HeaderName = HeaderName::from_static("x-content-type-options");

/// Runs a request under an id of its own.
///
/// # Errors
/// [`codes::INTERNAL_ERROR`] after a panic; nothing else gets here as an error.
pub async fn surround(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let known = Request::of(request.headers());
    request_id::scope(known.clone(), async move {
        let began = Instant::now();
        let method = request.method().clone();
        let app = request.app_data::<web::Data<App>>().map(|app| app.clone().into_inner());
        let mut at_work = request.conn_data::<Arc<Listed>>().map(AtWork::begin);
        let _in_flight = app.as_deref().map(|app| app.telemetry.begin());
        let answered = if request.uri().path_and_query().map_or(0, |uri| uri.as_str().len()) > URI_BYTES_MAX {
            Ok(Ok(refuse(request, &ApiError::plain(&codes::URI_TOO_LONG))))
        } else {
            let call = next.call(request);
            CatchUnwind(pin!(call)).await.map(|answer| answer.map(ServiceResponse::map_into_boxed_body))
        };
        let mut response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(error),
            Err(Panicked) => {
                // Made here, where the request's id is known; the request itself is gone.
                let answer = ApiError::internal("a handler panicked").error_response();
                let code = answer.extensions().get::<ErrorCode>().copied();
                let line = Line { method: &method, route: None, status: answer.status().as_u16(), code };
                line.write(app.as_deref(), began.elapsed(), None);
                return Err(InternalError::from_response("panic", answer).into());
            }
        };
        add_headers(&mut response, &known);
        let route = response.request().app_data::<Matched>().map(|Matched(path)| *path);
        let key = key_prefix(response.request());
        let is_accepted = key.is_some() && response.status() != StatusCode::UNAUTHORIZED;
        if let Some(listed) = response.request().conn_data::<Arc<Listed>>().filter(|_| is_accepted) {
            listed.know();
        }
        let code = response.response().extensions().get::<ErrorCode>().copied();
        let status = response.status().as_u16();
        let line = Line { method: &method, route, status, code };
        line.write(app.as_deref(), began.elapsed(), key.as_deref());
        let response = compress(present(response).await).await;
        if let (Some(at_work), BodySize::Sized(bytes)) = (&mut at_work, response.response().body().size()) {
            at_work.answer_bytes = bytes;
        }
        if let Some(at_work) = &mut at_work {
            at_work.is_refused = response.response().extensions().contains::<Unread>();
        }
        Ok(response)
    })
    .await
}

/// The part of the caller's key that may be logged.
fn key_prefix(request: &HttpRequest) -> Option<String> {
    let extensions = request.extensions();
    let bearer = extensions.get::<Bearer>().map(Bearer::key_prefix);
    let caller = || extensions.get::<Caller>().map(|caller| caller.key_prefix.as_str());
    bearer.or_else(caller).map(str::to_owned)
}

/// What is told of every request, to the log and to the counters.
struct Line<'l> {
    method: &'l Method,
    route: Option<&'l str>,
    status: u16,
    code: Option<ErrorCode>,
}

impl Line<'_> {
    fn write(&self, app: Option<&App>, took: Duration, key: Option<&str>) {
        let Self { method, route, status, code } = *self;
        let route = route_label(route);
        if let Some(app) = app {
            app.telemetry.answered(route, method, status, code.map(|ErrorCode(code)| code), took);
        }
        log::info!(
            method = method.as_str(), route, status, code = code.map_or("-", |ErrorCode(code)| code),
            duration_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX), key = key.unwrap_or("-");
            "request"
        );
    }
}

fn add_headers(response: &mut ServiceResponse<BoxBody>, known: &Request) {
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&known.id) {
        headers.insert(request_id::HEADER, value);
    }
    if let Some(Ok(value)) = known.trace.as_ref().map(|trace| HeaderValue::from_str(&trace.response())) {
        headers.insert(TRACERESPONSE, value);
    }
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    headers.insert(CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

struct Panicked;

/// A future whose panic is its result. Nothing that the future held is looked at again.
struct CatchUnwind<'f, F>(Pin<&'f mut F>);

impl<F: Future> Future for CatchUnwind<'_, F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::dev::Service;
    use actix_web::middleware::from_fn;
    use actix_web::test::{TestRequest, init_service};
    use actix_web::{App, HttpResponse, web};

    use super::*;

    async fn panics() -> HttpResponse {
        panic!("on purpose")
    }

    #[actix_web::test]
    async fn a_panic_is_an_answer() {
        let app = App::new().route("/", web::to(panics)).wrap(from_fn(surround));
        let service = init_service(app).await;
        let error = service.call(TestRequest::get().uri("/").to_request()).await.expect_err("a panic");
        let answer = error.as_response_error().error_response();
        assert_eq!(answer.status().as_u16(), codes::INTERNAL_ERROR.status);
        assert!(answer.headers().contains_key(request_id::HEADER));
        let found = service.call(TestRequest::get().uri("/nothing").to_request()).await.expect("it goes on");
        assert_eq!(found.status().as_u16(), 404);
    }
}
