//! Usage alerts, for whom they have fired, and who is to be looked at.

use std::collections::{BTreeMap, BTreeSet};

use time::OffsetDateTime;

use super::transaction::MemoryTransaction;
use super::{MemoryStore, Tenant};
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
    /// Marks by number: whose, and when events were stored.
    marks: BTreeMap<i64, (CustomerKey, Option<OffsetDateTime>)>,
    marks_given: i64,
}

impl AlertState {
    fn mark(&mut self, customer: CustomerKey, at: Option<OffsetDateTime>) {
        self.marks_given += 1;
        self.marks.insert(self.marks_given, (customer, at));
    }
}

impl Tenant {
    /// Has the customer's figures looked at, where there is an alert.
    pub(super) fn mark_for_alerts(&mut self, customer: CustomerKey, at: Option<OffsetDateTime>) {
        if !self.alerts.all.is_empty() {
            self.alerts.mark(customer, at);
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
        tenant.mark_for_alerts(customer, None);
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

impl AlertQueue for MemoryStore {
    fn list_marked(&self, each: u32) -> Result<Vec<MarkedCustomer>, Error> {
        let mut marked = Vec::new();
        for (organization, tenant) in &self.lock().tenants {
            let mut by_customer: BTreeMap<CustomerKey, MarkedCustomer> = BTreeMap::new();
            for (mark, (customer, at)) in tenant.alerts.marks.iter().take(each as usize) {
                let none = || MarkedCustomer::new((*organization, *customer), None, Vec::new());
                let of_customer = by_customer.entry(*customer).or_insert_with(none);
                of_customer.marks.push(*mark);
                of_customer.since = [of_customer.since, *at].into_iter().flatten().min();
            }
            marked.extend(by_customer.into_values());
        }
        Ok(marked)
    }

    fn drop_marks(&self, seen: &[MarkedCustomer]) -> Result<(), Error> {
        let mut state = self.lock();
        for one in seen {
            let Some(tenant) = state.tenants.get_mut(&one.organization) else { continue };
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
            concerned.into_iter().for_each(|customer| tenant.alerts.mark(customer, None));
        }
        Ok(new)
    }

    fn on_marks(&self, bell: Box<dyn Fn() + Send + Sync>) {
        drop(self.told.marks_bell.set(bell));
    }
}
