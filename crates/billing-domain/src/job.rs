//! Long work that is done in the background, a little at a time.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::customer::CustomerId;
use crate::event::{Event, EventState, KeptEvent, Properties};
use crate::id::{JobId, MetricId};
use crate::period::instant;
use crate::subscription::SubscriptionFilters;

/// Which events are to be corrected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventSelection {
    /// Those of this customer; `None`: of all.
    #[serde(with = "optional_customer")]
    pub customer: Option<CustomerId>,
    /// Only those that count for this metric.
    pub metric: Option<MetricId>,
    /// Only those of this name.
    pub event_name: Option<String>,
    /// Only what happened at this instant or later.
    #[serde(with = "instant::optional")]
    pub from: Option<OffsetDateTime>,
    /// Only what happened before this instant.
    #[serde(with = "instant::optional")]
    pub to: Option<OffsetDateTime>,
    /// Only those that have all of these properties.
    pub properties: SubscriptionFilters,
}

/// What is to become of each of many events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventsChange {
    /// It counts for nothing any more.
    Void,
    /// It has these properties, and those of its own that are not among them.
    SetProperties(Map<String, Value>),
}

/// Events that are to be corrected, however many they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorrectionOrder {
    /// Which.
    pub selection: EventSelection,
    /// What is to become of each.
    pub change: EventsChange,
    /// Also those that are older than the acceptance window.
    pub beyond_window: bool,
    /// By whom.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

choices! {
    /// Where a job stands.
    pub JobState {
        /// It is at work, or waits for its turn.
        Running = "running",
        /// All of it is done.
        Done = "done",
        /// Somebody has stopped it: what it had done stays.
        Cancelled = "cancelled",
        /// It cannot go on: what it had done stays.
        Failed = "failed",
    }
}

/// Long work in the background.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// What is to be done.
    pub order: CorrectionOrder,
    /// Where it stands.
    pub state: JobState,
    /// When it was ordered.
    pub created_at: OffsetDateTime,
    /// When it came to its end.
    pub finished_at: Option<OffsetDateTime>,
    /// Customers that it is done with.
    pub customers_done: u64,
    /// Behind which customer it goes on, as the list of customers says it.
    pub cursor: Option<String>,
    /// Behind which event of the customer who is next there it goes on.
    pub events_after: Option<String>,
    /// Why it cannot go on.
    pub failure: Option<String>,
}

impl EventsChange {
    /// The event as it is to be; `None` where there is nothing to do: it is so already, or was voided.
    pub fn of(&self, before: &KeptEvent) -> Option<KeptEvent> {
        if before.state == EventState::Voided {
            return None;
        }
        match self {
            Self::Void => Some(KeptEvent { state: EventState::Voided, ..before.clone() }),
            Self::SetProperties(set) => {
                let mut properties = before.event.properties.to_map();
                properties.extend(set.clone());
                let event = Event { properties: Properties::from(properties), ..before.event.clone() };
                (event != before.event).then_some(KeptEvent { event, state: EventState::Amended })
            }
        }
    }
}

choices! {
    /// What a job does.
    pub JobKind {
        /// It voids events.
        VoidEvents = "void_events",
        /// It amends events.
        AmendEvents = "amend_events",
    }
}

impl CorrectionOrder {
    /// What it is about.
    pub fn kind(&self) -> JobKind {
        match self.change {
            EventsChange::Void => JobKind::VoidEvents,
            EventsChange::SetProperties(_) => JobKind::AmendEvents,
        }
    }
}

/// A customer's id as text, or null.
mod optional_customer {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use crate::customer::CustomerId;

    pub(super) fn serialize<S: Serializer>(id: &Option<CustomerId>, serializer: S) -> Result<S::Ok, S::Error> {
        id.as_ref().map(CustomerId::as_str).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CustomerId>, D::Error> {
        let text: Option<String> = Option::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(|_| de::Error::custom("not the id of a customer"))).transpose()
    }
}
