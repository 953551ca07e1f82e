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
mod write_buffer;

use std::collections::BTreeSet;

use billing_domain::id::{CustomerKey, OrganizationId, SubscriptionId};
use billing_domain::store::{Scope, WorkOfEach};
use billing_domain::usage::{SeenUsage, UsageRequest};
use billing_domain::{Error, StoreError};
use time::Date;

use self::snapshot::CustomerSnapshot;
use self::write_buffer::WriteBuffer;
use crate::pg::error::Failure;
use crate::store::PgStore;
use crate::transaction::PgTransaction;

/// Most customers in one transaction: it ends within moments, because each of them is locked until then.
const CUSTOMERS_MAX: usize = 10;
/// How often a customer's work is begun: each time but the last may end with a question about usage.
const ATTEMPTS_MAX: usize = 3;

/// A customer of a batch whose turn it is.
pub(crate) struct BatchMember {
    snapshot: CustomerSnapshot,
    /// What it has done so far.
    pub(crate) writes: WriteBuffer,
    /// The usage it needs to go on.
    asked: Option<Vec<UsageRequest>>,
    falls_back: bool,
}

/// What became of one customer's turn.
enum Turn {
    Done(WriteBuffer),
    Asked(Box<(CustomerSnapshot, Vec<UsageRequest>)>),
    FellBack,
}

impl BatchMember {
    /// Ends the customer's part in the batch. The error is for the work to stop, and nobody else sees it.
    pub(crate) fn fall_back(&mut self) -> Error {
        self.falls_back = true;
        StoreError::Internal("a customer is left out of a batch".to_owned()).into()
    }

    /// The usage behind all of these requests from one statement, once that has been read.
    pub(crate) fn usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<SeenUsage>, Error> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(usages) = self.snapshot.usages(requests) {
            return Ok(usages);
        }
        let error = self.fall_back();
        self.asked = Some(requests.to_vec());
        Err(error)
    }

    /// [`billing_domain::store::SubscriptionRepo::count_invoicing`] of one subscription.
    pub(crate) fn count_invoicing(&mut self, subscription: SubscriptionId, day: Date) -> i64 {
        self.writes.count_invoicing(
            self.snapshot.customer.key,
            subscription,
            self.snapshot.invoicings(subscription),
            day,
        )
    }
}

impl PgStore {
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
                    self.run_work(&scope, &mut |tx, now| work(tx, *customer, now))
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
        self.shared.pool.transact(|pg| {
            let mut tx = PgTransaction::new(pg, &self.shared, organization);
            let done = tx.work_on(customers, work);
            match (tx.into_failure(), done) {
                (Some(failure), _) => Err(failure),
                (None, done) => done.map_err(Failure::from),
            }
        })
    }
}

impl PgTransaction<'_> {
    /// What was read of the customer whose turn it is, as long as it has changed nothing.
    pub(crate) fn snapshot(&self, customer: CustomerKey) -> Option<&CustomerSnapshot> {
        let batch_member = self.batch_member.as_ref()?;
        (batch_member.snapshot.customer.key == customer && batch_member.writes.is_empty())
            .then_some(&batch_member.snapshot)
    }

    /// The whole of a batch, but for the commit; answers who is not left out.
    fn work_on(
        &mut self,
        customers: &[CustomerKey],
        work: &mut WorkOfEach<'_>,
    ) -> Result<BTreeSet<CustomerKey>, Error> {
        let mut waiting = self.hold(customers)?;
        let (mut done, mut all) = (BTreeSet::new(), WriteBuffer::default());
        for _ in 0..ATTEMPTS_MAX {
            let mut asking = Vec::new();
            for snapshot in std::mem::take(&mut waiting) {
                let customer = snapshot.customer.key;
                match self.take_turn(snapshot, work) {
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
            waiting = self.answer(asking)?;
        }
        self.write(all)?;
        Ok(done)
    }

    fn take_turn(&mut self, snapshot: CustomerSnapshot, work: &mut WorkOfEach<'_>) -> Turn {
        let (customer, now) = (snapshot.customer.key, snapshot.now);
        self.own_customer = Some(snapshot.customer.clone());
        self.batch_member =
            Some(Box::new(BatchMember { snapshot, writes: WriteBuffer::default(), asked: None, falls_back: false }));
        let result = work(self, customer, now);
        self.own_customer = None;
        let invoices = std::mem::take(&mut self.unissued);
        match self.batch_member.take().map(|batch_member| *batch_member) {
            Some(BatchMember { writes, falls_back: false, .. }) if result.is_ok() => {
                Turn::Done(writes.with_invoices(invoices))
            }
            Some(BatchMember { snapshot, asked: Some(requests), .. }) => Turn::Asked(Box::new((snapshot, requests))),
            _ => Turn::FellBack,
        }
    }

    /// Gives each what it asked for; whoever asked for more than whole buckets is left out.
    fn answer(&mut self, asking: Vec<(CustomerSnapshot, Vec<UsageRequest>)>) -> Result<Vec<CustomerSnapshot>, Error> {
        let questions: Vec<&[UsageRequest]> = asking.iter().map(|(_, requests)| requests.as_slice()).collect();
        let answers = self.read_counted_usages(&questions)?;
        let keep =
            |((mut snapshot, requests), usages): ((CustomerSnapshot, Vec<UsageRequest>), Option<Vec<SeenUsage>>)| {
                snapshot.keep(requests, usages?);
                Some(snapshot)
            };
        Ok(asking.into_iter().zip(answers).filter_map(keep).collect())
    }
}
