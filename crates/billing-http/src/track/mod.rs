//! Usage events come in.

mod event;

use std::collections::{BTreeMap, BTreeSet};

use actix_web::body::BoxBody;
use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, Responder, web};
use billing_domain::FieldCode;
use billing_domain::event::{Event, Ingested};
use billing_domain::store::Window;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::app::App;
use crate::body::{JsonFault, RawBody, decode, read_fields, scan};
use crate::caller::Bearer;
use crate::endpoint::{Endpoint, post};
use crate::error::ApiError;
use crate::unknown_field::{self, ADDED_BY_CLIENTS, Unknown};
use crate::wire::{Described, FreeForm, Schema, Schemas};
use event::{FIELDS, read_event_and};
pub use event::{Rejected, read_event};

/// Largest body, in bytes, as sent and decompressed.
const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Most events in one call.
const EVENTS_MAX: usize = 10_000;
/// Up to this size a body is read by whoever received it; others would have to wait longer.
const INLINE_BYTES_MAX: usize = 16 * 1024;
/// The key under which failures of events without an id are reported.
const NO_ID: &str = "no_idempotency_id";
/// Once so many bytes are told of events without an id, the rest is left out.
const REASONS_BYTES_MAX: usize = 2_000;
const MORE: &str = "; ...";
/// Most fields of one call that are told to be unknown.
const OTHERS_MAX: usize = 20;
/// Why an event is refused that has a field no event has, where that was asked for.
const UNKNOWN_FIELD: &str = "Unknown field";

/// The calls that take events in.
pub fn endpoints() -> Vec<Endpoint> {
    let summary = "Take usage events in: a batch, a list, or one event";
    vec![
        post("/api/track/", summary, track)
            .repeatable()
            .for_bearers()
            .takes::<BatchBody>()
            .answers::<TrackView>(201)
            .refuses::<TrackView>(400),
    ]
}

/// Events, for the documentation: they are read piece by piece, so that one bad event spoils no other.
enum BatchBody {}

impl Described for BatchBody {
    fn describe(schemas: &mut Schemas) -> Schema {
        let doc = "Events. A bare list of events, or one event, is taken too.";
        schemas.object::<Self>("BatchBody", doc, |object| {
            object.field::<Vec<EventBody>>("batch", "At most 10,000.", true);
        })
    }
}

enum EventBody {}

impl Described for EventBody {
    fn describe(schemas: &mut Schemas) -> Schema {
        schemas.object::<Self>("EventBody", "A usage event.", |object| {
            object.field::<String>("event_name", "What happened.", true);
            object.field::<String>("customer_id", "The customer, who need not exist yet.", true);
            let id = "The sender's id: a second event with the same id is the same event.";
            object.field::<String>("idempotency_id", id, true);
            let time = "When it happened: RFC 3339, or with a space, without offset in UTC.";
            object.field::<String>("time_created", time, true);
            object.field::<FreeForm>("properties", "Numbers keep every digit.", false);
        })
    }
}

/// What became of the events.
#[derive(Serialize)]
struct TrackView {
    success: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_events: Option<BTreeMap<String, String>>,
}

impl Described for TrackView {
    fn describe(schemas: &mut Schemas) -> Schema {
        schemas.object::<Self>("TrackView", "What became of the events.", |object| {
            object.field::<String>("success", "`all`, `some` or `none`.", true);
            let doc = "The reason of each failure by idempotency id; missing when there is none.";
            object.field::<BTreeMap<String, String>>("failed_events", doc, false);
        })
    }
}

/// The outcome of a call, with the status that goes with it.
#[derive(Debug, Default)]
struct Outcome {
    count: usize,
    failed_count: usize,
    duplicates: usize,
    failed_events: BTreeMap<String, String>,
}

impl Outcome {
    fn reject(&mut self, id: &str, reason: impl Into<String>) {
        self.failed_count += 1;
        self.failed_events.insert(id.to_owned(), reason.into());
    }

    /// Refuses an event that has no id: several share one key, so each says where it stands.
    fn reject_without_id(&mut self, place: Option<String>, reason: &str) {
        self.failed_count += 1;
        let reason = place.map_or_else(|| reason.to_owned(), |place| format!("{reason} ({place})"));
        let reasons = self.failed_events.entry(NO_ID.to_owned()).or_default();
        match reasons.len() {
            0 => *reasons = reason,
            1..REASONS_BYTES_MAX => reasons.push_str(&format!("; {reason}")),
            _ if reasons.ends_with(MORE) => {}
            _ => reasons.push_str(MORE),
        }
    }

    /// What became of the events with these ids.
    fn add(&mut self, ids: &[String], ingested: &[Ingested]) {
        for (id, ingested) in ids.iter().zip(ingested) {
            match ingested {
                Ingested::Stored => {}
                Ingested::Duplicate => self.duplicates += 1,
                Ingested::OutsideWindow => self.reject(id, event::OUTSIDE_WINDOW),
            }
        }
    }

    /// What is answered when there are no events to be seen in the body.
    fn unreadable() -> Self {
        let mut outcome = Self { count: 1, ..Self::default() };
        outcome.reject_without_id(None, "Invalid JSON");
        outcome
    }
}

impl Responder for Outcome {
    type Body = BoxBody;

    fn respond_to(self, _: &HttpRequest) -> HttpResponse {
        let (status, success) = match self.failed_count {
            failed if failed == self.count => (StatusCode::BAD_REQUEST, "none"),
            0 => (StatusCode::CREATED, "all"),
            _ => (StatusCode::CREATED, "some"),
        };
        let failed_events = (success != "all").then_some(self.failed_events);
        HttpResponse::build(status).json(TrackView { success, failed_events })
    }
}

/// `POST /api/track/`
async fn track(
    app: web::Data<App>,
    bearer: Bearer,
    request: HttpRequest,
    body: RawBody<BODY_BYTES_MAX>,
) -> Result<impl Responder, ApiError> {
    let others = Others { are_refused: unknown_field::is_refused(&request), ..Others::default() };
    let read = match body.size() {
        ..=INLINE_BYTES_MAX => read(body, others)?,
        _ => app.block(Some(bearer.organization()), move |_| read(body, others)).await?,
    };
    let Batch { mut outcome, events, others } = read;
    let refused = unknown_field::of_fields(&request, others.found);
    if !refused.is_empty() {
        return Err(refused.into());
    }
    if !events.is_empty() {
        let ids: Vec<String> = events.iter().map(|event| event.idempotency_id.clone()).collect();
        let ingested = app.ask(|store, reply| store.ingest_then(bearer.requester(), events, Window::Enforced, reply));
        outcome.add(&ids, &ingested.await?);
        bearer.was_confirmed();
    }
    let stored = outcome.count - outcome.failed_count - outcome.duplicates;
    app.telemetry.events(stored, outcome.duplicates, outcome.failed_count);
    Ok(outcome)
}

/// A body that was read: what can be taken in, and what became of the rest.
#[derive(Default)]
struct Batch {
    outcome: Outcome,
    events: Vec<Event>,
    others: Others,
}

/// The fields that nothing is made of.
#[derive(Default)]
struct Others {
    /// Whether whatever has one is refused.
    are_refused: bool,
    found: Vec<Unknown>,
    names: BTreeSet<String>,
}

impl Others {
    /// Notes the field `name`, where those `known` could have been meant; each name once, with what stands `before` it.
    fn note(&mut self, name: &str, known: &[&str], before: impl FnOnce() -> String) {
        if self.found.len() < OTHERS_MAX && !self.names.contains(name) {
            let name = unknown_field::cleaned(name);
            let path = format!("{}{name}", before());
            self.found.push(Unknown::new(path, &name, known.iter().copied()));
            self.names.insert(name);
        }
    }
}

fn read(body: RawBody<BODY_BYTES_MAX>, mut others: Others) -> Result<Batch, ApiError> {
    let text = decode(body, BODY_BYTES_MAX)?;
    let unreadable = || Batch { outcome: Outcome::unreadable(), ..Batch::default() };
    match scan(&text) {
        Ok(()) => {}
        Err(JsonFault::Malformed) => return Ok(unreadable()),
        Err(fault) => return Err(ApiError::plain(fault.code())),
    }
    let Some((raw, place)) = split(&text, &mut others)? else { return Ok(unreadable()) };
    if raw.len() > EVENTS_MAX {
        let detail = format!("At most {EVENTS_MAX} events are taken in one call.");
        return Err(ApiError::field("batch", FieldCode::ListTooLong, detail));
    }
    let mut outcome = Outcome { count: raw.len(), ..Outcome::default() };
    let mut events: Vec<Event> = Vec::with_capacity(raw.len());
    for (i, raw) in raw.into_iter().enumerate() {
        let mut is_refused = false;
        let read = read_event_and(raw.get(), &mut |name| {
            if ADDED_BY_CLIENTS.contains(&name) {
                return;
            }
            is_refused = others.are_refused;
            if !is_refused {
                others.note(name, &FIELDS, || place.before(i));
            }
        });
        match read {
            Ok(event) if is_refused => outcome.reject(&event.idempotency_id, UNKNOWN_FIELD),
            Ok(event) => events.push(event),
            Err(Rejected { idempotency_id: Some(id), reason }) => outcome.reject(&id, reason),
            Err(Rejected { idempotency_id: None, reason }) => outcome.reject_without_id(place.of(i), &reason),
        }
    }
    Ok(Batch { outcome, events, others })
}

/// Where the events stand in a body.
#[derive(Clone, Copy)]
enum Place {
    Batch,
    List,
    Alone,
}

impl Place {
    /// Where an event stands among others.
    fn of(self, i: usize) -> Option<String> {
        match self {
            Self::Batch => Some(format!("batch.{i}")),
            Self::List => Some(i.to_string()),
            Self::Alone => None,
        }
    }

    /// What stands before the fields of an event in the path of one.
    fn before(self, i: usize) -> String {
        match self {
            Self::Batch => format!("batch.{i}."),
            Self::List => format!("{i}."),
            Self::Alone => String::new(),
        }
    }
}

/// The events of a body in any of its three forms; `None` when it holds something else.
fn split<'t>(text: &'t str, others: &mut Others) -> Result<Option<(Vec<&'t RawValue>, Place)>, ApiError> {
    let list = |text, place| serde_json::from_str::<Vec<&RawValue>>(text).ok().map(|events| (events, place));
    if text.trim_start().starts_with('[') {
        return Ok(list(text, Place::List));
    }
    let mut beside = Vec::new();
    // Also fails on numbers that are none: the scan before left their spelling to the parser.
    let Ok([batch]) = read_fields(text, &["batch"], &mut |name| {
        if beside.len() < OTHERS_MAX && !ADDED_BY_CLIENTS.contains(&name) {
            beside.push(name.to_owned());
        }
    }) else {
        return Ok(None);
    };
    match batch {
        None => Ok(serde_json::from_str(text).ok().map(|event| (vec![event], Place::Alone))),
        Some(batch) if batch.get().starts_with('[') => {
            beside.iter().for_each(|name| others.note(name, &["batch"], String::new));
            Ok(list(batch.get(), Place::Batch))
        }
        Some(_) => Err(ApiError::field("batch", FieldCode::NotAList, "Expected a list of events.")),
    }
}
