//! The pages for people: where one starts, the interactive description of the interface, and what error codes mean. One script and
//! one style sheet for all of them, in the binary.

mod example;

use std::borrow::Cow;

use actix_web::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use actix_web::{HttpResponse, Responder};

use crate::endpoint::{Endpoint, get};
use crate::error::codes;

pub use example::{Example, examples};

/// The page may load its own script and style sheet, talk to this service, and do nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";

/// The public calls of the page.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/", "Where one starts", start).public().answers_text("text/html"),
        get("/docs/", "The interface, to read and to try", page).public().answers_text("text/html"),
        get("/docs/page.css", "How that page looks", style).public().answers_text("text/css"),
        get("/docs/page.js", "What that page does", script).public().answers_text("text/javascript"),
        get("/docs/icon.svg", "The mark of these pages", icon).public().answers_text("image/svg+xml"),
        get("/docs/errors", "What the error codes mean", errors).public().answers_text("text/html"),
    ]
}

fn asset(media_type: &str, text: impl Into<Cow<'static, str>>) -> HttpResponse {
    HttpResponse::Ok()
        .content_type(media_type)
        .insert_header((CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .body(text.into().into_owned())
}

/// `GET /`
async fn start() -> impl Responder {
    asset(HTML, include_str!("start.html"))
}

/// `GET /docs`
async fn page() -> impl Responder {
    asset(HTML, include_str!("index.html"))
}

/// `GET /docs/page.css`
async fn style() -> impl Responder {
    asset("text/css; charset=utf-8", include_str!("page.css"))
}

/// `GET /docs/page.js`
async fn script() -> impl Responder {
    asset("text/javascript; charset=utf-8", include_str!("page.js"))
}

/// `GET /docs/icon.svg`
async fn icon() -> impl Responder {
    asset("image/svg+xml", include_str!("icon.svg"))
}

/// `GET /docs/errors`: the page that the `type` of every error points into.
async fn errors() -> impl Responder {
    let row = |(text, status, meaning): &(&str, u16, &str)| {
        format!("<tr id=\"{text}\"><td><code>{text}</code></td><td>{status}</td><td>{meaning}</td></tr>\n")
    };
    let rows: String = codes::table().iter().map(row).collect();
    asset(HTML, include_str!("errors.html").replace("{rows}", &rows))
}
