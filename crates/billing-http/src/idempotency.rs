//! `Idempotency-Key`: a request that may be sent twice and takes effect once.
//!
//! The key is looked up before the handler runs: a request that was answered gets that answer again, to the byte. A
//! new one carries its claim to the handler's transaction, which keeps the answer together with the effects.

use std::sync::Arc;
use std::time::Duration;

use actix_web::body::BoxBody;
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, HttpRequest, HttpResponse, ResponseError, web};
use billing_domain::id::OrganizationId;
use billing_domain::idempotency::{Answer, Claim, KeptAnswer};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::body::{parse, receive_all};
use crate::caller::{Caller, Pending, Terms};
use crate::error::{ApiError, ErrorCode, PROBLEM_JSON, codes};
use crate::request_id;

/// The header with the caller's key.
pub const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// On an answer that was given before.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// How long the look-up of an answer may take.
const LOOKUP_WAIT: Duration = Duration::from_secs(1);
/// Longest key, in characters.
const KEY_CHARACTERS_MAX: usize = 255;

/// The kept answer, if it was given to this very request.
fn replay(pending: &Pending, kept: KeptAnswer) -> Result<HttpResponse, ApiError> {
    if kept.fingerprint != pending.claim().fingerprint {
        return Err(ApiError::plain(&codes::IDEMPOTENCY_KEY_REUSED));
    }
    let Answer { status, text } = kept.answer;
    let status = StatusCode::from_u16(status).map_err(ApiError::internal)?;
    let content_type = if status.is_success() { "application/json" } else { PROBLEM_JSON };
    let mut response = HttpResponse::build(status);
    response.insert_header((CONTENT_TYPE, content_type)).insert_header((REPLAYED, HeaderValue::from_static("true")));
    let code = refused_with(&text);
    let mut answer = response.body(text);
    if let Some(code) = code {
        answer.extensions_mut().insert(ErrorCode(code));
    }
    Ok(answer)
}

/// The code of an answer that is a refusal.
fn refused_with(text: &str) -> Option<&'static str> {
    let answer: Value = serde_json::from_str(text).ok()?;
    codes::named(answer.get("title")?.as_str()?).map(|code| code.text)
}

/// Answers a request whose key was seen before as it was answered then; has any other done under its claim.
///
/// # Errors
/// None but those of the server itself: faults of the request are answers.
pub async fn once(
    terms: Terms,
    mut request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse, actix_web::Error> {
    if !request.headers().contains_key(HEADER) {
        return next.call(request).await;
    }
    let mut payload = request.take_payload();
    let claimed = claim(terms, request.request(), &mut payload).await;
    let (pending, app, caller) = match claimed {
        Ok(claimed) => claimed,
        Err(error) => return Ok(request.error_response(error)),
    };
    request.set_payload(payload);
    match find(&app, caller.organization, &pending).await {
        Ok(None) => {}
        Ok(Some(replay)) => return Ok(request.into_response(replay)),
        Err(error) => return Ok(request.error_response(error)),
    }
    let organization = caller.organization;
    request.extensions_mut().insert(Caller { claim: Some(pending.clone()), ..caller });
    let response = next.call(request).await?;
    let later = settle(&app, organization, &pending, &response).await;
    Ok(match later {
        None => response,
        Some(Ok(replay)) => response.into_response(replay),
        Some(Err(error)) => response.into_response(error.error_response()),
    })
}

type Claimed = (Arc<Pending>, web::Data<App>, Caller);

/// The claim that a request makes. Its body is read here and put back into `payload`.
async fn claim(terms: Terms, request: &HttpRequest, payload: &mut Payload) -> Result<Claimed, actix_web::Error> {
    let key = key(request.headers())?;
    let (Some(app), Some(caller)) =
        (request.app_data::<web::Data<App>>().cloned(), request.extensions().get::<Caller>().cloned())
    else {
        return Err(ApiError::internal("a claim on a public route").into());
    };
    let body = receive_all(request, payload).await?;
    let claim = Claim { key, fingerprint: fingerprint(request, &body) };
    *payload = Payload::from(body);
    Ok((Arc::new(Pending::new(claim, terms)), app, caller))
}

/// The key: one header of printable ASCII.
fn key(headers: &HeaderMap) -> Result<String, ApiError> {
    let mut values = headers.get_all(HEADER);
    let (first, second) = (values.next(), values.next());
    let text = first.filter(|_| second.is_none()).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_key =
        (1..=KEY_CHARACTERS_MAX).contains(&text.len()) && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if is_key { Ok(text.to_owned()) } else { Err(ApiError::plain(&codes::IDEMPOTENCY_KEY_INVALID)) }
}

/// Digest of what is asked. The order of keys and the white space of a JSON body are not part of it.
fn fingerprint(request: &HttpRequest, body: &[u8]) -> Vec<u8> {
    let canonical = std::str::from_utf8(body).ok().and_then(|text| parse(text).ok()).map(|value| value.to_string());
    let body = canonical.as_deref().map_or(body, str::as_bytes);
    let path = request.path().trim_end_matches('/').as_bytes();
    let mut digest = Sha256::new();
    for part in [request.method().as_str().as_bytes(), path, request.query_string().as_bytes(), body] {
        // With its length: no part can run into the next.
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().to_vec()
}

/// The answer that was given to the request before, if it was.
async fn find(
    app: &App,
    organization: OrganizationId,
    pending: &Arc<Pending>,
) -> Result<Option<HttpResponse>, ApiError> {
    let key = pending.claim().key.clone();
    let kept = app.ask_within(LOOKUP_WAIT, |store, reply| store.find_answer_then(organization, key, reply));
    kept.await?.map(|kept| replay(pending, kept)).transpose()
}

/// What takes the place of a response that no transaction has kept: a twin's answer where a twin was faster. A refusal
/// from outside of the transaction is kept here; it has no effects that it would have to be kept with.
async fn settle(
    app: &App,
    organization: OrganizationId,
    pending: &Arc<Pending>,
    response: &ServiceResponse,
) -> Option<Result<HttpResponse, ApiError>> {
    if pending.is_settled() {
        return None;
    }
    let error = response.response().error()?.as_error::<ApiError>()?;
    if error.title() == codes::IDEMPOTENCY_KEY_IN_USE.text {
        return find(app, organization, pending).await.transpose();
    }
    if !error.is_final() {
        return None;
    }
    let (wanted, answer) = (pending.clone(), error.answer(&request_id::current()));
    let given = answer.clone();
    let kept = app
        .block(Some(organization), move |backend| Ok(backend.keep_answer(organization, wanted.claim(), &given)?))
        .await;
    match kept {
        Ok(kept) if kept.answer == answer && kept.fingerprint == pending.claim().fingerprint => None,
        Ok(kept) => Some(replay(pending, kept)),
        Err(error) => Some(Err(error)),
    }
}
