//! Usage events come in.

mod batch;
mod cloud_event;
mod described;
mod event;
mod form;
mod outcome;

use actix_web::{HttpRequest, Responder, web};
use billing_domain::store::Window;

use crate::app::App;
use crate::body::{INLINE_BYTES_MAX, RawBody};
use crate::caller::Bearer;
use crate::endpoint::{Endpoint, post};
use crate::error::ApiError;
use crate::unknown_field;
use batch::{BODY_BYTES_MAX, Batch, Others};
pub use cloud_event::{is_cloud_event, read_cloud_event};
use described::{BatchBody, CloudEventBody, TrackView};
pub use event::{Rejected, read_event};
use form::{CLOUD_EVENT, CLOUD_EVENTS, Form};

/// The calls that take events in.
pub fn endpoints() -> Vec<Endpoint> {
    let summary = "Take usage events in: a batch, a list, or one event";
    vec![
        post("/api/track/", summary, track)
            .repeatable()
            .unnoted()
            .for_bearers()
            .takes::<BatchBody>()
            .answers::<TrackView>(201)
            .refuses::<TrackView>(400),
        post("/api/events/", "Take usage events in, also as CloudEvents", take_in)
            .repeatable()
            .unnoted()
            .for_bearers()
            .takes::<BatchBody>()
            .takes_as::<CloudEventBody>(CLOUD_EVENT)
            .takes_as::<Vec<CloudEventBody>>(CLOUD_EVENTS)
            .answers::<TrackView>(201)
            .refuses::<TrackView>(400),
    ]
}

/// `POST /api/track/`
async fn track(
    app: web::Data<App>,
    bearer: Bearer,
    request: HttpRequest,
    body: RawBody<BODY_BYTES_MAX>,
) -> Result<impl Responder, ApiError> {
    let others = Others::where_clients_add_some(unknown_field::is_refused(&request));
    store(app, bearer, request, (body, Form::Own, others)).await
}

/// `POST /api/events/`
async fn take_in(
    app: web::Data<App>,
    bearer: Bearer,
    request: HttpRequest,
    body: RawBody<BODY_BYTES_MAX>,
) -> Result<impl Responder, ApiError> {
    let form = Form::of(request.headers())?;
    let others = Others::new(unknown_field::is_refused(&request));
    store(app, bearer, request, (body, form, others)).await
}

async fn store(
    app: web::Data<App>,
    bearer: Bearer,
    request: HttpRequest,
    (body, form, others): (RawBody<BODY_BYTES_MAX>, Form, Others),
) -> Result<impl Responder, ApiError> {
    let (size, organization) = (body.size(), bearer.organization());
    let read = move || batch::read(body, &form, others);
    let read = match size {
        ..=INLINE_BYTES_MAX => read()?,
        _ => app.compute(Some(organization), read).await?,
    };
    let Batch { mut outcome, events, others } = read;
    let refused = unknown_field::of_fields(&request, others.found);
    if !refused.is_empty() {
        return Err(refused.into());
    }
    if !events.is_empty() {
        let ids: Vec<String> = events.iter().map(|event| event.idempotency_id.clone()).collect();
        let watched = app.event_tails.copied(organization, &events);
        let ingested = app.ask(|store, reply| store.ingest_then(bearer.requester(), events, Window::Enforced, reply));
        let ingested = ingested.await?;
        outcome.add(&ids, &ingested);
        if let Some(events) = watched {
            app.event_tails.came_in(organization, &events, &ingested);
        }
        bearer.was_confirmed();
    }
    app.telemetry.events(organization, outcome.stored(), outcome.duplicates, outcome.failed_count);
    Ok(outcome)
}
