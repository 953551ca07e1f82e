//! `GET /docs`: the interactive description of the interface. One page, one script, one style sheet, all in the binary.

mod example;

use actix_web::http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use actix_web::{HttpResponse, Responder};

use crate::endpoint::{Endpoint, get};

pub use example::{Example, examples};

/// The page may load its own script and style sheet, talk to this service, and do nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";

/// The public calls of the page.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/docs/", "The interface, to read and to try", page).public().answers_text("text/html"),
        get("/docs/page.css", "How that page looks", style).public().answers_text("text/css"),
        get("/docs/page.js", "What that page does", script).public().answers_text("text/javascript"),
    ]
}

fn asset(media_type: &str, text: &'static str) -> HttpResponse {
    HttpResponse::Ok()
        .content_type(media_type)
        .insert_header((CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .body(text)
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
