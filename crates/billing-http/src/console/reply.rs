//! Answers of the console: every one says what a browser may do with it.

use actix_web::body::MessageBody;
use actix_web::http::StatusCode;
use actix_web::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, HeaderName, LOCATION, REFERRER_POLICY, X_FRAME_OPTIONS,
};
use actix_web::{HttpRequest, HttpResponse};
use billing_console::asset::POLICY;

/// What htmx sends with what it asks for, and where it then goes.
const PART: HeaderName = HeaderName::from_static("hx-request");
const LEAD: HeaderName = HeaderName::from_static("hx-redirect");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const UNBUFFERED: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

fn answer(status: StatusCode) -> actix_web::HttpResponseBuilder {
    let mut answer = HttpResponse::build(status);
    answer
        .insert_header((CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .insert_header((X_FRAME_OPTIONS, "DENY"))
        .insert_header((OPENER_POLICY, "same-origin"))
        .insert_header((RESOURCE_POLICY, "same-origin"));
    answer
}

/// A page.
pub fn html(status: u16, page: String) -> HttpResponse {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer(status).content_type("text/html; charset=utf-8").body(page)
}

/// A table, to be kept as a file of this name.
pub fn csv(name: &str, text: String) -> HttpResponse {
    let kept = format!("attachment; filename=\"{name}\"");
    let mut answer = answer(StatusCode::OK);
    answer.content_type("text/csv; charset=utf-8; header=present").insert_header((CONTENT_DISPOSITION, kept));
    answer.body(text)
}

/// Why a page that is open gets no more: a line that its script does not read.
pub fn refused(status: StatusCode, why: &str) -> HttpResponse {
    answer(status).content_type("text/plain; charset=utf-8").body(why.to_owned())
}

/// Server-sent events, as they come. Proxies are asked to keep none back.
pub fn event_stream(lines: impl MessageBody + 'static) -> HttpResponse {
    answer(StatusCode::OK).content_type("text/event-stream").insert_header(UNBUFFERED).body(lines)
}

/// What pages load. Its address has the version in it, so it is kept.
pub fn asset(media_type: &'static str, text: &'static str) -> HttpResponse {
    answer(StatusCode::OK).content_type(media_type).insert_header((CACHE_CONTROL, "public, max-age=86400")).body(text)
}

/// Whether a page that is open asks for a part of itself.
pub fn is_part(request: &HttpRequest) -> bool {
    request.headers().contains_key(PART)
}

/// Leads a page there that is open and asked for a part of itself: what it is sent elsewhere for is no part of it.
pub fn lead(to: &str) -> HttpResponse {
    answer(StatusCode::UNAUTHORIZED).insert_header((LEAD, to)).finish()
}

/// Sends the browser there, with a request that only looks: going back or reloading repeats nothing.
pub fn go(to: &str) -> HttpResponse {
    answer(StatusCode::SEE_OTHER).insert_header((LOCATION, to)).finish()
}
