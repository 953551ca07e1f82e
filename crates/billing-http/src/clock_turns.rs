//! Carries out the advances of test clocks, and what customers under a clock that stands have to catch up with:
//! organizations take turns, so that nobody's clocks wait for another's.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use billing_domain::billing_run::{AfterFailure, after_failure};
use billing_domain::id::{CustomerKey, OrganizationId, TestClockId};
use billing_domain::store::{Scope, Store, Transaction};
use billing_domain::test_clock::TestClockStatus;
use billing_domain::workflow::{
    Progress, WORKER_WORK_MAX, advance_customer, bill_customer_partly, fail_test_clock, finish_test_clock,
};
use billing_domain::{Error, StoreError};
use time::OffsetDateTime;

use crate::backend::Backend;
use crate::taxes::{Job, Taxes};

/// How long an organization's turn lasts; the transaction that runs then is the turn's last.
const TURN: Duration = Duration::from_millis(100);
/// How long an advance is left alone that met a customer held elsewhere, or a store that did not answer: who waits for a
/// lock keeps the others waiting.
const PUT_ASIDE: Duration = Duration::from_secs(5);
/// Customers of each organization who are catching up that are taken up at once.
const CATCHING_UP_MAX: u32 = 20;
/// The pause when all advances are put aside.
const IDLE: Duration = Duration::from_millis(100);

/// All that clocks have to do, and how far this process knows it to be done.
///
/// Several processes may be at the same: each brings customers on, and whoever comes second finds less to do.
#[derive(Default)]
pub struct ClockTurns {
    queues: BTreeMap<OrganizationId, VecDeque<Task>>,
}

/// Something to do, in many transactions.
struct Task {
    kind: TaskKind,
    /// It is left alone until then.
    put_aside_until: Option<Instant>,
}

enum TaskKind {
    Advance(Advance),
    /// Of a customer under a clock that stands.
    CatchUp(TestClockId, CustomerKey),
}

/// One clock on its way.
struct Advance {
    clock: TestClockId,
    /// What is left of it; unknown before its first turn.
    rest: Option<Rest>,
}

/// What is left of an advance.
struct Rest {
    frozen_time: OffsetDateTime,
    customers: VecDeque<CustomerKey>,
    status: TestClockStatus,
}

impl ClockTurns {
    /// Gives every organization whose clocks have something to do one turn; whether there may be more.
    pub fn go_round(&mut self, backend: &dyn Backend, taxes: &Taxes) -> bool {
        match list_tasks(backend) {
            Ok(tasks) => self.take_up(tasks),
            Err(error) => {
                log::error!("what test clocks have to do could not be listed: {error}");
                return false;
            }
        }
        let mut is_idle = true;
        for (organization, queue) in &mut self.queues {
            is_idle &= !take_turn(backend, taxes, *organization, queue);
        }
        self.queues.retain(|_, queue| !queue.is_empty());
        if is_idle && !self.queues.is_empty() {
            thread::sleep(IDLE);
        }
        !(is_idle && self.queues.is_empty())
    }

    /// Lines up what is new and forgets what another process has done.
    fn take_up(&mut self, tasks: Vec<(OrganizationId, TaskKind)>) {
        let is_listed = |organization: OrganizationId, task: &Task| {
            tasks.iter().any(|(owner, kind)| *owner == organization && kind.subject() == task.kind.subject())
        };
        for (organization, queue) in &mut self.queues {
            queue.retain(|task| is_listed(*organization, task));
        }
        for (organization, kind) in tasks {
            let queue = self.queues.entry(organization).or_default();
            if !queue.iter().any(|task| task.kind.subject() == kind.subject()) {
                queue.push_back(Task { kind, put_aside_until: None });
            }
        }
    }
}

fn list_tasks(backend: &dyn Backend) -> Result<Vec<(OrganizationId, TaskKind)>, Error> {
    let clocks = backend.list_advancing_clocks()?.into_iter();
    let advances = clocks.map(|(owner, clock)| (owner, TaskKind::Advance(Advance { clock, rest: None })));
    let customers = backend.list_catching_up(CATCHING_UP_MAX)?.into_iter();
    let catch_ups = customers.map(|(owner, clock, customer)| (owner, TaskKind::CatchUp(clock, customer)));
    Ok(advances.chain(catch_ups).collect())
}

/// Goes on with an organization's tasks, one transaction of each after the other, until the turn is over; whether there was
/// anything to do.
fn take_turn(store: &dyn Store, taxes: &Taxes, organization: OrganizationId, queue: &mut VecDeque<Task>) -> bool {
    let began = Instant::now();
    let mut is_used = false;
    while let Some(mut task) = next_of(queue) {
        is_used = true;
        match task.kind.go_on(store, organization) {
            Ok(Progress::Arrived) => {}
            Ok(Progress::OnTheWay) => queue.push_back(task),
            Err(error) => {
                let (clock, _) = task.kind.subject();
                let mut pause = PUT_ASIDE;
                match error {
                    Error::TaxRate(need) => {
                        // Whoever asks is quick, mostly.
                        pause = if need.failure.is_some() { PUT_ASIDE } else { IDLE };
                        taxes.later(Job::Note(organization, need));
                    }
                    Error::Store(StoreError::LockTimeout) => {
                        log::info!("test clock {clock} waits: one of its customers is held elsewhere");
                    }
                    error => log::error!("test clock {clock} could not be advanced: {error}"),
                }
                task.put_aside_until = Some(Instant::now() + pause);
                queue.push_back(task);
            }
        }
        if began.elapsed() >= TURN {
            break;
        }
    }
    is_used
}

/// The first task that is not put aside.
fn next_of(queue: &mut VecDeque<Task>) -> Option<Task> {
    let now = Instant::now();
    let is_free = |task: &Task| task.put_aside_until.is_none_or(|until| until <= now);
    let place = queue.iter().position(is_free)?;
    queue.remove(place)
}

impl TaskKind {
    /// The clock, and which of its customers; `None`: all of them.
    fn subject(&self) -> (TestClockId, Option<CustomerKey>) {
        match self {
            Self::Advance(advance) => (advance.clock, None),
            Self::CatchUp(clock, customer) => (*clock, Some(*customer)),
        }
    }

    /// One transaction's worth of it.
    fn go_on(&mut self, store: &dyn Store, organization: OrganizationId) -> Result<Progress, Error> {
        match self {
            Self::Advance(advance) => advance.go_on(store, organization),
            Self::CatchUp(clock, customer) => catch_up(store, organization, *clock, *customer),
        }
    }
}

/// Brings a customer on who is catching up. When that fails, the clock has.
fn catch_up(
    store: &dyn Store,
    organization: OrganizationId,
    clock: TestClockId,
    customer: CustomerKey,
) -> Result<Progress, Error> {
    let billed =
        bill_on(store, organization, customer, &|tx, now| bill_customer_partly(tx, customer, now, WORKER_WORK_MAX));
    match billed {
        Err(error) if !is_nobodys_failure(&error) => {
            log::error!(organization:%, test_clock_id:% = clock, customer_key:% = customer.uuid(), error:%; "test clock failed");
            store.run_for(&Scope::Catalog(organization), |tx, _| fail_test_clock(tx, clock))?;
            Ok(Progress::Arrived)
        }
        billed => billed,
    }
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
        match bill_on(store, organization, customer, &|tx, _| advance_customer(tx, clock, customer)) {
            Ok(Progress::OnTheWay) => {}
            Ok(Progress::Arrived) => {
                log::info!(organization:%, test_clock_id:% = clock, customer_key:% = customer.uuid(); "customer billed");
                rest.customers.pop_front();
            }
            // It says nothing of the customer: the clock stays on its way.
            Err(error) if is_nobodys_failure(&error) => return Err(error),
            Err(error) => {
                log::error!(organization:%, test_clock_id:% = clock, customer_key:% = customer.uuid(), error:%; "test clock failed");
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

/// Bills a customer of a clock on. A panic is a failure of this customer alone.
fn bill_on(
    store: &dyn Store,
    organization: OrganizationId,
    customer: CustomerKey,
    bill: &dyn Fn(&mut dyn Transaction, OffsetDateTime) -> Result<Progress, Error>,
) -> Result<Progress, Error> {
    let scope = Scope::Customer(organization, customer);
    let work = || store.run_for(&scope, bill);
    let panicked = |_| Err(StoreError::Internal("the billing panicked".to_owned()).into());
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(panicked)
}

fn is_nobodys_failure(error: &Error) -> bool {
    matches!(error, Error::TaxRate(_) | Error::Store(StoreError::LockTimeout))
        || after_failure(error, 0) == AfterFailure::NotCounted
}
