//! Corrections of events that were wrong.

use time::OffsetDateTime;

use super::Event;
use crate::id::{EventCorrectionId, JobId};

/// Most events that one call corrects.
pub const CORRECTIONS_MAX: usize = 1_000;

crate::choices! {
    /// What has become of an event since it was stored.
    #[derive(Default)]
    pub EventState {
        /// It counts as it came.
        #[default]
        Counted = "counted",
        /// It counts with another time or other properties than it came with.
        Amended = "amended",
        /// It counts for nothing any more.
        Voided = "voided",
    }
}

/// An event as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptEvent {
    /// As it counts now; a voided one as it counted last.
    pub event: Event,
    /// What has become of it.
    pub state: EventState,
}

/// One correction of one event. It is kept for good, as what the event was before is.
#[derive(Clone, Debug, PartialEq)]
pub struct EventCorrection {
    /// Its id.
    pub id: EventCorrectionId,
    /// The event as it counted before.
    pub before: Event,
    /// The event as it counts since; `None`: it was voided.
    pub after: Option<Event>,
    /// When, in the customer's own time.
    pub at: OffsetDateTime,
    /// By whom: the prefix of an API key, or the id of a user.
    pub by: Option<String>,
    /// Why, as they said.
    pub reason: Option<String>,
    /// The job that did it, where they were too many for a call.
    pub job: Option<JobId>,
}

impl EventCorrection {
    /// What becomes of the event by it.
    pub fn state(&self) -> EventState {
        if self.after.is_some() { EventState::Amended } else { EventState::Voided }
    }

    /// The instants at which usage changes by it.
    pub fn instants(&self) -> impl Iterator<Item = OffsetDateTime> {
        [Some(self.before.time_created), self.after.as_ref().map(|after| after.time_created)].into_iter().flatten()
    }
}
