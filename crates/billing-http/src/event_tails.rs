//! Live tails: who watches events come in, and showing them what came.
//!
//! Whoever watches holds a place in a list and a channel: no connection to the database, no place at it, no thread. What is stored is looked
//! at by the request that brought it, and only while somebody watches its organization. Once a second one worker shows what came, however
//! many watch, and exchanges it with the other processes over the same database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use billing_domain::Error;
use billing_domain::event::{Event, Ingested};
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::metric::Metric;
use billing_domain::store::{EventWatch, PassedEvents, Scope, Store, TailedEvents, Transaction};
use serde_json::Value;
use tokio::sync::broadcast::{self, Receiver, Sender};
use uuid::Uuid;

use crate::backend::Backend;

/// Streams of one organization at once, in this process.
pub const OF_ORGANIZATION_MAX: usize = 16;
/// Streams at once, in this process.
pub const WATCHING_MAX: usize = 64;
/// Looks that one who watches may be behind before it is dropped.
const BEHIND_MAX: usize = 8;
/// Most customers that are remembered to be there.
const KNOWN_MAX: usize = 20_000;

/// What came in of what somebody watches, as it is shown.
#[derive(Debug)]
pub struct SeenEvents {
    /// The events, the latest first.
    pub rows: Vec<Value>,
    /// How many more came in.
    pub more: u64,
}

/// Shows events that came in, the latest first; customers that are seen to be there join those that are known.
pub type Show =
    fn(&mut dyn Transaction, &EventWatch, &TailedEvents, &mut BTreeSet<CustomerKey>) -> Result<Vec<Value>, Error>;

type Bell = Box<dyn Fn() + Send + Sync>;

/// The tails of this process.
pub struct EventTails {
    /// What this process is called by the others.
    process: Uuid,
    tails: Mutex<Tails>,
    /// Whether there are any: asked by every request that brings events.
    are_any: AtomicBool,
    known: Mutex<BTreeSet<CustomerKey>>,
    show: OnceLock<Show>,
    on_watch: OnceLock<Bell>,
}

#[derive(Default)]
struct Tails {
    all: BTreeMap<EventWatch, Tail>,
    is_closed: bool,
}

/// The events of one kind that somebody watches, here or elsewhere.
struct Tail {
    /// The metric that they count for.
    metric: Option<Arc<Metric>>,
    /// How many watch here.
    watching: usize,
    /// The other processes where somebody does.
    elsewhere: Vec<Uuid>,
    gathered: TailedEvents,
    sender: Sender<Arc<SeenEvents>>,
}

/// One who watches, until it is dropped.
pub struct Watching {
    tails: Arc<EventTails>,
    watch: EventWatch,
    receiver: Receiver<Arc<SeenEvents>>,
}

impl Default for EventTails {
    fn default() -> Self {
        Self {
            process: Uuid::now_v7(),
            tails: Mutex::default(),
            are_any: AtomicBool::new(false),
            known: Mutex::default(),
            show: OnceLock::new(),
            on_watch: OnceLock::new(),
        }
    }
}

impl Tail {
    fn new(metric: Option<Arc<Metric>>) -> Self {
        let (sender, _) = broadcast::channel(BEHIND_MAX);
        Self { metric, watching: 0, elsewhere: Vec::new(), gathered: TailedEvents::default(), sender }
    }

    fn is_watched(&self) -> bool {
        self.watching > 0 || !self.elsewhere.is_empty()
    }
}

impl EventTails {
    /// Says what events look like; once.
    pub fn show_as(&self, show: Show) {
        // A second one is the same.
        let _ = self.show.set(show);
    }

    /// What is rung when somebody begins to watch; once.
    pub fn on_watch(&self, bell: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_watch.set(Box::new(bell));
    }

    /// Watches events come in, those that count for `metric` where the watch names one; `None` when too many do.
    pub fn watch(self: &Arc<Self>, watch: EventWatch, metric: Option<Metric>) -> Option<Watching> {
        let receiver = {
            let mut tails = self.lock();
            let of_organization = |(other, _): &(&EventWatch, &Tail)| other.organization == watch.organization;
            let here: usize = tails.all.values().map(|tail| tail.watching).sum();
            let of_ours: usize = tails.all.iter().filter(of_organization).map(|(_, tail)| tail.watching).sum();
            if tails.is_closed || here >= WATCHING_MAX || of_ours >= OF_ORGANIZATION_MAX {
                return None;
            }
            let tail = tails.all.entry(watch.clone()).or_insert_with(|| Tail::new(metric.map(Arc::new)));
            tail.watching += 1;
            self.are_any.store(true, Ordering::Relaxed);
            tail.sender.subscribe()
        };
        if let Some(bell) = self.on_watch.get() {
            bell();
        }
        Some(Watching { tails: Arc::clone(self), watch, receiver })
    }

    /// A copy of events on their way in, for [`EventTails::came_in`]; `None` where nobody watches their organization.
    pub fn copied(&self, organization: OrganizationId, events: &[Event]) -> Option<Vec<Event>> {
        self.filters(organization).is_some().then(|| events.to_vec())
    }

    /// What the organization's tails are kept to; `None` when there are none.
    fn filters(&self, organization: OrganizationId) -> Option<Vec<(EventWatch, Option<Arc<Metric>>)>> {
        if !self.are_any.load(Ordering::Relaxed) {
            return None;
        }
        let tails = self.lock();
        let ours = tails.all.iter().filter(|(watch, _)| watch.organization == organization);
        let filters: Vec<_> = ours.map(|(watch, tail)| (watch.clone(), tail.metric.clone())).collect();
        (!filters.is_empty()).then_some(filters)
    }

    /// Events of an organization have come in, and this has become of each.
    pub fn came_in(&self, organization: OrganizationId, events: &[Event], ingested: &[Ingested]) {
        let Some(filters) = self.filters(organization) else { return };
        for (watch, metric) in filters {
            let mut came = TailedEvents::default();
            let stored = events.iter().zip(ingested).filter(|(_, ingested)| **ingested == Ingested::Stored);
            for (event, _) in stored {
                let is_of_customer = watch.customer.as_ref().is_none_or(|customer| *customer == event.customer);
                if is_of_customer && metric.as_ref().is_none_or(|metric| metric.counts(event)) {
                    came.push(event.clone());
                }
            }
            // Whoever watched may have gone meanwhile.
            if !came.is_empty()
                && let Some(tail) = self.lock().all.get_mut(&watch)
            {
                tail.gathered.join(came);
            }
        }
    }

    /// Shows what came in since the last time to those who watch it, here and in other processes.
    pub fn look(&self, backend: &dyn Backend) {
        let (watched, gathered, mut came) = self.take();
        match backend.exchange_events(self.process, &watched, gathered) {
            Ok(exchanged) => {
                self.note_elsewhere(backend, exchanged.watches);
                for (watch, events) in exchanged.passed {
                    came.entry(watch).or_default().join(events);
                }
            }
            Err(error) => log::warn!("events that are watched could not be exchanged: {error}"),
        }
        for (watch, events) in came.into_iter().filter(|(_, events)| !events.is_empty()) {
            if let Err(error) = self.show(backend, &watch, &events) {
                log::warn!("events that came in could not be shown: {error}");
            }
        }
    }

    /// What is watched here, and what came in since the last time: for others, and for those here.
    fn take(&self) -> (Vec<EventWatch>, Vec<PassedEvents>, BTreeMap<EventWatch, TailedEvents>) {
        let (mut watched, mut for_others, mut came) = (Vec::new(), Vec::new(), BTreeMap::new());
        for (watch, tail) in &mut self.lock().all {
            let events = std::mem::take(&mut tail.gathered);
            if !events.is_empty() {
                let pass =
                    |watcher: &Uuid| PassedEvents { watcher: *watcher, watch: watch.clone(), events: events.clone() };
                for_others.extend(tail.elsewhere.iter().map(pass));
            }
            if tail.watching > 0 {
                watched.push(watch.clone());
                came.insert(watch.clone(), events);
            }
        }
        (watched, for_others, came)
    }

    /// Gathers what others watch, and nothing any more that nobody does.
    fn note_elsewhere(&self, backend: &dyn Backend, watches: Vec<(Uuid, EventWatch)>) {
        let mut by_watch: BTreeMap<EventWatch, Vec<Uuid>> = BTreeMap::new();
        for (process, watch) in watches {
            by_watch.entry(watch).or_default().push(process);
        }
        let is_known = |watch: &EventWatch| self.lock().all.contains_key(watch);
        let new: Vec<EventWatch> = by_watch.keys().filter(|watch| !is_known(watch)).cloned().collect();
        let mut made: Vec<(EventWatch, Tail)> = Vec::new();
        for watch in new {
            match metric_of(backend, &watch) {
                Ok(metric) => made.push((watch, Tail::new(metric.map(Arc::new)))),
                Err(error) => log::warn!("a metric that another process watches could not be read: {error}"),
            }
        }
        let mut tails = self.lock();
        if tails.is_closed {
            return;
        }
        for (watch, tail) in made {
            tails.all.entry(watch).or_insert(tail);
        }
        for (watch, tail) in &mut tails.all {
            tail.elsewhere = by_watch.remove(watch).unwrap_or_default();
        }
        self.drop_unwatched(&mut tails);
    }

    fn drop_unwatched(&self, tails: &mut Tails) {
        tails.all.retain(|_, tail| tail.is_watched());
        self.are_any.store(!tails.all.is_empty(), Ordering::Relaxed);
    }

    fn show(&self, backend: &dyn Backend, watch: &EventWatch, events: &TailedEvents) -> Result<(), Error> {
        let Some(show) = self.show.get() else { return Ok(()) };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > KNOWN_MAX {
            known.clear();
        }
        let store: &dyn Store = backend;
        let rows =
            store.run_for(&Scope::Organization(watch.organization), |tx, _| show(tx, watch, events, &mut known))?;
        let seen = SeenEvents { rows, more: events.skipped() };
        if !(seen.rows.is_empty() && seen.more == 0)
            && let Some(tail) = self.lock().all.get(watch)
        {
            // An error means that everybody has gone.
            let _ = tail.sender.send(Arc::new(seen));
        }
        Ok(())
    }

    /// Ends everybody's watching: the service stops.
    pub fn close(&self) {
        let mut tails = self.lock();
        tails.is_closed = true;
        tails.all.clear();
        self.are_any.store(false, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Tails> {
        // Nobody panics half way through a change in here.
        self.tails.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The metric that a watch names.
fn metric_of(backend: &dyn Backend, watch: &EventWatch) -> Result<Option<Metric>, Error> {
    let Some(id) = watch.metric else { return Ok(None) };
    let store: &dyn Store = backend;
    store.run_for(&Scope::Organization(watch.organization), |tx, _| tx.metrics().get(id)).map(Some)
}

impl Watching {
    /// What came in, once something did. `None`: it is over, or whoever asks is too far behind.
    pub async fn next(&mut self) -> Option<Arc<SeenEvents>> {
        self.receiver.recv().await.ok()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut tails = self.tails.lock();
        if let Some(tail) = tails.all.get_mut(&self.watch) {
            tail.watching = tail.watching.saturating_sub(1);
        }
        self.tails.drop_unwatched(&mut tails);
    }
}

#[cfg(test)]
mod tests {
    use billing_domain::event::Properties;
    use billing_domain::memory::MemoryStore;
    use time::OffsetDateTime;

    use super::*;

    fn organization(n: u128) -> OrganizationId {
        Uuid::from_u128(n).into()
    }

    fn all_of(n: u128) -> EventWatch {
        EventWatch { organization: organization(n), customer: None, metric: None }
    }

    fn event(customer: &str) -> Event {
        Event {
            customer: customer.parse().expect("an id"),
            name: "call".to_owned(),
            idempotency_id: "1".to_owned(),
            time_created: OffsetDateTime::UNIX_EPOCH,
            properties: Properties::new(),
        }
    }

    /// The customers of what was gathered for a watch.
    fn gathered(tails: &EventTails, watch: &EventWatch) -> Vec<String> {
        let tails = tails.lock();
        let tail = tails.all.get(watch);
        tail.into_iter()
            .flat_map(|tail| tail.gathered.events())
            .map(|event| event.customer.as_str().to_owned())
            .collect()
    }

    #[test]
    fn so_many_watch_and_leave_nothing_behind() {
        let tails = Arc::new(EventTails::default());
        let of_one: Vec<_> = (0..OF_ORGANIZATION_MAX).map(|_| tails.watch(all_of(1), None).expect("a place")).collect();
        let of_customer = EventWatch { customer: Some("acme".parse().expect("an id")), ..all_of(1) };
        assert!(tails.watch(of_customer.clone(), None).is_none(), "one too many, whatever it watches");
        let others = (2..).map(|n| tails.watch(all_of(n), None)).take_while(Option::is_some);
        let others: Vec<_> = others.collect();
        assert_eq!(of_one.len() + others.len(), WATCHING_MAX);
        drop(of_one);
        let again = tails.watch(of_customer, None);
        assert!(again.is_some(), "places that were left");
        drop((others, again));
        assert!(tails.lock().all.is_empty() && !tails.are_any.load(Ordering::Relaxed));
    }

    #[test]
    fn only_what_is_watched_and_stored_is_gathered() {
        let tails = Arc::new(EventTails::default());
        let events = [event("acme"), event("other"), event("acme")];
        let ingested = [Ingested::Stored, Ingested::Stored, Ingested::Duplicate];
        assert_eq!(tails.copied(organization(1), &events), None, "nobody watches");
        let of_customer = EventWatch { customer: Some("acme".parse().expect("an id")), ..all_of(1) };
        let _all = tails.watch(all_of(1), None);
        let _one = tails.watch(of_customer.clone(), None);
        let _other = tails.watch(all_of(2), None);
        assert_eq!(tails.copied(organization(3), &events), None, "of another organization");
        assert!(tails.copied(organization(1), &events).is_some());
        tails.came_in(organization(1), &events, &ingested);
        assert_eq!(gathered(&tails, &all_of(1)), ["acme", "other"]);
        assert_eq!(gathered(&tails, &of_customer), ["acme"]);
        assert_eq!(gathered(&tails, &all_of(2)), [""; 0], "another tenant's");
    }

    #[actix_web::test]
    async fn whoever_is_behind_or_left_when_the_service_stops_is_told_so() {
        let (tails, backend) = (Arc::new(EventTails::default()), MemoryStore::at(OffsetDateTime::UNIX_EPOCH));
        tails.show_as(|_, _, events, _| Ok(events.events().map(|event| event.customer.as_str().into()).collect()));
        let (mut slow, mut quick) = (tails.watch(all_of(1), None).expect("a place"), tails.watch(all_of(1), None));
        let quick = quick.as_mut().expect("a place");
        for _ in 0..=BEHIND_MAX {
            tails.came_in(organization(1), &[event("acme")], &[Ingested::Stored]);
            tails.look(&backend);
            let seen = quick.next().await.expect("it came");
            assert_eq!((seen.rows.as_slice(), seen.more), ([Value::from("acme")].as_slice(), 0));
        }
        assert!(slow.next().await.is_none(), "nothing is kept for who does not take it");
        tails.close();
        assert!(quick.next().await.is_none(), "it is over");
        assert!(tails.watch(all_of(1), None).is_none(), "and does not begin again");
    }
}
