//! The check of the key that every call but the public ones goes through.

use std::future::{Ready, ready};
use std::time::{Duration, Instant};

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use actix_web::middleware::Next;
use actix_web::{FromRequest, HttpMessage, HttpRequest, web};
use billing_domain::api_key::{ApiKey, KeyKind};
use billing_domain::{Error, Refusal};

use super::scope::Needs;
use crate::app::App;
use crate::caller::{Caller, KeyText};
use crate::error::{ApiError, codes};
use crate::noted_call::Call;
use crate::unread::refuse;

/// How long the look-up of a key may take.
const LOOKUP_WAIT: Duration = Duration::from_secs(1);
pub(super) const API_KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");

impl FromRequest for Caller {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let extensions = request.extensions();
        let caller = extensions.get::<Self>().cloned().map(|caller| caller.making(extensions.get::<Call>().cloned()));
        ready(caller.ok_or_else(|| ApiError::internal("a protected handler on a public route")))
    }
}

/// A caller whom another part of this program has looked at and speaks for: a user who is signed in. It is put among the data of
/// requests that are made inside the process; nothing that comes over the wire can put it there.
pub struct Vouched {
    /// Who it is.
    pub caller: Caller,
    /// Where they called from.
    pub address: Option<String>,
}

/// The caller of a request that was made inside the process.
pub(super) fn vouched(request: &ServiceRequest) -> Option<Caller> {
    request.extensions().get::<Vouched>().map(|vouched| vouched.caller.clone())
}

/// Where the caller of such a request called from.
pub(super) fn vouched_address(request: &ServiceRequest) -> Option<String> {
    request.extensions().get::<Vouched>().and_then(|vouched| vouched.address.clone())
}

/// Lets a request pass to its handler when it has a valid key that may be used for it.
///
/// # Errors
/// Those of the handler; a bad key is answered here.
pub async fn authenticate(
    needs: Needs,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let app = app_of(&request)?;
    let caller = match vouched(&request) {
        Some(caller) => Ok(caller),
        None => check(&app, request.headers()).await,
    };
    match caller {
        Ok(caller) => {
            app.note_request(caller.organization);
            let allowed = needs.check(request.method(), &caller);
            request.extensions_mut().insert(caller);
            if let Err(error) = allowed {
                return Ok(refuse(request, &error));
            }
            Ok(next.call(request).await?.map_into_boxed_body())
        }
        Err(error) => Ok(refuse(request, &error)),
    }
}

/// What all handlers share.
pub(super) fn app_of(request: &ServiceRequest) -> Result<web::Data<App>, ApiError> {
    request.app_data().cloned().ok_or_else(|| ApiError::internal("no application data"))
}

/// Who is calling by these headers, looked up now.
pub(super) async fn check(app: &App, headers: &HeaderMap) -> Result<Caller, ApiError> {
    if !headers.contains_key(API_KEY_HEADER) {
        return Err(ApiError::new(&codes::NOT_AUTHENTICATED, what_is_missing(headers)));
    }
    let key = single(headers, &API_KEY_HEADER).and_then(KeyText::parse).ok_or_else(not_authenticated)?;
    let token = match headers.contains_key(AUTHORIZATION) {
        true => Some(token(headers).ok_or_else(|| bad_token(headers))?),
        false => None,
    };
    let caller = find_api_key(app, &key).await?;
    if let Some(token) = token
        && token != key
    {
        // A token, or another key of the organization.
        let other = find(app, &token).await?.ok_or_else(authentication_failed)?;
        if other.organization != caller.organization {
            return Err(authentication_failed());
        }
    }
    app.key_uses.note(&caller.prefix, Instant::now());
    Ok(Caller::of_key(&caller))
}

/// The API key; anything else opens nothing by itself.
pub(super) async fn find_api_key(app: &App, key: &KeyText) -> Result<ApiKey, ApiError> {
    let found = find(app, key).await?;
    found.filter(|found| found.kind == KeyKind::ApiKey).ok_or_else(not_authenticated)
}

/// The key of whatever kind, unless it is unknown, wrong or expired: the three look alike. Looked up now, together with
/// those of other requests: a key that was removed before is not found.
async fn find(app: &App, key: &KeyText) -> Result<Option<ApiKey>, ApiError> {
    let prefix = key.prefix().to_owned();
    let found = app.ask_within(LOOKUP_WAIT, |keys, reply| keys.find_key_then(prefix, reply)).await?;
    // The digest is computed for unknown keys too: they take as long as known ones.
    let digest = found.as_ref().map(|(known, _)| known.digest.clone()).unwrap_or_default();
    let matches = app.pepper.matches(key, &digest);
    let current = found.filter(|(known, now)| !known.is_expired(*now)).map(|(known, _)| known);
    // What is remembered does not depend on who asks: a prefix is no secret.
    match current.as_ref().filter(|current| current.kind == KeyKind::ApiKey) {
        Some(current) => app.known_keys.remember(current),
        None => app.known_keys.forget(key.prefix()),
    }
    Ok(current.filter(|_| matches))
}

/// The token of `Authorization: Token <token>`.
fn token(headers: &HeaderMap) -> Option<KeyText> {
    let (scheme, token) = single(headers, &AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("token").then(|| KeyText::parse(token.trim()))?
}

/// The value of a header that is there exactly once.
pub(super) fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name);
    let value = values.next()?;
    values.next().is_none().then(|| value.to_str().ok())?
}

/// How a request without a key should have been sent.
fn what_is_missing(headers: &HeaderMap) -> &'static str {
    match single(headers, &AUTHORIZATION) {
        _ if !headers.contains_key(AUTHORIZATION) => "Send an API key in the header X-API-KEY.",
        Some(value) if !is_token(value) => {
            "Send the API key in the header X-API-KEY, not in Authorization; only `Authorization: Token <token>` may stand beside it."
        }
        _ => "A token opens nothing by itself: send an API key in the header X-API-KEY beside Authorization.",
    }
}

fn is_token(value: &str) -> bool {
    value.split_once(' ').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("token"))
}

/// What is wrong with an Authorization header that holds no token.
fn bad_token(headers: &HeaderMap) -> ApiError {
    match single(headers, &AUTHORIZATION) {
        Some(value) if !is_token(value) => ApiError::new(
            &codes::AUTHENTICATION_FAILED,
            "Authorization may hold `Token <token>` beside X-API-KEY and nothing else; leave it out, the key is enough.",
        ),
        _ => authentication_failed(),
    }
}

pub(super) fn not_authenticated() -> ApiError {
    Error::from(Refusal::InvalidKey).into()
}

fn authentication_failed() -> ApiError {
    ApiError::new(&codes::AUTHENTICATION_FAILED, "Invalid token.")
}
