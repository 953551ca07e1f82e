//! What became of the events of one call.

use std::collections::BTreeMap;

use actix_web::body::BoxBody;
use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, Responder};
use billing_domain::event::Ingested;

use super::described::TrackView;
use super::event::OUTSIDE_WINDOW;

/// The key under which failures of events without an id are reported.
const NO_ID: &str = "no_idempotency_id";
/// Once so many bytes are told of events without an id, the rest is left out.
const REASONS_BYTES_MAX: usize = 2_000;
const MORE: &str = "; ...";

/// The outcome of a call, with the status that goes with it.
#[derive(Debug, Default)]
pub struct Outcome {
    count: usize,
    /// Events that were refused.
    pub failed_count: usize,
    /// Events that had been stored before.
    pub duplicates: usize,
    failed_events: BTreeMap<String, String>,
}

impl Outcome {
    /// Of so many events, of which nothing is known yet.
    pub fn of(count: usize) -> Self {
        Self { count, ..Self::default() }
    }

    /// What is answered when there are no events to be seen in the body.
    pub fn unreadable(reason: &str) -> Self {
        let mut outcome = Self::of(1);
        outcome.reject_without_id(None, reason);
        outcome
    }

    /// Events that are new.
    pub fn stored(&self) -> usize {
        self.count - self.failed_count - self.duplicates
    }

    /// Refuses the event with this id.
    pub fn reject(&mut self, id: &str, reason: impl Into<String>) {
        self.failed_count += 1;
        self.failed_events.insert(id.to_owned(), reason.into());
    }

    /// Refuses an event that has no id: several share one key, so each says where it stands.
    pub fn reject_without_id(&mut self, place: Option<String>, reason: &str) {
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
    pub fn add(&mut self, ids: &[String], ingested: &[Ingested]) {
        for (id, ingested) in ids.iter().zip(ingested) {
            match ingested {
                Ingested::Stored => {}
                Ingested::Duplicate => self.duplicates += 1,
                Ingested::OutsideWindow => self.reject(id, OUTSIDE_WINDOW),
            }
        }
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
