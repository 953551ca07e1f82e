//! Answers compressed with gzip, for clients that take it and bodies that are worth it.

use std::io::Write;

use actix_web::HttpRequest;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::ServiceResponse;
use actix_web::http::header::{AcceptEncoding, CONTENT_ENCODING, ContentEncoding, Encoding, Header, HeaderValue, VARY};
use actix_web::web::{self, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Smaller bodies are sent as they are: they fit into one packet anyway.
const BYTES_MIN: u64 = 1_024;
/// Larger bodies are compressed on a blocking thread, so that other requests do not wait for it.
const BYTES_INLINE_MAX: usize = 64 * 1_024;

/// The answer, compressed if its client takes that and its body is large enough.
pub async fn compress(mut response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let is_encoded = response.headers().contains_key(CONTENT_ENCODING);
    let is_worth_it = matches!(response.response().body().size(), BodySize::Sized(size) if size >= BYTES_MIN);
    if is_encoded || !is_worth_it {
        return response;
    }
    // Also on the plain answer: a cache must not give it to those who asked for the other, nor the other way round.
    response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
    if !accepts_gzip(response.request()) {
        return response;
    }
    let (request, answer) = response.into_parts();
    let (answer, body) = answer.into_parts();
    let plain = match body.try_into_bytes() {
        Ok(plain) => plain,
        // A body that comes in parts stays as it is.
        Err(body) => return ServiceResponse::new(request, answer.set_body(body)),
    };
    let packed = packed(plain.clone()).await;
    let mut answer = answer.set_body(BoxBody::new(packed.clone().unwrap_or(plain)));
    if packed.is_some() {
        answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    ServiceResponse::new(request, answer)
}

fn accepts_gzip(request: &HttpRequest) -> bool {
    let Ok(accepted) = AcceptEncoding::parse(request) else { return false };
    let offered = [Encoding::identity(), Encoding::gzip()];
    accepted.negotiate(offered.iter()) == Some(Encoding::Known(ContentEncoding::Gzip))
}

/// `None` when it could not be compressed; then it is sent plain.
async fn packed(plain: Bytes) -> Option<Bytes> {
    if plain.len() <= BYTES_INLINE_MAX {
        return gzip(&plain);
    }
    web::block(move || gzip(&plain)).await.ok().flatten()
}

fn gzip(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::fast());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().map(Bytes::from)
}
