//! What a service asks of the store beside billing: keys, claims, and the queue of who is due.

use time::{Duration, OffsetDateTime};

use super::shared::Shared;
use super::{AccountState, MemoryStore, MemoryTransaction, State};
use crate::api_key::{ApiKey, KeyKind};
use crate::error::{Error, Refusal};
use crate::id::{CustomerKey, OrganizationId, TestClockId};
use crate::idempotency::{Attempt, Claim};
use crate::store::{ApiKeyLookup, Backlog, BillingQueue, ClaimedWork, Leased, Parked, Requester, Scope};
use crate::test_clock::{TestClock, TestClockStatus};

/// A customer whose billing is due: since when, as it is leased, and its account.
type Due<'s> = (OffsetDateTime, Leased, &'s mut Shared<AccountState>);

impl AccountState {
    /// Whether whoever leased it has it still.
    fn is_held(&self, leased: &Leased) -> bool {
        self.failures == leased.failures && self.leased_until.is_some()
    }

    fn is_catching_up(&self) -> bool {
        self.customer.as_ref().is_some_and(|customer| customer.catching_up)
    }
}

impl State {
    /// Leases those of the due customers that `choose` keeps; they come with the longest overdue first, and without those of the
    /// organizations `tax_waits` who wait for a tax rate.
    fn lease(
        &mut self,
        lease: Duration,
        until: Option<OffsetDateTime>,
        tax_waits: &[OrganizationId],
        choose: impl FnOnce(&mut Vec<Due<'_>>),
    ) -> Vec<Leased> {
        let now = self.now;
        let by = until.map_or(now, |until| until.min(now));
        let mut due: Vec<Due<'_>> = Vec::new();
        for (organization, tenant) in self.tenants.iter_mut() {
            for (key, account) in tenant.accounts.iter_mut() {
                let is_over = |until: Option<OffsetDateTime>| until.is_none_or(|until| until <= now);
                let goes_on = is_over(account.waits_for_tax_until) || !tax_waits.contains(organization);
                let is_free = !account.is_parked && is_over(account.leased_until) && goes_on;
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

    /// Refuses whoever's key does not open their tenant.
    pub(super) fn open(&self, requester: &Requester) -> Result<(), Error> {
        let Some(known) = &requester.key else { return Ok(()) };
        let kept = self.tenants.get(&requester.organization).and_then(|tenant| tenant.api_keys.get(&known.prefix));
        let is_valid =
            |key: &ApiKey| key.kind == KeyKind::ApiKey && key.digest == known.digest && !key.is_expired(self.now);
        if kept.is_some_and(is_valid) { Ok(()) } else { Err(Refusal::InvalidKey.into()) }
    }
}

impl MemoryStore {
    /// [`Store::run_once`](crate::store::Store::run_once).
    pub(super) fn run_claimed(&self, scope: &Scope, claim: &Claim, work: &mut ClaimedWork<'_>) -> Result<(), Error> {
        let mut state = self.lock();
        let (organization, now) = (scope.organization(), state.now_in(scope));
        if state.tenant(organization)?.answers.contains_key(&claim.key) {
            return Err(Refusal::IdempotencyKeyInUse.into());
        }
        let mut transaction = MemoryTransaction::new(organization, state.clone(), &self.told);
        let (answer, has_told, has_marked) = match work(&mut transaction, now)? {
            Attempt::Done(answer) => {
                *state = transaction.state;
                (answer, transaction.has_told, transaction.has_marked)
            }
            Attempt::Refused(answer) => (answer, false, false),
        };
        state.keep(organization, claim, answer)?;
        drop(state);
        self.told.ring_if(has_told);
        self.told.ring_for_marks_if(has_marked);
        Ok(())
    }
}

impl ApiKeyLookup for MemoryStore {
    fn find_key(&self, prefix: &str) -> Result<Option<(ApiKey, OffsetDateTime)>, Error> {
        let state = self.lock();
        let key = state.tenants.values().find_map(|tenant| tenant.api_keys.get(prefix));
        Ok(key.map(|key| (key.clone(), state.now)))
    }

    fn note_uses(&self, prefixes: &[String]) -> Result<(), Error> {
        let mut state = self.lock();
        let now = state.now;
        for tenant in state.tenants.values_mut() {
            for prefix in prefixes.iter().filter(|prefix| tenant.api_keys.contains_key(*prefix)).collect::<Vec<_>>() {
                let Some(key) = tenant.api_keys.get_mut(prefix) else { continue };
                if key.last_used_at.is_none_or(|at| at <= now - Duration::MINUTE) {
                    key.last_used_at = Some(now);
                }
            }
        }
        Ok(())
    }

    fn list_organizations(&self) -> Result<Vec<OrganizationId>, Error> {
        Ok(self.lock().tenants.keys().copied().collect())
    }
}

impl BillingQueue for MemoryStore {
    fn lease_due(
        &self,
        limit: u32,
        lease: Duration,
        until: Option<OffsetDateTime>,
        tax_waits: &[OrganizationId],
    ) -> Result<Vec<Leased>, Error> {
        Ok(self.lock().lease(lease, until, tax_waits, |due| {
            due.retain(|(_, _, account)| !account.is_catching_up());
            due.truncate(limit as usize);
        }))
    }

    fn lease_catching_up(
        &self,
        limit: u32,
        lease: Duration,
        until: Option<OffsetDateTime>,
        tax_waits: &[OrganizationId],
    ) -> Result<Vec<Leased>, Error> {
        Ok(self.lock().lease(lease, until, tax_waits, |due| {
            due.retain(|(_, _, account)| account.is_catching_up());
            due.sort_by_key(|(at, leased, _)| (leased.organization, *at));
            due.dedup_by_key(|(_, leased, _)| leased.organization);
            due.truncate(limit as usize);
        }))
    }

    fn put_off(&self, leased: &Leased, reason: &str, retry_after: Duration) -> Result<(), Error> {
        let mut state = self.lock();
        let now = state.now;
        let tenant = state.tenants.get_mut(&leased.organization);
        let account = tenant.and_then(|tenant| tenant.accounts.get_mut(&leased.customer));
        let holder = account.filter(|account| account.is_held(leased));
        if let Some(account) = holder {
            account.failures += 1;
            account.failure = Some(reason.to_owned());
            account.leased_until = Some(now + retry_after);
        }
        Ok(())
    }

    fn wait_for_tax(&self, leased: &[Leased], at_most: Duration) -> Result<(), Error> {
        let mut state = self.lock();
        let now = state.now;
        for one in leased {
            let tenant = state.tenants.get_mut(&one.organization);
            let account = tenant.and_then(|tenant| tenant.accounts.get_mut(&one.customer));
            if let Some(account) = account.filter(|account| account.is_held(one)) {
                (account.leased_until, account.waits_for_tax_until) = (None, Some(now + at_most));
            }
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
