//! How many events came in lately, and which of them count for nothing: for people, and never for money.

use std::collections::BTreeMap;

use time::{Duration, OffsetDateTime};

use crate::customer::CustomerId;
use crate::event::Event;

/// Minutes that are told of: the one that runs, and those before it.
pub const MINUTES_TOLD: u32 = 60;
/// How long it is told of events that count for nothing after the last of them came.
pub const UNCOUNTED_TOLD: Duration = Duration::DAY;
/// Most names and customers that are told of whose events count for nothing.
pub const UNCOUNTED_MAX: usize = 20;

choices! {
    /// Why an event counted for nothing when it came: the first that holds.
    pub UncountedReason {
        /// Nobody has its `customer_id`. It counts as soon as somebody does.
        UnknownCustomer = "unknown_customer",
        /// No metric counts its name.
        UnknownEventName = "unknown_event_name",
    }
}

/// The events that came in within a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventMinute {
    /// Its first instant.
    pub start: OffsetDateTime,
    /// All that were new.
    pub stored: u64,
    /// Those of them whose customer was not there.
    pub of_unknown_customers: u64,
    /// Those of the others whose name no metric counted.
    pub of_unknown_names: u64,
}

/// Events that counted for nothing when they came, of one customer or of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncountedEvents {
    /// Why.
    pub reason: UncountedReason,
    /// Their name; where the customer is the reason, that of the latest.
    pub event_name: String,
    /// Their customer; where the name is the reason, that of the latest.
    pub customer: CustomerId,
    /// How many since the first.
    pub event_count: u64,
    /// When the first of them came, or the first after none had come for a day.
    pub first_at: OffsetDateTime,
    /// When the latest came.
    pub last_at: OffsetDateTime,
}

impl UncountedEvents {
    /// What the reason is about: a customer's id, or a name.
    pub fn subject(&self) -> &str {
        match self.reason {
            UncountedReason::UnknownCustomer => self.customer.as_str(),
            UncountedReason::UnknownEventName => &self.event_name,
        }
    }
}

/// What came in lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentEvents {
    /// Every minute of [`MINUTES_TOLD`], the one that runs last.
    pub minutes: Vec<EventMinute>,
    /// What has come within [`UNCOUNTED_TOLD`] and still counts for nothing, the latest first; at most [`UNCOUNTED_MAX`].
    pub uncounted: Vec<UncountedEvents>,
}

/// Counts events as they come in, in bounded memory: by minute, and those that count for nothing by what is unknown of them.
#[derive(Clone, Debug, Default)]
pub struct EventTally {
    minutes: BTreeMap<OffsetDateTime, EventMinute>,
    uncounted: BTreeMap<(UncountedReason, String), UncountedEvents>,
}

impl EventTally {
    /// Counts an event that was stored at this instant, and why it counts for nothing if it does.
    pub fn add(&mut self, at: OffsetDateTime, event: &Event, reason: Option<UncountedReason>) {
        let start = minute_of(at);
        let minute = self.minutes.entry(start).or_insert(EventMinute::none(start));
        minute.stored += 1;
        match reason {
            Some(UncountedReason::UnknownCustomer) => minute.of_unknown_customers += 1,
            Some(UncountedReason::UnknownEventName) => minute.of_unknown_names += 1,
            None => {}
        }
        self.drop_old_minutes();
        let Some(reason) = reason else { return };
        let subject = match reason {
            UncountedReason::UnknownCustomer => event.customer.as_str(),
            UncountedReason::UnknownEventName => &event.name,
        };
        let (event_name, customer) = (event.name.clone(), event.customer.clone());
        let one = UncountedEvents { reason, event_name, customer, event_count: 1, first_at: at, last_at: at };
        self.add_uncounted((reason, subject.to_owned()), one);
    }

    /// Counts what another one has counted.
    pub fn join(&mut self, other: Self) {
        for (start, other) in other.minutes {
            let minute = self.minutes.entry(start).or_insert(EventMinute::none(start));
            minute.stored += other.stored;
            minute.of_unknown_customers += other.of_unknown_customers;
            minute.of_unknown_names += other.of_unknown_names;
        }
        other.uncounted.into_iter().for_each(|(key, other)| self.add_uncounted(key, other));
        self.drop_old_minutes();
    }

    fn add_uncounted(&mut self, key: (UncountedReason, String), one: UncountedEvents) {
        let oldest = one.first_at - UNCOUNTED_TOLD;
        if let Some(known) = self.uncounted.get_mut(&key) {
            if known.last_at > oldest {
                known.add(one)
            } else {
                *known = one
            }
            return;
        }
        if self.uncounted.len() >= UNCOUNTED_MAX {
            self.uncounted.retain(|_, known| known.last_at > oldest);
        }
        if self.uncounted.len() < UNCOUNTED_MAX {
            self.uncounted.insert(key, one);
        }
    }

    fn drop_old_minutes(&mut self) {
        while self.minutes.len() > MINUTES_TOLD as usize {
            self.minutes.pop_first();
        }
    }

    /// The minutes in which something came, in their order.
    pub fn minutes(&self) -> impl Iterator<Item = &EventMinute> {
        self.minutes.values()
    }

    /// What counts for nothing, ordered by the reason and what it is about.
    pub fn uncounted(&self) -> impl Iterator<Item = &UncountedEvents> {
        self.uncounted.values()
    }

    /// What there is to tell at this instant.
    pub fn recent(&self, now: OffsetDateTime) -> RecentEvents {
        let last = minute_of(now);
        let minutes = (0..i64::from(MINUTES_TOLD)).rev().map(|ago| {
            let start = last - Duration::minutes(ago);
            self.minutes.get(&start).copied().unwrap_or(EventMinute::none(start))
        });
        let is_told = |one: &&UncountedEvents| one.last_at > now - UNCOUNTED_TOLD;
        let mut uncounted: Vec<UncountedEvents> = self.uncounted().filter(is_told).cloned().collect();
        uncounted.sort_by_key(|one| std::cmp::Reverse(one.last_at));
        RecentEvents { minutes: minutes.collect(), uncounted }
    }
}

impl EventMinute {
    /// A minute in which nothing came.
    pub fn none(start: OffsetDateTime) -> Self {
        Self { start, stored: 0, of_unknown_customers: 0, of_unknown_names: 0 }
    }
}

impl UncountedEvents {
    /// Adds what came of the same later, or about the same time.
    fn add(&mut self, other: Self) {
        if other.last_at >= self.last_at {
            (self.event_name, self.customer) = (other.event_name, other.customer);
        }
        self.event_count += other.event_count;
        self.first_at = self.first_at.min(other.first_at);
        self.last_at = self.last_at.max(other.last_at);
    }
}

/// The first instant of the minute.
fn minute_of(at: OffsetDateTime) -> OffsetDateTime {
    let within = i64::from(at.second()) * 1_000_000_000 + i64::from(at.nanosecond());
    at - Duration::nanoseconds(within)
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;
    use crate::event::Properties;

    const NOW: OffsetDateTime = datetime!(2026-03-01 12:00:30 UTC);

    fn event(customer: &str, name: &str) -> Event {
        Event {
            customer: customer.parse().expect("an id"),
            name: name.to_owned(),
            idempotency_id: "1".to_owned(),
            time_created: NOW,
            properties: Properties::default(),
        }
    }

    #[test]
    fn minutes_are_told_to_the_instant() {
        #[rustfmt::skip]
        let cases = [
            // came,                                  place,    why
            (datetime!(2026-03-01 12:00:30 UTC),      Some(59), "now"),
            (datetime!(2026-03-01 12:00:00 UTC),      Some(59), "the first instant of the minute that runs"),
            (datetime!(2026-03-01 11:59:59.999 UTC),  Some(58), "the last of the one before"),
            (datetime!(2026-03-01 11:01:00 UTC),      Some(0),  "the first of the oldest"),
            (datetime!(2026-03-01 11:00:59.999 UTC),  None,     "too old"),
        ];
        for (came, place, why) in cases {
            let mut tally = EventTally::default();
            tally.add(came, &event("acme", "call"), None);
            let minutes = tally.recent(NOW).minutes;
            assert_eq!(minutes.len(), 60, "{why}");
            assert_eq!(minutes.iter().position(|minute| minute.stored == 1), place, "{why}");
        }
    }

    #[test]
    fn what_is_counted_apart_adds_up() {
        let before = NOW - Duration::minutes(2);
        let (mut whole, mut first, mut second) = (EventTally::default(), EventTally::default(), EventTally::default());
        let unknown_customer = Some(UncountedReason::UnknownCustomer);
        let unknown_name = Some(UncountedReason::UnknownEventName);
        for (at, event, reason, is_first) in [
            (before, event("acne", "call"), unknown_customer, true),
            (NOW, event("acne", "upload"), unknown_customer, false),
            (before, event("acme", "cal"), unknown_name, false),
            (NOW, event("acme", "call"), None, false),
            (NOW, event("beta", "cal"), unknown_name, true),
        ] {
            whole.add(at, &event, reason);
            let part = if is_first { &mut first } else { &mut second };
            part.add(at, &event, reason);
        }
        first.join(second);
        let told = first.recent(NOW);
        let newest = told.minutes[59];
        assert_eq!((newest.stored, newest.of_unknown_customers, newest.of_unknown_names), (3, 1, 1));
        let [acne, cal] = &told.uncounted[..] else { panic!("{:?}", told.uncounted) };
        assert_eq!((acne.subject(), &*acne.event_name, acne.event_count), ("acne", "upload", 2), "the latest name");
        assert_eq!((cal.subject(), cal.customer.as_str(), cal.event_count), ("cal", "beta", 2), "the latest customer");
        assert_eq!([acne.first_at, cal.first_at, acne.last_at, cal.last_at], [before, before, NOW, NOW]);
        assert_eq!(told, whole.recent(NOW), "as if one had counted all");
        let later = NOW + UNCOUNTED_TOLD;
        assert_eq!(first.recent(later).uncounted, [], "a day later nothing is told of it");
        first.add(later, &event("acne", "call"), unknown_customer);
        let anew = &first.recent(later).uncounted[0];
        assert_eq!((anew.event_count, anew.first_at), (1, later), "and it begins anew");
    }

    #[test]
    fn memory_is_bounded_and_no_event_is_lost_of_the_figures() {
        let (mut tally, mut other) = (EventTally::default(), EventTally::default());
        for number in 0..100 {
            let stray = event(&format!("c{number}"), "call");
            tally.add(NOW, &stray, Some(UncountedReason::UnknownCustomer));
            other.add(NOW, &event(&format!("d{number}"), "call"), Some(UncountedReason::UnknownCustomer));
        }
        tally.join(other);
        let told = tally.recent(NOW);
        assert_eq!(told.uncounted.len(), UNCOUNTED_MAX);
        assert_eq!((told.minutes[59].stored, told.minutes[59].of_unknown_customers), (200, 200));
        let later = NOW + UNCOUNTED_TOLD;
        tally.add(later, &event("e", "call"), Some(UncountedReason::UnknownCustomer));
        assert_eq!(tally.recent(later).uncounted.len(), 1, "what is old makes room");
        (0..200).for_each(|minute| tally.add(later + Duration::minutes(minute), &event("e", "call"), None));
        assert_eq!(tally.minutes().count(), MINUTES_TOLD as usize);
    }
}
