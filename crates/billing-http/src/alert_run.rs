//! Holding the figures of customers against usage alerts, soon after something has changed them.

use std::collections::{BTreeMap, BTreeSet};

use billing_domain::Error;
use billing_domain::id::OrganizationId;
use billing_domain::store::MarkedCustomer;
use billing_domain::usage_alert::Firing;
use billing_domain::workflow::evaluate_usage_alerts;

use crate::backend::Backend;

/// Marks of one organization that are looked at in one round: whoever has many does not keep the others waiting.
const MARKS_MAX: u32 = 200;
/// Customers marked at once because of a new alert.
const PAGE: u32 = 1_000;
/// Firings that are remembered so that they are not looked up again.
const KNOWN_MAX: usize = 100_000;

/// One round after the other.
#[derive(Default)]
pub struct AlertRun {
    /// What has fired already.
    known: BTreeSet<Firing>,
}

impl AlertRun {
    /// Looks at the customers who are marked, some of each organization; whether there may be more.
    ///
    /// # Errors
    /// Those of the store.
    pub fn round(&mut self, backend: &dyn Backend) -> Result<bool, Error> {
        backend.mark_concerned(PAGE)?;
        if self.known.len() > KNOWN_MAX {
            self.known.clear();
        }
        let mut by_organization: BTreeMap<OrganizationId, Vec<MarkedCustomer>> = BTreeMap::new();
        for marked in backend.list_marked(MARKS_MAX)? {
            by_organization.entry(marked.organization).or_default().push(marked);
        }
        let mut there_is_more = false;
        for (organization, marked) in by_organization {
            let marks: usize = marked.iter().map(|one| one.marks.len()).sum();
            let is_progress = self.look_at(backend, organization, marked)?;
            there_is_more |= is_progress && marks >= MARKS_MAX as usize;
        }
        Ok(there_is_more)
    }

    /// Looks at some customers of one organization; whether any of them need not be looked at again.
    fn look_at(
        &mut self,
        backend: &dyn Backend,
        organization: OrganizationId,
        marked: Vec<MarkedCustomer>,
    ) -> Result<bool, Error> {
        let since: BTreeMap<_, _> = marked.iter().map(|one| (one.customer, one.since)).collect();
        let customers: Vec<_> = marked.iter().map(|one| one.customer).collect();
        let outcomes = backend.run_each(organization, &customers, &mut |tx, customer, now| {
            let since = since.get(&customer).copied().flatten();
            evaluate_usage_alerts(tx, (customer, since), &mut self.known, now)
        });
        let mut seen = Vec::new();
        for (one, outcome) in marked.into_iter().zip(outcomes) {
            match outcome {
                // The database is to blame: once it is well, the marks are still there.
                Err(error @ Error::Store(_)) => {
                    log::warn!(organization:%, customer_key:% = one.customer.uuid(), error:%; "usage alerts could not be looked at");
                }
                // What refuses today refuses tomorrow. Whatever changes a figure next marks its customer again.
                Err(error) => {
                    log::warn!(organization:%, customer_key:% = one.customer.uuid(), error:%; "usage alerts have no figures");
                    seen.push(one);
                }
                Ok(()) => seen.push(one),
            }
        }
        backend.drop_marks(&seen)?;
        Ok(!seen.is_empty())
    }
}
