//! Events on their way to whoever watches them come in, in this process or in another one over the same store.

use std::collections::VecDeque;

use uuid::Uuid;

use crate::customer::CustomerId;
use crate::event::Event;
use crate::id::{MetricId, OrganizationId};

/// Most events that are kept of what came in between two looks; of more only the latest are, and the others are counted.
pub const TAILED_MAX: usize = 200;
/// Most bytes of them, unless one event alone has more.
const TAILED_BYTES_MAX: usize = 1024 * 1024;

/// Which events somebody watches: those of an organization that are all of this.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventWatch {
    /// Whose organization's.
    pub organization: OrganizationId,
    /// Only this customer's.
    pub customer: Option<CustomerId>,
    /// Only those that count for this metric.
    pub metric: Option<MetricId>,
}

/// Events that came in since the last look, the latest last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TailedEvents {
    events: VecDeque<Event>,
    bytes: usize,
    skipped: u64,
}

/// What one process has gathered for another.
#[derive(Clone, Debug, PartialEq)]
pub struct PassedEvents {
    /// The process that watches.
    pub watcher: Uuid,
    /// What it watches.
    pub watch: EventWatch,
    /// What came in.
    pub events: TailedEvents,
}

/// What processes tell each other of the events that are watched.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExchangedEvents {
    /// What others watch: the process, and which events.
    pub watches: Vec<(Uuid, EventWatch)>,
    /// What others have gathered for whoever asks.
    pub passed: Vec<(EventWatch, TailedEvents)>,
}

impl TailedEvents {
    /// Adds one that came in after those that are there.
    pub fn push(&mut self, event: Event) {
        self.bytes += size(&event);
        self.events.push_back(event);
        while self.events.len() > TAILED_MAX || self.bytes > TAILED_BYTES_MAX && self.events.len() > 1 {
            let Some(first) = self.events.pop_front() else { return };
            self.bytes -= size(&first);
            self.skip(1);
        }
    }

    /// Adds what came in besides, or of which nothing is known but how many there were.
    pub fn join(&mut self, other: Self) {
        self.skip(other.skipped);
        other.events.into_iter().for_each(|event| self.push(event));
    }

    /// Counts some more that are not kept.
    pub fn skip(&mut self, count: u64) {
        self.skipped = self.skipped.saturating_add(count);
    }

    /// Those that are kept, the latest last.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.events.iter()
    }

    /// How many more there were.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether nothing came in.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.skipped == 0
    }
}

/// The memory that an event takes, in bytes, roughly.
fn size(event: &Event) -> usize {
    let texts = event.name.len() + event.idempotency_id.len() + event.customer.as_str().len();
    size_of::<Event>() + texts + event.properties.size()
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;
    use crate::event::Properties;

    fn event(number: usize) -> Event {
        Event {
            customer: "acme".parse().expect("an id"),
            name: "call".to_owned(),
            idempotency_id: number.to_string(),
            time_created: OffsetDateTime::UNIX_EPOCH,
            properties: Properties::new(),
        }
    }

    #[test]
    fn the_latest_are_kept_and_the_others_counted() {
        let mut first = TailedEvents::default();
        assert!(first.is_empty());
        (0..TAILED_MAX + 3).for_each(|number| first.push(event(number)));
        assert_eq!((first.events().count(), first.skipped()), (TAILED_MAX, 3));
        assert_eq!(first.events().next(), Some(&event(3)));
        let mut second = TailedEvents::default();
        second.push(event(1_000));
        second.skip(40);
        first.join(second);
        assert_eq!((first.events().count(), first.skipped()), (TAILED_MAX, 44));
        assert_eq!(first.events().next_back(), Some(&event(1_000)));
    }

    #[test]
    fn large_ones_are_fewer() {
        let large = |number| Event { name: "n".repeat(TAILED_BYTES_MAX / 4), ..event(number) };
        let mut tailed = TailedEvents::default();
        (0..10).for_each(|number| tailed.push(large(number)));
        assert_eq!((tailed.events().count(), tailed.skipped()), (3, 7));
        tailed.push(Event { name: "n".repeat(2 * TAILED_BYTES_MAX), ..event(10) });
        assert_eq!((tailed.events().count(), tailed.skipped()), (1, 10), "the latest is always there");
        tailed.push(event(11));
        assert_eq!((tailed.events().count(), tailed.skipped()), (1, 11));
    }
}
