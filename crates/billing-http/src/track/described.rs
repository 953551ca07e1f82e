//! What the calls that take events in are described by.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::wire::{Described, FreeForm, Schema, Schemas};

/// Events, for the documentation: they are read piece by piece, so that one bad event spoils no other.
pub enum BatchBody {}

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
pub struct TrackView {
    /// `all`, `some` or `none`.
    pub success: &'static str,
    /// The reason of each failure by idempotency id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_events: Option<BTreeMap<String, String>>,
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

/// A CloudEvent, for the documentation: see [`cloud_event`](super::cloud_event).
pub enum CloudEventBody {}

impl Described for CloudEventBody {
    fn describe(schemas: &mut Schemas) -> Schema {
        let doc = "A CloudEvent in its JSON format. Other attributes are taken and mean nothing.";
        schemas.object::<Self>("CloudEventBody", doc, |object| {
            object.field::<String>("specversion", "`1.0`.", true);
            object.field::<String>("id", "The source's id for it.", true);
            let source = "Who sent it: a URI reference. An event is known by this and its id, together.";
            object.field::<String>("source", source, true);
            object.field::<String>("type", "What happened: the event's name.", true);
            object.field::<String>("subject", "The customer, who need not exist yet.", true);
            object.field::<String>("time", "When it happened: RFC 3339.", true);
            object.field::<FreeForm>("data", "The event's properties. Numbers keep every digit.", false);
        })
    }
}
