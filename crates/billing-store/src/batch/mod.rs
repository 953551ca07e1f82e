//! Several customers in one transaction: locked and read at once, worked on one by one in memory, written at once.
//!
//! ```text
//! lock, read | work on A, B, C .. in memory | read the usage they ask for | work on those again | write, commit
//! ```
//!
//! Nobody is the worse for their neighbours. A customer whom somebody else is at work on, whose work fails, or needs what
//! was not read for all of them (events, credits, a time long ago) is left out of the batch, and so is everything that it
//! did; it gets a transaction of its own. So do all of them when the batch itself fails. Locks are never waited for, so
//! that nobody waits for a batch that waits.

mod snapshot;
mod transaction;
mod write_buffer;

use std::collections::BTreeSet;

use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::{Scope, WorkOfEach};
use billing_domain::usage::{SeenUsage, UsageRequest};
use billing_domain::{Error, StoreError};

use self::transaction::{BatchTransaction, Turn};
use self::write_buffer::WriteBuffer;
use crate::cached::{CachedTransaction, CustomerSnapshot};
use crate::pg::error::Failure;
use crate::shared::Shared;
use crate::transaction::PgTransaction;

/// Most customers in one transaction: it ends within moments, because each of them is locked until then.
const CUSTOMERS_MAX: usize = 10;
/// How often a customer's work is begun: each time but the last may end with a question about usage.
const ATTEMPTS_MAX: usize = 3;

impl Shared {
    /// Work on each of these customers, a few in one transaction where that can be.
    pub(crate) fn run_in_batches(
        &self,
        organization: OrganizationId,
        customers: &[CustomerKey],
        work: &mut WorkOfEach<'_>,
    ) -> Vec<Result<(), Error>> {
        let mut results = Vec::with_capacity(customers.len());
        for some in customers.chunks(CUSTOMERS_MAX) {
            let done = match self.run_batch(organization, some, work) {
                Ok(done) => done,
                Err(Failure::Disconnected(message)) => {
                    // It may have been committed.
                    results.extend(some.iter().map(|_| Err(StoreError::Unavailable(message.clone()).into())));
                    continue;
                }
                Err(failure) => {
                    log::info!("a batch of customers is done one by one: {}", failure.into_error());
                    BTreeSet::new()
                }
            };
            results.extend(some.iter().map(|customer| match done.contains(customer) {
                true => Ok(()),
                false => {
                    let scope = Scope::Customer(organization, *customer);
                    self.run_work(&scope, None, &mut |tx, now| work(tx, *customer, now))
                }
            }));
        }
        results
    }

    /// Those of the customers whose work was done in one transaction.
    fn run_batch(
        &self,
        organization: OrganizationId,
        customers: &[CustomerKey],
        work: &mut WorkOfEach<'_>,
    ) -> Result<BTreeSet<CustomerKey>, Failure> {
        if customers.len() < 2 {
            return Ok(BTreeSet::new());
        }
        self.pool.transact(|pg| {
            let mut tx = PgTransaction::new(pg, self, organization);
            let done = work_on(&mut tx, customers, work);
            match (tx.into_failure(), done) {
                (Some(failure), _) => Err(failure),
                (None, done) => done.map_err(Failure::from),
            }
        })
    }
}

/// The whole of a batch, but for the commit; answers who is not left out.
fn work_on(
    tx: &mut PgTransaction<'_>,
    customers: &[CustomerKey],
    work: &mut WorkOfEach<'_>,
) -> Result<BTreeSet<CustomerKey>, Error> {
    let (catalog_version, mut waiting) = tx.hold(customers)?;
    let catalogs = &tx.shared.remembered.catalogs;
    let catalog = catalog_version.map(|version| catalogs.at(tx.tenant(), version));
    let (mut done, mut all) = (BTreeSet::new(), WriteBuffer::default());
    for _ in 0..ATTEMPTS_MAX {
        let mut asking = Vec::new();
        for snapshot in std::mem::take(&mut waiting) {
            let (customer, now) = (snapshot.customer.key, snapshot.now);
            let mut turn = BatchTransaction::begin(CachedTransaction::new(tx, catalog), snapshot);
            let result = work(&mut turn, customer, now);
            match turn.end(result) {
                Turn::Done(writes) => {
                    done.insert(customer);
                    all.append(writes);
                }
                Turn::Asked(asked) => asking.push(*asked),
                Turn::FellBack => {}
            }
        }
        if asking.is_empty() {
            break;
        }
        waiting = answer(tx, asking)?;
    }
    tx.write(all)?;
    Ok(done)
}

/// Gives each what it asked for; whoever asked for more than whole buckets is left out.
fn answer(
    tx: &mut PgTransaction<'_>,
    asking: Vec<(CustomerSnapshot, Vec<UsageRequest>)>,
) -> Result<Vec<CustomerSnapshot>, Error> {
    let questions: Vec<&[UsageRequest]> = asking.iter().map(|(_, requests)| requests.as_slice()).collect();
    let answers = tx.read_counted_usages(&questions)?;
    let keep = |((mut snapshot, requests), usages): ((CustomerSnapshot, Vec<UsageRequest>), Option<Vec<SeenUsage>>)| {
        snapshot.keep(requests, usages?);
        Some(snapshot)
    };
    Ok(asking.into_iter().zip(answers).filter_map(keep).collect())
}
