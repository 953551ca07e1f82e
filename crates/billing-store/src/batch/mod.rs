//! Several customers in one transaction: locked and read at once, worked on one by one in memory, written at once.
//!
//! ```text
//! lock, read | work on A, B, C .. in memory | read what they need | work on those again | write, commit
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
use billing_domain::usage::UsageRequest;
use billing_domain::{Error, StoreError};

use self::transaction::{BatchTransaction, Needed, Turn};
use self::write_buffer::WriteBuffer;
use crate::cached::{CachedTransaction, CustomerSnapshot};
use crate::lanes::Lane;
use crate::pg::error::Failure;
use crate::reservation::Reserved;
use crate::shared::Shared;
use crate::transaction::{Deeds, PgTransaction};

/// Most customers in one transaction: it ends within moments, because each of them is locked until then.
const CUSTOMERS_MAX: usize = 10;
/// How often a customer's work is begun: each time but the last may end with a question, about usage up to three times and about what
/// has fired once.
const ATTEMPTS_MAX: usize = 5;

impl Shared {
    /// Work on each of these customers, a few in one transaction where that can be.
    pub(crate) fn run_in_batches(
        &self,
        organization: OrganizationId,
        customers: &[CustomerKey],
        work: &mut WorkOfEach<'_>,
    ) -> Vec<Result<(), Error>> {
        let apart = self.lanes.apart(customers.iter().copied(), |customer| *customer);
        let batches = apart.iter().flat_map(|(lane, some)| some.chunks(CUSTOMERS_MAX).map(|some| (*lane, some)));
        // Nothing: it is left out of its batch.
        let mut results: Vec<Option<Result<(), Error>>> = customers.iter().map(|_| None).collect();
        for (lane, some) in batches {
            match self.run_batch(organization, lane, some, work) {
                Ok(done) => some.iter().filter(|(_, customer)| done.contains(customer)).for_each(|(place, _)| {
                    results[*place] = Some(Ok(()));
                }),
                // It may have been committed.
                Err(Failure::Disconnected(message)) => some.iter().for_each(|(place, _)| {
                    results[*place] = Some(Err(StoreError::Unavailable(message.clone()).into()));
                }),
                Err(failure) => log::info!("a batch of customers is done one by one: {}", failure.into_error()),
            }
        }
        // Some of them are waited for, so they come when everybody else is done.
        let alone = |(customer, result): (&CustomerKey, Option<Result<(), Error>>)| {
            let scope = Scope::Customer(organization, *customer);
            result.unwrap_or_else(|| self.run_work(&scope, None, &mut |tx, now| work(tx, *customer, now)))
        };
        customers.iter().zip(results).map(alone).collect()
    }

    /// Those of a lane's customers whose work was done in one transaction.
    fn run_batch(
        &self,
        organization: OrganizationId,
        lane: &Lane,
        customers: &[(usize, CustomerKey)],
        work: &mut WorkOfEach<'_>,
    ) -> Result<BTreeSet<CustomerKey>, Failure> {
        // In several lanes one alone gains nothing either, but those of other lanes behind it do not wait for it.
        if customers.len() < 2 && self.lanes.only().is_some() {
            return Ok(BTreeSet::new());
        }
        let customers: Vec<CustomerKey> = customers.iter().map(|(_, customer)| *customer).collect();
        let mut deeds = Deeds::default();
        let mut reserved = Reserved::new(self, Some(lane));
        let done = lane.pool.transact(|pg| {
            reserved.begin()?;
            let mut tx = PgTransaction::new(pg, self, organization, Some(lane));
            let done = work_on(&mut tx, &customers, work).and_then(|done| tx.write_token().map(|()| done));
            reserved.note(tx.holder(), false);
            deeds = std::mem::take(&mut tx.deeds);
            match (tx.into_failure(), done) {
                (Some(failure), _) => Err(failure),
                (None, done) => done.map_err(Failure::from),
            }
        });
        reserved.end(done.is_ok());
        let done = done?;
        self.messages.ring_if(deeds.has_told);
        self.messages.ring_for_marks_if(deeds.has_marked);
        deeds.tell(organization, &self.issued);
        Ok(done)
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
                    all.append(*writes);
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

/// Gives each what it needs, as far as whole buckets tell that; whoever needs more is left out.
fn answer(tx: &mut PgTransaction<'_>, asking: Vec<(CustomerSnapshot, Needed)>) -> Result<Vec<CustomerSnapshot>, Error> {
    let (mut of_usage, mut of_firings) = (Vec::new(), Vec::new());
    for (snapshot, needed) in asking {
        match needed {
            Needed::Usage(requests) => of_usage.push((snapshot, requests)),
            Needed::Firings => of_firings.push(snapshot),
        }
    }
    let mut answered = Vec::new();
    if !of_usage.is_empty() {
        let questions: Vec<&[UsageRequest]> = of_usage.iter().map(|(_, requests)| requests.as_slice()).collect();
        let answers = tx.read_counted_usages(&questions)?;
        for ((mut snapshot, requests), usages) in of_usage.into_iter().zip(answers) {
            let Some(usages) = usages else { continue };
            snapshot.keep(requests, usages);
            answered.push(snapshot);
        }
    }
    if !of_firings.is_empty() {
        let customers: Vec<_> = of_firings.iter().map(|snapshot| snapshot.customer.key.uuid()).collect();
        let mut firings = tx.load_firings(&customers)?;
        for mut snapshot in of_firings {
            snapshot.keep_firings(firings.remove(&snapshot.customer.key.uuid()).unwrap_or_default());
            answered.push(snapshot);
        }
    }
    Ok(answered)
}
