//! Makes the call of an approved request: inside this process, as whoever approved, once.

use actix_http::{Payload, Request};
use actix_web::HttpMessage;
use actix_web::body::to_bytes_limited;
use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use actix_web::http::{Method, Uri};
use actix_web::web::{self, Bytes};
use billing_domain::approval::{Approval, Outcome};
use serde_json::Value;

use crate::app::App;
use crate::auth::Vouched;
use crate::caller::Caller;
use crate::error::{ApiError, WAITING_STATUS, codes};
use crate::idempotency::HEADER as IDEMPOTENCY_KEY;

/// Largest answer that is looked at.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What came of the call; made again, it comes to the same and is done once.
///
/// # Errors
/// Where nobody knows yet, or it may be granted a little later: the request stays approved, to be approved once more.
pub async fn carry_out(app: &web::Data<App>, caller: &Caller, approval: &Approval) -> Result<Outcome, ApiError> {
    let response = App::call_inside(app.clone(), request(caller, approval)?).await;
    let response = match response {
        Ok(response) => response.into_parts().1,
        Err(error) => error.error_response(),
    };
    let status = response.status().as_u16();
    if response.status().is_success() && status != WAITING_STATUS {
        return Ok(Outcome { status, code: None });
    }
    // Taken away is taken away, also by a call whose answer got lost.
    if status == 404 && approval.call.method == Method::DELETE.as_str() {
        return Ok(Outcome { status, code: None });
    }
    let read = to_bytes_limited(response.into_body(), ANSWER_BYTES_MAX).await;
    let bytes = read.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
    let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let code = answer["title"].as_str().unwrap_or(codes::SECOND_PERSON_NEEDED.text);
    match codes::named(code) {
        Some(known) if is_passing(status, code) => {
            Err(ApiError::new(known, answer["detail"].as_str().unwrap_or(known.meaning)))
        }
        _ if status >= 500 => Err(ApiError::internal(format!("an approved call was answered {status} {code}"))),
        _ => Ok(Outcome { status, code: Some(code.to_owned()) }),
    }
}

/// The call as it was made, by whoever approves it.
fn request(caller: &Caller, approval: &Approval) -> Result<Request, ApiError> {
    let mut request = match &approval.call.body {
        None => Request::new(),
        Some(body) => Request::with_payload(Payload::from(Bytes::from(body.clone()))),
    };
    let head = request.head_mut();
    head.method = approval.call.method.parse::<Method>().map_err(ApiError::internal)?;
    head.uri = approval.call.path.parse::<Uri>().map_err(ApiError::internal)?;
    let once = HeaderValue::from_str(&approval.id.to_string()).map_err(ApiError::internal)?;
    head.headers.insert(IDEMPOTENCY_KEY, once);
    if approval.call.body.is_some() {
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let address = caller.call.as_ref().and_then(|call| call.address().map(str::to_owned));
    let caller = Caller { call: None, claim: None, approved: Some(approval.approved()), ..caller.clone() };
    request.extensions_mut().insert(Vouched { caller, address });
    Ok(request)
}

/// Whether the same call may be granted a little later, or nobody knows what came of it.
fn is_passing(status: u16, code: &str) -> bool {
    let passing =
        [&codes::TEST_CLOCK_ADVANCING, &codes::CATCHING_UP, &codes::CONFLICT_RETRY, &codes::IDEMPOTENCY_KEY_IN_USE];
    matches!(status, 408 | 429) || status >= 500 || passing.iter().any(|known| known.text == code)
}
