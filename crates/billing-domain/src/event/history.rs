//! All that is kept of one event: what it counted as, and for whom.

use time::OffsetDateTime;

use super::{Event, EventCorrection, EventState};

/// An event as it counted for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct EventVersion {
    /// As it counted.
    pub event: Event,
    /// The arrival number that it had: who saw the customer's events up to this number or a later one saw it.
    pub arrival: u64,
    /// The arrival number of the correction that was the end of it: who saw up to this number saw what came behind. `None`: it counts.
    pub until: Option<u64>,
}

/// All that is kept of one event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventHistory {
    /// When it was stored, by the clock of the service.
    pub received_at: OffsetDateTime,
    /// What has become of it.
    pub state: EventState,
    /// What it counted as, oldest first: at least as it came.
    pub versions: Vec<EventVersion>,
    /// Its corrections, oldest first: each made the next version, or none.
    pub corrections: Vec<EventCorrection>,
}

impl EventVersion {
    /// Whether it is among the customer's events with arrival numbers up to this one.
    pub fn is_seen_to(&self, last_arrival: u64) -> bool {
        self.arrival <= last_arrival && self.until.is_none_or(|until| last_arrival < until)
    }
}

impl EventHistory {
    /// The event as it counts now; a voided one as it counted last.
    pub fn event(&self) -> Option<&Event> {
        self.versions.last().map(|version| &version.event)
    }

    /// The version that whoever saw the customer's events up to this arrival number saw.
    pub fn seen_to(&self, last_arrival: u64) -> Option<&EventVersion> {
        self.versions.iter().find(|version| version.is_seen_to(last_arrival))
    }
}
