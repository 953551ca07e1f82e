//! Whether the service lives, and whether it is fit to be sent requests.

use std::time::Duration;

use actix_web::{HttpResponse, Responder, web};

use crate::app::App;
use crate::endpoint::{Endpoint, get};
use crate::error::{ApiError, codes};
use crate::openapi;
use crate::telemetry::{self, Moment};
use crate::wire::{Empty, view};

/// How long the database may take to answer.
const PING_BUDGET: Duration = Duration::from_millis(500);
/// How long it may take to tell how far billing is behind.
const BACKLOG_BUDGET: Duration = Duration::from_millis(500);

/// The public calls.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/livez", "Whether the process runs", live).public().answers::<StatusView>(200),
        get("/readyz", "Whether requests should be sent here", ready).public().answers::<StatusView>(200),
        get("/openapi.json", "This document", openapi::show)
            .public()
            .parameters(openapi::PARAMETERS)
            .answers::<serde_json::Value>(200),
        get("/metrics", "What the service counts about itself, for Prometheus", metrics)
            .public()
            .answers_text("text/plain"),
        get("/api/healthcheck/", "Whether the process runs", check).public().answers::<Empty>(200),
    ]
}

view! {
    /// How the service is.
    StatusView {
        /// `ok`; anything else is an error.
        status: &'static str,
    }
}

const OK: StatusView = StatusView { status: "ok" };

async fn live() -> impl Responder {
    web::Json(OK)
}

async fn ready(app: web::Data<App>) -> Result<web::Json<StatusView>, ApiError> {
    if app.is_draining() {
        return Err(ApiError::plain(&codes::SHUTTING_DOWN));
    }
    let ping = app.block(None, |backend| backend.ping().map_err(|error| billing_domain::Error::from(error).into()));
    match tokio::time::timeout(PING_BUDGET, ping).await {
        Ok(answer) => answer.map(|()| web::Json(OK)),
        Err(_) => Err(app.with_reason(ApiError::plain(&codes::DB_UNAVAILABLE))),
    }
}

/// `GET /metrics`
async fn metrics(app: web::Data<App>) -> impl Responder {
    let backlog = app.block(None, |backend| backend.backlog().map_err(Into::into));
    let backlog = tokio::time::timeout(BACKLOG_BUDGET, backlog).await.ok().and_then(Result::ok);
    let (places, load) = ((app.places_free(), app.places()), app.load());
    let moment = Moment {
        connections: app.connections.counts(),
        places,
        backlog,
        load: load.as_ref(),
        deliveries: app.deliverer.figures(),
    };
    HttpResponse::Ok().content_type(telemetry::MEDIA_TYPE).body(app.telemetry.page(moment))
}

async fn check() -> impl Responder {
    web::Json(Empty {})
}
