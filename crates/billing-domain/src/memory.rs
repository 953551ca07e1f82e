//! A complete store in memory: for unit tests, for offline simulation, for services that embed the engine.
//!
//! One lock stands for every scope, so transactions never interleave; one that fails is undone by putting the
//! state before it back. Its clock stands until it is set.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use time::{Date, Duration, OffsetDateTime};
use uuid::Uuid;

use crate::addon::Addon;
use crate::api_key::{ApiKey, Fingerprint, KeyKind};
use crate::charge::BillingRecord;
use crate::credit::CreditLedger;
use crate::currency::Currency;
use crate::customer::Customer;
use crate::error::{Error, Noun, Refusal};
use crate::event::{Event, Ingested, is_within_window};
use crate::id::{AddonId, BillingRecordId, CreditId, CustomerKey, FeatureId, InvoiceId, MetricId, OrganizationId};
use crate::id::{PlanId, PlanVersionId, SubscriptionId, TestClockId};
use crate::idempotency::{Attempt, Claim, KeptAnswer};
use crate::invoice::Invoice;
use crate::metric::Metric;
use crate::organization::Organization;
use crate::period::instant;
use crate::plan::{Feature, Plan, PlanVersion};
use crate::store::{
    ApiKeyLookup, Backlog, BillingQueue, ClaimedWork, EventIngest, Leased, Parked, Reply, Requester, Scope, Store,
    Window, Work,
};
use crate::subscription::Subscription;
use crate::test_clock::{TestClock, TestClockStatus};

mod catalog;
mod customer;
mod event;
mod idempotency;
mod transaction;

use transaction::MemoryTransaction;

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
}

/// Everything there is.
#[derive(Clone, Debug)]
struct State {
    now: OffsetDateTime,
    uuids_given: u128,
    tenants: BTreeMap<OrganizationId, Tenant>,
}

/// Everything of one organization.
#[derive(Clone, Debug)]
struct Tenant {
    organization: Organization,
    api_keys: BTreeMap<String, ApiKey>,
    currencies: BTreeMap<String, Currency>,
    metrics: BTreeMap<MetricId, Metric>,
    features: BTreeMap<FeatureId, Feature>,
    plans: BTreeMap<PlanId, Plan>,
    versions: BTreeMap<PlanVersionId, PlanVersion>,
    addons: BTreeMap<AddonId, Addon>,
    test_clocks: BTreeMap<TestClockId, TestClock>,
    accounts: BTreeMap<CustomerKey, AccountState>,
    invoices: BTreeMap<InvoiceId, Invoice>,
    invoice_sequence: u64,
    answers: BTreeMap<String, (KeptAnswer, OffsetDateTime)>,
}

/// Everything of one customer; events may come before the customer does.
#[derive(Clone, Debug, Default)]
struct AccountState {
    customer: Option<Customer>,
    reached: Option<OffsetDateTime>,
    due_at: Option<OffsetDateTime>,
    leased_until: Option<OffsetDateTime>,
    failures: u32,
    failure: Option<String>,
    is_parked: bool,
    subscriptions: BTreeMap<SubscriptionId, Subscription>,
    /// The latest day that each was invoiced on by schedule, and how often.
    invoicings: BTreeMap<SubscriptionId, (Date, u32)>,
    records: BTreeMap<BillingRecordId, BillingRecord>,
    credits: BTreeMap<CreditId, CreditLedger>,
    events: BTreeMap<String, Event>,
    /// The ids of all events, in the order in which they arrived: the first has the arrival number 1.
    arrivals: Vec<String>,
}

impl AccountState {
    /// The arrival number of the latest event to have arrived; 0 before the first.
    fn last_arrival(&self) -> u64 {
        self.arrivals.len() as u64
    }
}

impl MemoryStore {
    /// An empty store whose clock stands at `now`.
    pub fn at(now: OffsetDateTime) -> Self {
        Self { state: Mutex::new(State { now: instant::whole(now), uuids_given: 0, tenants: BTreeMap::new() }) }
    }

    /// Sets the clock.
    pub fn set_now(&self, now: OffsetDateTime) {
        self.lock().now = instant::whole(now);
    }

    /// The id of an organization to be: create it in the scope of this id.
    pub fn new_organization(&self) -> OrganizationId {
        self.lock().new_uuid().into()
    }

    /// The events of a customer that arrived up to this number, in the order in which they arrived: what a usage line was counted of,
    /// by the `last_arrival` of its trace.
    pub fn arrived(&self, organization: OrganizationId, customer: CustomerKey, last_arrival: u64) -> Vec<Event> {
        let state = self.lock();
        let account = state.tenants.get(&organization).and_then(|tenant| tenant.accounts.get(&customer));
        let limit = usize::try_from(last_arrival).unwrap_or(usize::MAX);
        let ids =
            account.into_iter().flat_map(|account| account.arrivals.iter().take(limit).map(move |id| (account, id)));
        ids.filter_map(|(account, id)| account.events.get(id).cloned()).collect()
    }

    /// A panic while the lock was held cannot have left a half-done change: changes are made on a copy.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A customer whose billing is due: since when, as it is leased, and its account.
type Due<'s> = (OffsetDateTime, Leased, &'s mut AccountState);

impl AccountState {
    fn is_catching_up(&self) -> bool {
        self.customer.as_ref().is_some_and(|customer| customer.catching_up)
    }
}

impl State {
    /// Leases those of the due customers that `choose` keeps; they come with the longest overdue first.
    fn lease(
        &mut self,
        lease: Duration,
        until: Option<OffsetDateTime>,
        choose: impl FnOnce(&mut Vec<Due<'_>>),
    ) -> Vec<Leased> {
        let now = self.now;
        let by = until.map_or(now, |until| until.min(now));
        let mut due: Vec<Due<'_>> = Vec::new();
        for (organization, tenant) in &mut self.tenants {
            for (key, account) in &mut tenant.accounts {
                let is_free = !account.is_parked && account.leased_until.is_none_or(|until| until <= now);
                let Some(at) = account.due_at.filter(|at| *at <= by && is_free) else { continue };
                let leased = Leased { organization: *organization, customer: *key, failures: account.failures };
                due.push((at, leased, account));
            }
        }
        due.sort_by_key(|(at, leased, _)| (*at, leased.customer));
        choose(&mut due);
        let taken = due.into_iter().map(|(_, leased, account)| {
            account.leased_until = Some(now + lease);
            leased
        });
        taken.collect()
    }

    fn new_uuid(&mut self) -> Uuid {
        self.uuids_given += 1;
        Uuid::from_u128(self.uuids_given)
    }

    fn tenant(&self, organization: OrganizationId) -> Result<&Tenant, Error> {
        self.tenants.get(&organization).ok_or(Error::NotFound(Noun::Organization))
    }

    /// Refuses whoever's key does not open their tenant.
    fn open(&self, requester: &Requester) -> Result<(), Error> {
        let Some(known) = &requester.key else { return Ok(()) };
        let kept = self.tenants.get(&requester.organization).and_then(|tenant| tenant.api_keys.get(&known.prefix));
        let is_valid =
            |key: &ApiKey| key.kind == KeyKind::ApiKey && key.digest == known.digest && !key.is_expired(self.now);
        if kept.is_some_and(is_valid) { Ok(()) } else { Err(Refusal::InvalidKey.into()) }
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
        let mut transaction = MemoryTransaction { organization: scope.organization(), state: state.clone() };
        work(&mut transaction, now)?;
        *state = transaction.state;
        Ok(())
    }

    fn run_with_key(&self, scope: &Scope, key: &Fingerprint, work: &mut Work<'_>) -> Result<(), Error> {
        let requester = Requester { organization: scope.organization(), key: Some(key.clone()) };
        self.lock().open(&requester)?;
        self.run(scope, work)
    }

    fn run_once(&self, scope: &Scope, claim: &Claim, work: &mut ClaimedWork<'_>) -> Result<(), Error> {
        let mut state = self.lock();
        let (organization, now) = (scope.organization(), state.now_in(scope));
        if state.tenant(organization)?.answers.contains_key(&claim.key) {
            return Err(Refusal::IdempotencyKeyInUse.into());
        }
        let mut transaction = MemoryTransaction { organization, state: state.clone() };
        let answer = match work(&mut transaction, now)? {
            Attempt::Done(answer) => {
                *state = transaction.state;
                answer
            }
            Attempt::Refused(answer) => answer,
        };
        state.keep(organization, claim, answer)
    }
}

impl EventIngest for MemoryStore {
    fn ingest(&self, organization: OrganizationId, events: &[Event], window: Window) -> Result<Vec<Ingested>, Error> {
        let mut state = self.lock();
        let days = state.tenant(organization)?.organization.event_window_days;
        let mut outcomes = Vec::new();
        for event in events {
            let key = CustomerKey::derive(organization, &event.customer);
            let now = state.now_of(organization, key);
            if window == Window::Enforced && !is_within_window(event.time_created, now, days) {
                outcomes.push(Ingested::OutsideWindow);
                continue;
            }
            let tenant = state.tenants.get_mut(&organization).ok_or(Error::NotFound(Noun::Organization))?;
            let account = tenant.accounts.entry(key).or_default();
            outcomes.push(if account.events.contains_key(&event.idempotency_id) {
                Ingested::Duplicate
            } else {
                account.events.insert(event.idempotency_id.clone(), event.clone());
                account.arrivals.push(event.idempotency_id.clone());
                Ingested::Stored
            });
        }
        Ok(outcomes)
    }

    fn ingest_then(&self, requester: Requester, events: Vec<Event>, window: Window, reply: Reply<Vec<Ingested>>) {
        let opened = self.lock().open(&requester);
        reply(opened.and_then(|()| self.ingest(requester.organization, &events, window)));
    }
}

impl ApiKeyLookup for MemoryStore {
    fn find_key(&self, prefix: &str) -> Result<Option<(ApiKey, OffsetDateTime)>, Error> {
        let state = self.lock();
        let key = state.tenants.values().find_map(|tenant| tenant.api_keys.get(prefix));
        Ok(key.map(|key| (key.clone(), state.now)))
    }

    fn list_organizations(&self) -> Result<Vec<OrganizationId>, Error> {
        Ok(self.lock().tenants.keys().copied().collect())
    }
}

impl BillingQueue for MemoryStore {
    fn lease_due(&self, limit: u32, lease: Duration, until: Option<OffsetDateTime>) -> Result<Vec<Leased>, Error> {
        Ok(self.lock().lease(lease, until, |due| {
            due.retain(|(_, _, account)| !account.is_catching_up());
            due.truncate(limit as usize);
        }))
    }

    fn lease_catching_up(
        &self,
        limit: u32,
        lease: Duration,
        until: Option<OffsetDateTime>,
    ) -> Result<Vec<Leased>, Error> {
        Ok(self.lock().lease(lease, until, |due| {
            due.retain(|(_, _, account)| account.is_catching_up());
            due.sort_by_key(|(at, leased, _)| (leased.organization, *at));
            due.dedup_by_key(|(_, leased, _)| leased.organization);
            due.truncate(limit as usize);
        }))
    }

    fn put_off(&self, leased: &Leased, reason: &str, retry_after: Option<Duration>) -> Result<(), Error> {
        let mut state = self.lock();
        let now = state.now;
        let tenant = state.tenants.get_mut(&leased.organization);
        let account = tenant.and_then(|tenant| tenant.accounts.get_mut(&leased.customer));
        let holder = account.filter(|account| account.failures == leased.failures && account.leased_until.is_some());
        if let Some(account) = holder {
            account.failures += 1;
            account.failure = Some(reason.to_owned());
            account.is_parked = retry_after.is_none();
            account.leased_until = Some(now + retry_after.unwrap_or_default());
        }
        Ok(())
    }

    fn list_parked(&self, limit: u32) -> Result<Vec<Parked>, Error> {
        let state = self.lock();
        let mut parked = Vec::new();
        for (organization, tenant) in &state.tenants {
            for account in tenant.accounts.values().filter(|account| account.is_parked) {
                let (Some(customer), Some(due_at)) = (&account.customer, account.due_at) else { continue };
                parked.push(Parked {
                    organization: *organization,
                    customer: customer.id.clone(),
                    due_at,
                    failures: account.failures,
                    reason: account.failure.clone().unwrap_or_default(),
                });
            }
        }
        parked.sort_by_key(|entry| (entry.due_at, entry.organization, entry.customer.clone()));
        parked.truncate(limit as usize);
        Ok(parked)
    }

    fn release_parked(&self) -> Result<u64, Error> {
        let mut state = self.lock();
        let accounts = state.tenants.values_mut().flat_map(|tenant| tenant.accounts.values_mut());
        let mut released = 0;
        for account in accounts.filter(|account| account.is_parked) {
            (account.is_parked, account.failures, account.leased_until) = (false, 0, None);
            released += 1;
        }
        Ok(released)
    }

    fn backlog(&self) -> Result<Backlog, Error> {
        let state = self.lock();
        let accounts = state.tenants.values().flat_map(|tenant| tenant.accounts.values());
        let mut backlog = Backlog::default();
        for account in accounts {
            let Some(due_at) = account.due_at.filter(|at| *at <= state.now) else { continue };
            backlog.customers += 1;
            match account.is_catching_up() {
                true => backlog.catching_up += 1,
                false => backlog.lag = backlog.lag.max(state.now - due_at),
            }
            backlog.parked += u64::from(account.is_parked);
            backlog.failing += u64::from(account.failures > 0 && !account.is_parked);
        }
        Ok(backlog)
    }

    fn list_advancing_clocks(&self) -> Result<Vec<(OrganizationId, TestClockId)>, Error> {
        let state = self.lock();
        let clocks = state.tenants.iter().flat_map(|(organization, tenant)| {
            let advancing = tenant.test_clocks.values().filter(|clock| clock.status == TestClockStatus::Advancing);
            advancing.map(|clock| (*organization, clock.id))
        });
        Ok(clocks.collect())
    }

    fn list_catching_up(&self, each: u32) -> Result<Vec<(OrganizationId, TestClockId, CustomerKey)>, Error> {
        let state = self.lock();
        let found = state.tenants.iter().flat_map(|(organization, tenant)| {
            let is_ready = |clock: &TestClock| clock.status == TestClockStatus::Ready;
            let stands = move |id: &TestClockId| tenant.test_clocks.get(id).is_some_and(is_ready);
            let customers = tenant.accounts.values().filter_map(|account| account.customer.as_ref());
            let catching_up = customers
                .filter(|customer| customer.catching_up)
                .filter_map(move |customer| Some((*organization, customer.test_clock.filter(stands)?, customer.key)));
            catching_up.take(each as usize)
        });
        Ok(found.collect())
    }
}

#[cfg(test)]
mod tests;
