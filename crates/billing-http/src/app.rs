//! What every handler has: the backend, a bounded way to block on it, and whether the service is draining.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use actix_web::web;
use billing_domain::Error;
use billing_domain::customer::CustomerId;
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::{Reply, Scope, Store, Transaction};
use billing_store::{Deadline, Load};
use serde::Serialize;
use time::OffsetDateTime;
use tokio::sync::oneshot;

use crate::auth::{Caller, KnownKeys, Pepper};
use crate::backend::Backend;
use crate::connections::Connections;
use crate::error::{ApiError, codes};
use crate::places::{Holder, Places};
use crate::request_id;
use crate::server::{self, ServerSettings};
use crate::telemetry::Telemetry;
use crate::worker::Alarm;

/// How long a request waits for one of the places that block on the database.
const BLOCKING_WAIT: Duration = Duration::from_secs(1);

/// Tells whether the disk of the database is full.
pub type DiskCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// The state that all handlers share.
pub struct App {
    backend: Arc<dyn Backend>,
    /// One per database connection: the pool of blocking threads has an endless queue of its own.
    places: Arc<Places>,
    request_deadline: Duration,
    /// What keys are digested with.
    pub pepper: Pepper,
    /// Keys that were valid before.
    pub known_keys: KnownKeys,
    /// Wakes the worker that advances test clocks.
    pub clock_alarm: Alarm,
    /// What is counted about the service.
    pub telemetry: Telemetry,
    /// Those that are open.
    pub connections: Arc<Connections>,
    is_disk_full: Option<DiskCheck>,
    draining: AtomicBool,
}

impl App {
    /// Over a backend, served with `settings`.
    pub fn new(backend: Arc<dyn Backend>, settings: &ServerSettings, clock_alarm: Alarm) -> Self {
        Self {
            backend,
            places: Places::new(settings.connections),
            request_deadline: settings.request_deadline,
            pepper: settings.pepper.clone(),
            known_keys: KnownKeys::default(),
            clock_alarm,
            telemetry: Telemetry::default(),
            connections: Arc::new(Connections::new(server::places(), settings.idle_deadline)),
            is_disk_full: settings.is_disk_full.clone(),
            draining: AtomicBool::new(false),
        }
    }

    /// Tells load balancers to go elsewhere.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the service is about to stop.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
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

    /// Runs `work` on a blocking thread, once there is a place for `holder`. It ends with the deadline of a request, or when
    /// nobody waits for its answer any more.
    ///
    /// # Errors
    /// Those of `work`; [`codes::DB_POOL_EXHAUSTED`] when there is no place for a second.
    pub async fn block<T: Send + 'static>(
        &self,
        holder: Holder,
        work: impl FnOnce(&dyn Backend) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = tokio::time::timeout(BLOCKING_WAIT, self.places.take(holder)).await;
        let Ok(place) = place else { return Err(ApiError::plain(&codes::DB_POOL_EXHAUSTED)) };
        let backend = self.backend.clone();
        // Dropped with this future, that is when the client has gone.
        let (deadline, _waiting) = Deadline::new(Instant::now() + self.request_deadline);
        let done = web::block(move || {
            // Held until the work is done, even when nobody waits for it any more.
            let _place = place;
            deadline.run(|| work(backend.as_ref()))
        });
        let done = done.await.map_err(|_| ApiError::internal("a blocking job panicked"))?;
        done.map_err(|error| self.with_reason(error))
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

    /// Runs `work` in a transaction.
    ///
    /// # Errors
    /// Those of `work` and of the store.
    pub async fn run<T: Send + 'static>(
        &self,
        scope: Scope,
        mut work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.block(Some(scope.organization()), move |backend| {
            let store: &dyn Store = backend;
            Ok(store.run_for(&scope, &mut work)?)
        })
        .await
    }

    /// [`App::run`] of work whose result is the answer: once for all requests with the caller's `Idempotency-Key`.
    ///
    /// # Errors
    /// As [`App::run`].
    async fn write<T: Serialize + Send + 'static>(
        &self,
        caller: &Caller,
        scope: Scope,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Some(claim) = caller.claim.clone() else { return self.run(scope, work).await };
        let request_id = request_id::current();
        self.block(Some(scope.organization()), move |backend| claim.run(backend, &scope, &request_id, work)).await
    }

    /// [`App::run`] for reading.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn read<T: Send + 'static>(
        &self,
        caller: &Caller,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.run(Scope::Organization(caller.organization), work).await
    }

    /// Work alone on the catalogue, whose result is the answer.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn on_catalog<T: Serialize + Send + 'static>(
        &self,
        caller: &Caller,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.write(caller, Scope::Catalog(caller.organization), work).await
    }

    /// Work alone on one customer, whose result is the answer.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn on_customer<T: Serialize + Send + 'static>(
        &self,
        caller: &Caller,
        customer: &CustomerId,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.write(caller, customer_scope(caller.organization, customer), work).await
    }

    /// Work alone on a customer whose key was looked up; its result is the answer.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn on_customer_key<T: Serialize + Send + 'static>(
        &self,
        caller: &Caller,
        customer: CustomerKey,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.write(caller, Scope::Customer(caller.organization, customer), work).await
    }
}

/// The scope of one customer.
pub fn customer_scope(organization: OrganizationId, customer: &CustomerId) -> Scope {
    Scope::Customer(organization, CustomerKey::derive(organization, customer))
}
