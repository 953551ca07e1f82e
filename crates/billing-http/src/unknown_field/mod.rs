//! Fields and parameters that a call does not know: refused where a misspelt one would decide something by being missing,
//! otherwise ignored and named in the answer. What a call knows is what its row in the route table describes.

mod interface;
mod known;

use std::sync::Arc;

use actix_web::body::BoxBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, HttpRequest, ResponseError};
use billing_domain::FieldErrors;
use serde_json::Value;

use crate::body::{BodyError, peek, receive_all};
use crate::error::ApiError;
use crate::idempotency::REPLAYED;
pub use interface::UnknownFields;
use known::faults;
pub use known::{ADDED_BY_CLIENTS, Known, Unknown, cleaned};

/// Names what was ignored.
pub const IGNORED_FIELDS: HeaderName = HeaderName::from_static("ignored-fields");
/// How a request says what it prefers (RFC 7240).
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// Which of that was done.
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// Most bytes of the names in one answer.
const NAMES_BYTES_MAX: usize = 512;
/// Stands for the names that are too many.
const MORE: &str = "...";

/// What becomes of what is unknown in one request, and what was found.
struct Handling {
    known: Arc<Known>,
    refuses: bool,
    in_query: Vec<Unknown>,
    in_body: Vec<Unknown>,
}

impl Handling {
    /// All that was found, if it is refused.
    fn refused(&self) -> FieldErrors {
        if !self.refuses {
            return FieldErrors::default();
        }
        let mut errors = faults(&self.in_query);
        errors.0.extend(faults(&self.in_body).0);
        errors
    }
}

/// What of a request must be refused because it is unknown: its parameters, and the fields of its `body`. Where they are
/// ignored the answer will name them, and nothing is wrong.
pub fn of_body(request: &HttpRequest, body: &Value) -> FieldErrors {
    let mut extensions = request.extensions_mut();
    let Some(handling) = extensions.get_mut::<Handling>() else { return FieldErrors::default() };
    handling.in_body = handling.known.unknown_fields(body);
    handling.refused()
}

/// Whether the request has what is unknown refused.
pub fn is_refused(request: &HttpRequest) -> bool {
    request.extensions().get::<Handling>().is_some_and(|handling| handling.refuses)
}

/// [`of_body`] for a call that looks for unknown fields itself.
pub fn of_fields(request: &HttpRequest, fields: Vec<Unknown>) -> FieldErrors {
    let mut extensions = request.extensions_mut();
    let Some(handling) = extensions.get_mut::<Handling>() else { return FieldErrors::default() };
    handling.in_body = fields;
    handling.refused()
}

/// Has a request answered, and sees to what its call does not know of it. What its handler reads of the body it holds
/// against [`of_body`]; for all else it is done here.
///
/// # Errors
/// None but those of the server itself: faults of the request are answers.
pub async fn hold(
    known: Arc<Known>,
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, actix_web::Error> {
    let is_strict = prefers_strict(request.headers());
    let refuses = is_strict || known.unknown_fields == UnknownFields::Refused;
    let in_query = known.unknown_parameters(request.query_string());
    let mut handling = Handling { known, refuses, in_query, in_body: Vec::new() };
    let (is_reading, has_body) = (handling.known.is_reading, handling.known.has_body);
    if !is_reading && !has_body {
        match unread_body(&mut request).await {
            Ok(Some(body)) => handling.in_body = handling.known.unknown_fields(&body),
            Ok(None) => {}
            Err(error) => return Ok(request.error_response(error)),
        }
        let refused = handling.refused();
        if !refused.is_empty() {
            let answer = ApiError::from(refused).error_response();
            return Ok(said(request.into_response(answer), &handling, is_strict));
        }
    }
    request.extensions_mut().insert(handling);
    let response = next.call(request).await?;
    let handling = response.request().extensions_mut().remove::<Handling>();
    let Some(handling) = handling else { return Ok(response) };
    let response = if is_reading { refused_after(response, handling.refused()) } else { response };
    Ok(said(response, &handling, is_strict))
}

/// The body of a call that takes none, read and put back.
async fn unread_body(request: &mut ServiceRequest) -> Result<Option<Value>, BodyError> {
    let mut payload = request.take_payload();
    let bytes = receive_all(request.request(), &mut payload).await?;
    let body = if bytes.is_empty() { None } else { peek(&bytes) };
    request.set_payload(Payload::from(bytes));
    Ok(body)
}

/// What a call that changes nothing has answered, unless something unknown is `refused`: that is told together with what
/// else is wrong with the request.
fn refused_after(response: ServiceResponse, refused: FieldErrors) -> ServiceResponse {
    if refused.is_empty() {
        return response;
    }
    let error = response.response().error().and_then(|error| error.as_error::<ApiError>());
    let mut all = match error.map(ApiError::faults) {
        Some(faults) if !faults.is_empty() => faults.to_vec(),
        _ if response.status().is_success() => Vec::new(),
        _ => return response,
    };
    all.extend(refused.0);
    response.into_response(ApiError::from(FieldErrors(all)).error_response())
}

/// The answer with the headers that say what became of what is unknown.
fn said(mut response: ServiceResponse, handling: &Handling, is_strict: bool) -> ServiceResponse {
    // What is answered again was done before, whatever is preferred now.
    if is_strict && !response.headers().contains_key(REPLAYED) {
        response.headers_mut().insert(PREFERENCE_APPLIED, HeaderValue::from_static("handling=strict"));
    }
    let found = handling.in_query.iter().chain(&handling.in_body).map(|unknown| unknown.path.as_str());
    if !handling.refuses
        && let Some(names) = listed(found)
    {
        response.headers_mut().insert(IGNORED_FIELDS, names);
    }
    response
}

/// Names in one header of bounded length; what a header cannot hold, or would be read as a separator, is `?`.
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> Option<HeaderValue> {
    let shown = |c: char| if c.is_ascii_graphic() && c != ',' { c } else { '?' };
    let mut text = String::new();
    for name in names {
        if !text.is_empty() {
            text.push_str(", ");
        }
        if text.len() + name.len() > NAMES_BYTES_MAX {
            text.push_str(MORE);
            break;
        }
        text.extend(name.chars().map(shown));
    }
    if text.is_empty() { None } else { HeaderValue::from_str(&text).ok() }
}

/// Whether `Prefer: handling=strict` is among the preferences; the first `handling` of a request counts.
fn prefers_strict(headers: &HeaderMap) -> bool {
    let all = headers.get_all(PREFER).filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let handling = all.filter_map(|preference| {
        let (name, value) = preference.split(';').next().unwrap_or_default().split_once('=')?;
        name.trim().eq_ignore_ascii_case("handling").then(|| value.trim().trim_matches('"').to_owned())
    });
    handling.take(1).any(|value| value.eq_ignore_ascii_case("strict"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_cannot_leave_their_header() {
        let listed =
            |names: &[&str]| listed(names.iter().copied()).map(|value| value.to_str().expect("ASCII").to_owned());
        let long = "x".repeat(300);
        #[rustfmt::skip]
        let cases: [(&[&str], Option<&str>, &str); 4] = [
            (&[],                        None,                          "nothing was ignored"),
            (&["foo", "a.0.b", "$x"],    Some("foo, a.0.b, $x"),        "as they are"),
            (&["a,b", "é x", "a\r\nb"],  Some("a?b, ??x, a??b"),        "separators and what is no ASCII"),
            (&["\u{1}"],                 Some("?"),                     "a control character"),
        ];
        for (names, expected, why) in cases {
            assert_eq!(listed(names).as_deref(), expected, "{why}");
        }
        assert_eq!(listed(&[&long, &long]).expect("names"), format!("{long}, ..."), "too many");
    }

    #[test]
    fn a_preference_is_read_as_the_standard_says() {
        #[rustfmt::skip]
        let cases: [(&[&str], bool, &str); 9] = [
            (&[],                                        false, "nothing is preferred"),
            (&["handling=strict"],                       true,  "alone"),
            (&["Handling = \"strict\""],                 true,  "quoted, with spaces"),
            (&["respond-async, handling=strict; a=b"],   true,  "among others, with a parameter"),
            (&["wait=10", "handling=strict"],            true,  "in a header of its own"),
            (&["handling=lenient"],                      false, "lenient"),
            (&["handling=lenient, handling=strict"],     false, "the first counts"),
            (&["strict"],                                false, "another preference"),
            (&["handling"],                              false, "without a value"),
        ];
        for (values, expected, why) in cases {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(PREFER, HeaderValue::from_str(value).expect("a value"));
            }
            assert_eq!(prefers_strict(&headers), expected, "{why}");
        }
    }
}
