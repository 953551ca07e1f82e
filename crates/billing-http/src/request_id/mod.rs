//! The id of a request: on its answer, in its error and in every line of the log that it causes.

mod trace;

use std::future::Future;

use actix_web::http::header::{HeaderMap, HeaderName};
use uuid::Uuid;

pub use trace::{TRACERESPONSE, Trace};

/// The header that carries the id on every answer.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id that is taken over from a caller, in characters.
const CHARACTERS_MAX: usize = 64;

tokio::task_local! {
    static CURRENT: Request;
}

/// What a request is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's id for it, or one of its own.
    pub id: String,
    /// Its place in a trace of the caller's, if it has one.
    pub trace: Option<Trace>,
}

impl Request {
    /// What the headers of a request say.
    pub fn of(headers: &HeaderMap) -> Self {
        Self { id: given(headers).unwrap_or_else(new_id), trace: Trace::of(headers) }
    }
}

/// The id that the caller gave the request, where it may stand in a log, a header and a file's name as it is.
fn given(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(HEADER);
    let id = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    ((1..=CHARACTERS_MAX).contains(&id.len()) && id.bytes().all(is_plain)).then(|| id.to_owned())
}

/// A new id.
pub fn new_id() -> String {
    Uuid::now_v7().simple().to_string()
}

/// Runs `work` as the request.
pub async fn scope<T>(request: Request, work: impl Future<Output = T>) -> T {
    CURRENT.scope(request, work).await
}

/// Runs `work` on a thread of its own as the `request` that has it done, if there is one.
pub fn within<T>(request: Option<Request>, work: impl FnOnce() -> T) -> T {
    match request {
        Some(request) => CURRENT.sync_scope(request, work),
        None => work(),
    }
}

/// The request being worked on; none outside of any.
pub fn carried() -> Option<Request> {
    CURRENT.try_with(Clone::clone).ok()
}

/// The id of the request being worked on; a new one outside of any.
pub fn current() -> String {
    carried().map_or_else(new_id, |request| request.id)
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    #[test]
    fn a_callers_id_is_taken_over_if_it_may_stand_in_a_log() {
        let long = "a".repeat(CHARACTERS_MAX + 1);
        #[rustfmt::skip]
        let cases: [(&[&str], bool, &str); 10] = [
            // given,                 taken, why
            (&["abc-DEF_123"],        true,  "letters, digits, - and _"),
            (&[&long[1..]],           true,  "as long as it may be"),
            (&[&long],                false, "too long"),
            (&[""],                   false, "nothing"),
            (&["a b"],                false, "a space ends a field of a log"),
            (&["a=b"],                false, "it would look like a field"),
            (&["a\tb"],               false, "a control character"),
            (&["\u{e9}"],             false, "not ASCII"),
            (&["a", "b"],             false, "two of them"),
            (&[],                     false, "none"),
        ];
        for (given, taken, why) in cases {
            let mut headers = HeaderMap::new();
            for id in given {
                headers.append(HEADER, HeaderValue::from_bytes(id.as_bytes()).expect("a header"));
            }
            let id = Request::of(&headers).id;
            assert_eq!(given == [id.as_str()], taken, "{given:?}: {why}");
            assert!(taken || id.len() == 32, "otherwise it is a new one");
        }
    }

    #[test]
    fn work_elsewhere_is_still_the_requests() {
        let request = Request { id: "one".to_owned(), trace: None };
        assert_eq!(within(Some(request.clone()), carried), Some(request));
        assert_eq!(within(None, carried), None);
    }
}
