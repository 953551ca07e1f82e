//! The check of the key where it is made by what is asked for.
//!
//! To look a key up costs as much as many calls do themselves. So those calls trust a key that was valid before, and the very
//! transaction that does what they ask for looks whether it still is: a key that was deleted opens nothing from then on, and
//! nobody has waited for a look-up. Whatever such a call answers without having asked the store, a refusal of its body for
//! instance, is answered only after a look-up.

use std::future::{Ready, ready};
use std::time::Instant;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use actix_web::middleware::Next;
use actix_web::{FromRequest, HttpMessage, HttpRequest, ResponseError};

use super::key_check::{API_KEY_HEADER, app_of, check, find_api_key, not_authenticated, single, vouched};
use super::scope::Needs;
use crate::app::App;
use crate::caller::{Bearer, Caller, KeyText};
use crate::error::ApiError;
use crate::idempotency::HEADER as IDEMPOTENCY_KEY;
use crate::noted_call::Call;
use crate::unread::{hold, refuse};

impl Bearer {
    /// The caller, once the key is known to be valid.
    ///
    /// # Errors
    /// [`codes::NOT_AUTHENTICATED`](crate::error::codes::NOT_AUTHENTICATED) when it is not any more.
    pub async fn caller(&self, app: &App) -> Result<Caller, ApiError> {
        self.confirm(app).await?;
        Ok(self.last_known().clone())
    }

    /// Looks the key up, unless somebody has.
    async fn confirm(&self, app: &App) -> Result<(), ApiError> {
        if let Some(key) = self.unconfirmed_key() {
            if find_api_key(app, key).await?.organization != self.organization() {
                return Err(not_authenticated());
            }
            self.was_confirmed();
        }
        Ok(())
    }

    /// By a key that is remembered, or by one that is looked up.
    async fn of(app: &App, headers: &HeaderMap) -> Result<Self, ApiError> {
        match Self::from_cache(app, headers) {
            Some(bearer) => Ok(bearer),
            None => Ok(Self::from(check(app, headers).await?)),
        }
    }

    fn from_cache(app: &App, headers: &HeaderMap) -> Option<Self> {
        // A kept answer is given, and a key taken, before the transaction that would look at the API key.
        if headers.contains_key(AUTHORIZATION) || headers.contains_key(IDEMPOTENCY_KEY) {
            return None;
        }
        let key = single(headers, &API_KEY_HEADER).and_then(KeyText::parse)?;
        let known = app.known_keys.get(key.prefix())?;
        if !app.pepper.matches(&key, &known.fingerprint.digest) {
            return None;
        }
        app.key_uses.note(key.prefix(), Instant::now());
        Some(Self::remembered(known.caller, key, known.fingerprint))
    }
}

impl FromRequest for Bearer {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let extensions = request.extensions();
        // The caller is there beside the bearer under a claim alone.
        let claimed = extensions.get::<Caller>().cloned().map(Self::from);
        let bearer = claimed.or_else(|| extensions.get::<Self>().cloned());
        let bearer = bearer.map(|bearer| bearer.making(extensions.get::<Call>().cloned()));
        ready(bearer.ok_or_else(|| ApiError::internal("a route that does not let bearers pass")))
    }
}

/// Lets a request pass to its handler, a [`Bearer`]'s, when its key was valid before, and its answer when the key still is.
///
/// # Errors
/// Those of the handler; a bad key is answered here.
pub async fn recognize(
    needs: Needs,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let app = app_of(&request)?;
    let known = match vouched(&request) {
        Some(caller) => Ok(Bearer::from(caller)),
        None => Bearer::of(&app, request.headers()).await,
    };
    let bearer = match known {
        Ok(bearer) => bearer,
        Err(error) => return Ok(refuse(request, &error)),
    };
    app.note_request(bearer.organization());
    if let Err(missing) = needs.check(request.method(), bearer.last_known()) {
        // Nobody learns from it what a key may that is none any more.
        let error = bearer.confirm(&app).await.err().unwrap_or(missing);
        return Ok(refuse(request, &error));
    }
    request.extensions_mut().insert(bearer.clone());
    if request.headers().contains_key(IDEMPOTENCY_KEY) {
        request.extensions_mut().insert(bearer.last_known().clone());
    }
    let response = next.call(request).await?.map_into_boxed_body();
    match bearer.confirm(&app).await {
        Ok(()) => Ok(response),
        Err(error) => {
            let (request, answer) = response.into_parts();
            Ok(ServiceResponse::new(request, hold(error.error_response(), answer.into_body())))
        }
    }
}
