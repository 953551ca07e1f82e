//! Batchers: callers leave what they want and go on; workers serve what has come in, as much of it at once as fits into one batch.
//!
//! Each organization has a queue of its own, and the queues take turns: whoever asks for much waits behind itself. In company a
//! batch is small, so that a turn is short; and an organization that has many callers at a time rests in company for as long as its turn
//! took before the next one, since each of them keeps processors busy besides, however little it asks for.
//!
//! There is no timer. A worker that is free takes what is there, if only one job; what comes in while it is busy it takes
//! together as soon as it is free again. So a lone caller never waits, and a crowd shares statements and commits. The other
//! workers of a batcher step in when somebody has waited for long: two groups of half the size would cost all their round trips
//! twice.

mod queue;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use billing_domain::id::OrganizationId;
use billing_domain::{Error, StoreError};

use crate::company::Company;
use queue::{Owner, Queue, Waiting};

/// What somebody wants, and where the answer goes. One that is dropped unanswered tells its caller so.
pub(crate) trait Job: Send + 'static {
    /// Whose it is; `None`: nobody knows yet.
    fn organization(&self) -> Option<OrganizationId>;
    /// Whether it is served together with `first`, the organization's job that waited longest. Called for `first` itself too,
    /// and then for those behind it in order; what fits is noted in `budget`.
    fn joins_batch(&self, first: &Self, budget: &mut BatchBudget) -> bool;
    /// Tells the caller that there will be no answer.
    fn refuse(self, error: Error);
}

/// Where jobs of one kind wait.
pub(crate) struct Batcher<J> {
    queue: Mutex<Queue<J>>,
    filled: Condvar,
    company: Arc<Company>,
    /// Jobs that waited longer are told that everybody is busy; `None`: they wait as long as it takes.
    timeout: Option<Duration>,
    /// How long an organization with many callers at a time waits at least for its next turn in company; `None`: it does not.
    rest: Option<Duration>,
}

/// So many callers in one turn are a crowd, which rests in company.
const CROWD: usize = 4;

/// What a worker takes at once; nothing, where there is nothing for it.
struct Turn<J> {
    owner: Owner,
    jobs: Vec<Waiting<J>>,
    /// How long the organization rests at least behind it, if it does.
    rest: Option<Duration>,
}

impl<J> Turn<J> {
    fn of_nobody() -> Self {
        Self { owner: None, jobs: Vec::new(), rest: None }
    }
}

impl<J: Job> Batcher<J> {
    /// A batcher for jobs that wait for at most so long. Weights add up to at most `weight_max`.
    pub(crate) fn with_timeout(weight_max: usize, company: &Arc<Company>, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..Self::without_timeout(weight_max, company) }
    }

    /// A batcher for jobs that wait for as long as it takes.
    pub(crate) fn without_timeout(weight_max: usize, company: &Arc<Company>) -> Self {
        let queue = Queue::with_room(weight_max);
        let company = Arc::clone(company);
        Self { queue: Mutex::new(queue), filled: Condvar::new(), company, timeout: None, rest: None }
    }

    /// The same, where in company an organization with many callers waits for its next turn for as long as this one took, and at least
    /// so long.
    pub(crate) fn resting(self, least: Duration) -> Self {
        Self { rest: Some(least), ..self }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<J>> {
        // Nobody panics half way through a change in here.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a job; it is refused at once when the batcher is full.
    pub(crate) fn submit(&self, job: J, weight: usize) {
        match self.reserve(job.organization(), weight) {
            true => self.submit_reserved(job, weight),
            false => job.refuse(StoreError::Overloaded.into()),
        }
    }

    /// Makes room for a job, if there is any. A job of any weight is taken of whom nothing waits, once nobody else needs much.
    pub(crate) fn reserve(&self, owner: Owner, weight: usize) -> bool {
        self.lock().reserve(owner, weight)
    }

    /// Gives back what was reserved for a job that does not come.
    pub(crate) fn release(&self, owner: Owner, weight: usize) {
        self.lock().release(owner, weight);
    }

    /// Leaves a job for which there is room.
    pub(crate) fn submit_reserved(&self, job: J, weight: usize) {
        let mut queue = self.lock();
        let owner = job.organization();
        queue.push(Waiting { job, since: Instant::now(), weight }, owner);
        self.call(&queue);
    }

    /// Wakes a worker for those who wait, unless that is somebody's business already.
    fn call(&self, queue: &Queue<J>) {
        if queue.busy == 0 || !queue.is_watched {
            self.filled.notify_one();
        }
    }

    /// The weight of what waits, and the workers at work.
    pub(crate) fn load(&self) -> (usize, usize) {
        let queue = self.lock();
        (queue.weight(), queue.busy)
    }

    /// How long the job has waited that waits longest.
    pub(crate) fn longest_wait(&self) -> Duration {
        let queue = self.lock();
        let first = queue.waiting.iter().filter_map(|(_, jobs)| jobs.front()).map(|waiting| waiting.since).min();
        first.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// No more is taken.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }

    /// What the next worker serves: of the organization whose turn it is the job that waited longest, and those that go with it,
    /// in their order. Empty after a while without any for it; `None` once the batcher is closed.
    fn take(&self) -> Option<Turn<J>> {
        let mut queue = self.lock();
        if queue.is_closed {
            return None;
        }
        let idle = queue.idle();
        if !idle.is_zero() {
            let watches = !queue.waiting.is_empty();
            queue.is_watched |= watches;
            queue = self.filled.wait_timeout(queue, idle).unwrap_or_else(PoisonError::into_inner).0;
            queue.is_watched &= !watches;
            return Some(Turn::of_nobody());
        }
        let Some((owner, mut jobs)) = queue.next() else { return Some(Turn::of_nobody()) };
        let Some(first) = jobs.pop_front() else { return Some(Turn::of_nobody()) };
        let is_company = self.company.is_company(Instant::now());
        let mut budget = BatchBudget::new(is_company);
        first.job.joins_batch(&first.job, &mut budget);
        let mut weight = first.weight;
        let (mut taken, mut left) = (vec![first], VecDeque::new());
        for waiting in jobs {
            if waiting.job.joins_batch(&taken[0].job, &mut budget) {
                weight += waiting.weight;
                taken.push(waiting);
            } else {
                left.push_back(waiting);
            }
        }
        if !left.is_empty() {
            queue.waiting.push((owner, left));
        }
        queue.release(owner, weight);
        queue.busy += 1;
        if !queue.waiting.is_empty() {
            // Whoever was told of them may be this very worker.
            self.call(&queue);
        }
        let rest = self.rest.filter(|_| is_company && taken.len() >= CROWD);
        Some(Turn { owner, jobs: taken, rest })
    }

    fn work(&self, turn: Turn<J>, serve: impl FnOnce(Vec<J>)) {
        let began = Instant::now();
        let is_late = |since: Instant| self.timeout.is_some_and(|timeout| since.elapsed() > timeout);
        let mut jobs = Vec::with_capacity(turn.jobs.len());
        for Waiting { job, since, .. } in turn.jobs {
            match is_late(since) {
                true => job.refuse(StoreError::PoolExhausted.into()),
                false => jobs.push(job),
            }
        }
        // What a panic leaves behind is dropped, and so whoever waits for it is told.
        if !jobs.is_empty() && catch_unwind(AssertUnwindSafe(|| serve(jobs))).is_err() {
            log::error!("a worker panicked");
        }
        self.finish(turn.rest.map(|least| (turn.owner, least.max(began.elapsed()))));
    }

    /// A worker has served what it took; whose that was rests for so long, if anybody does.
    fn finish(&self, rest: Option<(Owner, Duration)>) {
        let mut queue = self.lock();
        queue.busy -= 1;
        if let Some((owner, rest)) = rest {
            queue.rest(owner, Instant::now() + rest);
        }
    }
}

/// How many parts one worker takes at once.
#[derive(Clone, Copy)]
pub(crate) struct PartsMax {
    pub(crate) alone: usize,
    pub(crate) in_company: usize,
}

/// How much one worker has taken at once.
pub(crate) struct BatchBudget {
    jobs: usize,
    parts: usize,
    is_company: bool,
    /// Something did not fit: what comes behind it may not overtake it.
    is_closed: bool,
}

impl BatchBudget {
    fn new(is_company: bool) -> Self {
        Self { jobs: 0, parts: 0, is_company, is_closed: false }
    }

    /// Takes one more job of so many parts, if it fits and everything before it did; the first always does.
    pub(crate) fn take(&mut self, parts: usize, most: PartsMax) -> bool {
        let parts_max = if self.is_company { most.in_company } else { most.alone };
        self.is_closed |= self.jobs > 0 && self.parts + parts > parts_max;
        if !self.is_closed {
            self.jobs += 1;
            self.parts += parts;
        }
        !self.is_closed
    }
}

/// Puts workers behind a batcher, who serve what they take as `serve` does. They leave when the batcher is closed.
pub(crate) fn spawn_workers<J: Job>(
    batcher: &Arc<Batcher<J>>,
    workers: usize,
    serve: impl Fn(Vec<J>) + Clone + Send + 'static,
) -> Result<(), StoreError> {
    for _ in 0..workers {
        let (batcher, serve) = (Arc::clone(batcher), serve.clone());
        let work = move || {
            while let Some(turn) = batcher.take() {
                if !turn.jobs.is_empty() {
                    batcher.work(turn, &serve);
                }
            }
        };
        let spawned = thread::Builder::new().name("batch-worker".to_owned()).spawn(work);
        spawned.map_err(|error| StoreError::Unavailable(format!("no thread for a worker: {error}")))?;
    }
    Ok(())
}
