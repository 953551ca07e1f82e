//! The events of a body, each read by itself: a bad one spoils no other.

use std::collections::BTreeSet;

use billing_domain::FieldCode;
use billing_domain::event::Event;
use serde_json::value::RawValue;

use super::cloud_event::read_cloud_event;
use super::event::{FIELDS, Rejected, read_event_and};
use super::form::{Form, structured};
use super::outcome::Outcome;
use crate::body::{JsonFault, RawBody, decode, read_fields, scan};
use crate::error::ApiError;
use crate::unknown_field::{self, ADDED_BY_CLIENTS, Unknown};

/// Largest body, in bytes, as sent and decompressed.
pub const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;
/// Most events in one call.
const EVENTS_MAX: usize = 10_000;
/// Most fields of one call that are told to be unknown.
const OTHERS_MAX: usize = 20;
/// Why an event is refused that has a field no event has, where that was asked for.
const UNKNOWN_FIELD: &str = "Unknown field";
const INVALID_JSON: &str = "Invalid JSON";
const NO_LIST: &str = "Expected a list of CloudEvents";

/// A body that was read: what can be taken in, and what became of the rest.
#[derive(Default)]
pub struct Batch {
    /// What is known of its events so far.
    pub outcome: Outcome,
    /// What can be taken in.
    pub events: Vec<Event>,
    /// The fields that nothing is made of.
    pub others: Others,
}

/// The fields that nothing is made of.
#[derive(Default)]
pub struct Others {
    /// Whether whatever has one is refused.
    are_refused: bool,
    /// Whether clients add some that nobody needs to be told of.
    are_added: bool,
    /// Those that are told.
    pub found: Vec<Unknown>,
    names: BTreeSet<String>,
}

impl Others {
    /// None yet; whatever has one may be refused.
    pub fn new(are_refused: bool) -> Self {
        Self { are_refused, ..Self::default() }
    }

    /// As [`Others::new`], at a call to which existing clients send more than it knows.
    pub fn where_clients_add_some(are_refused: bool) -> Self {
        Self { are_refused, are_added: true, ..Self::default() }
    }

    /// Whether the field is one that existing clients add to every body.
    fn is_added(&self, name: &str) -> bool {
        self.are_added && ADDED_BY_CLIENTS.contains(&name)
    }

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

/// Reads a body in its form.
///
/// # Errors
/// A fault of the body as a whole; what is wrong with an event is its own outcome.
pub fn read(body: RawBody<BODY_BYTES_MAX>, form: &Form, mut others: Others) -> Result<Batch, ApiError> {
    let mut text = decode(body, BODY_BYTES_MAX)?;
    let unreadable = |reason| Batch { outcome: Outcome::unreadable(reason), ..Batch::default() };
    match scan(&text) {
        Ok(()) => {}
        // An event without properties.
        Err(JsonFault::Malformed) if text.is_empty() && matches!(form, Form::Data(_)) => {}
        Err(JsonFault::Malformed) => return Ok(unreadable(INVALID_JSON)),
        Err(fault) => return Err(ApiError::plain(fault.code())),
    }
    if let Form::Data(attributes) = form {
        text = structured(attributes, &text);
    }
    let split = match form {
        Form::Own => split(&text, &mut others)?,
        Form::CloudEvents if !text.trim_start().starts_with('[') => return Ok(unreadable(NO_LIST)),
        Form::CloudEvents => list(&text, Place::List),
        Form::CloudEvent | Form::Data(_) => alone(&text),
    };
    let Some((raw, place)) = split else { return Ok(unreadable(INVALID_JSON)) };
    if raw.len() > EVENTS_MAX {
        let detail = format!("At most {EVENTS_MAX} events are taken in one call.");
        return Err(ApiError::field("batch", FieldCode::ListTooLong, detail));
    }
    let mut outcome = Outcome::of(raw.len());
    let mut events: Vec<Event> = Vec::with_capacity(raw.len());
    for (i, raw) in raw.into_iter().enumerate() {
        let read = match form {
            Form::Own => read_own(raw, &mut others, || place.before(i)),
            Form::CloudEvent | Form::CloudEvents | Form::Data(_) => read_cloud_event(raw.get()),
        };
        match read {
            Ok(event) => events.push(event),
            Err(Rejected { idempotency_id: Some(id), reason }) => outcome.reject(&id, reason),
            Err(Rejected { idempotency_id: None, reason }) => outcome.reject_without_id(place.of(i), &reason),
        }
    }
    Ok(Batch { outcome, events, others })
}

/// An event in the service's own form; its unknown fields are noted, or are why it is refused.
fn read_own(raw: &RawValue, others: &mut Others, before: impl Fn() -> String) -> Result<Event, Rejected> {
    let mut is_refused = false;
    let read = read_event_and(raw.get(), &mut |name| {
        if others.is_added(name) {
            return;
        }
        is_refused = others.are_refused;
        if !is_refused {
            others.note(name, &FIELDS, &before);
        }
    });
    match read {
        Ok(event) if is_refused => {
            Err(Rejected { idempotency_id: Some(event.idempotency_id), reason: UNKNOWN_FIELD.to_owned() })
        }
        read => read,
    }
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

/// Events, unread, and where they stand.
type Split<'t> = (Vec<&'t RawValue>, Place);

fn list(text: &str, place: Place) -> Option<Split<'_>> {
    serde_json::from_str::<Vec<&RawValue>>(text).ok().map(|events| (events, place))
}

fn alone(text: &str) -> Option<Split<'_>> {
    serde_json::from_str(text).ok().map(|event| (vec![event], Place::Alone))
}

/// The events of a body in any of the three forms of the service's own; `None` when it holds something else.
fn split<'t>(text: &'t str, others: &mut Others) -> Result<Option<Split<'t>>, ApiError> {
    if text.trim_start().starts_with('[') {
        return Ok(list(text, Place::List));
    }
    let mut beside = Vec::new();
    // Also fails on numbers that are none: the scan before left their spelling to the parser.
    let Ok([batch]) = read_fields(text, &["batch"], &mut |name| {
        if beside.len() < OTHERS_MAX && !others.is_added(name) {
            beside.push(name.to_owned());
        }
    }) else {
        return Ok(None);
    };
    match batch {
        None => Ok(alone(text)),
        Some(batch) if batch.get().starts_with('[') => {
            beside.iter().for_each(|name| others.note(name, &["batch"], String::new));
            Ok(list(batch.get(), Place::Batch))
        }
        Some(_) => Err(ApiError::field("batch", FieldCode::NotAList, "Expected a list of events.")),
    }
}
