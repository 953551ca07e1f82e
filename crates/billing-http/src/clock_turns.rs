//! Carries out the advances of test clocks: organizations take turns, so that nobody's clocks wait for another's.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use billing_domain::billing_run::{AfterFailure, after_failure};
use billing_domain::id::{CustomerKey, OrganizationId, TestClockId};
use billing_domain::store::{Scope, Store};
use billing_domain::test_clock::TestClockStatus;
use billing_domain::workflow::{Progress, advance_customer, finish_test_clock};
use billing_domain::{Error, StoreError};
use time::OffsetDateTime;

use crate::backend::Backend;

/// How long an organization's turn lasts; the transaction that runs then is the turn's last.
const TURN: Duration = Duration::from_millis(100);
/// How long an advance is left alone that met a customer held elsewhere, or a store that did not answer: who waits for a
/// lock keeps the others waiting.
const PUT_ASIDE: Duration = Duration::from_secs(5);
/// The pause when all advances are put aside.
const IDLE: Duration = Duration::from_millis(100);

/// All advances that are on their way, and how far this process knows them to be.
///
/// Several processes may be at the same advance: each brings customers on, and whoever comes second finds less to do.
#[derive(Default)]
pub struct ClockTurns {
    queues: BTreeMap<OrganizationId, VecDeque<Advance>>,
}

/// One clock on its way.
struct Advance {
    clock: TestClockId,
    /// What is left of it; unknown before its first turn.
    rest: Option<Rest>,
    /// It is left alone until then.
    put_aside_until: Option<Instant>,
}

/// What is left of an advance.
struct Rest {
    frozen_time: OffsetDateTime,
    customers: VecDeque<CustomerKey>,
    status: TestClockStatus,
}

impl ClockTurns {
    /// Gives every organization with clocks on their way one turn; whether there is more to do.
    pub fn go_round(&mut self, backend: &dyn Backend) -> bool {
        match backend.list_advancing_clocks() {
            Ok(clocks) => self.take_up(&clocks),
            Err(error) => {
                log::error!("advancing test clocks could not be listed: {error}");
                return false;
            }
        }
        let mut is_idle = true;
        for (organization, queue) in &mut self.queues {
            is_idle &= !take_turn(backend, *organization, queue);
        }
        self.queues.retain(|_, queue| !queue.is_empty());
        if is_idle && !self.queues.is_empty() {
            thread::sleep(IDLE);
        }
        !self.queues.is_empty()
    }

    /// Lines up what is new and forgets what has arrived by another process.
    fn take_up(&mut self, clocks: &[(OrganizationId, TestClockId)]) {
        for (organization, queue) in &mut self.queues {
            queue.retain(|advance| clocks.contains(&(*organization, advance.clock)));
        }
        for (organization, clock) in clocks {
            let queue = self.queues.entry(*organization).or_default();
            if !queue.iter().any(|advance| advance.clock == *clock) {
                queue.push_back(Advance { clock: *clock, rest: None, put_aside_until: None });
            }
        }
    }
}

/// Advances an organization's clocks, one transaction of each after the other, until the turn is over; whether there was
/// anything to do.
fn take_turn(store: &dyn Store, organization: OrganizationId, queue: &mut VecDeque<Advance>) -> bool {
    let began = Instant::now();
    let mut is_used = false;
    while let Some(mut advance) = next_of(queue) {
        is_used = true;
        match advance.go_on(store, organization) {
            Ok(Progress::Arrived) => {}
            Ok(Progress::OnTheWay) => queue.push_back(advance),
            Err(error) => {
                let clock = advance.clock;
                match error {
                    Error::Store(StoreError::LockTimeout) => {
                        log::info!("test clock {clock} waits: one of its customers is held elsewhere");
                    }
                    error => log::error!("test clock {clock} could not be advanced: {error}"),
                }
                advance.put_aside_until = Some(Instant::now() + PUT_ASIDE);
                queue.push_back(advance);
            }
        }
        if began.elapsed() >= TURN {
            break;
        }
    }
    is_used
}

/// The first advance that is not put aside.
fn next_of(queue: &mut VecDeque<Advance>) -> Option<Advance> {
    let now = Instant::now();
    let is_free = |advance: &Advance| advance.put_aside_until.is_none_or(|until| until <= now);
    let place = queue.iter().position(is_free)?;
    queue.remove(place)
}

impl Advance {
    /// One transaction's worth of it. A customer whose billing fails is left behind; the others go on.
    fn go_on(&mut self, store: &dyn Store, organization: OrganizationId) -> Result<Progress, Error> {
        let clock = self.clock;
        let rest = match &mut self.rest {
            Some(rest) => rest,
            None => self.rest.insert(Rest::load(store, organization, clock)?),
        };
        let Some(customer) = rest.customers.front().copied() else {
            let (frozen_time, status) = (rest.frozen_time, rest.status);
            let scope = Scope::Catalog(organization);
            store.run_for(&scope, |tx, _| finish_test_clock(tx, clock, frozen_time, status))?;
            return Ok(Progress::Arrived);
        };
        match bill_on(store, organization, clock, customer) {
            Ok(Progress::OnTheWay) => {}
            Ok(Progress::Arrived) => drop(rest.customers.pop_front()),
            // It says nothing of the customer: the clock stays on its way.
            Err(error) if is_nobodys_failure(&error) => return Err(error),
            Err(error) => {
                log::error!("test clock {clock} failed customer_key={} error={error}", customer.uuid());
                rest.status = TestClockStatus::Failed;
                rest.customers.pop_front();
            }
        }
        Ok(Progress::OnTheWay)
    }
}

impl Rest {
    fn load(store: &dyn Store, organization: OrganizationId, clock: TestClockId) -> Result<Self, Error> {
        store.run_for(&Scope::Organization(organization), |tx, _| {
            let frozen_time = tx.test_clocks().get(clock)?.frozen_time;
            let customers = tx.test_clocks().list_customers(clock)?.into();
            Ok(Self { frozen_time, customers, status: TestClockStatus::Ready })
        })
    }
}

/// Bills a customer of the clock on. A panic is a failure of this customer alone.
fn bill_on(
    store: &dyn Store,
    organization: OrganizationId,
    clock: TestClockId,
    customer: CustomerKey,
) -> Result<Progress, Error> {
    let scope = Scope::Customer(organization, customer);
    let work = || store.run_for(&scope, |tx, _| advance_customer(tx, clock, customer));
    let panicked = |_| Err(StoreError::Internal("the billing panicked".to_owned()).into());
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked)
}

fn is_nobodys_failure(error: &Error) -> bool {
    *error == Error::Store(StoreError::LockTimeout) || after_failure(error, 0) == AfterFailure::NotCounted
}
