//! Doing jobs, a little at a time: each step is one short transaction of one customer, with a rest behind it, in which others store
//! their events.

use std::thread;
use std::time::{Duration as StdDuration, Instant};

use billing_domain::error::{Error, Refusal};
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::job::{Job, JobState};
use billing_domain::store::{PageRequest, Scope, Store};
use billing_domain::workflow::correct_matching_events;
use time::Duration;

use crate::backend::Backend;
use crate::taxes::{Attempt, Taxes, Undone};

/// How long a job belongs to the worker that does it, from each step on: whoever dies over it keeps it from others for as long.
const LEASE: Duration = Duration::seconds(10);
/// How long one job is worked at before another has its turn.
const TURN: StdDuration = StdDuration::from_secs(2);
/// The least rest behind a step. A step takes as much time at most as is rested behind it: whoever stores events goes ahead.
const REST_MIN: StdDuration = StdDuration::from_millis(2);
/// The most.
const REST_MAX: StdDuration = StdDuration::from_millis(500);
/// How many times as long as a step takes a job is left alone behind it where the customer has more of it to come and somebody stores
/// events beside: of a hundred of those at most one waits for a step then, which keeps the customer's key range for less than half its
/// time. Other jobs go on meanwhile.
const PAUSES_BESIDE_OTHERS: u32 = 100;
/// The most of that.
const PAUSE_BESIDE_OTHERS_MAX: Duration = Duration::seconds(5);

/// What became of a turn at a job.
enum Turn {
    /// It goes on.
    GoesOn,
    /// It can go on later: its customer is on the way, or the tax rate is not known yet.
    Later,
    /// It is nobody's for a while, and goes on then.
    Paused,
    /// It came to its end, or somebody else has ended it.
    Over,
}

/// Works at the next job for a while; whether there may be more to do at once.
///
/// # Errors
/// Those of the store.
pub fn work_at_jobs(backend: &dyn Backend, taxes: &Taxes) -> Result<bool, Error> {
    let Some((organization, mut job)) = backend.lease_job(LEASE)? else { return Ok(false) };
    let turn = work_at(backend, taxes, organization, &mut job);
    match &turn {
        Ok(Turn::Over | Turn::Paused) => {}
        Ok(Turn::GoesOn | Turn::Later) | Err(_) => backend.leave_job(organization, job.id)?,
    }
    turn.map(|turn| !matches!(turn, Turn::Later))
}

fn work_at(backend: &dyn Backend, taxes: &Taxes, organization: OrganizationId, job: &mut Job) -> Result<Turn, Error> {
    let begun = Instant::now();
    while begun.elapsed() < TURN {
        let step = Instant::now();
        let Some((customer, next)) = next_customer(backend, organization, job)? else {
            end(job, JobState::Done, None);
            backend.keep_job(organization, job, LEASE)?;
            return Ok(Turn::Over);
        };
        match correct(backend, taxes, (organization, customer), job) {
            Ok(Some(after)) => job.events_after = Some(after),
            Ok(None) => leave_customer(job, next),
            // Deleted meanwhile.
            Err(Error::NotFound(_)) => leave_customer(job, next),
            Err(Error::TaxRate(_) | Error::Refused(Refusal::TestClockAdvancing | Refusal::CatchingUp)) => {
                return Ok(Turn::Later);
            }
            Err(error @ Error::Store(_)) => return Err(error),
            Err(error) => end(job, JobState::Failed, Some(error.to_string())),
        }
        if !backend.keep_job(organization, job, LEASE)? || job.state != JobState::Running {
            return Ok(Turn::Over);
        }
        let goes_on_with = job.events_after.is_some().then_some((organization, customer));
        if others_store_events(backend, goes_on_with, step.elapsed())? {
            let pause = Duration::try_from(step.elapsed() * PAUSES_BESIDE_OTHERS).unwrap_or(PAUSE_BESIDE_OTHERS_MAX);
            backend.keep_job(organization, job, pause.min(PAUSE_BESIDE_OTHERS_MAX))?;
            return Ok(Turn::Paused);
        }
    }
    Ok(Turn::GoesOn)
}

/// Rests behind a step that took so long; whether somebody stored events meanwhile that would have waited for the next step of the customer
/// with whom the job goes on.
fn others_store_events(
    backend: &dyn Backend,
    goes_on_with: Option<(OrganizationId, CustomerKey)>,
    took: StdDuration,
) -> Result<bool, Error> {
    let arrived =
        || goes_on_with.map(|(organization, customer)| backend.last_arrival(organization, customer)).transpose();
    let before = arrived()?;
    thread::sleep(took.clamp(REST_MIN, REST_MAX));
    Ok(arrived()? != before)
}

/// The customer whose events come next, and where the list of customers goes on behind; `None`: there is none any more.
fn next_customer(
    backend: &dyn Backend,
    organization: OrganizationId,
    job: &Job,
) -> Result<Option<(CustomerKey, Option<String>)>, Error> {
    if let Some(customer) = &job.order.selection.customer {
        let key = CustomerKey::derive(organization, customer);
        return Ok((job.customers_done == 0).then_some((key, None)));
    }
    if job.customers_done > 0 && job.cursor.is_none() {
        return Ok(None);
    }
    let page = PageRequest { limit: 1, after: job.cursor.clone() };
    let store: &dyn Store = backend;
    let page = store.run_for(&Scope::Organization(organization), |tx, _| tx.customers().list(&page))?;
    Ok(page.items.first().map(|customer| (customer.key, page.next.clone())))
}

fn leave_customer(job: &mut Job, next: Option<String>) {
    job.customers_done += 1;
    job.events_after = None;
    job.cursor = next;
}

fn end(job: &mut Job, state: JobState, failure: Option<String>) {
    job.state = state;
    job.failure = failure;
}

/// One step; a tax rate that is needed first is asked for.
fn correct(
    backend: &dyn Backend,
    taxes: &Taxes,
    (organization, customer): (OrganizationId, CustomerKey),
    job: &Job,
) -> Result<Option<String>, Error> {
    let (store, scope): (&dyn Store, _) = (backend, Scope::Customer(organization, customer));
    let mut attempt = Attempt::default();
    loop {
        let done = store.run_for(&scope, |tx, now| {
            correct_matching_events(tx, customer, (job.id, &job.order), job.events_after.clone(), now)
        });
        match done {
            Err(Error::TaxRate(need)) if attempt.goes_on(&need) => {
                match taxes.find(store, organization, &need, &mut attempt) {
                    Ok(()) => {}
                    Err(Undone::NotAsked(_)) => return Err(Error::TaxRate(need)),
                    Err(Undone::Failed(error)) => return Err(error),
                }
            }
            done => return done,
        }
    }
}
