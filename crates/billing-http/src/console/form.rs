//! Forms, and the tokens by which a form is known to be one of ours.

use std::future::Future;
use std::pin::Pin;

use actix_web::dev::Payload;
use actix_web::http::header::CONTENT_TYPE;
use actix_web::{FromRequest, HttpRequest};
use billing_console::Fields;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::body::receive_all;
use crate::caller::{KeyText, Pepper};

const MEDIA_TYPE: &str = "application/x-www-form-urlencoded";

/// The fields of a form that was sent; none of anything that is no form.
#[derive(Default)]
pub struct Form(pub Fields);

impl FromRequest for Form {
    type Error = actix_web::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self, actix_web::Error>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, mut payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let body = receive_all(&request, &mut payload).await?;
            let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            let is_form = kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(MEDIA_TYPE));
            Ok(Self(if is_form { Fields::parse(&String::from_utf8_lossy(&body)) } else { Fields::default() }))
        })
    }
}

/// What the forms of a cookie carry: it follows from the cookie, which no other site can read, by a key that nobody else has.
pub fn token(pepper: &Pepper, cookie: &KeyText) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(pepper.bytes()) else {
        unreachable!("HMAC takes keys of any length");
    };
    mac.update(b"a form of the cookie ");
    mac.update(cookie.reveal().as_bytes());
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a form came from a page that was made for the cookie.
pub fn is_ours(form: &Form, pepper: &Pepper, cookie: &KeyText) -> bool {
    let sent = form.0.get("form_token").unwrap_or_default();
    token(pepper, cookie).as_bytes().ct_eq(sent.as_bytes()).into()
}
