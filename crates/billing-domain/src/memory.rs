//! A complete store in memory: for unit tests, for offline simulation, for services that embed the engine.
//!
//! One lock stands for every scope, so transactions never interleave; one works on a copy that takes the
//! place of the state when it succeeds, and shares with it all that it does not change. Its clock stands until it is set.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use time::{Date, OffsetDateTime};
use uuid::Uuid;

use crate::addon::Addon;
#[cfg(feature = "service")]
use crate::api_key::{ApiKey, Fingerprint};
#[cfg(feature = "service")]
use crate::approval::Approval;
#[cfg(feature = "service")]
use crate::audit::AuditEntry;
use crate::charge::BillingRecord;
use crate::credit::CreditLedger;
use crate::credit_note::CreditNote;
use crate::currency::Currency;
use crate::customer::Customer;
use crate::error::{Error, Noun};
use crate::event::{Event, EventCorrection, Ingested, is_within_window};
#[cfg(feature = "service")]
use crate::id::WebhookEndpointId;
use crate::id::{AddonId, BillingRecordId, CreditId, CustomerKey, FeatureId, InvoiceId, MetricId, OrganizationId};
use crate::id::{PlanId, PlanVersionId, SubscriptionId, TestClockId};
#[cfg(feature = "service")]
use crate::idempotency::{Claim, KeptAnswer};
use crate::invoice::Invoice;
use crate::metric::Metric;
use crate::organization::Organization;
use crate::payment::Payment;
use crate::period::instant;
use crate::plan::{Feature, Plan, PlanVersion};
#[cfg(feature = "service")]
use crate::store::{ClaimedWork, EventTally, Reply, Requester};
use crate::store::{EventIngest, Scope, Store, Window, Work};
use crate::subscription::Subscription;
use crate::test_clock::{TestClock, TestClockStatus};

#[cfg(feature = "service")]
mod approval;
#[cfg(feature = "service")]
mod audit;
#[cfg(feature = "service")]
mod books_audit;
mod catalog;
mod credit_note;
mod customer;
mod event;
#[cfg(feature = "service")]
mod idempotency;
#[cfg(feature = "service")]
mod identity;
#[cfg(feature = "service")]
mod job;
#[cfg(feature = "service")]
mod member;
mod message;
#[cfg(feature = "service")]
mod overview;
mod page;
#[cfg(feature = "service")]
mod service;
mod shared;
mod transaction;
#[cfg(feature = "service")]
mod usage_alert;
#[cfg(feature = "service")]
mod user;
#[cfg(feature = "service")]
mod webhook;

use message::KeptMessage;
use shared::Shared;
use transaction::MemoryTransaction;
#[cfg(feature = "service")]
use user::People;
#[cfg(feature = "service")]
use webhook::EndpointState;

/// Keeps everything in memory.
///
/// ```
/// use billing_domain::memory::MemoryStore;
/// use billing_domain::store::{Scope, Store};
/// use billing_domain::workflow::{CreateOrganization, create_organization};
/// use time::macros::datetime;
///
/// let store = MemoryStore::at(datetime!(2024-01-31 00:00 UTC));
/// let scope = Scope::Catalog(store.new_organization());
/// let command = CreateOrganization { name: "Acme".to_owned() };
/// let store: &dyn Store = &store;
/// let acme = store.run_for(&scope, |tx, now| create_organization(tx, &command, now))?;
/// assert_eq!(acme.created_at, datetime!(2024-01-31 00:00 UTC));
/// # Ok::<(), billing_domain::Error>(())
/// ```
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
    told: message::Told,
}

/// Everything there is.
#[derive(Clone, Debug)]
struct State {
    now: OffsetDateTime,
    uuids_given: u128,
    messages_given: u64,
    tenants: BTreeMap<OrganizationId, Shared<Tenant>>,
    #[cfg(feature = "service")]
    people: Shared<People>,
}

/// Everything of one organization.
#[derive(Clone, Debug)]
struct Tenant {
    organization: Organization,
    #[cfg(feature = "service")]
    api_keys: Shared<BTreeMap<String, ApiKey>>,
    currencies: Shared<BTreeMap<String, Currency>>,
    metrics: Shared<BTreeMap<MetricId, Metric>>,
    features: Shared<BTreeMap<FeatureId, Feature>>,
    plans: Shared<BTreeMap<PlanId, Plan>>,
    versions: Shared<BTreeMap<PlanVersionId, PlanVersion>>,
    addons: Shared<BTreeMap<AddonId, Addon>>,
    test_clocks: Shared<BTreeMap<TestClockId, TestClock>>,
    accounts: Shared<BTreeMap<CustomerKey, Shared<AccountState>>>,
    invoices: Shared<BTreeMap<InvoiceId, Shared<Invoice>>>,
    invoice_sequence: u64,
    /// In the order in which they were issued.
    credit_notes: Shared<Vec<CreditNote>>,
    /// By position: the first has 1.
    messages: Shared<Vec<KeptMessage>>,
    /// Messages that were dropped because of their age.
    messages_dropped: u64,
    #[cfg(feature = "service")]
    approvals: Shared<Vec<Approval>>,
    #[cfg(feature = "service")]
    audit_log: Shared<Vec<AuditEntry>>,
    #[cfg(feature = "service")]
    jobs: Shared<Vec<job::KeptJob>>,
    #[cfg(feature = "service")]
    books_audits: Shared<Vec<books_audit::KeptAudit>>,
    #[cfg(feature = "service")]
    alerts: Shared<usage_alert::AlertState>,
    #[cfg(feature = "service")]
    endpoints: Shared<BTreeMap<WebhookEndpointId, EndpointState>>,
    #[cfg(feature = "service")]
    tally: Shared<EventTally>,
    #[cfg(feature = "service")]
    answers: Shared<BTreeMap<String, (KeptAnswer, OffsetDateTime)>>,
}

/// Everything of one customer; events may come before the customer does.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "service"), allow(dead_code))]
struct AccountState {
    customer: Option<Customer>,
    reached: Option<OffsetDateTime>,
    due_at: Option<OffsetDateTime>,
    leased_until: Option<OffsetDateTime>,
    waits_for_tax_until: Option<OffsetDateTime>,
    failures: u32,
    failure: Option<String>,
    is_parked: bool,
    subscriptions: BTreeMap<SubscriptionId, Subscription>,
    /// The latest day that each was invoiced on by schedule, and how often.
    invoicings: BTreeMap<SubscriptionId, (Date, u32)>,
    records: BTreeMap<BillingRecordId, BillingRecord>,
    credits: BTreeMap<CreditId, CreditLedger>,
    /// Invoices that fell due and were not paid, and when.
    past_due: BTreeMap<InvoiceId, OffsetDateTime>,
    payments: Vec<Payment>,
    /// Those that count, as they are now.
    events: Shared<BTreeMap<String, Event>>,
    /// Those that were voided, as they counted last.
    voided: Shared<BTreeMap<String, Event>>,
    corrections: Shared<Vec<EventCorrection>>,
    /// The ids of all events, and of each whenever it was corrected, in that order, with what counts of it since: the first has the
    /// arrival number 1.
    arrivals: Shared<Vec<Arrival>>,
}

/// An event that arrived, or a correction of it.
#[derive(Clone, Debug)]
struct Arrival {
    /// Its id.
    id: String,
    /// What counts of it since.
    event: Option<Event>,
    /// When, by the clock of the store.
    at: OffsetDateTime,
}

impl Tenant {
    /// Every invoice, in the order of their ids.
    fn all_invoices(&self) -> impl Iterator<Item = &Invoice> {
        self.invoices.values().map(|invoice| &**invoice)
    }
}

impl AccountState {
    /// Whether a test clock says what time it is for the customer.
    fn lives_by_clock(&self) -> bool {
        self.customer.as_ref().is_some_and(|customer| customer.test_clock.is_some())
    }

    /// The arrival number of the latest event to have arrived; 0 before the first.
    fn last_arrival(&self) -> u64 {
        self.arrivals.len() as u64
    }
}

impl MemoryStore {
    /// An empty store whose clock stands at `now`.
    pub fn at(now: OffsetDateTime) -> Self {
        let state = State {
            now: instant::whole(now),
            uuids_given: 0,
            messages_given: 0,
            tenants: BTreeMap::new(),
            #[cfg(feature = "service")]
            people: Shared::default(),
        };
        Self { state: Mutex::new(state), told: message::Told::default() }
    }

    /// Sets the clock.
    pub fn set_now(&self, now: OffsetDateTime) {
        self.lock().now = instant::whole(now);
    }

    /// The id of an organization to be: create it in the scope of this id.
    pub fn new_organization(&self) -> OrganizationId {
        self.lock().new_uuid().into()
    }

    /// The events of a customer that arrived up to this number, as they were then, in the order in which they arrived: what a usage line was counted of,
    /// by the `last_arrival` of its trace.
    pub fn arrived(&self, organization: OrganizationId, customer: CustomerKey, last_arrival: u64) -> Vec<Event> {
        let state = self.lock();
        let account = state.tenants.get(&organization).and_then(|tenant| tenant.accounts.get(&customer));
        let limit = usize::try_from(last_arrival).unwrap_or(usize::MAX);
        let arrivals = account.into_iter().flat_map(|account| account.arrivals.iter().take(limit));
        let mut seen: Vec<(&str, Option<&Event>)> = Vec::new();
        for Arrival { id, event, .. } in arrivals {
            match seen.iter_mut().find(|(known, _)| known == id) {
                Some((_, known)) => *known = event.as_ref(),
                None => seen.push((id, event.as_ref())),
            }
        }
        seen.into_iter().filter_map(|(_, event)| event.cloned()).collect()
    }

    /// A panic while the lock was held cannot have left a half-done change: changes are made on a copy.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new_uuid(&mut self) -> Uuid {
        self.uuids_given += 1;
        Uuid::from_u128(self.uuids_given)
    }

    fn tenant(&self, organization: OrganizationId) -> Result<&Tenant, Error> {
        self.tenants.get(&organization).map(|tenant| &**tenant).ok_or(Error::NotFound(Noun::Organization))
    }

    /// The instant that holds in a scope.
    fn now_in(&self, scope: &Scope) -> OffsetDateTime {
        match scope {
            Scope::Customer(organization, customer) | Scope::CustomerReading(organization, customer) => {
                self.now_of(*organization, *customer)
            }
            Scope::Catalog(_) | Scope::Organization(_) => self.now,
        }
    }

    fn now_of(&self, organization: OrganizationId, customer: CustomerKey) -> OffsetDateTime {
        let Some(tenant) = self.tenants.get(&organization) else { return self.now };
        let Some(account) = tenant.accounts.get(&customer) else { return self.now };
        let reached = account.reached.unwrap_or(self.now);
        let clock = account.customer.as_ref().and_then(|customer| customer.test_clock);
        match clock.and_then(|clock| tenant.test_clocks.get(&clock)) {
            Some(clock) if clock.status == TestClockStatus::Ready => clock.frozen_time,
            Some(_) => reached,
            None => self.now.max(reached),
        }
    }
}

impl Store for MemoryStore {
    fn run(&self, scope: &Scope, work: &mut Work<'_>) -> Result<(), Error> {
        let mut state = self.lock();
        let now = state.now_in(scope);
        let mut transaction = MemoryTransaction::new(scope.organization(), state.clone(), &self.told);
        work(&mut transaction, now)?;
        let (has_told, has_marked) = (transaction.has_told, transaction.has_marked);
        *state = transaction.state;
        drop(state);
        self.told.ring_if(has_told);
        self.told.ring_for_marks_if(has_marked);
        Ok(())
    }

    #[cfg(feature = "service")]
    fn run_with_key(&self, scope: &Scope, key: &Fingerprint, work: &mut Work<'_>) -> Result<(), Error> {
        let requester = Requester { organization: scope.organization(), key: Some(key.clone()) };
        self.lock().open(&requester)?;
        self.run(scope, work)
    }

    #[cfg(feature = "service")]
    fn run_once(&self, scope: &Scope, claim: &Claim, work: &mut ClaimedWork<'_>) -> Result<(), Error> {
        self.run_claimed(scope, claim, work)
    }
}

impl EventIngest for MemoryStore {
    fn ingest(&self, organization: OrganizationId, events: &[Event], window: Window) -> Result<Vec<Ingested>, Error> {
        let mut state = self.lock();
        let days = state.tenant(organization)?.organization.event_window_days;
        let mut outcomes = Vec::new();
        let at = state.now;
        for event in events {
            let key = CustomerKey::derive(organization, &event.customer);
            let now = state.now_of(organization, key);
            if window == Window::Enforced && !is_within_window(event.time_created, now, days) {
                outcomes.push(Ingested::OutsideWindow);
                continue;
            }
            let tenant = state.tenants.get_mut(&organization).ok_or(Error::NotFound(Noun::Organization))?;
            #[cfg(feature = "service")]
            tenant.mark_for_alerts(key, Some(now), event.time_created >= now);
            let account = tenant.accounts.entry(key).or_default();
            let id = &event.idempotency_id;
            let outcome = if account.events.contains_key(id) || account.voided.contains_key(id) {
                Ingested::Duplicate
            } else {
                account.events.insert(id.clone(), event.clone());
                account.arrivals.push(Arrival { id: id.clone(), event: Some(event.clone()), at });
                Ingested::Stored
            };
            #[cfg(feature = "service")]
            if outcome == Ingested::Stored {
                let reason = tenant.why_uncounted(key, &event.name);
                tenant.tally.add(at, event, reason);
            }
            outcomes.push(outcome);
        }
        #[cfg(feature = "service")]
        {
            let is_marked = state.tenant(organization)?.has_marks();
            drop(state);
            self.told.ring_for_marks_if(is_marked);
        }
        Ok(outcomes)
    }

    #[cfg(feature = "service")]
    fn ingest_then(&self, requester: Requester, events: Vec<Event>, window: Window, reply: Reply<Vec<Ingested>>) {
        let opened = self.lock().open(&requester);
        reply(opened.and_then(|()| self.ingest(requester.organization, &events, window)));
    }
}

#[cfg(all(test, feature = "service", feature = "custom-sql"))]
mod tests;
