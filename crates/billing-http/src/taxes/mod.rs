//! Asks organizations' own tax providers: outside of any transaction, without a place at the database, and so that one that is slow or down
//! keeps nobody else waiting.
//!
//! Billing that needs an answer ends with [`Error::TaxRate`] and nothing done; the answer is noted with the customer, and the same is done
//! again. Calls do that while their client waits ([`Taxes::ask`]), the billing run leaves it to threads of its own ([`Taxes::later`]).

mod question;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::{Leased, Scope, Store};
use billing_domain::tax::{QUOTES_MAX, TaxOutcome};
use billing_domain::workflow::{TaxAnswer, TaxQuestion, note_tax_quote, tax_question};
use billing_domain::{Error, TaxNeed};
use billing_outbound::{Client, Reach};

/// How long a provider has to answer: less than whoever called has patience.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// How long one that failed is not asked again.
const REST: Duration = Duration::from_secs(10);
/// Questions to one organization's provider at once.
const AT_ONCE_MAX: usize = 4;
/// Of these, how many may be the billing run's. There are more threads that ask, so that one slow provider does not have them all.
const LATER_AT_ONCE_MAX: usize = 2;
/// What may wait to be asked later. What finds no room comes up again when its lease is over.
const WAITING_MAX: usize = 1_000;

/// Threads that ask for the billing run.
pub const THREADS: usize = 4;

/// Something to ask for when there is time.
#[derive(Clone, Debug)]
pub enum Job {
    /// A customer whom the billing run has leased, and who is to be billed then.
    Bill(Leased),
    /// An answer to be noted, for an advancing clock that looks for it.
    Note(OrganizationId, TaxNeed),
}

/// Whoever asks providers, in one process.
pub struct Taxes {
    client: Client,
    state: Mutex<Waiting>,
    bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct Waiting {
    waiting: VecDeque<Job>,
    /// Jobs that a thread is at.
    at_work: Vec<Job>,
    /// Questions that are being asked.
    asked: BTreeMap<OrganizationId, usize>,
    /// Until when a provider is left alone that failed.
    resting: BTreeMap<OrganizationId, Instant>,
}

/// One attempt to do something: every rate that it needs is asked for once.
#[derive(Debug, Default)]
pub struct Attempt {
    asked: usize,
    has_failed: bool,
}

impl Attempt {
    /// Whether to ask: not again after there was no answer, and not for ever. That somebody else had none before is no reason.
    pub fn goes_on(&mut self, need: &TaxNeed) -> bool {
        self.asked += 1;
        self.asked <= QUOTES_MAX && !(self.has_failed && need.failure.is_some())
    }

    /// Notes that there is nobody to ask any more.
    pub fn give_up(&mut self) {
        self.has_failed = true;
    }

    /// Remembers what came of a question.
    pub fn note(&mut self, answer: &TaxAnswer) {
        if matches!(answer.outcome, TaxOutcome::Failed(_)) {
            self.has_failed = true;
        }
    }
}

impl Taxes {
    /// Asks through `client`.
    pub fn new(client: Client) -> Self {
        Self { client, state: Mutex::default(), bell: OnceLock::new() }
    }

    /// How far it reaches.
    pub fn reach(&self) -> Reach {
        self.client.reach()
    }

    /// Whoever is to be woken when there is something to ask.
    pub fn on_waiting(&self, bell: impl Fn() + Send + Sync + 'static) {
        drop(self.bell.set(Box::new(bell)));
    }

    /// Asks. That there is no answer is one, too. Blocks as long as the provider takes.
    pub fn ask(&self, question: &TaxQuestion) -> TaxAnswer {
        let organization = question.customer.organization;
        if let Err(reason) = self.begin(organization) {
            return TaxAnswer { outcome: TaxOutcome::Failed(reason.to_owned()), valid_until: None };
        }
        let answer = question::ask(&self.client, question);
        let failed = matches!(answer.outcome, TaxOutcome::Failed(_));
        if let TaxOutcome::Failed(reason) = &answer.outcome {
            log::warn!("tax provider failed organization={organization} reason={reason:?}");
        }
        self.end(organization, failed);
        answer
    }

    fn begin(&self, organization: OrganizationId) -> Result<(), &'static str> {
        let mut state = self.state();
        let now = Instant::now();
        state.resting.retain(|_, until| *until > now);
        if state.resting.contains_key(&organization) {
            return Err("it had no answer moments ago");
        }
        let asked = state.asked.entry(organization).or_default();
        if *asked >= AT_ONCE_MAX {
            return Err("too many questions wait for it already");
        }
        *asked += 1;
        Ok(())
    }

    fn end(&self, organization: OrganizationId, failed: bool) {
        let mut state = self.state();
        if let Some(asked) = state.asked.get_mut(&organization) {
            *asked = asked.saturating_sub(1);
        }
        state.asked.retain(|_, asked| *asked > 0);
        if failed {
            state.resting.insert(organization, Instant::now() + REST);
        }
    }

    /// Does `work` again and again until it needs no more rates, asking for each. Blocks.
    ///
    /// # Errors
    /// Those of `work` and of the store.
    pub fn asking<T>(
        &self,
        store: &dyn Store,
        organization: OrganizationId,
        mut work: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut attempt = Attempt::default();
        loop {
            match work() {
                Err(Error::TaxRate(need)) if attempt.goes_on(&need) => {
                    self.find(store, organization, &need, &mut attempt)?;
                }
                done => return done,
            }
        }
    }

    /// Asks for a rate and notes the answer.
    ///
    /// # Errors
    /// Those of the store.
    pub fn find(
        &self,
        store: &dyn Store,
        organization: OrganizationId,
        need: &TaxNeed,
        attempt: &mut Attempt,
    ) -> Result<(), Error> {
        let Some(question) = read_question(store, organization, need)? else {
            attempt.give_up();
            return Ok(());
        };
        let answer = self.ask(&question);
        attempt.note(&answer);
        note_answer(store, &question, &answer)
    }

    /// Leaves a job to the threads that ask, unless it is left already or there is no room.
    pub fn later(&self, job: Job) {
        let mut state = self.state();
        let is_known = state.waiting.iter().chain(&state.at_work).any(|other| other.customer() == job.customer());
        if !is_known && state.waiting.len() < WAITING_MAX {
            state.waiting.push_back(job);
        }
        drop(state);
        self.ring();
    }

    /// The next job whose provider is not busy with others already. [`Taxes::done`] ends it.
    pub fn next(&self) -> Option<Job> {
        let mut state = self.state();
        let Waiting { waiting, at_work, .. } = &mut *state;
        let busy = |job: &Job| at_work.iter().filter(|other| other.organization() == job.organization()).count();
        let place = waiting.iter().position(|job| busy(job) < LATER_AT_ONCE_MAX)?;
        let job = waiting.remove(place)?;
        at_work.push(job.clone());
        Some(job)
    }

    /// Ends a job.
    pub fn done(&self, job: &Job) {
        let mut state = self.state();
        state.at_work.retain(|other| other.customer() != job.customer());
        let is_more = !state.waiting.is_empty();
        drop(state);
        if is_more {
            self.ring();
        }
    }

    fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell();
        }
    }

    fn state(&self) -> MutexGuard<'_, Waiting> {
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

impl Job {
    fn organization(&self) -> OrganizationId {
        match self {
            Self::Bill(leased) => leased.organization,
            Self::Note(organization, _) => *organization,
        }
    }

    fn customer(&self) -> CustomerKey {
        match self {
            Self::Bill(leased) => leased.customer,
            Self::Note(_, need) => need.customer,
        }
    }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::*;

    fn job(organization: u128, customer: u128) -> Job {
        let customer = CustomerKey::from(Uuid::from_u128(customer));
        let need = TaxNeed { customer, at: OffsetDateTime::UNIX_EPOCH, failure: None };
        Job::Note(Uuid::from_u128(organization).into(), need)
    }

    #[test]
    fn one_organizations_questions_do_not_keep_anothers_waiting() {
        let taxes = Taxes::new(Client::new(Reach::Public));
        for customer in [1, 2, 3, 1] {
            taxes.later(job(7, customer));
        }
        taxes.later(job(8, 9));
        let taken = || taxes.next().map(|job| (job.organization().uuid().as_u128(), job.customer().uuid().as_u128()));
        assert_eq!([taken(), taken(), taken()], [Some((7, 1)), Some((7, 2)), Some((8, 9))], "two of each at once");
        assert_eq!(taken(), None, "the third waits for one of the two");
        taxes.later(job(7, 1));
        taxes.done(&job(7, 1));
        assert_eq!([taken(), taken()], [Some((7, 3)), None], "and what is at work is not taken twice");
    }

    #[test]
    fn a_provider_that_failed_is_left_alone_for_a_while() {
        let taxes = Taxes::new(Client::new(Reach::Public));
        let [one, other] = [1, 2].map(|id| OrganizationId::from(Uuid::from_u128(id)));
        assert_eq!((0..=AT_ONCE_MAX).filter(|_| taxes.begin(one).is_ok()).count(), AT_ONCE_MAX, "only so many at once");
        taxes.end(one, false);
        assert!(taxes.begin(one).is_ok(), "an answer makes room");
        taxes.end(one, true);
        assert!(taxes.begin(one).is_err(), "a failure does not");
        assert!(taxes.begin(other).is_ok(), "which is nobody else's");
    }
}
