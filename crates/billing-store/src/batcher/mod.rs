//! Batchers: callers leave what they want and go on; workers serve what has come in, as much of it at once as fits into one batch.
//!
//! Each organization has a queue of its own, and the queues take turns: whoever asks for much waits behind itself. In company a
//! batch is small, so that a turn is short; where it is so cheap to ask that one organization could keep all processors at it, that
//! organization rests in company before its next turn.
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
    /// How long an organization waits in company for its next turn, when one was not enough for it.
    rest: Duration,
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
        Self { queue: Mutex::new(queue), filled: Condvar::new(), company, timeout: None, rest: Duration::ZERO }
    }

    /// The same, where an organization of which more waits than one turn is for waits so long for the next, in company.
    pub(crate) fn resting(self, rest: Duration) -> Self {
        Self { rest, ..self }
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
    fn take(&self) -> Option<Vec<Waiting<J>>> {
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
            return Some(Vec::new());
        }
        let Some((owner, mut jobs)) = queue.next() else { return Some(Vec::new()) };
        let Some(first) = jobs.pop_front() else { return Some(Vec::new()) };
        let now = Instant::now();
        let is_company = self.company.is_company(now);
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
            if is_company {
                queue.rest(owner, now + self.rest);
            }
        }
        queue.release(owner, weight);
        queue.busy += 1;
        if !queue.waiting.is_empty() {
            // Whoever was told of them may be this very worker.
            self.call(&queue);
        }
        Some(taken)
    }

    fn work(&self, taken: Vec<Waiting<J>>, serve: impl FnOnce(Vec<J>)) {
        let is_late = |since: Instant| self.timeout.is_some_and(|timeout| since.elapsed() > timeout);
        let mut jobs = Vec::with_capacity(taken.len());
        for Waiting { job, since, .. } in taken {
            match is_late(since) {
                true => job.refuse(StoreError::PoolExhausted.into()),
                false => jobs.push(job),
            }
        }
        // What a panic leaves behind is dropped, and so whoever waits for it is told.
        if !jobs.is_empty() && catch_unwind(AssertUnwindSafe(|| serve(jobs))).is_err() {
            log::error!("a worker panicked");
        }
        self.finish();
    }

    /// A worker has served what it took.
    fn finish(&self) {
        self.lock().busy -= 1;
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
            while let Some(taken) = batcher.take() {
                if !taken.is_empty() {
                    batcher.work(taken, &serve);
                }
            }
        };
        let spawned = thread::Builder::new().name("batch-worker".to_owned()).spawn(work);
        spawned.map_err(|error| StoreError::Unavailable(format!("no thread for a worker: {error}")))?;
    }
    Ok(())
}
