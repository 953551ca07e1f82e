//! What every handler has: the backend, a bounded way to block on it, and whether the service is draining.

use std::any::TypeId;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use actix_web::web;
use billing_domain::customer::CustomerId;
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::{Reply, Scope, Store, Transaction};
use billing_domain::{Error, TaxNeed};
use billing_outbound::Client;
use billing_store::{Company, Deadline, Load};
use serde::Serialize;
use time::OffsetDateTime;
use tokio::sync::oneshot;

use crate::backend::Backend;
use crate::caller::{Bearer, KnownKeys, Pepper};
use crate::client_address::Network;
use crate::connections::Connections;
use crate::delivery::Deliverer;
use crate::error::{ApiError, codes};
use crate::feed_signals::FeedSignals;
use crate::key_uses::KeyUses;
use crate::noted_call::Show;
use crate::places::{Holder, Places};
use crate::request_id;
use crate::server_settings::{self, DiskCheck, ServerSettings};
use crate::taxes::{self, Attempt, NotAsked, Taxes};
use crate::telemetry::Telemetry;
use crate::usual_time::UsualTimes;
use crate::worker::Alarm;

/// How long a request waits for one of the places that block on the database.
const BLOCKING_WAIT: Duration = Duration::from_secs(1);
/// The same in company. An organization has few places there, and all of them may wait for a customer's lock, for two seconds at
/// most: calls about other customers of its own go on after that.
const BLOCKING_WAIT_IN_COMPANY: Duration = Duration::from_secs(3);

/// The state that all handlers share.
pub struct App {
    backend: Arc<dyn Backend>,
    /// One per database connection: the pool of blocking threads has an endless queue of its own.
    places: Arc<Places>,
    /// One per processor, for what computes.
    processors: Arc<Places>,
    company: Arc<Company>,
    usual_times: UsualTimes,
    request_deadline: Duration,
    /// What keys are digested with.
    pub pepper: Pepper,
    /// Keys that were valid before.
    pub known_keys: KnownKeys,
    /// When keys were used.
    pub key_uses: Arc<KeyUses>,
    /// Wakes the worker that advances test clocks.
    pub clock_alarm: Alarm,
    /// Asks organizations' own tax providers.
    pub taxes: Arc<Taxes>,
    /// Sends messages to webhook endpoints.
    pub deliverer: Arc<Deliverer>,
    /// Who waits for messages.
    pub feed_signals: Arc<FeedSignals>,
    /// What is counted about the service.
    pub telemetry: Telemetry,
    /// Those that are open.
    pub connections: Arc<Connections>,
    show: Show,
    /// The proxies that are believed about where a request comes from.
    pub trusted_proxies: Vec<Network>,
    /// Whether the service itself ends TLS.
    pub serves_tls: bool,
    is_disk_full: Option<DiskCheck>,
    draining: AtomicBool,
}

impl App {
    /// Over a backend, served with `settings`.
    pub fn new(backend: Arc<dyn Backend>, settings: &ServerSettings, clock_alarm: Alarm, taxes: Arc<Taxes>) -> Self {
        let company = backend.company();
        Self {
            backend,
            places: Places::of_connections(settings.connections, Arc::clone(&company)),
            processors: Places::of_processors(Arc::clone(&company)),
            company,
            usual_times: UsualTimes::default(),
            request_deadline: settings.request_deadline,
            pepper: settings.pepper.clone(),
            known_keys: KnownKeys::default(),
            key_uses: Arc::default(),
            clock_alarm,
            taxes,
            deliverer: Arc::new(Deliverer::new(Client::new(settings.reach), settings.pepper.bytes())),
            feed_signals: Arc::default(),
            telemetry: Telemetry::default(),
            connections: Arc::new(Connections::new(server_settings::places(), settings.idle_deadline)),
            show: |_, _, _, _| Ok(None),
            trusted_proxies: settings.trusted_proxies.clone(),
            serves_tls: settings.tls.is_some(),
            is_disk_full: settings.is_disk_full.clone(),
            draining: AtomicBool::new(false),
        }
    }

    /// With those who wait for messages.
    #[must_use]
    pub fn with_feed_signals(self, feed_signals: Arc<FeedSignals>) -> Self {
        Self { feed_signals, ..self }
    }

    /// With what shows things in the audit log before they are changed.
    #[must_use]
    pub fn showing(self, show: Show) -> Self {
        Self { show, ..self }
    }

    /// Tells load balancers to go elsewhere.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.feed_signals.ring_all();
    }

    /// Whether the service is about to stop.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Notes that an organization asks for something now.
    pub fn note_request(&self, organization: OrganizationId) {
        self.company.note(organization, Instant::now());
    }

    /// Requests that may block on the database at once.
    pub fn places(&self) -> usize {
        self.places.total()
    }

    /// How many more may right now.
    pub fn places_free(&self) -> usize {
        self.places.free()
    }

    /// What the store is busy with.
    pub fn load(&self) -> Option<Load> {
        self.backend.load()
    }

    /// Runs `work` on a blocking thread, once there is a place for `holder`. It ends with the deadline of a request, which
    /// runs while it waits, or when nobody waits for its answer any more.
    ///
    /// # Errors
    /// Those of `work`; [`codes::DB_POOL_EXHAUSTED`] when there is no place for a second (three in company), or when what has waited has less
    /// time left than its kind usually takes: it would run for nothing, and others wait. What need not wait is always
    /// begun, so that what is usual is found out anew.
    pub async fn block<T, W>(&self, holder: Holder, work: W) -> Result<T, ApiError>
    where
        T: Send + 'static,
        W: FnOnce(&dyn Backend) -> Result<T, ApiError> + Send + 'static,
    {
        let (kind, ends_at) = (TypeId::of::<W>(), Instant::now() + self.request_deadline);
        let wait = match self.company.is_company(Instant::now()) {
            true => BLOCKING_WAIT_IN_COMPANY,
            false => BLOCKING_WAIT,
        };
        let place = tokio::time::timeout(wait, self.places.take(holder)).await;
        let Ok(place) = place else { return Err(ApiError::plain(&codes::DB_POOL_EXHAUSTED)) };
        let began = Instant::now();
        if place.has_waited() && !self.usual_times.fits(kind, ends_at.saturating_duration_since(began)) {
            return Err(ApiError::plain(&codes::DB_POOL_EXHAUSTED));
        }
        let backend = self.backend.clone();
        // Dropped with this future, that is when the client has gone.
        let (deadline, _waiting) = Deadline::new(ends_at);
        let request = request_id::carried();
        let done = web::block(move || {
            // Held until the work is done, even when nobody waits for it any more.
            let _place = place;
            request_id::within(request, || deadline.run(|| work(backend.as_ref())))
        });
        let done = done.await.map_err(|_| ApiError::internal("a blocking job panicked"))?;
        self.usual_times.note(kind, began.elapsed());
        done.map_err(|error| self.with_reason(error))
    }

    /// Runs `work` that needs a processor and no database, once there is one for `holder`.
    ///
    /// # Errors
    /// Those of `work`; [`codes::TOO_MANY_IN_FLIGHT`] when there was none before the deadline of a request.
    pub async fn compute<T, W>(&self, holder: Holder, work: W) -> Result<T, ApiError>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, ApiError> + Send + 'static,
    {
        let place = tokio::time::timeout(self.request_deadline, self.processors.take(holder)).await;
        let Ok(place) = place else { return Err(ApiError::plain(&codes::TOO_MANY_IN_FLIGHT)) };
        let request = request_id::carried();
        let done = web::block(move || {
            let _place = place;
            request_id::within(request, work)
        });
        done.await.map_err(|_| ApiError::internal("a blocking job panicked"))?
    }

    /// A database that is gone because its disk is full says nothing itself: this does.
    pub fn with_reason(&self, error: ApiError) -> ApiError {
        let is_gone = error.title() == codes::DB_UNAVAILABLE.text;
        match &self.is_disk_full {
            Some(is_disk_full) if is_gone && is_disk_full() => error.renamed(&codes::STORAGE_UNAVAILABLE),
            _ => error,
        }
    }

    /// What the backend answers once it can, without blocking a thread meanwhile.
    ///
    /// # Errors
    /// Those of the answer.
    pub async fn ask<T: Send + 'static>(&self, ask: impl FnOnce(&dyn Backend, Reply<T>)) -> Result<T, ApiError> {
        let (sender, receiver) = oneshot::channel();
        // Nobody waits any more when the client has gone.
        ask(self.backend.as_ref(), Box::new(move |answer| drop(sender.send(answer))));
        let answer = receiver.await.map_err(|_| ApiError::internal("no answer from the store"))?;
        answer.map_err(|error| self.with_reason(error.into()))
    }

    /// [`App::ask`] for what only reads, and is given up when it takes too long.
    ///
    /// # Errors
    /// As [`App::ask`]; [`codes::DB_POOL_EXHAUSTED`] when there is no answer within `patience`.
    pub async fn ask_within<T: Send + 'static>(
        &self,
        patience: Duration,
        ask: impl FnOnce(&dyn Backend, Reply<T>),
    ) -> Result<T, ApiError> {
        let answer = tokio::time::timeout(patience, self.ask(ask)).await;
        answer.unwrap_or_else(|_| Err(ApiError::plain(&codes::DB_POOL_EXHAUSTED)))
    }

    /// Runs `work` in a transaction, again for every tax rate that it needs first.
    ///
    /// # Errors
    /// Those of `work` and of the store.
    pub async fn run<T: Send + 'static>(
        &self,
        scope: Scope,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let organization = scope.organization();
        let work = Arc::new(Mutex::new(work));
        self.asking_tax(organization, || {
            let (again, scope) = (Arc::clone(&work), scope);
            self.block(Some(organization), move |backend| {
                let store: &dyn Store = backend;
                Ok(store.run_for(&scope, &mut *lock(&again)?)?)
            })
        })
        .await
    }

    /// [`App::run`] for somebody, whose key the transaction looks at unless that has been done.
    ///
    /// # Errors
    /// As [`App::run`]; [`codes::NOT_AUTHENTICATED`] for a key that is not valid any more.
    async fn run_for<T: Send + 'static>(
        &self,
        who: &Bearer,
        scope: Scope,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Some(key) = who.fingerprint() else { return self.run(scope, work).await };
        let organization = scope.organization();
        let work = Arc::new(Mutex::new(work));
        let done = self.asking_tax(organization, || {
            let (again, key, scope) = (Arc::clone(&work), key.clone(), scope);
            self.block(Some(organization), move |backend| {
                let store: &dyn Store = backend;
                Ok(store.run_for_key(&scope, Some(&key), &mut *lock(&again)?)?)
            })
        });
        let value = done.await?;
        who.was_confirmed();
        Ok(value)
    }

    /// [`App::run_for`] of work whose result is the answer: once for all requests with the caller's `Idempotency-Key`, with an entry in
    /// the audit log.
    ///
    /// # Errors
    /// As [`App::run_for`].
    async fn write<T: Serialize + Send + 'static>(
        &self,
        who: &Bearer,
        scope: Scope,
        mut work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Some(call) = who.call() else { return self.write_once(who, scope, work).await };
        let (actor, request_id, show) = (who.last_known().actor.clone(), request_id::current(), self.show);
        let noted = move |tx: &mut dyn Transaction, now: OffsetDateTime| {
            call.note(tx, show, (&actor, &request_id), (&scope, now), &mut work)
        };
        self.write_once(who, scope, noted).await
    }

    /// [`App::write`] without a note in the audit log.
    ///
    /// # Errors
    /// As [`App::run_for`].
    async fn write_once<T: Serialize + Send + 'static>(
        &self,
        who: &Bearer,
        scope: Scope,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Some(claim) = who.claim() else { return self.run_for(who, scope, work).await };
        let organization = scope.organization();
        let work = Arc::new(Mutex::new(work));
        self.asking_tax(organization, || {
            let (again, claim, scope) = (Arc::clone(&work), claim.clone(), scope);
            let request_id = request_id::current();
            self.block(Some(organization), move |backend| claim.run(backend, &scope, &request_id, &mut *lock(&again)?))
        })
        .await
    }

    /// What `run` comes to, run again for every tax rate that it needs first.
    async fn asking_tax<T, R>(&self, organization: OrganizationId, run: impl Fn() -> R) -> Result<T, ApiError>
    where
        R: Future<Output = Result<T, ApiError>>,
    {
        let mut attempt = Attempt::within(self.request_deadline);
        loop {
            let done = run().await;
            if let Some(done) = self.settled(organization, done, &mut attempt).await {
                return done;
            }
        }
    }

    /// What came of a transaction; `None` when it needed a tax rate that by now was asked for, without a place, and noted.
    async fn settled<T>(
        &self,
        organization: OrganizationId,
        done: Result<T, ApiError>,
        attempt: &mut Attempt,
    ) -> Option<Result<T, ApiError>> {
        let need = match &done {
            Err(error) => error.tax_need().filter(|need| attempt.goes_on(need)).cloned(),
            Ok(_) => None,
        };
        let Some(need) = need else { return Some(done) };
        self.find_tax_rate(organization, need, attempt).await.err().map(Err)
    }

    /// Asks for a tax rate, and notes the answer with the customer. When it is not asked nothing is noted, and the call is done.
    async fn find_tax_rate(
        &self,
        organization: OrganizationId,
        need: TaxNeed,
        attempt: &mut Attempt,
    ) -> Result<(), ApiError> {
        let needed = need.clone();
        let question =
            self.block(Some(organization), move |backend| Ok(taxes::read_question(backend, organization, &needed)?));
        let Some(question) = question.await? else {
            attempt.give_up();
            return Ok(());
        };
        let not_asked = |why: NotAsked| ApiError::from(Error::TaxRate(why.of(&need)));
        let slot = self.taxes.slot(&question, attempt.can_wait()).await.map_err(not_asked)?;
        let (sender, receiver) = oneshot::channel();
        let (taxes, asked) = (Arc::clone(&self.taxes), question.clone());
        // A thread of its own: those that block on the database are as many as it has connections.
        let asking = thread::Builder::new().name("tax-rate".to_owned());
        let request = request_id::carried();
        let ask = move || {
            // The next may ask when this one is done, even when nobody waits for it any more.
            let _slot = slot;
            drop(sender.send(request_id::within(request, || taxes.ask(&asked))));
        };
        asking.spawn(ask).map_err(ApiError::internal)?;
        let answer = receiver.await.map_err(|_| ApiError::internal("no answer from a tax provider"))?;
        let answer = answer.map_err(not_asked)?;
        attempt.note(&answer);
        self.block(Some(organization), move |backend| Ok(taxes::note_answer(backend, &question, &answer)?)).await
    }

    /// Work that reads.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn read<T: Send + 'static>(
        &self,
        who: impl Into<Bearer>,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let who = who.into();
        self.run_for(&who, Scope::Organization(who.organization()), work).await
    }

    /// Work that reads about one customer, at the customer's own now.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn read_customer<T: Send + 'static>(
        &self,
        who: impl Into<Bearer>,
        customer: &CustomerId,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let who = who.into();
        let organization = who.organization();
        let scope = Scope::CustomerReading(organization, CustomerKey::derive(organization, customer));
        self.run_for(&who, scope, work).await
    }

    /// Work alone on the catalogue, whose result is the answer.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn on_catalog<T: Serialize + Send + 'static>(
        &self,
        who: impl Into<Bearer>,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let who = who.into();
        self.write(&who, Scope::Catalog(who.organization()), work).await
    }

    /// Work alone on one customer, whose result is the answer.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn on_customer<T: Serialize + Send + 'static>(
        &self,
        who: impl Into<Bearer>,
        customer: &CustomerId,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let who = who.into();
        self.write(&who, customer_scope(who.organization(), customer), work).await
    }

    /// Work alone on a customer whose key was looked up; its result is the answer.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn on_customer_key<T: Serialize + Send + 'static>(
        &self,
        who: impl Into<Bearer>,
        customer: CustomerKey,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let who = who.into();
        self.write(&who, Scope::Customer(who.organization(), customer), work).await
    }
}

/// Work that may have to be done again; a panic in it ends the request.
fn lock<W>(work: &Mutex<W>) -> Result<MutexGuard<'_, W>, ApiError> {
    work.lock().map_err(|_| ApiError::internal("a blocking job panicked"))
}

/// The scope of one customer.
pub fn customer_scope(organization: OrganizationId, customer: &CustomerId) -> Scope {
    Scope::Customer(organization, CustomerKey::derive(organization, customer))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver};

    use billing_domain::memory::MemoryStore;
    use billing_outbound::Reach;

    use super::*;

    const DEADLINE: Duration = Duration::from_millis(200);

    fn app() -> App {
        let addr = "127.0.0.1:0".parse().expect("an address");
        let mut settings = ServerSettings::new(addr, Pepper::from_text("pepper"), 1);
        settings.request_deadline = DEADLINE;
        App::new(
            Arc::new(MemoryStore::at(OffsetDateTime::UNIX_EPOCH)),
            &settings,
            Alarm::new().0,
            Arc::new(Taxes::new(Client::new(Reach::Public))),
        )
    }

    /// Work that ends when it is told to.
    async fn hold(app: &App, end: Receiver<()>) -> Result<(), ApiError> {
        let work = app.block(None, move |_| {
            end.recv().unwrap_or_default();
            Ok(())
        });
        work.await
    }

    /// Work that takes longer than there is time; whether it ran.
    async fn slow(app: &App) -> bool {
        let (begun, has_begun) = mpsc::channel();
        let work = app.block(None, move |_| {
            begun.send(()).unwrap_or_default();
            thread::sleep(DEADLINE);
            Ok(())
        });
        drop(work.await);
        has_begun.try_recv().is_ok()
    }

    async fn quick(app: &App) -> bool {
        app.block(None, |_| Ok(true)).await.unwrap_or(false)
    }

    #[actix_web::test]
    async fn what_cannot_end_in_time_is_not_begun_when_it_has_waited() {
        let app = app();
        assert!(slow(&app).await, "nothing is known of its kind");
        assert!(slow(&app).await, "what need not wait is begun");
        let (end, ends) = mpsc::channel();
        let release = async {
            // Polled last, when all of them wait for the only place.
            end.send(()).expect("it is held");
        };
        let (held, slow_ran, quick_ran, ()) = tokio::join!(biased; hold(&app, ends), slow(&app), quick(&app), release);
        assert!(held.is_ok());
        assert!(!slow_ran, "less is left than its kind takes");
        assert!(quick_ran, "another kind is begun");
        assert!(slow(&app).await, "and its own, once nobody is in its way");
    }
}
