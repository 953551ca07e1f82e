//! How an organization stands.

use std::collections::BTreeMap;

use bigdecimal::{BigDecimal, Zero};
use time::Duration;

use super::{MemoryStore, Tenant};
use crate::error::Error;
use crate::id::{CustomerKey, OrganizationId};
use crate::invoice::{Invoice, PaymentStatus};
use crate::metric::MetricType;
use crate::store::{Invoiced, Overview, Overviews, Queued, RecentEvents, UncountedReason};

impl Overviews for MemoryStore {
    fn overview(&self, organization: OrganizationId) -> Result<Overview, Error> {
        let state = self.lock();
        let tenant = state.tenant(organization)?;
        let month = |at: time::OffsetDateTime| i32::from(u8::from(at.month())) + 12 * at.year();
        let into_month = |at: time::OffsetDateTime| (at.day(), at.time());
        let this = month(state.now);
        let mut by_code: BTreeMap<&str, [BigDecimal; 3]> = BTreeMap::new();
        let is_real = |invoice: &&Invoice| {
            let lives_by_clock = tenant.accounts.get(&invoice.customer).is_some_and(|account| account.lives_by_clock());
            invoice.payment_status != PaymentStatus::Voided && !lives_by_clock
        };
        for invoice in tenant.all_invoices().filter(is_real) {
            let age = this - month(invoice.issued_at);
            if let Ok(place @ 0..=1) = usize::try_from(age) {
                let sums = by_code.entry(&invoice.currency.code).or_default();
                sums[place] += &invoice.amount;
                if place == 1 && into_month(invoice.issued_at) <= into_month(state.now) {
                    sums[2] += &invoice.amount;
                }
            }
        }
        let invoiced = by_code.into_iter().filter(|(_, sums)| sums.iter().any(|sum| !sum.is_zero()));
        let invoiced = invoiced.map(|(code, [this_month, last_month, last_month_so_far])| Invoiced {
            currency_code: code.to_owned(),
            this_month,
            last_month,
            last_month_so_far,
        });
        let due = tenant.accounts.values().filter_map(|account| {
            let at = account.due_at.filter(|at| *at <= state.now)?;
            Some((account.is_parked, state.now - at))
        });
        let due: Vec<(bool, Duration)> = due.collect();
        Ok(Overview {
            invoiced: invoiced.collect(),
            customers_due: due.len() as u64,
            customers_parked: due.iter().filter(|(is_parked, _)| *is_parked).count() as u64,
            lag: due.iter().filter(|(is_parked, _)| !is_parked).map(|(_, lag)| *lag).max().unwrap_or_default(),
            webhooks_failing: tenant.endpoints.values().filter(|endpoint| endpoint.is_failing()).count() as u64,
        })
    }

    fn billing_queue(&self, organization: OrganizationId, limit: u32) -> Result<Vec<Queued>, Error> {
        let state = self.lock();
        let tenant = state.tenant(organization)?;
        let queued = tenant.accounts.values().filter_map(|account| {
            Some(Queued {
                customer: account.customer.as_ref()?.id.clone(),
                due_at: account.due_at.filter(|at| *at <= state.now)?,
                failures: account.failures,
                failure: account.failure.clone().filter(|_| account.failures > 0),
                is_parked: account.is_parked,
            })
        });
        let mut queued: Vec<Queued> = queued.collect();
        queued.sort_by_key(|one| (!one.is_parked, one.failures == 0, one.due_at, one.customer.clone()));
        queued.truncate(limit as usize);
        Ok(queued)
    }

    fn recent_events(&self, organization: OrganizationId) -> Result<RecentEvents, Error> {
        let state = self.lock();
        let tenant = state.tenant(organization)?;
        let mut recent = tenant.tally.recent(state.now);
        recent.uncounted.retain(|one| {
            let customer = CustomerKey::derive(organization, &one.customer);
            match one.reason {
                UncountedReason::UnknownCustomer => !tenant.has_customer(customer),
                UncountedReason::UnknownEventName => !tenant.counts_name(&one.event_name),
            }
        });
        Ok(recent)
    }
}

impl Tenant {
    /// Why an event counts for nothing, if it does.
    pub(super) fn why_uncounted(&self, customer: CustomerKey, event_name: &str) -> Option<UncountedReason> {
        if !self.has_customer(customer) {
            return Some(UncountedReason::UnknownCustomer);
        }
        (!self.counts_name(event_name)).then_some(UncountedReason::UnknownEventName)
    }

    fn has_customer(&self, customer: CustomerKey) -> bool {
        self.accounts.get(&customer).is_some_and(|account| account.customer.is_some())
    }

    /// Whether a metric counts events of this name. A custom one may look at any.
    fn counts_name(&self, event_name: &str) -> bool {
        let counts = |metric: &crate::metric::Metric| {
            metric.event_name == event_name || metric.measure.metric_type() == MetricType::Custom
        };
        self.metrics.values().any(counts)
    }
}
