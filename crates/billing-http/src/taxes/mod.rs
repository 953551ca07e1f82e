//! Asks organizations' own tax providers: outside of any transaction, without a place at the database, and so that one that is slow or down
//! keeps nobody else waiting.
//!
//! Billing that needs an answer ends with [`Error::TaxRate`] and nothing done; the answer is noted with the customer, and the same is done
//! again. Calls do that while their client waits ([`Taxes::slot`], [`Taxes::ask`]), the billing run leaves it to threads of its own
//! ([`Taxes::later`]). Only what a provider did is noted: that it was not asked says nothing of the rate ([`NotAsked`]).

mod attempt;
mod question;
mod queue;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use billing_domain::id::{OrganizationId, TaxHookId};
use billing_domain::store::{Scope, Store};
use billing_domain::tax::TaxOutcome;
use billing_domain::workflow::{TaxAnswer, TaxQuestion, note_tax_quote, tax_question};
use billing_domain::{Error, TaxNeed};
use billing_outbound::{Client, Reach};

pub use self::attempt::Attempt;
pub use self::queue::Job;
use self::queue::{Queue, Waiting};
use crate::slots::{Slot, Slots};

/// How long a provider has to answer: less than whoever called has patience.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How long one that could not be reached is not asked again.
const REST: Duration = Duration::from_secs(10);

/// Questions of calls to one organization's provider at once: the others wait their turn.
const CALLS_AT_ONCE_MAX: usize = 4;

/// Threads that ask for the billing run.
pub const THREADS: usize = 4;

/// Why a provider was not asked. That is no answer of it: nothing may be billed as if it had failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAsked {
    /// It could not be reached, and whoever asks now would wait in vain as well.
    Resting,
    /// Others ask it, for as long as there was time to wait.
    Busy,
}

impl NotAsked {
    /// What is missing, for whoever is not answered because of it.
    pub fn of(self, need: &TaxNeed) -> TaxNeed {
        let reason = match self {
            Self::Resting => "it could not be reached moments ago",
            Self::Busy => "too many questions wait for it already",
        };
        let failure = need.failure.clone().unwrap_or_else(|| reason.to_owned());
        TaxNeed { failure: Some(failure), ..need.clone() }
    }
}

/// Why something that needs tax rates was not done.
#[derive(Debug)]
pub enum Undone {
    /// It failed.
    Failed(Error),
    /// The provider was not asked: it is to be tried again.
    NotAsked(TaxNeed),
}

impl From<Error> for Undone {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Whoever asks providers, in one process.
pub struct Taxes {
    client: Client,
    slots: Slots,
    state: Mutex<State>,
    bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct State {
    queue: Queue,
    resting: BTreeMap<OrganizationId, Rest>,
}

/// A provider is left alone that could not be reached.
struct Rest {
    /// At this address.
    hook: TaxHookId,
    until: Instant,
}

/// A job that a thread is at. It ends when this is dropped, also by a panic.
pub struct AtWork<'t> {
    taxes: &'t Taxes,
    waiting: Waiting,
    is_put_back: bool,
}

impl AtWork<'_> {
    /// What to do.
    pub fn job(&self) -> &Job {
        &self.waiting.job
    }

    /// Leaves it for later: the provider was not asked.
    pub fn put_back(mut self) {
        self.is_put_back = true;
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let mut state = self.taxes.state();
        let is_more = state.queue.end(&self.waiting.job);
        if self.is_put_back {
            state.queue.add(self.waiting.clone());
        }
        drop(state);
        if is_more {
            self.taxes.ring();
        }
    }
}

impl Taxes {
    /// Asks through `client`.
    pub fn new(client: Client) -> Self {
        Self { client, slots: Slots::new(CALLS_AT_ONCE_MAX), state: Mutex::default(), bell: OnceLock::new() }
    }

    /// How far it reaches.
    pub fn reach(&self) -> Reach {
        self.client.reach()
    }

    /// Whoever is to be woken when there is something to ask.
    pub fn on_waiting(&self, bell: impl Fn() + Send + Sync + 'static) {
        drop(self.bell.set(Box::new(bell)));
    }

    /// A call's turn to ask, once there is one within `wait`.
    ///
    /// # Errors
    /// Why it is not asked.
    pub async fn slot(&self, question: &TaxQuestion, wait: Duration) -> Result<Slot, NotAsked> {
        self.check_rest(question)?;
        self.slots.take(question.customer.organization, wait).await.ok_or(NotAsked::Busy)
    }

    /// Asks. That there is no answer is one, too. Blocks as long as the provider takes.
    ///
    /// # Errors
    /// Why it was not asked.
    pub fn ask(&self, question: &TaxQuestion) -> Result<TaxAnswer, NotAsked> {
        self.check_rest(question)?;
        let organization = question.customer.organization;
        let (answer, is_reached) = question::ask(&self.client, question);
        if let TaxOutcome::Failed(reason) = &answer.outcome {
            log::warn!(organization:%, reason:% = reason; "tax provider failed");
        }
        let now = Instant::now();
        let mut state = self.state();
        state.resting.retain(|_, rest| rest.until > now);
        if is_reached {
            state.resting.remove(&organization);
        } else {
            state.resting.insert(organization, Rest { hook: question.hook.id, until: now + REST });
        }
        Ok(answer)
    }

    fn check_rest(&self, question: &TaxQuestion) -> Result<(), NotAsked> {
        let state = self.state();
        let rest = state.resting.get(&question.customer.organization);
        // Another address is another provider.
        let is_resting = rest.is_some_and(|rest| rest.hook == question.hook.id && rest.until > Instant::now());
        if is_resting { Err(NotAsked::Resting) } else { Ok(()) }
    }

    /// Does `work` again and again until it needs no more rates, asking for each. Blocks.
    ///
    /// # Errors
    /// Those of `work` and of the store; when the provider was not asked.
    pub fn asking<T>(
        &self,
        store: &dyn Store,
        organization: OrganizationId,
        mut work: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Undone> {
        let mut attempt = Attempt::default();
        loop {
            match work() {
                Err(Error::TaxRate(need)) if attempt.goes_on(&need) => {
                    self.find(store, organization, &need, &mut attempt)?;
                }
                done => return Ok(done?),
            }
        }
    }

    /// Asks for a rate and notes the answer.
    ///
    /// # Errors
    /// Those of the store; when the provider was not asked.
    pub fn find(
        &self,
        store: &dyn Store,
        organization: OrganizationId,
        need: &TaxNeed,
        attempt: &mut Attempt,
    ) -> Result<(), Undone> {
        let Some(question) = read_question(store, organization, need)? else {
            attempt.give_up();
            return Ok(());
        };
        let answer = self.ask(&question).map_err(|not_asked| match attempt.has_failed() {
            // It rests because it could not be reached a moment ago, by this very attempt.
            true => Undone::Failed(Error::TaxRate(not_asked.of(need))),
            false => Undone::NotAsked(not_asked.of(need)),
        })?;
        attempt.note(&answer);
        Ok(note_answer(store, &question, &answer)?)
    }

    /// Leaves a job to the threads that ask, unless it is left already; whether there was room.
    pub fn later(&self, job: Job) -> bool {
        let has_room = self.state().queue.add(Waiting { job, since: Instant::now() });
        self.ring();
        has_room
    }

    /// The next job whose provider is not busy with others, and does not rest.
    pub fn next(&self) -> Option<AtWork<'_>> {
        let mut state = self.state();
        let State { queue, resting } = &mut *state;
        let now = Instant::now();
        let is_resting = |id| resting.get(&id).is_some_and(|rest| rest.until > now);
        let waiting = queue.take(now, is_resting)?;
        Some(AtWork { taxes: self, waiting, is_put_back: false })
    }

    /// The organizations of which so much waits to be asked that there is no use in leasing more of what needs a rate.
    pub fn full(&self) -> Vec<OrganizationId> {
        self.state().queue.full()
    }

    fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to be asked, if the organization still has a provider of its own.
///
/// # Errors
/// Those of the store.
pub fn read_question(
    store: &dyn Store,
    organization: OrganizationId,
    need: &TaxNeed,
) -> Result<Option<TaxQuestion>, Error> {
    store.run_for(&Scope::Organization(organization), |tx, _| tax_question(tx, need.customer, need.at))
}

/// Notes an answer with the customer.
///
/// # Errors
/// Those of the store.
pub fn note_answer(store: &dyn Store, question: &TaxQuestion, answer: &TaxAnswer) -> Result<(), Error> {
    let scope = Scope::Customer(question.customer.organization, question.customer.key);
    store.run_for(&scope, |tx, _| note_tax_quote(tx, question, answer))
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_job_ends_with_whoever_is_at_it_and_is_kept_when_nobody_was_asked() {
        let taxes = Taxes::new(Client::new(Reach::Public));
        let organization = OrganizationId::from(Uuid::from_u128(1));
        let need = TaxNeed { customer: Uuid::from_u128(2).into(), at: OffsetDateTime::UNIX_EPOCH, failure: None };
        let add = || taxes.later(Job::Note(organization, need.clone()));
        add();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _job = taxes.next().expect("the job");
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        assert!(taxes.next().is_none(), "it is not done again at once");
        add();
        let job = taxes.next().expect("but it may come up again");
        assert!(taxes.next().is_none(), "one at a time");
        job.put_back();
        let again = taxes.next().expect("what was put back waits");
        assert_eq!(again.job().organization(), organization);
    }
}
