//! What is to be asked when there is time: of each organization some, in turns.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

use billing_domain::TaxNeed;
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::Leased;

/// Jobs of one organization that are at work at once: there are more threads, so that one slow provider does not have them all.
const AT_WORK_MAX: usize = 2;
/// What may wait of one organization: about what can be asked within [`WAIT_MAX`] of a provider that takes all of its time.
const WAITING_MAX: usize = 120;
/// When so many wait nobody of the organization is leased who is known to need a rate as well: the billing threads may be about to
/// add what they have leased by then.
const FULL: usize = 40;
/// How long a job waits at most: less than the lease of a customer, who is then somebody else's.
const WAIT_MAX: Duration = Duration::from_secs(240);

/// Something to ask for when there is time.
#[derive(Clone, Debug)]
pub enum Job {
    /// A customer whom the billing run has leased, and who is to be billed then.
    Bill(Leased),
    /// An answer to be noted, for an advancing clock that looks for it.
    Note(OrganizationId, TaxNeed),
}

impl Job {
    /// Whose provider is asked.
    pub fn organization(&self) -> OrganizationId {
        match self {
            Self::Bill(leased) => leased.organization,
            Self::Note(organization, _) => *organization,
        }
    }

    /// Whom it is about.
    pub fn customer(&self) -> CustomerKey {
        match self {
            Self::Bill(leased) => leased.customer,
            Self::Note(_, need) => need.customer,
        }
    }
}

/// A job, and since when it waits.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The job.
    pub job: Job,
    /// When it came.
    pub since: Instant,
}

/// The jobs of one process: those that wait, and those at work.
#[derive(Default)]
pub struct Queue {
    waiting: BTreeMap<OrganizationId, VecDeque<Waiting>>,
    at_work: Vec<Job>,
    /// Whose job was taken last.
    last: Option<OrganizationId>,
}

impl Queue {
    /// Adds a job, unless there is one of that customer; whether there was room.
    pub fn add(&mut self, waiting: Waiting) -> bool {
        let customer = waiting.job.customer();
        let of_one = self.waiting.entry(waiting.job.organization()).or_default();
        let mut known = of_one.iter().map(|waiting| &waiting.job).chain(&self.at_work);
        if known.any(|job| job.customer() == customer) {
            return true;
        }
        let has_room = of_one.len() < WAITING_MAX;
        if has_room {
            of_one.push_back(waiting);
        }
        has_room
    }

    /// The next job of the next organization that is not busy, nor to be left alone. [`Queue::end`] ends it.
    pub fn take(&mut self, now: Instant, is_left_alone: impl Fn(OrganizationId) -> bool) -> Option<Waiting> {
        self.waiting.retain(|_, of_one| {
            of_one.retain(|waiting| now.saturating_duration_since(waiting.since) < WAIT_MAX);
            !of_one.is_empty()
        });
        let at_work = |organization| self.at_work.iter().filter(|job| job.organization() == organization).count();
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut in_turn = self.waiting.range((after, Bound::Unbounded)).chain(&self.waiting).map(|(id, _)| *id);
        let organization = in_turn.find(|id| at_work(*id) < AT_WORK_MAX && !is_left_alone(*id))?;
        let taken = self.waiting.get_mut(&organization)?.pop_front()?;
        self.last = Some(organization);
        self.at_work.push(taken.job.clone());
        Some(taken)
    }

    /// Ends a job; whether more wait.
    pub fn end(&mut self, job: &Job) -> bool {
        self.at_work.retain(|other| other.customer() != job.customer());
        self.waiting.values().any(|of_one| !of_one.is_empty())
    }

    /// The organizations of which enough waits.
    pub fn full(&self) -> Vec<OrganizationId> {
        self.waiting.iter().filter(|(_, of_one)| of_one.len() >= FULL).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::*;

    fn waiting(organization: u128, customer: u128, since: Instant) -> Waiting {
        let customer = CustomerKey::from(Uuid::from_u128(customer));
        let need = TaxNeed { customer, at: OffsetDateTime::UNIX_EPOCH, failure: None };
        Waiting { job: Job::Note(Uuid::from_u128(organization).into(), need), since }
    }

    fn ids(waiting: &Waiting) -> (u128, u128) {
        (waiting.job.organization().uuid().as_u128(), waiting.job.customer().uuid().as_u128())
    }

    #[test]
    fn one_organizations_questions_do_not_keep_anothers_waiting() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for customer in [1, 2, 3, 1] {
            queue.add(waiting(7, customer, now));
        }
        queue.add(waiting(8, 9, now));
        let taken = |queue: &mut Queue| queue.take(now, |_| false).as_ref().map(ids);
        let first = [taken(&mut queue), taken(&mut queue), taken(&mut queue)];
        assert_eq!(first, [Some((7, 1)), Some((8, 9)), Some((7, 2))], "in turns, two of each at once");
        assert_eq!(taken(&mut queue), None, "the third waits for one of the two");
        queue.add(waiting(7, 1, now));
        assert!(queue.end(&waiting(7, 1, now).job), "there is more");
        assert_eq!(
            [taken(&mut queue), taken(&mut queue)],
            [Some((7, 3)), None],
            "and what is at work is not taken twice"
        );
    }

    #[test]
    fn a_provider_with_many_customers_fills_its_own_queue_alone() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let one = OrganizationId::from(Uuid::from_u128(7));
        let added = (0..5_000).filter(|customer| queue.add(waiting(7, *customer, now))).count();
        assert_eq!(added, WAITING_MAX, "the others are told that there is no room");
        assert!(queue.add(waiting(7, 0, now)), "who waits has room");
        queue.add(waiting(8, 9_999, now));
        assert_eq!(queue.waiting[&one].len(), WAITING_MAX, "so much and no more");
        assert_eq!(queue.full(), [one], "nobody more of it is leased who needs a rate");
        assert_eq!(queue.take(now, |id| id == one).as_ref().map(ids), Some((8, 9_999)), "others have room");
        assert!(queue.take(now, |id| id == one).is_none(), "one that is left alone has its jobs kept");
        assert_eq!(queue.waiting[&one].len(), WAITING_MAX);
        let later = now + WAIT_MAX;
        assert!(queue.take(later, |_| false).is_none(), "what has waited as long as its lease is somebody else's");
        assert_eq!(queue.full(), []);
    }
}
