//! What the domain asks of a store: transactions alone in their scope, and one repository per aggregate.
//!
//! A transaction belongs to one organization, named by its [`Scope`]; everything that its repositories read
//! or write is that organization's. There is no method that reaches another tenant.
//!
//! Repository verbs: `insert`; `get` fails on absence; `find` answers `None`; `list` takes a page or is
//! bounded by what it lists; `update` writes the whole value back.

#[cfg(feature = "service")]
mod approval;
#[cfg(feature = "service")]
mod audit;
#[cfg(feature = "service")]
mod billing_queue;
#[cfg(feature = "service")]
mod books_audit;
mod catalog;
mod customer;
mod event;
#[cfg(feature = "service")]
mod event_tail;
#[cfg(feature = "service")]
mod identity;
#[cfg(feature = "service")]
mod job;
#[cfg(feature = "service")]
mod member;
mod message;
#[cfg(feature = "service")]
mod overview;
#[cfg(feature = "service")]
mod question;
#[cfg(feature = "service")]
mod recent_events;
#[cfg(feature = "service")]
mod usage_alert;
#[cfg(feature = "service")]
mod user;
#[cfg(feature = "service")]
mod webhook;

#[cfg(feature = "service")]
pub use self::approval::{ApprovalRepo, ApprovedTransaction};
#[cfg(feature = "service")]
pub use self::audit::AuditRepo;
#[cfg(feature = "service")]
pub use self::billing_queue::{Backlog, BillingQueue, Leased, Parked};
#[cfg(feature = "service")]
pub use self::books_audit::{BooksAuditQueue, BooksAuditRepo};
pub use self::catalog::{
    AddonRepo, CurrencyRepo, FeatureRepo, HeldVersion, MetricRepo, OrganizationRepo, PlanRepo, TestClockRepo,
    VersionHolder,
};
#[cfg(feature = "service")]
pub use self::catalog::{ApiKeyLookup, ApiKeyRepo};
pub use self::customer::{
    BillingRecordRepo, CreditNoteFilter, CreditRepo, CustomerRepo, InvoiceFilter, InvoiceRepo, SearchedBy,
    SubscriptionRepo,
};
pub use self::event::{EventCursor, EventFilter, EventIngest, EventRepo, SharedIdCursor, Window};
#[cfg(feature = "service")]
pub use self::event_tail::{EventWatch, ExchangedEvents, PassedEvents, TAILED_MAX, TailedEvents};
#[cfg(feature = "service")]
pub use self::identity::IdentityRepo;
#[cfg(feature = "service")]
pub use self::job::{JobQueue, JobRepo};
#[cfg(feature = "service")]
pub use self::member::MemberRepo;
pub use self::message::{FeedPage, FeedRequest, MessageRepo, Renderer};
#[cfg(feature = "service")]
pub use self::message::{Feeds, Placed};
#[cfg(feature = "service")]
pub use self::overview::{Invoiced, Overview, Overviews, Queued};
#[cfg(feature = "service")]
pub use self::question::{Answered, Question};
#[cfg(feature = "service")]
pub use self::recent_events::{
    EventMinute, EventTally, MINUTES_TOLD, RecentEvents, UNCOUNTED_MAX, UNCOUNTED_TOLD, UncountedEvents,
    UncountedReason,
};
#[cfg(feature = "service")]
pub use self::usage_alert::{AlertQueue, HeadroomVersion, MarkedCustomer, UsageAlertRepo};
#[cfg(feature = "service")]
pub use self::user::Users;
#[cfg(feature = "service")]
pub use self::webhook::{Deliveries, DeliveryRecord, EndpointStanding, LeaseRequest, WebhookRepo};

use time::OffsetDateTime;
use uuid::Uuid;

#[cfg(feature = "service")]
use crate::api_key::Fingerprint;
use crate::approval::Approved;
use crate::error::Error;
#[cfg(feature = "service")]
use crate::error::Noun;
use crate::id::{CustomerKey, OrganizationId};
#[cfg(feature = "service")]
use crate::idempotency::{Attempt, Claim};

/// What a transaction is about, and so what it is alone in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One customer: no two transactions on the same customer interleave, and each sees what the one before
    /// committed. The only scope in which anything of a customer's may change.
    Customer(OrganizationId, CustomerKey),
    /// The organization's catalogue (settings, metrics, plans, clocks): no two such transactions interleave.
    Catalog(OrganizationId),
    /// The organization as a whole, without exclusion: for reading, seen as of one instant.
    Organization(OrganizationId),
    /// One customer, without exclusion: for reading, seen as of one instant, which is the customer's own. Everything else of
    /// the organization can be read as well, the customer cheaper.
    CustomerReading(OrganizationId, CustomerKey),
}

impl Scope {
    /// The tenant.
    pub fn organization(&self) -> OrganizationId {
        match self {
            Self::Customer(organization, _)
            | Self::Catalog(organization)
            | Self::Organization(organization)
            | Self::CustomerReading(organization, _) => *organization,
        }
    }
}

#[cfg(feature = "service")]
/// Who asks for what is done together with what others ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    /// The tenant.
    pub organization: OrganizationId,
    /// The API key that must open the tenant at the moment at which it is done; `None`: somebody has looked.
    pub key: Option<Fingerprint>,
}

#[cfg(feature = "service")]
impl From<OrganizationId> for Requester {
    fn from(organization: OrganizationId) -> Self {
        Self { organization, key: None }
    }
}

/// The work of one transaction. It may be run again from the start if the store had to roll it back.
pub type Work<'w> = dyn FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<(), Error> + 'w;

/// The work of one customer of many. It may be run several times from the start, and what it did is kept once.
pub type WorkOfEach<'w> = dyn FnMut(&mut dyn Transaction, CustomerKey, OffsetDateTime) -> Result<(), Error> + 'w;

#[cfg(feature = "service")]
/// The work of one claimed transaction. It may be run again from the start if the store had to roll it back.
pub type ClaimedWork<'w> = dyn FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<Attempt, Error> + 'w;

#[cfg(feature = "service")]
/// Takes an answer once it is there, on whatever thread that happens. Dropped unused: there will be none.
pub type Reply<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

/// Keeps everything.
pub trait Store: Send + Sync {
    /// Runs `work` alone within `scope`, at the `now` that holds there: commits on `Ok`, leaves no trace on `Err`.
    ///
    /// `now` is the time of the customer's test clock, otherwise the system's but never before the
    /// customer's last change; in scopes without a customer it is the system's. Always whole microseconds.
    ///
    /// # Errors
    /// Those of `work`, or [`Error::Store`].
    fn run(&self, scope: &Scope, work: &mut Work<'_>) -> Result<(), Error>;

    #[cfg(feature = "service")]
    /// [`Store::run`] for whoever comes with an API key that opened the tenant when somebody looked last. The transaction looks
    /// again, behind its lock, before `work` begins.
    ///
    /// # Errors
    /// As [`Store::run`]; [`Refusal::InvalidKey`](crate::Refusal::InvalidKey) when the key does not open the tenant any more.
    fn run_with_key(&self, scope: &Scope, key: &Fingerprint, work: &mut Work<'_>) -> Result<(), Error>;

    #[cfg(feature = "service")]
    /// [`Store::run`] of work that is done once for all requests with one key: effects and answer are kept together
    /// or not at all. The key is taken before the scope's lock. Not for scopes of reading, where nothing is written.
    ///
    /// # Errors
    /// As [`Store::run`]; [`Refusal::IdempotencyKeyInUse`](crate::Refusal::IdempotencyKeyInUse) when a request with
    /// the key has been answered, or is at work and does not come to an end.
    fn run_once(&self, scope: &Scope, claim: &Claim, work: &mut ClaimedWork<'_>) -> Result<(), Error>;

    /// [`Store::run`] of the same work for each of these different customers, alone with each. Each succeeds or fails as it
    /// would by itself: what one does stays, whatever becomes of the others. A store may keep what several did by one
    /// commit. The results are in the order of the customers.
    fn run_each(
        &self,
        organization: OrganizationId,
        customers: &[CustomerKey],
        work: &mut WorkOfEach<'_>,
    ) -> Vec<Result<(), Error>> {
        let alone = |customer: &CustomerKey| {
            self.run(&Scope::Customer(organization, *customer), &mut |tx, now| work(tx, *customer, now))
        };
        customers.iter().map(alone).collect()
    }

    #[cfg(feature = "service")]
    /// Answers a question about one of the requester's customers, together with those of others who ask at the same time, and
    /// without blocking. All that was committed before the call is in the answer, and with
    /// [`Refusal::InvalidKey`](crate::Refusal::InvalidKey) it fails for whoever has no valid key any more.
    /// [`Answered::Alone`] says nothing about the key.
    fn ask(&self, requester: Requester, question: Box<dyn Question>) {
        let _ = requester;
        question.conclude(Answered::Alone);
    }
}

impl dyn Store + '_ {
    /// [`Store::run`] for work that has a result.
    ///
    /// # Errors
    /// As [`Store::run`].
    pub fn run_for<T>(
        &self,
        scope: &Scope,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>,
    ) -> Result<T, Error> {
        result_of(work, |work| self.run(scope, work))
    }

    /// The same as `run_for`, by [`Store::run_with_key`] where there is a `key` to look at.
    ///
    /// # Errors
    /// As [`Store::run_with_key`].
    #[cfg(feature = "service")]
    pub fn run_for_key<T>(
        &self,
        scope: &Scope,
        key: Option<&Fingerprint>,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>,
    ) -> Result<T, Error> {
        result_of(work, |work| match key {
            Some(key) => self.run_with_key(scope, key, work),
            None => self.run(scope, work),
        })
    }

    /// What `work` comes to in a transaction that leaves no trace, whatever it comes to.
    ///
    /// # Errors
    /// As [`Store::run_with_key`].
    #[cfg(feature = "service")]
    pub fn try_for_key<T>(
        &self,
        scope: &Scope,
        key: Option<&Fingerprint>,
        mut work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut result = None;
        let undone: Result<(), Error> = self.run_for_key(scope, key, |tx, now| {
            result = None;
            result = Some(work(tx, now)?);
            // Any error has all of it undone; this one is told to nobody.
            Err(Error::NotFound(Noun::Job))
        });
        match (result, undone) {
            (Some(result), _) => Ok(result),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(crate::StoreError::Internal("the store committed what failed".to_owned()).into()),
        }
    }
}

/// What `work` came to when it was run for the last time.
fn result_of<T>(
    mut work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>,
    run: impl FnOnce(&mut Work<'_>) -> Result<(), Error>,
) -> Result<T, Error> {
    let mut result = None;
    run(&mut |tx, now| {
        result = Some(work(tx, now)?);
        Ok(())
    })?;
    result.ok_or_else(|| crate::StoreError::Internal("the store committed without running the work".to_owned()).into())
}

/// One open transaction: the repositories of every aggregate, sharing one fate.
pub trait Transaction {
    /// The tenant it belongs to.
    fn organization(&self) -> OrganizationId;
    /// A new UUID for an id, unique for ever.
    fn new_uuid(&mut self) -> Uuid;
    /// The organization itself.
    fn organizations(&mut self) -> &mut dyn OrganizationRepo;
    #[cfg(feature = "service")]
    /// API keys and access tokens.
    fn api_keys(&mut self) -> &mut dyn ApiKeyRepo;
    /// Currencies added by the organization.
    fn currencies(&mut self) -> &mut dyn CurrencyRepo;
    /// Metrics.
    fn metrics(&mut self) -> &mut dyn MetricRepo;
    /// Features.
    fn features(&mut self) -> &mut dyn FeatureRepo;
    /// Plans and their versions.
    fn plans(&mut self) -> &mut dyn PlanRepo;
    /// Add-ons.
    fn addons(&mut self) -> &mut dyn AddonRepo;
    /// Test clocks.
    fn test_clocks(&mut self) -> &mut dyn TestClockRepo;
    /// Customers.
    fn customers(&mut self) -> &mut dyn CustomerRepo;
    /// Subscriptions.
    fn subscriptions(&mut self) -> &mut dyn SubscriptionRepo;
    /// Billing records.
    fn billing_records(&mut self) -> &mut dyn BillingRecordRepo;
    /// Invoices.
    fn invoices(&mut self) -> &mut dyn InvoiceRepo;
    /// Credits.
    fn credits(&mut self) -> &mut dyn CreditRepo;
    /// Events, as far as they can be read.
    fn events(&mut self) -> &mut dyn EventRepo;
    /// Messages about what became true.
    fn messages(&mut self) -> &mut dyn MessageRepo;
    /// What a second person has approved of what is done in it; `None`: one person does it alone.
    fn approved(&self) -> Option<&Approved> {
        None
    }
    #[cfg(feature = "service")]
    /// Requests for a second person.
    fn approvals(&mut self) -> &mut dyn ApprovalRepo;
    #[cfg(feature = "service")]
    /// The log of changes.
    fn audit_log(&mut self) -> &mut dyn AuditRepo;
    #[cfg(feature = "service")]
    /// Users of the organization.
    fn members(&mut self) -> &mut dyn MemberRepo;
    #[cfg(feature = "service")]
    /// Accounts of providers, and roles by their groups.
    fn identities(&mut self) -> &mut dyn IdentityRepo;
    #[cfg(feature = "service")]
    /// Long work in the background.
    fn jobs(&mut self) -> &mut dyn JobRepo;
    #[cfg(feature = "service")]
    /// Audits of the books.
    fn books_audits(&mut self) -> &mut dyn BooksAuditRepo;
    #[cfg(feature = "service")]
    /// Usage alerts.
    fn usage_alerts(&mut self) -> &mut dyn UsageAlertRepo;
    #[cfg(feature = "service")]
    /// Webhook endpoints.
    fn webhooks(&mut self) -> &mut dyn WebhookRepo;
}

/// Which part of a list is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// Most items.
    pub limit: u32,
    /// [`Page::next`] of the page before; `None`: from the beginning.
    pub after: Option<String>,
}

impl PageRequest {
    /// Most items in one answer.
    pub const LIMIT_MAX: u32 = 1_000;

    /// The beginning of the list.
    pub fn first() -> Self {
        Self { limit: Self::LIMIT_MAX, after: None }
    }
}

/// One part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the list goes on; `None`: this was the end.
    pub next: Option<String>,
}
