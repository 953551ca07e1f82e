//! What every handler has: the backend, a bounded way to block on it, and whether the service is draining.

mod block;
mod transact;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use actix_http::Request;
use actix_web::dev::ServiceResponse;
use actix_web::web;
use billing_domain::id::OrganizationId;
use billing_outbound::Client;
use billing_store::{Company, Load};

use crate::backend::Backend;
use crate::caller::{KnownKeys, Pepper};
use crate::client_address::Network;
use crate::connections::Connections;
use crate::delivery::Deliverer;
use crate::error::ApiError;
use crate::event_tails::EventTails;
use crate::feed_signals::FeedSignals;
use crate::key_uses::KeyUses;
use crate::noted_call::Show;
use crate::places::Places;
use crate::server_settings::{self, DiskCheck, ServerSettings};
use crate::taxes::Taxes;
use crate::telemetry::Telemetry;
use crate::usual_time::UsualTimes;
use crate::worker::Alarm;

/// Makes a call of the API inside this process.
pub type CallInside =
    fn(web::Data<App>, Request) -> Pin<Box<dyn Future<Output = Result<ServiceResponse, actix_web::Error>>>>;

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
    /// Who watches events come in.
    pub event_tails: Arc<EventTails>,
    /// What is counted about the service.
    pub telemetry: Telemetry,
    /// Those that are open.
    pub connections: Arc<Connections>,
    show: Show,
    call_inside: CallInside,
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
            event_tails: Arc::default(),
            telemetry: Telemetry::default(),
            connections: Arc::new(Connections::new(server_settings::places(), settings.idle_deadline)),
            show: |_, _, _, _| Ok(None),
            call_inside: |_, _| Box::pin(async { Err(ApiError::internal("there are no calls in here").into()) }),
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

    /// With the calls of the API, to be made inside this process.
    #[must_use]
    pub fn calling(self, call_inside: CallInside) -> Self {
        Self { call_inside, ..self }
    }

    /// Makes a call of the API inside this process.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn call_inside(app: web::Data<Self>, request: Request) -> Result<ServiceResponse, actix_web::Error> {
        (app.call_inside)(app.clone(), request).await
    }

    /// Tells load balancers to go elsewhere.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.feed_signals.ring_all();
        self.event_tails.close();
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

    /// Notes how many events this process has stored since the last time, before it goes.
    pub fn note_events(&self) {
        if let Err(error) = self.backend.note_events() {
            log::warn!("it could not be noted how many events came in: {error}");
        }
    }
}
