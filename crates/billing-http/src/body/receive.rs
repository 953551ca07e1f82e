//! Reading bodies off the wire: media type, size, time, compression, then JSON.

use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use actix_web::body::{BodyStream, MessageBody};
use actix_web::dev::Payload;
use actix_web::http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, TRANSFER_ENCODING,
};
use actix_web::http::{ConnectionType, StatusCode};
use actix_web::web::Bytes;
use actix_web::{FromRequest, HttpMessage, HttpRequest, HttpResponse, ResponseError, web};
use serde_json::Value;

use super::budget::{BodyBudget, Share};
use super::scan::{JsonFault, scan};
use super::unpack::{too_large, unpack};
use crate::caller::{Bearer, Caller};
use crate::connections::Listed;
use crate::error::{ApiError, codes};
use crate::unread::hold;

/// Largest ordinary body, in bytes, as sent and decompressed.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Up to this size a body is read by whoever received it; others would have to wait longer.
pub const INLINE_BYTES_MAX: usize = 16 * 1024;
/// Most bytes that room is made for because they are announced, until so many have come.
const EXPECTED_BYTES_MAX: usize = 1024 * 1024;
/// From so many bytes on it is believed that the others will come: who is slow on purpose sends few.
const BELIEVED_FROM: usize = 64 * 1024;
/// How a gzip member begins.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// How long a body may take to arrive.
const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// A body of at most `BYTES_MAX` bytes as it was sent, of a media type that can hold JSON.
pub struct RawBody<const BYTES_MAX: usize> {
    bytes: Vec<u8>,
    is_compressed: bool,
    /// Held until the body has been read.
    share: Share,
}

impl<const BYTES_MAX: usize> RawBody<BYTES_MAX> {
    /// How many bytes were sent, at least; what they decompress to is more.
    pub fn size(&self) -> usize {
        if self.is_compressed { usize::MAX } else { self.bytes.len() }
    }
}

impl<const BYTES_MAX: usize> FromRequest for RawBody<BYTES_MAX> {
    type Error = BodyError;
    type Future = Pin<Box<dyn Future<Output = Result<Self, BodyError>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let accepted = accept(request.headers(), BYTES_MAX);
        let deadline = request.app_data::<BodyDeadline>().map_or(BODY_DEADLINE, |deadline| deadline.0);
        let mut intake = Intake::of(request);
        let payload = web::Payload::from_request(request, payload);
        Box::pin(async move {
            let mut rest = BodyStream::new(payload.await.map_err(ApiError::internal)?);
            let read = match accepted {
                Ok(is_compressed) => {
                    let bytes = intake.receive(&mut rest, BYTES_MAX, deadline).await;
                    bytes.map(|bytes| (bytes, is_compressed))
                }
                Err(error) => Err(error),
            };
            match read {
                Ok((bytes, is_compressed)) => Ok(Self { bytes, is_compressed, share: intake.share }),
                Err(error) => Err(BodyError { error, rest: Cell::new(Some(rest)) }),
            }
        })
    }
}

/// All of an ordinary body, as it was sent and of whatever media type.
///
/// # Errors
/// When it is too large or does not arrive in time.
pub async fn receive_all(request: &HttpRequest, payload: &mut Payload) -> Result<Bytes, BodyError> {
    let deadline = request.app_data::<BodyDeadline>().map_or(BODY_DEADLINE, |deadline| deadline.0);
    let mut intake = Intake::of(request);
    let payload = web::Payload::from_request(request, payload).await.map_err(ApiError::internal)?;
    let mut rest = BodyStream::new(payload);
    match intake.receive(&mut rest, BODY_BYTES_MAX, deadline).await {
        Ok(bytes) => Ok(bytes.into()),
        Err(error) => Err(BodyError { error, rest: Cell::new(Some(rest)) }),
    }
}

/// What a body takes while it comes in.
struct Intake {
    share: Share,
    /// As many bytes as are announced; 0 when none are.
    announced: usize,
    /// Told of every piece that is taken, so that the next one comes in.
    listed: Option<Arc<Listed>>,
}

impl Intake {
    fn of(request: &HttpRequest) -> Self {
        let (headers, extensions) = (request.headers(), request.extensions());
        let caller = extensions.get::<Caller>().map(|caller| caller.organization);
        let holder = caller.or_else(|| extensions.get::<Bearer>().map(Bearer::organization));
        let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.trim().parse().ok());
        Self {
            share: request.app_data::<BodyBudget>().cloned().unwrap_or_default().share(holder),
            announced: announced.unwrap_or(0),
            listed: request.conn_data::<Arc<Listed>>().cloned(),
        }
    }

    async fn receive(&mut self, body: &mut Rest, bytes_max: usize, deadline: Duration) -> Result<Vec<u8>, ApiError> {
        self.announced = self.announced.min(bytes_max);
        let all = async {
            let mut bytes = Vec::new();
            while let Some(piece) = poll_fn(|context| Pin::new(&mut *body).poll_next(context)).await {
                let broken = |error| ApiError::new(&codes::PARSE_ERROR, format!("The body broke off: {error}."));
                let piece = piece.map_err(broken)?;
                if bytes.len() + piece.len() > bytes_max {
                    return Err(too_large(bytes_max));
                }
                self.make_room(&mut bytes, piece.len())?;
                bytes.extend_from_slice(&piece);
                if let Some(listed) = &self.listed {
                    listed.intake().take();
                }
            }
            Ok(bytes)
        };
        tokio::time::timeout(deadline, all).await.unwrap_or_else(|_| Err(ApiError::plain(&codes::REQUEST_TIMEOUT)))
    }

    /// Makes room for `more` bytes, and takes what that costs out of the budget before. A body that moves as it grows leaves
    /// memory of every size behind, so once enough has come room is made for all that is announced.
    fn make_room(&mut self, bytes: &mut Vec<u8>, more: usize) -> Result<(), ApiError> {
        let needed = bytes.len() + more;
        if needed <= bytes.capacity() {
            return Ok(());
        }
        let doubled = needed.max(2 * bytes.capacity());
        let believed = match bytes.len() {
            ..BELIEVED_FROM => 0,
            BELIEVED_FROM..EXPECTED_BYTES_MAX => self.announced.min(EXPECTED_BYTES_MAX),
            EXPECTED_BYTES_MAX.. => self.announced,
        };
        let room = if believed >= needed { believed } else { doubled };
        self.share.grow(room - bytes.capacity())?;
        bytes.reserve_exact(room - bytes.len());
        Ok(())
    }
}

/// A body on its way.
type Rest = BodyStream<web::Payload>;

/// Why a body was not accepted, with what is still to come of it.
pub struct BodyError {
    error: ApiError,
    rest: Cell<Option<Rest>>,
}

impl From<ApiError> for BodyError {
    fn from(error: ApiError) -> Self {
        Self { error, rest: Cell::new(None) }
    }
}

impl fmt::Debug for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl ResponseError for BodyError {
    fn status_code(&self) -> StatusCode {
        self.error.status_code()
    }

    fn error_response(&self) -> HttpResponse {
        let mut answer = self.error.error_response();
        match self.rest.take() {
            Some(rest) => {
                if answer.status() == StatusCode::TOO_MANY_REQUESTS {
                    // The rest would come in all the same.
                    answer.head_mut().set_connection_type(ConnectionType::Close);
                }
                hold(answer, rest)
            }
            None => answer,
        }
    }
}

/// How long a body may take to arrive, where it is not the usual time.
#[derive(Clone, Copy, Debug)]
pub struct BodyDeadline(pub Duration);

/// Whether the body is compressed, once its headers are found to be acceptable.
fn accept(headers: &HeaderMap, bytes_max: usize) -> Result<bool, ApiError> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().trim();
    let is_absent = matches!(text(CONTENT_LENGTH), "" | "0") && !headers.contains_key(TRANSFER_ENCODING);
    if is_absent && !headers.contains_key(CONTENT_TYPE) {
        return Ok(false);
    }
    let mut parts = text(CONTENT_TYPE).split(';');
    let media_type = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_json =
        media_type == "application/json" || (media_type.starts_with("application/") && media_type.ends_with("+json"));
    let is_utf_8 = parts.filter_map(|parameter| parameter.trim().split_once('=')).all(|(name, value)| {
        !name.trim().eq_ignore_ascii_case("charset") || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
    });
    if !is_json || !is_utf_8 {
        let detail = "Send the body as application/json in UTF-8.";
        return Err(ApiError::new(&codes::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    if text(CONTENT_LENGTH).parse::<u64>().is_ok_and(|length| length > bytes_max as u64) {
        return Err(too_large(bytes_max));
    }
    match text(CONTENT_ENCODING).to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(false),
        "gzip" | "x-gzip" => Ok(true),
        _ => Err(ApiError::new(&codes::UNSUPPORTED_MEDIA_TYPE, "Compress the body with gzip, or not at all.")),
    }
}

/// The text of a body, decompressed. Work for a blocking thread when the body is large.
///
/// # Errors
/// When it decompresses to more than `bytes_max`, is not gzip, or is not UTF-8.
pub fn decode<const BYTES_MAX: usize>(body: RawBody<BYTES_MAX>, bytes_max: usize) -> Result<String, ApiError> {
    let RawBody { mut bytes, is_compressed, mut share } = body;
    if is_compressed {
        bytes = unpack(&bytes, bytes_max, |room| share.grow(room))?;
    }
    String::from_utf8(bytes).map_err(|_| fault(JsonFault::Encoding))
}

/// The JSON value of a text; its numbers keep every digit.
///
/// # Errors
/// Every [`JsonFault`].
pub fn parse(text: &str) -> Result<Value, ApiError> {
    scan(text).map_err(fault)?;
    serde_json::from_str(text).map_err(|error| {
        let detail = format!("The body is not JSON: line {}, column {}.", error.line(), error.column());
        ApiError::new(&codes::PARSE_ERROR, detail)
    })
}

/// [`parse`], where no text at all is an object without fields.
///
/// # Errors
/// Every [`JsonFault`].
pub fn parse_or_empty(text: &str) -> Result<Value, ApiError> {
    parse(if text.is_empty() { "{}" } else { text })
}

/// The value of a body that its call does not read: compressed or not, of whatever media type. `None`: it is no JSON.
pub fn peek(bytes: &[u8]) -> Option<Value> {
    let unpacked = bytes.starts_with(GZIP_MAGIC).then(|| unpack(bytes, BODY_BYTES_MAX, |_| Ok(())));
    let unpacked = unpacked.transpose().ok()?;
    parse(std::str::from_utf8(unpacked.as_deref().unwrap_or(bytes)).ok()?).ok()
}

fn fault(fault: JsonFault) -> ApiError {
    ApiError::plain(fault.code())
}
