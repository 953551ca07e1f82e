//! Delivering messages: each endpoint has a lane of its own, so that one that is slow or down keeps nobody else waiting.
//!
//! A process leases the endpoints that have something to be sent, and serves each on a thread of its own, turn by turn: what is to be
//! sent again and what the feed has behind the endpoint's position is read, sent a few at a time, each customer's messages one after
//! the other, and what came of it is written. While a turn is sent that goes through the feed, what came of the one before it is
//! written, and the one behind it read. Endpoints that fail have half of the lanes at most, and an organization has a
//! quarter at most. A process that dies in between leaves its leases to run out; what it had sent and not written is sent once more,
//! under the same ids.

mod seal;
mod send;
mod share;
mod turn;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Instant;

use billing_domain::id::{MessageId, OrganizationId, WebhookEndpointId};
use billing_domain::message::Message;
use billing_domain::store::{DeliveryRecord, EndpointStanding, LeaseRequest, Scope, Store, Transaction};
use billing_domain::webhook::{DeliveryAttempt, EndpointStatus, FAILING_MAX, WebhookEndpoint};
use billing_domain::workflow::disable_webhook_endpoint;
use billing_domain::{Error, StoreError};
use billing_outbound::{Client, Reach, Session};
use serde_json::json;
use time::{Duration, OffsetDateTime};
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;

use crate::backend::Backend;
use crate::error::{ApiError, codes};
use crate::slots::Slots;
use crate::webhook_view::EndpointView;
use crate::wire::Instant as WireInstant;
pub use seal::Sealer;
use send::{Addressee, Clock, Letter};
use share::{Lane, Room};
use turn::{Done, TURN_MIN, Turn, size_behind};

/// An endpoint that keeps its lane this long lets others go first.
const LANE_TIME: std::time::Duration = std::time::Duration::from_secs(5);
/// How long an endpoint is a process's own without being heard of.
const LEASE: Duration = Duration::seconds(60);
/// What was read so short a time ago is sent though somebody may have changed the endpoint since, before it is looked at again.
const FRESH: std::time::Duration = std::time::Duration::from_millis(100);
/// How often leases are prolonged.
const RENEW_EVERY: std::time::Duration = std::time::Duration::from_secs(10);
/// How long a server that stops waits for what is on its way.
const STOP_WAIT: std::time::Duration = std::time::Duration::from_secs(5);
/// Endpoints that are tried out at once, of all organizations.
const TESTS_MAX: usize = 8;
/// Those of them that one organization tries out.
const TESTS_OF_EACH_MAX: usize = 2;
/// Endpoints whose standing is measured, the longest failing first.
const STANDINGS_MAX: u32 = 100;

/// An endpoint, and whose it is.
pub type Place = (OrganizationId, WebhookEndpointId);

/// Sends messages to endpoints, in one process.
pub struct Deliverer {
    client: Client,
    sealer: Sealer,
    /// By which the process holds leases.
    owner: Uuid,
    /// The endpoints that are served.
    lanes: Mutex<BTreeMap<WebhookEndpointId, Lane>>,
    /// At most one lane is at the database, so that requests find connections however many endpoints there are.
    at_database: Mutex<()>,
    renewed_at: Mutex<Option<Instant>>,
    is_stopping: AtomicBool,
    tests: Arc<Semaphore>,
    tests_of_each: Slots,
    bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
    bodies: OnceLock<Box<Bodies>>,
    figures: Mutex<Figures>,
}

/// How an endpoint goes on behind a turn.
enum Next {
    /// With what was read meanwhile.
    Go(Box<Ahead>),
    /// With what there is.
    Look,
    /// Not at once.
    Leave,
}

/// A turn that was read while the one before it was sent.
struct Ahead {
    turn: Turn,
    /// What came of the one before, if it is written while this one is sent.
    before: Option<DeliveryRecord>,
}

/// What was done at the database while a turn was sent.
#[derive(Default)]
struct Aside {
    /// The endpoint as it stood once what came of the turn before was written, where there was something to write.
    stands: Option<Result<Option<WebhookEndpoint>, Error>>,
    /// The turn behind.
    behind: Option<Turn>,
}

/// Messages as they are sent, in their order.
pub type Bodies = dyn Fn(&mut dyn Transaction, Vec<Message>) -> Result<Vec<Vec<u8>>, Error> + Send + Sync;

/// What is measured of deliveries.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Attempts of this process that the endpoint took.
    pub delivered: u64,
    /// Attempts of this process that failed.
    pub failed: u64,
    /// Endpoints that this process has disabled, since they failed for too long or said that they are gone.
    pub disabled: u64,
    /// Those of them that failed by endpoint, of a hundred at most.
    pub failures: BTreeMap<WebhookEndpointId, u64>,
    /// Those at the endpoints beyond these.
    pub failures_of_others: u64,
    /// How the endpoints of all organizations stand that are behind, failing or disabled.
    pub standings: Vec<EndpointStanding>,
}

impl Figures {
    /// Counts what came of a turn at an endpoint.
    fn count(&mut self, endpoint: WebhookEndpointId, (delivered, failed): (u64, u64)) {
        self.delivered += delivered;
        self.failed += failed;
        let has_room = self.failures.len() < STANDINGS_MAX as usize;
        match self.failures.get_mut(&endpoint) {
            _ if failed == 0 => {}
            Some(failures) => *failures += failed,
            None if has_room => drop(self.failures.insert(endpoint, failed)),
            None => self.failures_of_others += failed,
        }
    }
}

impl Deliverer {
    /// Sends through `client`, signing with secrets that are sealed by a key that follows from the pepper.
    pub fn new(client: Client, pepper: &[u8]) -> Self {
        Self {
            client,
            sealer: Sealer::new(pepper),
            owner: Uuid::now_v7(),
            lanes: Mutex::default(),
            at_database: Mutex::default(),
            renewed_at: Mutex::default(),
            is_stopping: AtomicBool::new(false),
            tests: Arc::new(Semaphore::new(TESTS_MAX)),
            tests_of_each: Slots::new(TESTS_OF_EACH_MAX),
            bell: OnceLock::new(),
            bodies: OnceLock::new(),
            figures: Mutex::default(),
        }
    }

    /// Has messages look like this. Only the first that is given does.
    pub fn show_as(
        &self,
        bodies: impl Fn(&mut dyn Transaction, Vec<Message>) -> Result<Vec<Vec<u8>>, Error> + Send + Sync + 'static,
    ) {
        // An error means that there is one.
        drop(self.bodies.set(Box::new(bodies)));
    }

    /// How far it reaches.
    pub fn reach(&self) -> Reach {
        self.client.reach()
    }

    /// Seals secrets.
    pub fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// What was measured so far.
    pub fn figures(&self) -> Figures {
        lock(&self.figures).clone()
    }

    /// Has `bell` called whenever an endpoint is left, for which something may have come meanwhile. Only the first that is given is.
    pub fn on_left(&self, bell: impl Fn() + Send + Sync + 'static) {
        // An error means that there is one.
        drop(self.bell.set(Box::new(bell)));
    }

    /// Has endpoints looked for that have something to be sent: it may not have come through the feed.
    pub fn wake(&self) {
        if let Some(bell) = self.bell.get().filter(|_| !self.is_stopping.load(Ordering::Relaxed)) {
            bell();
        }
    }

    /// Begins to serve the endpoints that have something to be sent, each on a thread of its own. Whoever is left rings.
    pub fn dispatch(self: &Arc<Self>, backend: &Arc<dyn Backend>) {
        let now = OffsetDateTime::now_utc();
        self.renew(backend.as_ref(), now);
        for (is_failing, place) in self.lease(backend.as_ref(), now) {
            lock(&self.lanes).insert(place.1, Lane { organization: place.0, is_failing });
            let (deliverer, lane) = (Arc::clone(self), Arc::clone(backend));
            let thread = thread::Builder::new().name("webhook-lane".to_owned());
            if let Err(error) = thread.spawn(move || deliverer.serve(lane.as_ref(), place)) {
                log::error!("no thread to serve a webhook endpoint: {error}");
                self.leave(backend.as_ref(), place);
            }
        }
    }

    /// Serves every endpoint that has something to be sent at `now`, one turn each and one after the other; how many those were.
    ///
    /// # Errors
    /// Those of the store.
    pub fn go_round(&self, backend: &dyn Backend, now: OffsetDateTime) -> Result<usize, Error> {
        let leased = self.lease(backend, now);
        for (_, place) in &leased {
            let turned = self.turn(backend, *place, (&Clock::at(now), TURN_MIN, None), &self.client.session());
            if let Ok(Next::Go(ahead)) = &turned {
                ahead.before.as_ref().map(|record| self.write(backend, *place, record)).transpose()?;
            }
            backend.release_endpoint(self.owner, place.0, place.1)?;
            turned?;
        }
        Ok(leased.len())
    }

    /// Leases what there is room for, and says of each whether it fails.
    fn lease(&self, backend: &dyn Backend, now: OffsetDateTime) -> Vec<(bool, Place)> {
        let mut leased: Vec<(bool, Place)> = Vec::new();
        for are_failing in [false, true] {
            let new = leased
                .iter()
                .map(|(is_failing, (organization, _))| Lane { organization: *organization, is_failing: *is_failing });
            let room = Room::beside(lock(&self.lanes).values().copied().chain(new), are_failing);
            if room.of_all == 0 || self.is_stopping.load(Ordering::Relaxed) {
                continue;
            }
            let Room { of_all: limit, of_each: most_of_each, of: room_of } = room;
            let owner = self.owner;
            let wanted = LeaseRequest { owner, limit, most_of_each, room_of, are_failing, now, lease: LEASE };
            match backend.lease_endpoints(&wanted) {
                Ok(places) => leased.extend(places.into_iter().map(|place| (are_failing, place))),
                Err(error) => log::error!("webhook endpoints could not be leased: {error}"),
            }
        }
        leased
    }

    /// Prolongs the leases of what is served, now and then.
    fn renew(&self, backend: &dyn Backend, now: OffsetDateTime) {
        let mut renewed_at = lock(&self.renewed_at);
        if lock(&self.lanes).is_empty() || renewed_at.is_some_and(|at| at.elapsed() < RENEW_EVERY) {
            return;
        }
        *renewed_at = Some(Instant::now());
        if let Err(error) = backend.renew_leases(self.owner, now, LEASE) {
            log::error!("leases of webhook endpoints could not be prolonged: {error}");
        }
    }

    /// Turn after turn, while there is something to be sent and it goes well.
    fn serve(&self, backend: &dyn Backend, place: Place) {
        let began = Instant::now();
        let turns = AssertUnwindSafe(|| {
            let (mut size, mut ahead, session) = (TURN_MIN, None, self.client.session());
            while !self.is_stopping.load(Ordering::Relaxed) && began.elapsed() < LANE_TIME {
                let clock = Clock::at(OffsetDateTime::now_utc());
                match self.turn(backend, place, (&clock, size, ahead.take()), &session)? {
                    Next::Go(next) => ahead = Some(*next),
                    Next::Look => {}
                    Next::Leave => break,
                }
                size = size_behind(size, clock.elapsed());
            }
            let before = ahead.and_then(|ahead| ahead.before);
            before.map_or(Ok(()), |record| self.write(backend, place, &record).map(drop))
        });
        match catch_unwind(turns) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                log::error!("messages could not be sent webhook_endpoint_id={} error={error}", place.1);
            }
            Err(_) => log::error!("a webhook lane panicked webhook_endpoint_id={}", place.1),
        }
        self.leave(backend, place);
    }

    fn leave(&self, backend: &dyn Backend, (organization, endpoint): Place) {
        if let Err(error) = backend.release_endpoint(self.owner, organization, endpoint) {
            // The lease runs out.
            log::warn!("a webhook endpoint could not be released webhook_endpoint_id={endpoint} error={error}");
        }
        lock(&self.lanes).remove(&endpoint);
        self.wake();
    }

    /// What is to be sent to an endpoint next, `size` messages at most; `None`: nothing, or it was deleted.
    fn read(
        &self,
        store: &dyn Store,
        (organization, endpoint): Place,
        wanted: (&Clock, u32, Option<u64>),
    ) -> Result<Option<Turn>, Error> {
        let bodies =
            self.bodies.get().ok_or_else(|| StoreError::Internal("nothing says how messages look".to_owned()))?;
        let _alone = lock(&self.at_database);
        let read = store
            .run_for(&Scope::Organization(organization), |tx, _| Turn::read(tx, endpoint, wanted, bodies.as_ref()));
        match read {
            Err(Error::NotFound(_)) => Ok(None),
            read => read,
        }
    }

    /// Writes what came of a turn; the endpoint as it stands then, `None` where it is not leased any more.
    fn write(
        &self,
        backend: &dyn Backend,
        (organization, endpoint): Place,
        record: &DeliveryRecord,
    ) -> Result<Option<WebhookEndpoint>, Error> {
        let _alone = lock(&self.at_database);
        backend.record_deliveries(self.owner, organization, endpoint, record)
    }

    /// Sends what is to be sent to an endpoint that is leased, some at a time, and is at the database meanwhile; how to go on.
    fn turn(
        &self,
        backend: &dyn Backend,
        place: Place,
        (clock, size, ahead): (&Clock, u32, Option<Ahead>),
        session: &Session,
    ) -> Result<Next, Error> {
        let (turn, before) = match ahead {
            None => (self.read(backend, place, (clock, size, None))?, None),
            Some(Ahead { turn, before }) => (Some(turn), before),
        };
        let Some(turn) = turn else { return Ok(Next::Leave) };
        let addressee = Addressee::new(&self.client, &self.sealer, (place.0, &turn.endpoint), clock.now());
        let (basis, next_from) = (turn.basis(), turn.next_from());
        // Another one's by now, or disabled.
        let is_lost = AtomicBool::new(false);
        let may_go_on = || !self.is_stopping.load(Ordering::Relaxed) && !is_lost.load(Ordering::Relaxed);
        let aside = || {
            let stands = before.as_ref().map(|record| self.write(backend, place, record));
            let is_held = stands.as_ref().is_none_or(
                |stands| matches!(stands, Ok(Some(endpoint)) if endpoint.status == EndpointStatus::Enabled),
            );
            is_lost.store(!is_held, Ordering::Relaxed);
            let wanted = next_from.filter(|_| is_held);
            let behind = wanted.and_then(|from| self.read(backend, place, (clock, size, Some(from))).ok().flatten());
            Aside { stands, behind }
        };
        let (Done { record, is_gone, attempts }, Aside { stands, behind }) = thread::scope(|threads| {
            let is_wanted = before.is_some() || next_from.is_some();
            let thread = thread::Builder::new().name("webhook-aside".to_owned());
            let meanwhile = if is_wanted { thread.spawn_scoped(threads, aside).ok() } else { None };
            let done = turn.send(clock, may_go_on, |letter| addressee.send(session, letter, clock));
            // What could not be done meanwhile is done now.
            let meanwhile = meanwhile.map(thread::ScopedJoinHandle::join);
            (done, meanwhile.and_then(Result::ok).unwrap_or_else(|| if is_wanted { aside() } else { Aside::default() }))
        });
        lock(&self.figures).count(place.1, attempts);
        let is_unchanged = match stands.transpose()? {
            // It has ended, and what came of this turn is nobody's any more.
            Some(None) => return Ok(Next::Leave),
            Some(Some(stands)) => basis.holds(&stands),
            None => true,
        };
        let is_well = !is_gone && record.pending.is_empty() && record.failing_since.is_none();
        let behind = match behind {
            Some(turn) if is_well && is_unchanged && clock.elapsed() < FRESH => {
                return Ok(Next::Go(Box::new(Ahead { turn, before: Some(record) })));
            }
            behind => behind,
        };
        let stands = self.write(backend, place, &record)?;
        let fails_long = record.failing_since.is_some_and(|since| clock.now() - since >= FAILING_MAX);
        if is_gone || (fails_long && attempts.1 > 0) {
            let reason = if is_gone { "It answered 410." } else { "Every attempt has failed for five days." };
            self.disable(backend, place, reason)?;
            return Ok(Next::Leave);
        }
        Ok(match (stands.filter(|_| record.failing_since.is_none()), behind) {
            (None, _) => Next::Leave,
            // What failed, or was not sent for want of time, comes first.
            (Some(stands), Some(turn)) if is_well && turn.basis().holds(&stands) => {
                Next::Go(Box::new(Ahead { turn, before: None }))
            }
            (Some(_), _) => Next::Look,
        })
    }

    /// Disables an endpoint, and says so.
    fn disable(&self, store: &dyn Store, (organization, endpoint): Place, reason: &str) -> Result<(), Error> {
        store.run_for(&Scope::Catalog(organization), |tx, now| {
            disable_webhook_endpoint(tx, endpoint, reason, now).map(drop)
        })?;
        lock(&self.figures).disabled += 1;
        log::error!(
            organization:%, webhook_endpoint_id:% = endpoint, reason; "a webhook endpoint was disabled"
        );
        Ok(())
    }

    /// Measures how endpoints stand, and drops some attempts that were made before an instant; whether there may be more.
    pub fn look_after(&self, backend: &dyn Backend, before: OffsetDateTime, limit: u32) -> bool {
        match backend.list_standings(STANDINGS_MAX) {
            Ok(standings) => lock(&self.figures).standings = standings,
            Err(error) => log::error!("webhook endpoints could not be measured: {error}"),
        }
        let dropped = backend.drop_attempts(before, limit).unwrap_or_else(|error| {
            log::error!("old attempts at webhook endpoints could not be dropped: {error}");
            0
        });
        dropped >= u64::from(limit)
    }

    /// Sends an endpoint a message that is about itself, and answers what came of it. It is not in the feed, and never sent again.
    ///
    /// # Errors
    /// [`codes::TOO_MANY_IN_FLIGHT`] when too many are tried out at once, of all organizations or of this one.
    pub async fn try_out(
        self: &Arc<Self>,
        organization: OrganizationId,
        endpoint: WebhookEndpoint,
    ) -> Result<DeliveryAttempt, ApiError> {
        let own = self.tests_of_each.try_take(organization);
        let slots = own.and_then(|own| Some((own, Arc::clone(&self.tests).try_acquire_owned().ok()?)));
        let slots = slots.ok_or_else(|| ApiError::plain(&codes::TOO_MANY_IN_FLIGHT))?;
        let deliverer = Arc::clone(self);
        let (sender, receiver) = oneshot::channel();
        // A thread of its own: those that block on the database are as many as it has connections.
        let sending = thread::Builder::new().name("webhook-test".to_owned()).spawn(move || {
            let attempt = deliverer.send_test(organization, &endpoint);
            drop(slots);
            drop(sender.send(attempt));
        });
        sending.map_err(ApiError::internal)?;
        receiver.await.map_err(|_| ApiError::internal("no answer from a webhook test"))
    }

    fn send_test(&self, organization: OrganizationId, endpoint: &WebhookEndpoint) -> DeliveryAttempt {
        let (now, message) = (OffsetDateTime::now_utc(), MessageId::from(Uuid::now_v7()));
        let addressee = Addressee::new(&self.client, &self.sealer, (organization, endpoint), now);
        let body = json!({
            "id": message,
            "type": "webhook_endpoint.test",
            "timestamp": WireInstant(now),
            "livemode": true,
            "data": EndpointView::from(endpoint),
        });
        let body = body.to_string();
        let letter = Letter { message, attempt: 1, body: body.as_bytes() };
        addressee.send(&self.client.session(), &letter, &Clock::at(now)).attempt
    }

    /// Begins nothing more.
    pub fn silence(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Waits a moment for what is on its way; what is not done by then is sent again by another process.
    pub fn stop(&self) {
        self.silence();
        let began = Instant::now();
        while !lock(&self.lanes).is_empty() && began.elapsed() < STOP_WAIT {
            thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
