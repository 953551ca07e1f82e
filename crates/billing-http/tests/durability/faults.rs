//! What clients see of a store that fails, is slow, or is set up wrongly.

use std::sync::Arc;
use std::time::{Duration, Instant};

use billing_domain::api_key::{ApiKey, Fingerprint};
use billing_domain::books_audit::{BooksAudit, BooksBreach};
use billing_domain::event::{Event, Ingested};
use billing_domain::id::{CustomerKey, JobId, OrganizationId, TestClockId, UserId, WebhookEndpointId};
use billing_domain::idempotency::{Answer, Claim, IdempotencyStore, KeptAnswer};
use billing_domain::job::Job;
use billing_domain::store::{
    AlertQueue, ApiKeyLookup, Backlog, BillingQueue, BooksAuditQueue, ClaimedWork, Deliveries, DeliveryRecord,
    EndpointStanding, EventIngest, Feeds, JobQueue, LeaseRequest, Leased, MarkedCustomer, Overview, Overviews, Parked,
    Placed, Queued, RecentEvents, Renderer, Reply, Requester, Scope, Store, Users, Window, Work,
};
use billing_domain::user::{Identity, Invited, Role, Session, SignInAttempt, SignedIn, User};
use billing_domain::webhook::WebhookEndpoint;
use billing_domain::{Error, StoreError};
use billing_http::caller::Pepper;
use billing_http::cli::Cli;
use billing_http::startup::Opened;
use billing_http::{Backend, Server, ServerSettings};
use billing_store::testing::TestStore;
use clap::Parser;
use time::OffsetDateTime;
use ureq::Agent;
use uuid::Uuid;

use crate::seen;

/// A store that does nothing but fail, after a while.
struct Broken {
    error: StoreError,
    after: Duration,
}

impl Broken {
    fn fail<T>(&self) -> Result<T, Error> {
        std::thread::sleep(self.after);
        Err(self.error.clone().into())
    }
}

impl Store for Broken {
    fn run(&self, _: &Scope, _: &mut Work<'_>) -> Result<(), Error> {
        self.fail()
    }

    fn run_with_key(&self, _: &Scope, _: &Fingerprint, _: &mut Work<'_>) -> Result<(), Error> {
        self.fail()
    }

    fn run_once(&self, _: &Scope, _: &Claim, _: &mut ClaimedWork<'_>) -> Result<(), Error> {
        self.fail()
    }
}

impl IdempotencyStore for Broken {
    fn find_answer(&self, _: OrganizationId, _: &str) -> Result<Option<KeptAnswer>, Error> {
        self.fail()
    }

    fn keep_answer(&self, _: OrganizationId, _: &Claim, _: &Answer) -> Result<KeptAnswer, Error> {
        self.fail()
    }

    fn forget_answers(&self, _: u32) -> Result<u32, Error> {
        Ok(0)
    }
}

impl EventIngest for Broken {
    fn ingest(&self, _: OrganizationId, _: &[Event], _: Window) -> Result<Vec<Ingested>, Error> {
        self.fail()
    }

    fn ingest_then(&self, _: Requester, _: Vec<Event>, _: Window, reply: Reply<Vec<Ingested>>) {
        reply(self.fail());
    }
}

impl ApiKeyLookup for Broken {
    fn find_key(&self, _: &str) -> Result<Option<(ApiKey, OffsetDateTime)>, Error> {
        self.fail()
    }

    fn find_key_then(&self, _: String, reply: Reply<Option<(ApiKey, OffsetDateTime)>>) {
        let (after, error) = (self.after, self.error.clone());
        std::thread::spawn(move || {
            std::thread::sleep(after);
            reply(Err(error.into()));
        });
    }

    fn note_uses(&self, _: &[String]) -> Result<(), Error> {
        self.fail()
    }

    fn list_organizations(&self) -> Result<Vec<OrganizationId>, Error> {
        self.fail()
    }
}

impl Overviews for Broken {
    fn overview(&self, _: OrganizationId) -> Result<Overview, Error> {
        self.fail()
    }

    fn billing_queue(&self, _: OrganizationId, _: u32) -> Result<Vec<Queued>, Error> {
        self.fail()
    }

    fn recent_events(&self, _: OrganizationId) -> Result<RecentEvents, Error> {
        self.fail()
    }
}

impl Users for Broken {
    fn has_users(&self) -> Result<bool, Error> {
        self.fail()
    }

    fn find_user(&self, _: &str) -> Result<Option<User>, Error> {
        self.fail()
    }

    fn put_user(&self, _: &str, _: &str, _: OrganizationId, _: Role) -> Result<bool, Error> {
        self.fail()
    }

    fn set_password(&self, _: &str, _: &str) -> Result<bool, Error> {
        self.fail()
    }

    fn set_timezone(&self, _: UserId, _: Option<&str>) -> Result<bool, Error> {
        self.fail()
    }

    fn remove_member(&self, _: OrganizationId, _: &str) -> Result<bool, Error> {
        self.fail()
    }

    fn list_members(&self, _: OrganizationId) -> Result<Vec<(String, Role)>, Error> {
        self.fail()
    }

    fn begin_session(&self, _: &Fingerprint, _: UserId, _: OrganizationId, _: &str) -> Result<(), Error> {
        self.fail()
    }

    fn find_session(&self, _: &str) -> Result<Option<SignedIn>, Error> {
        self.fail()
    }

    fn switch_session(&self, _: UserId, _: &str, _: &Fingerprint, _: OrganizationId) -> Result<bool, Error> {
        self.fail()
    }

    fn note_seen(&self, _: &str) -> Result<(), Error> {
        self.fail()
    }

    fn end_session(&self, _: UserId, _: &str) -> Result<bool, Error> {
        self.fail()
    }

    fn find_invitation(&self, _: &str) -> Result<Option<Invited>, Error> {
        self.fail()
    }

    fn list_sessions(&self, _: UserId) -> Result<Vec<Session>, Error> {
        self.fail()
    }

    fn find_linked(&self, _: &Identity) -> Result<Option<User>, Error> {
        self.fail()
    }

    fn list_identities(&self, _: UserId) -> Result<Vec<Identity>, Error> {
        self.fail()
    }

    fn list_given(&self, _: UserId, _: &str) -> Result<Vec<OrganizationId>, Error> {
        self.fail()
    }

    fn begin_attempt(&self, _: &Fingerprint, _: Option<UserId>, _: &str) -> Result<(), Error> {
        self.fail()
    }

    fn take_attempt(&self, _: &str) -> Result<Option<(SignInAttempt, OffsetDateTime)>, Error> {
        self.fail()
    }
}

impl BillingQueue for Broken {
    fn lease_due(
        &self,
        _: u32,
        _: time::Duration,
        _: Option<OffsetDateTime>,
        _: &[OrganizationId],
    ) -> Result<Vec<Leased>, Error> {
        Ok(Vec::new())
    }

    fn put_off(&self, _: &Leased, _: &str, _: time::Duration) -> Result<(), Error> {
        self.fail()
    }

    fn wait_for_tax(&self, _: &[Leased], _: time::Duration) -> Result<(), Error> {
        self.fail()
    }

    fn list_parked(&self, _: u32) -> Result<Vec<Parked>, Error> {
        self.fail()
    }

    fn release_parked(&self) -> Result<u64, Error> {
        self.fail()
    }

    fn backlog(&self) -> Result<Backlog, Error> {
        self.fail()
    }

    fn lease_catching_up(
        &self,
        _: u32,
        _: time::Duration,
        _: Option<OffsetDateTime>,
        _: &[OrganizationId],
    ) -> Result<Vec<Leased>, Error> {
        Ok(Vec::new())
    }

    fn list_catching_up(&self, _: u32) -> Result<Vec<(OrganizationId, TestClockId, CustomerKey)>, Error> {
        Ok(Vec::new())
    }

    fn list_advancing_clocks(&self) -> Result<Vec<(OrganizationId, TestClockId)>, Error> {
        Ok(Vec::new())
    }
}

impl Feeds for Broken {
    fn place_messages(&self, _: u32) -> Result<Placed, Error> {
        Ok(Placed::default())
    }

    fn last_positions(&self, _: &[OrganizationId]) -> Result<Vec<u64>, Error> {
        self.fail()
    }

    fn drop_messages(&self, _: OffsetDateTime, _: u32) -> Result<bool, Error> {
        Ok(false)
    }

    fn on_messages(&self, _: Box<dyn Fn() + Send + Sync>) {}

    fn render_with(&self, _: Arc<dyn Renderer>) {}
}

impl AlertQueue for Broken {
    fn list_marked(&self, _: u32) -> Result<Vec<MarkedCustomer>, Error> {
        self.fail()
    }

    fn drop_marks(&self, _: &[MarkedCustomer]) -> Result<(), Error> {
        self.fail()
    }

    fn mark_concerned(&self, _: u32) -> Result<usize, Error> {
        self.fail()
    }

    fn on_marks(&self, _: Box<dyn Fn() + Send + Sync>) {}
}

impl BooksAuditQueue for Broken {
    fn lease_books_audit(&self, _: time::Duration) -> Result<Option<(OrganizationId, BooksAudit)>, Error> {
        self.fail()
    }

    fn keep_books_audit(
        &self,
        _: OrganizationId,
        _: &BooksAudit,
        _: &[BooksBreach],
        _: time::Duration,
    ) -> Result<bool, Error> {
        self.fail()
    }
}

impl JobQueue for Broken {
    fn lease_job(&self, _: time::Duration) -> Result<Option<(OrganizationId, Job)>, Error> {
        self.fail()
    }

    fn keep_job(&self, _: OrganizationId, _: &Job, _: time::Duration) -> Result<bool, Error> {
        self.fail()
    }

    fn leave_job(&self, _: OrganizationId, _: JobId) -> Result<(), Error> {
        self.fail()
    }
}

impl Deliveries for Broken {
    fn lease_endpoints(&self, _: &LeaseRequest) -> Result<Vec<(OrganizationId, WebhookEndpointId)>, Error> {
        self.fail()
    }

    fn renew_leases(&self, _: Uuid, _: OffsetDateTime, _: time::Duration) -> Result<(), Error> {
        self.fail()
    }

    fn release_endpoint(&self, _: Uuid, _: OrganizationId, _: WebhookEndpointId) -> Result<(), Error> {
        self.fail()
    }

    fn record_deliveries(
        &self,
        _: Uuid,
        _: OrganizationId,
        _: WebhookEndpointId,
        _: &DeliveryRecord,
    ) -> Result<Option<WebhookEndpoint>, Error> {
        self.fail()
    }

    fn list_standings(&self, _: u32) -> Result<Vec<EndpointStanding>, Error> {
        self.fail()
    }

    fn drop_attempts(&self, _: OffsetDateTime, _: u32) -> Result<u64, Error> {
        self.fail()
    }
}

impl Backend for Broken {
    fn ping(&self) -> Result<(), StoreError> {
        std::thread::sleep(self.after);
        Err(self.error.clone())
    }
}

/// The status, `Retry-After` and text of a GET with a key.
fn get(addr: std::net::SocketAddr, path: &str) -> (u16, bool, String) {
    let agent: Agent = Agent::config_builder().http_status_as_error(false).build().into();
    let key = format!("{}.{}", "a".repeat(8), "b".repeat(32));
    let mut answer = agent.get(format!("http://{addr}{path}")).header("X-API-KEY", key).call().expect("an answer");
    let text = answer.body_mut().read_to_string().expect("text");
    seen::note_text(&text);
    (answer.status().as_u16(), answer.headers().contains_key("retry-after"), text)
}

fn serve(backend: Broken, connections: usize) -> billing_http::RunningServer {
    let addr = "127.0.0.1:0".parse().expect("an address");
    let mut settings = ServerSettings::new(addr, Pepper::from_text("pepper"), connections);
    settings.notice = Duration::ZERO;
    Server::start(&settings, Arc::new(backend)).expect("a server")
}

#[test]
fn a_failing_store_has_codes_and_keeps_its_secrets() {
    let secret = "host=10.0.0.7 user=admin";
    #[rustfmt::skip]
    let cases = [
        // error,                                     status, code,                  try again
        (StoreError::Unavailable(secret.to_owned()),  503,    "db_unavailable",      true),
        (StoreError::PoolExhausted,                   503,    "db_pool_exhausted",   true),
        (StoreError::Overloaded,                      429,    "too_many_in_flight",  true),
        (StoreError::LockTimeout,                     409,    "conflict_retry",      true),
        (StoreError::DeadlineExceeded,                504,    "deadline_exceeded",   false),
        (StoreError::StorageFull(secret.to_owned()),  503,    "storage_unavailable", true),
        (StoreError::ReadOnly,                        503,    "read_only_mode",      true),
        (StoreError::Internal(secret.to_owned()),     500,    "internal_error",      false),
    ];
    for (error, status, code, retry) in cases {
        let server = serve(Broken { error, after: Duration::ZERO }, 2);
        for path in ["/api/ping/", "/readyz"] {
            let (found, retryable, text) = get(server.addr, path);
            assert_eq!((found, retryable), (status, retry), "{path} {code}: {text}");
            assert!(text.contains(&format!("\"title\":\"{code}\"")), "{text}");
            assert!(!text.contains("10.0.0.7"), "the cause is for the log: {text}");
        }
        assert_eq!(get(server.addr, "/livez").0, 200, "the process lives");
        let (found, _, text) = get(server.addr, "/metrics");
        assert!(found == 200 && text.contains("\nbilling_database_up 0\n"), "{text}");
        server.stop().expect("a clean stop");
    }
}

#[test]
fn a_database_that_is_gone_for_want_of_room_is_told_apart() {
    #[rustfmt::skip]
    let cases = [
        // error,                                       disk is full, code,                  why
        (StoreError::Unavailable("gone".to_owned()),    true,         "storage_unavailable", "a server that cannot start for want of room"),
        (StoreError::Unavailable("gone".to_owned()),    false,        "db_unavailable",      "gone for another reason"),
        (StoreError::PoolExhausted,                     true,         "db_pool_exhausted",   "it is there, and busy"),
    ];
    for (error, is_full, code, why) in cases {
        let addr = "127.0.0.1:0".parse().expect("an address");
        let mut settings = ServerSettings::new(addr, Pepper::from_text("pepper"), 2);
        settings.notice = Duration::ZERO;
        settings.is_disk_full = Some(Arc::new(move || is_full));
        let server = Server::start(&settings, Arc::new(Broken { error, after: Duration::ZERO })).expect("a server");
        for path in ["/api/ping/", "/readyz"] {
            let (status, _, text) = get(server.addr, path);
            assert_eq!(status, 503, "{why}");
            assert!(text.contains(&format!("\"title\":\"{code}\"")), "{path}: {why}: {text}");
        }
        server.stop().expect("a clean stop");
    }
}

#[test]
fn a_slow_store_is_not_queued_on_for_ever() {
    let error = StoreError::DeadlineExceeded;
    let server = serve(Broken { error, after: Duration::from_secs(3) }, 1);
    let addr = server.addr;
    let first = std::thread::spawn(move || get(addr, "/api/ping/"));
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    let (status, retryable, text) = get(addr, "/api/ping/");
    assert_eq!((status, retryable), (503, true), "{text}");
    assert!(text.contains("db_pool_exhausted"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(get(addr, "/livez").0, 200, "what needs no database is not held up");
    assert_eq!(get(addr, "/readyz").0, 503, "readiness does not wait for ever either");
    assert_eq!(first.join().expect("a thread").0, 503);
    server.stop().expect("a clean stop");
}

#[test]
fn a_forgetful_database_is_refused() {
    let store = TestStore::new();
    let cli = Cli::parse_from(["billing-http", "--database-url", store.url()]);
    let refused = Opened::open(&cli.settings).err().expect("throw-away clusters do not sync");
    let said = format!("{refused:#}");
    assert!(said.contains("fsync is off"), "{said}");
}
