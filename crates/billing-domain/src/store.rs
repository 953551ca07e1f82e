//! What the domain asks of a store: transactions alone in their scope, and one repository per aggregate.
//!
//! A transaction belongs to one organization, named by its [`Scope`]; everything that its repositories read
//! or write is that organization's. There is no method that reaches another tenant.
//!
//! Repository verbs: `insert`; `get` fails on absence; `find` answers `None`; `list` takes a page or is
//! bounded by what it lists; `update` writes the whole value back.

use std::collections::BTreeMap;

use time::{Date, OffsetDateTime};
use uuid::Uuid;

use crate::addon::Addon;
use crate::api_key::{ApiKey, KeyKind};
use crate::charge::BillingRecord;
use crate::credit::CreditLedger;
use crate::currency::Currency;
use crate::custom_sql::{CustomFailure, CustomUsageRequest};
use crate::customer::Customer;
use crate::error::{Error, FieldCode, FieldError};
use crate::event::{Event, Ingested};
use crate::id::{AddonId, CreditId, CustomerKey, FeatureId, InvoiceId, MetricId, OrganizationId};
use crate::id::{PlanId, PlanVersionId, SubscriptionId, TestClockId};
use crate::idempotency::{Claim, ClaimedWork};
use crate::invoice::{Invoice, PaymentStatus};
use crate::metric::Metric;
use crate::organization::Organization;
use crate::plan::{Feature, Plan, PlanVersion};
use crate::subscription::Subscription;
use crate::test_clock::TestClock;
use crate::usage::{Usage, UsageRequest};

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
}

impl Scope {
    /// The tenant.
    pub fn organization(&self) -> OrganizationId {
        match self {
            Self::Customer(organization, _) | Self::Catalog(organization) | Self::Organization(organization) => {
                *organization
            }
        }
    }
}

/// The work of one transaction. It may be run again from the start if the store had to roll it back.
pub type Work<'w> = dyn FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<(), Error> + 'w;

/// Takes an answer once it is there, on whatever thread that happens. Dropped unused: there will be none.
pub type Reply<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

/// A question about the usage of one customer, which a store may answer together with those of others.
pub trait Question: Send {
    /// Whose usage.
    fn customer(&self) -> CustomerKey;
    /// Of which metric.
    fn metric(&self) -> MetricId;
    /// What must be known to answer it. May be called again, in another transaction.
    fn prepare(&mut self, tx: &mut dyn Transaction) -> Result<Vec<UsageRequest>, Error>;
    /// Takes the outcome.
    fn conclude(self: Box<Self>, outcome: Answered);
}

/// What became of a [`Question`].
#[derive(Debug)]
pub enum Answered {
    /// The usage behind each request that its last [`Question::prepare`] made, in order, all of one snapshot with that.
    Known(Vec<Usage>),
    /// It has no answer.
    Failed(Error),
    /// It takes more than others should wait for: ask in a transaction of its own.
    Alone,
}

/// Keeps everything.
pub trait Store: Send + Sync {
    /// Runs `work` alone within `scope`, at the `now` that holds there: commits on `Ok`, leaves no trace on `Err`.
    ///
    /// `now` is the time of the customer's test clock, otherwise the system's but never before the
    /// customer's last change; in the other scopes it is the system's. Always whole microseconds.
    ///
    /// # Errors
    /// Those of `work`, or [`Error::Store`].
    fn run(&self, scope: &Scope, work: &mut Work<'_>) -> Result<(), Error>;

    /// [`Store::run`] of work that is done once for all requests with one key: effects and answer are kept together
    /// or not at all. The key is taken before the scope's lock. Not for [`Scope::Organization`], where nothing is
    /// written.
    ///
    /// # Errors
    /// As [`Store::run`]; [`Refusal::IdempotencyKeyInUse`](crate::Refusal::IdempotencyKeyInUse) when a request with
    /// the key has been answered, or is at work and does not come to an end.
    fn run_once(&self, scope: &Scope, claim: &Claim, work: &mut ClaimedWork<'_>) -> Result<(), Error>;

    /// Answers a question about one of the organization's customers, together with those of others who ask at the same
    /// time, and without blocking. All that was committed before the call is in the answer.
    fn ask(&self, organization: OrganizationId, question: Box<dyn Question>) {
        let _ = organization;
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
        mut work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut result = None;
        self.run(scope, &mut |tx, now| {
            result = Some(work(tx, now)?);
            Ok(())
        })?;
        result.ok_or_else(|| {
            crate::StoreError::Internal("the store committed without running the work".to_owned()).into()
        })
    }
}

/// One open transaction: the repositories of every aggregate, sharing one fate.
pub trait Transaction {
    /// The tenant it belongs to.
    fn organization(&self) -> OrganizationId;
    /// A new UUID for an id, unique for ever.
    fn new_uuid(&mut self) -> Uuid;
    /// The organization itself.
    fn organizations(&mut self) -> &mut dyn OrganizationRepo;
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

/// The organization of the transaction.
pub trait OrganizationRepo {
    /// Keeps a new organization. Its id must be that of the transaction.
    fn insert(&mut self, organization: &Organization) -> Result<(), Error>;
    /// The organization.
    fn get(&mut self) -> Result<Organization, Error>;
    /// Writes all settings back, but for the filter keys, which only [`OrganizationRepo::add_filter_keys`] changes.
    fn update(&mut self, organization: &Organization) -> Result<(), Error>;
    /// Adds event properties that subscription filters may name; known ones change nothing. Safe beside
    /// transactions of other customers that do the same. Usage by a new key is right for all events, those
    /// that came before too.
    ///
    /// # Errors
    /// A field error at `subscription_filters` beyond
    /// [`Organization::SUBSCRIPTION_FILTER_KEYS_MAX`](crate::organization::Organization::SUBSCRIPTION_FILTER_KEYS_MAX).
    fn add_filter_keys(&mut self, keys: &[&str]) -> Result<(), Error>;
}

/// API keys and access tokens of the organization.
pub trait ApiKeyRepo {
    /// Keeps a new key.
    fn insert(&mut self, key: &ApiKey) -> Result<(), Error>;
    /// All keys of a kind, oldest first, expired ones too.
    fn list(&mut self, kind: KeyKind) -> Result<Vec<ApiKey>, Error>;
    /// Removes a key of a kind for good; it is worthless from the commit on.
    fn delete(&mut self, kind: KeyKind, prefix: &str) -> Result<(), Error>;
}

/// Currencies that the organization added to those of ISO 4217.
pub trait CurrencyRepo {
    /// Keeps a new currency.
    fn insert(&mut self, currency: &Currency) -> Result<(), Error>;
    /// All added currencies, by code.
    fn list(&mut self) -> Result<Vec<Currency>, Error>;
}

/// Metrics of the organization.
pub trait MetricRepo {
    /// Keeps a new metric. Events that arrive from the commit on are counted for it as they arrive; those
    /// that came before count too, they only cost more to read.
    fn insert(&mut self, metric: &Metric) -> Result<(), Error>;
    /// The metric, archived or not.
    fn get(&mut self, id: MetricId) -> Result<Metric, Error>;
    /// All metrics, oldest first, archived ones too.
    fn list(&mut self) -> Result<Vec<Metric>, Error>;
    /// Writes back what can change: name and archival.
    fn update(&mut self, metric: &Metric) -> Result<(), Error>;
}

/// Features of the organization.
pub trait FeatureRepo {
    /// Keeps a new feature.
    fn insert(&mut self, feature: &Feature) -> Result<(), Error>;
    /// The feature.
    fn get(&mut self, id: FeatureId) -> Result<Feature, Error>;
    /// All features, oldest first.
    fn list(&mut self) -> Result<Vec<Feature>, Error>;
}

/// Plans and their versions.
pub trait PlanRepo {
    /// Keeps a new plan.
    fn insert(&mut self, plan: &Plan) -> Result<(), Error>;
    /// The plan; add-ons are none, and what was deleted is not found.
    fn get(&mut self, id: PlanId) -> Result<Plan, Error>;
    /// The plan, deleted or not.
    fn recall(&mut self, id: PlanId) -> Result<Plan, Error>;
    /// Writes back what can change: names, tags, links, deletion.
    fn update(&mut self, plan: &Plan) -> Result<(), Error>;
    /// All plans that were not deleted, newest first, then by name.
    fn list(&mut self) -> Result<Vec<Plan>, Error>;
    /// Keeps a new version.
    fn insert_version(&mut self, version: &PlanVersion) -> Result<(), Error>;
    /// The version, deleted or not.
    fn get_version(&mut self, id: PlanVersionId) -> Result<PlanVersion, Error>;
    /// The versions of one plan, or of all plans and add-ons, that were not deleted, oldest first.
    fn list_versions(&mut self, plan: Option<PlanId>) -> Result<Vec<PlanVersion>, Error>;
    /// Writes back what can change: active span, replacement, transition, names, targets, deletion.
    fn update_version(&mut self, version: &PlanVersion) -> Result<(), Error>;
    /// Whether a subscription to the plan (or to one version of it) has not ended, or is to renew. Customers with a test
    /// clock are judged by the time they live at, all others by `now`.
    fn is_held(&mut self, plan: PlanId, version: Option<PlanVersionId>, now: OffsetDateTime) -> Result<bool, Error>;
    /// How many subscriptions of each version run, those of customers with a test clock at the time they live at, all others
    /// at `now`; versions without any are left out.
    fn active_subscriptions(&mut self, now: OffsetDateTime) -> Result<BTreeMap<PlanVersionId, u64>, Error>;
}

/// Add-ons of the organization. Each is a plan with one version that [`PlanRepo`] finds by version id alone.
pub trait AddonRepo {
    /// Keeps a new add-on and its content.
    fn insert(&mut self, addon: &Addon) -> Result<(), Error>;
    /// The add-on.
    fn get(&mut self, id: AddonId) -> Result<Addon, Error>;
    /// All add-ons, newest first, then by name.
    fn list(&mut self) -> Result<Vec<Addon>, Error>;
}

/// Test clocks of the organization.
pub trait TestClockRepo {
    /// Keeps a new clock.
    fn insert(&mut self, clock: &TestClock) -> Result<(), Error>;
    /// The clock.
    fn get(&mut self, id: TestClockId) -> Result<TestClock, Error>;
    /// All clocks, oldest first.
    fn list(&mut self) -> Result<Vec<TestClock>, Error>;
    /// Writes time and status back.
    fn update(&mut self, clock: &TestClock) -> Result<(), Error>;
    /// The customers that live by the clock and were not deleted, in order of key.
    fn list_customers(&mut self, id: TestClockId) -> Result<Vec<CustomerKey>, Error>;
}

/// Customers of the organization.
pub trait CustomerRepo {
    /// Keeps a new customer.
    ///
    /// # Errors
    /// [`Refusal::DuplicateResource`](crate::Refusal::DuplicateResource) when its id or e-mail is taken.
    fn insert(&mut self, customer: &Customer) -> Result<(), Error>;
    /// The customer; one that was deleted is not found.
    fn get(&mut self, key: CustomerKey) -> Result<Customer, Error>;
    /// The customer, deleted or not.
    fn recall(&mut self, key: CustomerKey) -> Result<Customer, Error>;
    /// Writes back what can change: all but id, clock and creation.
    ///
    /// # Errors
    /// [`Refusal::DuplicateResource`](crate::Refusal::DuplicateResource) when its e-mail is taken.
    fn update(&mut self, customer: &Customer) -> Result<(), Error>;
    /// All customers that were not deleted, in order of creation.
    fn list(&mut self, page: &PageRequest) -> Result<Page<Customer>, Error>;
    /// The customer's now: as [`Store::run`] gives it under [`Scope::Customer`], from any scope.
    fn now(&mut self, key: CustomerKey) -> Result<OffsetDateTime, Error>;
    /// [`CustomerRepo::now`] of many, in their order.
    fn nows(&mut self, keys: &[CustomerKey]) -> Result<Vec<OffsetDateTime>, Error>;
    /// Moves the instant before which the customer's now can never be; earlier instants change nothing.
    fn reach(&mut self, key: CustomerKey, instant: OffsetDateTime) -> Result<(), Error>;
    /// When the customer next has something to be billed or renewed; `None`: never. Kept only for customers
    /// in real time: a test clock's customers are driven by their clock. Earlier failures are forgotten.
    fn set_billing_due(&mut self, key: CustomerKey, due_at: Option<OffsetDateTime>) -> Result<(), Error>;
}

/// Subscriptions of the organization's customers.
pub trait SubscriptionRepo {
    /// Keeps a new subscription.
    ///
    /// # Errors
    /// [`Refusal::OverlappingPlans`](crate::Refusal::OverlappingPlans) as the last wall.
    fn insert(&mut self, subscription: &Subscription) -> Result<(), Error>;
    /// The customer that holds the subscription: the way from an id alone to its scope. A subscription that was
    /// replaced by a switch is not found: its id is no longer valid. Nor is an attached add-on: it is reached by
    /// its parent.
    fn customer_of(&mut self, id: SubscriptionId) -> Result<CustomerKey, Error>;
    /// The subscription, replaced or not.
    fn get(&mut self, customer: CustomerKey, id: SubscriptionId) -> Result<Subscription, Error>;
    /// Everything a customer holds or held, add-ons too, by start, then by id, but for what was replaced by a switch.
    fn list(&mut self, customer: CustomerKey) -> Result<Vec<Subscription>, Error>;
    /// [`SubscriptionRepo::list`] of many customers at once: for each by start, then by id.
    fn list_of(&mut self, customers: &[CustomerKey]) -> Result<Vec<Subscription>, Error>;
    /// Of [`SubscriptionRepo::list`], what ends after `instant` or still awaits renewal.
    fn list_current(&mut self, customer: CustomerKey, instant: OffsetDateTime) -> Result<Vec<Subscription>, Error>;
    /// Writes back what can change.
    fn update(&mut self, subscription: &Subscription) -> Result<(), Error>;
    /// Counts one more scheduled invoicing of each of a customer's subscriptions on a UTC day, and answers how many each
    /// has had on that day, in the same order. Only the latest day is remembered; what is of an earlier one counts as of it.
    fn count_invoicing(
        &mut self,
        customer: CustomerKey,
        subscriptions: &[SubscriptionId],
        day: Date,
    ) -> Result<Vec<u32>, Error>;
}

/// Billing records of the organization's customers.
pub trait BillingRecordRepo {
    /// Keeps new records of one customer.
    fn insert(&mut self, customer: CustomerKey, records: &[BillingRecord]) -> Result<(), Error>;
    /// The customer's records that have an invoicing instant to come or wait for late events, by
    /// [`BillingRecord::next_due_at`], then in order of making.
    fn list_open(&mut self, customer: CustomerKey) -> Result<Vec<BillingRecord>, Error>;
    /// All records of one subscription, in order of making.
    fn list(&mut self, customer: CustomerKey, subscription: SubscriptionId) -> Result<Vec<BillingRecord>, Error>;
    /// The subscriptions of these customers that have no record left to bill, by start, then by id.
    fn list_fully_billed(&mut self, customers: &[CustomerKey]) -> Result<Vec<SubscriptionId>, Error>;
    /// Writes back what was billed and when the next invoicing is.
    fn update(&mut self, customer: CustomerKey, record: &BillingRecord) -> Result<(), Error>;
}

/// Which invoices are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvoiceFilter {
    /// Only this customer's.
    pub customer: Option<CustomerKey>,
    /// Only with one of these statuses; `None`: all.
    pub statuses: Option<Vec<PaymentStatus>>,
}

/// Invoices of the organization.
pub trait InvoiceRepo {
    /// The next number of the organization's gap-free sequence. Held until the transaction ends: take it last.
    fn next_sequence(&mut self) -> Result<u64, Error>;
    /// Keeps an issued invoice for good.
    fn insert(&mut self, invoice: &Invoice) -> Result<(), Error>;
    /// The invoice with its lines.
    fn get(&mut self, id: InvoiceId) -> Result<Invoice, Error>;
    /// Writes the payment status back; nothing else of an issued invoice ever changes.
    fn update(&mut self, invoice: &Invoice) -> Result<(), Error>;
    /// The id behind an invoice number.
    fn find_by_number(&mut self, number: &str) -> Result<Option<InvoiceId>, Error>;
    /// All invoices of these customers that have one of the statuses, with their lines, newest first.
    fn list_of(&mut self, customers: &[CustomerKey], statuses: &[PaymentStatus]) -> Result<Vec<Invoice>, Error>;
    /// Invoices with their lines, newest first.
    fn list(&mut self, filter: &InvoiceFilter, page: &PageRequest) -> Result<Page<Invoice>, Error>;
}

/// Credits of the organization's customers, each with its ledger.
pub trait CreditRepo {
    /// Keeps a new credit and the entries of its ledger.
    fn insert(&mut self, customer: CustomerKey, ledger: &CreditLedger) -> Result<(), Error>;
    /// The customer that holds the credit: the way from an id alone to its scope.
    fn customer_of(&mut self, id: CreditId) -> Result<CustomerKey, Error>;
    /// The credit.
    fn get(&mut self, customer: CustomerKey, id: CreditId) -> Result<CreditLedger, Error>;
    /// All credits of a customer, newest first.
    fn list(&mut self, customer: CustomerKey) -> Result<Vec<CreditLedger>, Error>;
    /// The customer's credits that have something left, oldest first.
    fn list_open(&mut self, customer: CustomerKey) -> Result<Vec<CreditLedger>, Error>;
    /// Writes description and expiry back and appends the entries that are new; no entry ever changes.
    fn update(&mut self, customer: CustomerKey, ledger: &CreditLedger) -> Result<(), Error>;
}

/// Which events are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter {
    /// Whose.
    pub customer: CustomerKey,
    /// Only those of this name.
    pub name: Option<String>,
    /// Only the one with this id; it may be there once in every month.
    pub idempotency_id: Option<String>,
}

/// Behind which event a list of events goes on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventCursor {
    /// When it happened.
    pub time_created: OffsetDateTime,
    /// Its id.
    pub idempotency_id: String,
}

impl EventCursor {
    /// That of an event.
    pub fn of(event: &Event) -> Self {
        Self { time_created: event.time_created, idempotency_id: event.idempotency_id.clone() }
    }

    /// As text: whole microseconds and the id.
    pub fn to_text(&self) -> String {
        format!("{}_{}", self.time_created.unix_timestamp_nanos() / 1_000, self.idempotency_id)
    }

    /// Out of its text.
    ///
    /// # Errors
    /// A text that [`EventCursor::to_text`] never makes.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let read = || {
            let (microseconds, id) = text.split_once('_')?;
            let nanoseconds = microseconds.parse::<i64>().ok().map(|microseconds| i128::from(microseconds) * 1_000)?;
            let time_created = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds).ok()?;
            Some(Self { time_created, idempotency_id: id.to_owned() })
        };
        read().ok_or_else(|| FieldError::new("cursor", FieldCode::Invalid, "This is not a cursor.").into())
    }
}

/// The organization's events, as far as they can be read.
pub trait EventRepo {
    /// The usage behind each request, all from one snapshot, in the order of the requests. Custom metrics are asked for by
    /// [`EventRepo::custom_usages`].
    fn usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<Usage>, Error>;
    /// Remembers what it takes for a [`Question`] about this usage to be answered together with others; changes no
    /// answer. A store that remembers nothing has nothing to do.
    fn warm_up(&mut self, requests: &[UsageRequest]) -> Result<(), Error> {
        let _ = requests;
        Ok(())
    }
    /// What each query makes of its customer's events, or why nothing, all from one snapshot, in the order of the
    /// requests. A query that fails is no error of the transaction.
    fn custom_usages(&mut self, requests: &[CustomUsageRequest]) -> Result<Vec<Result<Usage, CustomFailure>>, Error>;
    /// A customer's events, newest first; at one instant the greatest id, by its bytes, comes first. The cursor of a
    /// page is an [`EventCursor`].
    fn list(&mut self, filter: &EventFilter, page: &PageRequest) -> Result<Page<Event>, Error>;
    /// Those of `ids` for which no event dated at or after `since` is stored, in the order given, each once.
    fn missing(
        &mut self,
        customer: Option<CustomerKey>,
        ids: &[String],
        since: OffsetDateTime,
    ) -> Result<Vec<String>, Error>;
}

/// Which events are taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// From the organization's window back to one day ahead of the customer's now.
    Enforced,
    /// Any: for back-filling.
    Open,
}

/// Takes events in.
pub trait EventIngest: Send + Sync {
    /// Stores and counts each event once, durably when this returns; answers in the order of `events`.
    ///
    /// An event whose id the customer has used before (in the same month, or in another that the acceptance
    /// window touches) is a duplicate, also inside one call: the first one counts.
    ///
    /// # Errors
    /// [`Error::Store`]: some of the events may have been stored, so that a retry finds duplicates.
    fn ingest(&self, organization: OrganizationId, events: &[Event], window: Window) -> Result<Vec<Ingested>, Error>;

    /// [`EventIngest::ingest`] without blocking, together with the events of others who come at the same time.
    ///
    /// # Errors
    /// In the reply, as [`EventIngest::ingest`]; [`StoreError::Overloaded`](crate::StoreError::Overloaded) when too much
    /// waits already: nothing was stored.
    fn ingest_then(
        &self,
        organization: OrganizationId,
        events: Vec<Event>,
        window: Window,
        reply: Reply<Vec<Ingested>>,
    ) {
        reply(self.ingest(organization, &events, window));
    }

    /// Prepares, for a metric or for filters that are younger than their events, some more of what came before, so that
    /// it is read as fast as what came after. Usage is the same without; a store that prepares nothing has nothing to
    /// do. Answers whether there is more.
    ///
    /// # Errors
    /// [`Error::Store`]; the next call goes on where this one ended.
    fn catch_up(&self) -> Result<bool, Error> {
        Ok(false)
    }
}

/// Finds keys before the organization is known.
pub trait KeyRing: Send + Sync {
    /// The key of whatever kind with this prefix and the present instant, if there is such a key.
    fn find_key(&self, prefix: &str) -> Result<Option<(ApiKey, OffsetDateTime)>, Error>;
    /// [`KeyRing::find_key`] without blocking, together with the keys of others who come at the same time. The key is
    /// looked up after the call: one that was removed before is not found.
    fn find_key_then(&self, prefix: String, reply: Reply<Option<(ApiKey, OffsetDateTime)>>) {
        reply(self.find_key(&prefix));
    }
    /// Every organization's id, oldest first.
    fn list_organizations(&self) -> Result<Vec<OrganizationId>, Error>;
}

/// A customer whose billing is due, leased to one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased {
    /// Whose customer.
    pub organization: OrganizationId,
    /// The customer.
    pub customer: CustomerKey,
    /// How often in a row its billing has failed.
    pub failures: u32,
}

/// How far billing is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Customers in real time whose billing is due.
    pub customers: u64,
    /// How long ago the first of them fell due; zero when there is none.
    pub lag: time::Duration,
    /// Those of them whose last billing failed and that will be tried again.
    pub failing: u64,
    /// Those of them that are left alone because their billing failed too often.
    pub parked: u64,
}

/// Hands out the customers that have something to be billed.
pub trait BillingQueue: Send + Sync {
    /// Leases up to `limit` customers in real time whose billing is due (by `until`, when given, and in any case by
    /// now) for `lease`, the longest overdue first; nobody else gets them meanwhile. Parked ones are left out.
    fn lease_due(&self, limit: u32, lease: time::Duration, until: Option<OffsetDateTime>)
    -> Result<Vec<Leased>, Error>;
    /// Notes that the billing of a leased customer failed and why; it comes up again after `retry_after`, or is parked
    /// when that is `None`. A customer that was billed meanwhile is left as it is.
    fn put_off(&self, leased: &Leased, reason: &str, retry_after: Option<time::Duration>) -> Result<(), Error>;
    /// Lets every parked customer be tried again at once; how many there were.
    fn release_parked(&self) -> Result<u64, Error>;
    /// What is due by now and not done yet, leased or not, failed or not.
    fn backlog(&self) -> Result<Backlog, Error>;
    /// The clocks that were told to advance and have not arrived.
    fn list_advancing_clocks(&self) -> Result<Vec<(OrganizationId, TestClockId)>, Error>;
}
