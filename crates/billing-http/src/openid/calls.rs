//! Calls to the provider, by the guarded client: no redirect, no proxy, bounded in size and in time.

use std::time::{Duration, Instant};

use billing_outbound::{Answer, Client, Destination, Failure, Reach};
use openidconnect::http::{Method, Response, StatusCode};
use openidconnect::{HttpRequest, HttpResponse, SyncHttpClient};

/// Some calls that have so long together. The operator has named the provider, and the provider its endpoints: they may be at private
/// addresses, but over plain HTTP only a provider on this machine is called.
pub(super) struct Calls<'p> {
    client: &'p Client,
    may_be_plain: bool,
    ends_at: Instant,
}

/// Why a call has no answer. The texts are for the log, and have no secret in them.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallFailure {
    #[error("the URL of an endpoint is none that may be called")]
    BadUrl,
    #[error("a header cannot be sent")]
    BadHeader,
    #[error("the answer is too long")]
    TooLong,
    #[error("the answer is no HTTP")]
    BadAnswer,
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Where a URL leads that the provider names, if it may be called, or a browser be sent there; `may_be_plain`: the provider itself is
/// on this machine, without TLS.
pub(super) fn destination(url: &str, may_be_plain: bool) -> Option<Destination> {
    let parsed = Destination::parse(url, Reach::Anywhere).ok();
    parsed.filter(|to| to.is_encrypted() || may_be_plain && to.is_local())
}

impl<'p> Calls<'p> {
    /// Calls that end within `time`.
    pub(super) fn within(client: &'p Client, may_be_plain: bool, time: Duration) -> Self {
        Self { client, may_be_plain, ends_at: Instant::now() + time }
    }

    fn answer(&self, request: &HttpRequest) -> Result<Answer, CallFailure> {
        let to = destination(&request.uri().to_string(), self.may_be_plain).ok_or(CallFailure::BadUrl)?;
        let mut headers = Vec::new();
        for (name, value) in request.headers() {
            headers.push((name.as_str(), value.to_str().map_err(|_| CallFailure::BadHeader)?));
        }
        let left = self.ends_at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::TimedOut.into());
        }
        let answer = match *request.method() {
            Method::POST => self.client.post(&to, &headers, request.body(), left)?,
            _ => self.client.get(&to, &headers, left)?,
        };
        if answer.is_cut { Err(CallFailure::TooLong) } else { Ok(answer) }
    }
}

impl SyncHttpClient for Calls<'_> {
    type Error = CallFailure;

    fn call(&self, request: HttpRequest) -> Result<HttpResponse, CallFailure> {
        let answer = self.answer(&request)?;
        let mut response = Response::new(answer.body);
        *response.status_mut() = StatusCode::from_u16(answer.status).map_err(|_| CallFailure::BadAnswer)?;
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_encrypted_unless_the_provider_is_on_this_machine() {
        #[rustfmt::skip]
        let cases = [
            // endpoint,                   of a plain one here, good,  why
            ("https://login.example/keys", false,               true,  "as it should be"),
            ("https://10.0.0.1/keys",      false,               true,  "a private address, which the operator has named or let name"),
            ("http://login.example/keys",  false,               false, "anybody on the way could change them"),
            ("http://127.0.0.1/keys",      false,               false, "a provider elsewhere names what runs on this machine"),
            ("http://127.0.0.1/keys",      true,                true,  "both are here"),
            ("http://login.example/keys",  true,                false, "and this is not"),
            ("file:///etc/passwd",         true,                false, "not HTTP"),
        ];
        for (endpoint, may_be_plain, good, why) in cases {
            assert_eq!(destination(endpoint, may_be_plain).is_some(), good, "{endpoint}: {why}");
        }
    }
}
