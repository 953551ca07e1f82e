//! Holding the figures of customers against usage alerts, soon after something has changed them.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::thread;

use billing_domain::Error;
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::MarkedCustomer;
use billing_domain::usage_alert::Firing;
use billing_domain::workflow::{evaluate_usage_alerts, find_later_look};

use crate::backend::Backend;

/// Marks of one organization that are read in one round. Whoever stores much leaves many of the same customers, who are looked at once
/// for all of them.
const MARKS_MAX: u32 = 5_000;
/// Customers of one organization that are looked at in one round: whoever has many does not keep the others waiting.
const CUSTOMERS_MAX: usize = 200;
/// Customers marked at once because of a new alert.
const PAGE: u32 = 1_000;
/// Firings that are remembered so that they are not looked up again.
const KNOWN_MAX: usize = 100_000;

/// Threads that look at customers: each has its own.
const WORKERS: usize = 3;

/// One round after the other.
#[derive(Default)]
pub struct AlertRun {
    /// What has fired already, by the thread whose customers it has fired for.
    known: [BTreeSet<Firing>; WORKERS],
    /// Of organizations of which some were left, the customer who was looked at last: the next round goes on behind, so that everybody's
    /// turn comes, whatever is stored meanwhile.
    last: BTreeMap<OrganizationId, CustomerKey>,
}

/// The marked customers of one thread, by organization.
type Share = BTreeMap<OrganizationId, Vec<MarkedCustomer>>;

impl AlertRun {
    /// Looks at the customers who are marked, some of each organization; whether there may be more.
    ///
    /// # Errors
    /// Those of the store.
    pub fn round(&mut self, backend: &dyn Backend) -> Result<bool, Error> {
        backend.mark_concerned(PAGE)?;
        for known in self.known.iter_mut().filter(|known| known.len() > KNOWN_MAX / WORKERS) {
            known.clear();
        }
        let mut by_organization = Share::new();
        for marked in backend.list_marked(MARKS_MAX)? {
            by_organization.entry(marked.organization).or_default().push(marked);
        }
        let (mut some_are_left, mut last) = (BTreeSet::new(), std::mem::take(&mut self.last));
        let mut shares: [Share; WORKERS] = Default::default();
        for (organization, mut marked) in by_organization {
            let marks: usize = marked.iter().map(|one| one.marks.len()).sum();
            if marked.len() > CUSTOMERS_MAX || marks >= MARKS_MAX as usize {
                some_are_left.insert(organization);
            }
            let reached = keep_a_turn(&mut marked, last.remove(&organization));
            self.last.extend(reached.map(|customer| (organization, customer)));
            for one in marked {
                shares[worker_of(one.customer)].entry(organization).or_default().push(one);
            }
        }
        let seen = look_at_all(backend, shares, &mut self.known)?;
        Ok(seen.intersection(&some_are_left).next().is_some())
    }
}

/// The number of the thread that looks at a customer: always the same, so that one thread alone knows what has fired.
fn worker_of(customer: CustomerKey) -> usize {
    let bytes = customer.uuid().into_bytes();
    // The first say in which lane it is.
    usize::from(bytes[bytes.len() - 1]) % WORKERS
}

/// Looks at everybody's customers at once; the organizations that have some who need not be looked at again.
fn look_at_all(
    backend: &dyn Backend,
    shares: [Share; WORKERS],
    known: &mut [BTreeSet<Firing>; WORKERS],
) -> Result<BTreeSet<OrganizationId>, Error> {
    let look = |share: Share, known: &mut BTreeSet<Firing>| {
        let mut seen = BTreeSet::new();
        for (organization, marked) in share {
            if look_at(backend, organization, marked, known)? {
                seen.insert(organization);
            }
        }
        Ok(seen)
    };
    let at_work = shares.into_iter().zip(known).filter(|(share, _)| !share.is_empty());
    let all: Vec<Result<BTreeSet<OrganizationId>, Error>> = thread::scope(|threads| {
        let looking: Vec<_> = at_work.map(|(share, known)| threads.spawn(move || look(share, known))).collect();
        looking.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    all.into_iter().try_fold(BTreeSet::new(), |mut all, seen| {
        all.extend(seen?);
        Ok(all)
    })
}

/// Looks at some customers of one organization; whether any of them need not be looked at again.
fn look_at(
    backend: &dyn Backend,
    organization: OrganizationId,
    marked: Vec<MarkedCustomer>,
    known: &mut BTreeSet<Firing>,
) -> Result<bool, Error> {
    let asked: BTreeMap<_, _> = marked.iter().map(|one| (one.customer, one)).collect();
    let customers: Vec<_> = marked.iter().map(|one| one.customer).collect();
    let mut found = BTreeMap::new();
    let outcomes = backend.run_each(organization, &customers, &mut |tx, customer, now| {
        // It may be done again: what came of it last is what is committed.
        found.remove(&customer);
        let one = asked[&customer];
        let outlook = evaluate_usage_alerts(tx, (customer, one.since), known, now)?;
        let later = find_later_look(tx, one, &outlook, now)?;
        found.insert(customer, (outlook.headroom, later));
        Ok(())
    });
    let mut seen = Vec::new();
    for (mut one, outcome) in marked.into_iter().zip(outcomes) {
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
            Ok(()) => {
                (one.headroom, one.later) = found.remove(&one.customer).unwrap_or_default();
                seen.push(one);
            }
        }
    }
    backend.drop_marks(&seen)?;
    Ok(!seen.is_empty())
}

/// Keeps those whose turn it is, behind the customer who was looked at last; the last of them, when some are left out, whose marks stay.
fn keep_a_turn(marked: &mut Vec<MarkedCustomer>, last: Option<CustomerKey>) -> Option<CustomerKey> {
    marked.sort_by_key(|one| one.customer);
    let behind = marked.partition_point(|one| last.is_some_and(|last| one.customer <= last));
    marked.rotate_left(behind);
    if marked.len() <= CUSTOMERS_MAX {
        return None;
    }
    marked.truncate(CUSTOMERS_MAX);
    marked.last().map(|one| one.customer)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn whoever_is_left_out_is_the_first_of_the_next_turn() {
        let all = || -> Vec<MarkedCustomer> {
            let marked = |n| MarkedCustomer::new((Uuid::nil().into(), Uuid::from_u128(n).into()), None, vec![0]);
            (0..CUSTOMERS_MAX as u128 * 2 + 50).map(marked).collect()
        };
        let (mut last, mut seen) = (None, BTreeSet::new());
        // All of them are marked again all the time.
        for turn in 0..3 {
            let mut marked = all();
            last = keep_a_turn(&mut marked, last);
            assert_eq!(marked.len(), CUSTOMERS_MAX, "turn {turn}");
            seen.extend(marked.iter().map(|one| one.customer));
        }
        assert_eq!(seen.len(), all().len(), "everybody's turn has come");
        let mut few: Vec<MarkedCustomer> = all().into_iter().take(CUSTOMERS_MAX).collect();
        assert_eq!((keep_a_turn(&mut few, last), few.len()), (None, CUSTOMERS_MAX), "nobody is left out");
    }
}
