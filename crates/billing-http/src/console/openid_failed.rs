//! Signing in with the OpenID provider that comes to nothing.

use actix_web::HttpResponse;
use billing_console::page::openid::{self as pages, Problem};
use billing_console::{layout, text};

use super::reply;
use crate::error::ApiError;
use crate::openid::{Provider, ProviderFailure};
use crate::request_id;

/// Why nobody is signed in, and with which address they came.
pub(super) struct Failed {
    problem: &'static Problem,
    email: Option<String>,
}

impl From<&'static Problem> for Failed {
    fn from(problem: &'static Problem) -> Self {
        Self { problem, email: None }
    }
}

impl From<ApiError> for Failed {
    /// The store's fault, which the log has with the id of the request.
    fn from(error: ApiError) -> Self {
        log::error!(code = error.title(); "nobody can be signed in with the OpenID provider: the store does not answer");
        (&pages::UNAVAILABLE).into()
    }
}

impl From<ProviderFailure> for Failed {
    fn from(failure: ProviderFailure) -> Self {
        log::warn!(cause:% = failure; "nobody was signed in with the OpenID provider");
        match failure {
            ProviderFailure::Unreachable(_) => &pages::UNREACHABLE,
            ProviderFailure::BadAnswer(_) => &pages::BAD_ANSWER,
            ProviderFailure::Refused(_) => &pages::REFUSED,
            ProviderFailure::BadToken(_) => &pages::BAD_TOKEN,
        }
        .into()
    }
}

impl Failed {
    /// A problem of whoever has this address.
    pub(super) fn of(problem: &'static Problem, email: &str) -> Self {
        Self { problem, email: Some(email.to_owned()) }
    }

    pub(super) fn page(&self, provider: &Provider) -> HttpResponse {
        let host = provider.settings().host();
        let content = pages::problem(self.problem, host, self.email.as_deref(), &request_id::current());
        reply::html(self.problem.status, layout::bare(text::SIGN_IN_FAILED, &content))
    }
}
