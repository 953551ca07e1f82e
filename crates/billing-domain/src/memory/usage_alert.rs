//! Usage alerts, for whom they have fired, and who is to be looked at.

use std::collections::{BTreeMap, BTreeSet};

use time::OffsetDateTime;

use super::transaction::MemoryTransaction;
use super::{MemoryStore, State, Tenant};
use crate::error::{Error, Noun};
use crate::id::{CustomerKey, UsageAlertId};
use crate::store::{AlertQueue, MarkedCustomer, UsageAlertRepo};
use crate::usage_alert::{AlertScope, Firing, UsageAlert};

/// The alerts of one organization.
#[derive(Clone, Debug, Default)]
pub(super) struct AlertState {
    /// In the order in which they were made, each with whether those whom it may concern were marked.
    all: Vec<(UsageAlert, bool)>,
    fired: BTreeSet<Firing>,
    /// By number.
    marks: BTreeMap<i64, Mark>,
    marks_given: i64,
    /// Who is to be looked at again, and when, in their own time.
    later: BTreeMap<CustomerKey, OffsetDateTime>,
}

/// That a customer is to be looked at.
#[derive(Clone, Copy, Debug)]
struct Mark {
    customer: CustomerKey,
    /// When events were stored, or began to count; `None`: something else has changed.
    at: Option<OffsetDateTime>,
    may_lie_ahead: bool,
}

impl AlertState {
    fn mark(&mut self, customer: CustomerKey, at: Option<OffsetDateTime>, may_lie_ahead: bool) {
        self.marks_given += 1;
        self.marks.insert(self.marks_given, Mark { customer, at, may_lie_ahead });
    }
}

impl Tenant {
    /// Has the customer's figures looked at, where there is an alert.
    pub(super) fn mark_for_alerts(&mut self, customer: CustomerKey, at: Option<OffsetDateTime>, may_lie_ahead: bool) {
        if !self.alerts.all.is_empty() {
            self.alerts.mark(customer, at, may_lie_ahead);
        }
    }

    /// Whether somebody is to be looked at.
    pub(super) fn has_marks(&self) -> bool {
        !self.alerts.marks.is_empty()
    }
}

impl MemoryTransaction {
    /// Has the customer's figures looked at, where there is an alert.
    pub(super) fn mark_for_alerts(&mut self, customer: CustomerKey) -> Result<(), Error> {
        let tenant = self.tenant()?;
        tenant.mark_for_alerts(customer, None, true);
        let has_marks = tenant.has_marks();
        self.has_marked |= has_marks;
        Ok(())
    }
}

impl UsageAlertRepo for MemoryTransaction {
    fn insert(&mut self, alert: &UsageAlert) -> Result<(), Error> {
        self.tenant()?.alerts.all.push((alert.clone(), false));
        self.has_marked = true;
        Ok(())
    }

    fn get(&mut self, id: UsageAlertId) -> Result<UsageAlert, Error> {
        let alerts = &self.tenant()?.alerts.all;
        let found = alerts.iter().find(|(alert, _)| alert.id == id);
        found.map(|(alert, _)| alert.clone()).ok_or(Error::NotFound(Noun::UsageAlert))
    }

    fn list(&mut self) -> Result<Vec<UsageAlert>, Error> {
        Ok(self.tenant()?.alerts.all.iter().map(|(alert, _)| alert.clone()).collect())
    }

    fn delete(&mut self, id: UsageAlertId) -> Result<(), Error> {
        UsageAlertRepo::get(self, id)?;
        self.tenant()?.alerts.all.retain(|(alert, _)| alert.id != id);
        Ok(())
    }

    fn has_fired(&mut self, firing: &Firing) -> Result<bool, Error> {
        Ok(self.tenant()?.alerts.fired.contains(firing))
    }

    fn insert_firing(&mut self, firing: &Firing, _: OffsetDateTime) -> Result<(), Error> {
        self.tenant()?.alerts.fired.insert(*firing);
        Ok(())
    }

    fn mark(&mut self, customer: CustomerKey) -> Result<(), Error> {
        self.mark_for_alerts(customer)
    }
}

impl State {
    /// Marks whoever is to be looked at again by now.
    fn mark_who_is_due(&mut self) {
        let all =
            self.tenants.iter().flat_map(|(id, tenant)| tenant.alerts.later.iter().map(|(key, at)| (*id, *key, *at)));
        let due: Vec<_> = all.filter(|(id, key, at)| *at <= self.now_of(*id, *key)).collect();
        for (organization, customer, at) in due {
            let Some(tenant) = self.tenants.get_mut(&organization) else { continue };
            tenant.alerts.later.remove(&customer);
            tenant.alerts.mark(customer, Some(at), true);
        }
    }
}

impl AlertQueue for MemoryStore {
    fn list_marked(&self, each: u32) -> Result<Vec<MarkedCustomer>, Error> {
        let (mut state, mut marked) = (self.lock(), Vec::new());
        state.mark_who_is_due();
        for (organization, tenant) in &state.tenants {
            let mut by_customer: BTreeMap<CustomerKey, MarkedCustomer> = BTreeMap::new();
            for (number, mark) in tenant.alerts.marks.iter().take(each as usize) {
                let none = || MarkedCustomer::new((*organization, mark.customer), None, Vec::new());
                let of_customer = by_customer.entry(mark.customer).or_insert_with(none);
                of_customer.marks.push(*number);
                of_customer.since = [of_customer.since, mark.at].into_iter().flatten().min();
                of_customer.may_lie_ahead |= mark.may_lie_ahead;
            }
            marked.extend(by_customer.into_values());
        }
        Ok(marked)
    }

    fn drop_marks(&self, seen: &[MarkedCustomer]) -> Result<(), Error> {
        let mut state = self.lock();
        for one in seen {
            let Some(tenant) = state.tenants.get_mut(&one.organization) else { continue };
            if let Some(later) = one.later {
                let at = tenant.alerts.later.entry(one.customer).or_insert(later.at);
                *at = later.at.min(*at);
            }
            tenant.alerts.marks.retain(|mark, _| !one.marks.contains(mark));
        }
        Ok(())
    }

    fn mark_concerned(&self, _: u32) -> Result<usize, Error> {
        let mut state = self.lock();
        let mut new = 0;
        for (organization, tenant) in state.tenants.iter_mut() {
            let mut concerned = BTreeSet::new();
            for (alert, _) in tenant.alerts.all.iter().filter(|(_, is_known)| !is_known) {
                new += 1;
                match &alert.scope {
                    AlertScope::Customer(id) => drop(concerned.insert(CustomerKey::derive(*organization, id))),
                    _ => concerned.extend(tenant.accounts.keys().copied()),
                }
            }
            tenant.alerts.all.iter_mut().for_each(|(_, is_known)| *is_known = true);
            concerned.into_iter().for_each(|customer| tenant.alerts.mark(customer, None, true));
        }
        Ok(new)
    }

    fn on_marks(&self, bell: Box<dyn Fn() + Send + Sync>) {
        drop(self.told.marks_bell.set(bell));
    }
}
