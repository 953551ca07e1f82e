//! Batchers: callers leave what they want and go on; workers serve what has come in, as much of it at once as fits into one batch.
//!
//! There is no timer. A worker that is free takes what is there, if only one job; what comes in while it is busy it takes
//! together as soon as it is free again. So a lone caller never waits, and a crowd shares statements and commits. The other
//! workers of a batcher step in when somebody has waited for long: two groups of half the size would cost all their round trips
//! twice.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use billing_domain::{Error, StoreError};

/// How long a worker without work waits before it looks again.
const IDLE_POLL: Duration = Duration::from_secs(60);
/// How long a job waits for a worker that is busy before another one takes it. Several times what a group takes: that worker's
/// connection may hang.
const SECOND_WORKER_DELAY: Duration = Duration::from_millis(30);

/// What somebody wants, and where the answer goes. One that is dropped unanswered tells its caller so.
pub(crate) trait Job: Send + 'static {
    /// Whether it is served together with `first`, the job that waited longest. Called for `first` itself too, and then
    /// for those behind it in order; what fits is noted in `budget`.
    fn joins_batch(&self, first: &Self, budget: &mut BatchBudget) -> bool;
    /// Tells the caller that there will be no answer.
    fn refuse(self, error: Error);
}

struct Waiting<J> {
    job: J,
    since: Instant,
    weight: usize,
}

struct Queue<J> {
    waiting: VecDeque<Waiting<J>>,
    /// That of all who wait.
    weight: usize,
    busy: usize,
    /// A free worker will look whether somebody has waited for long.
    is_watched: bool,
    is_closed: bool,
}

impl<J> Queue<J> {
    /// How long a free worker has nothing to do.
    fn idle(&self) -> Duration {
        match self.waiting.front() {
            None => IDLE_POLL,
            Some(_) if self.busy == 0 => Duration::ZERO,
            Some(first) => SECOND_WORKER_DELAY.saturating_sub(first.since.elapsed()),
        }
    }
}

/// Where jobs of one kind wait.
pub(crate) struct Batcher<J> {
    queue: Mutex<Queue<J>>,
    filled: Condvar,
    weight_max: usize,
    /// Jobs that waited longer are told that everybody is busy; `None`: they wait as long as it takes.
    timeout: Option<Duration>,
}

impl<J: Job> Batcher<J> {
    /// A batcher for jobs that wait for at most so long. Weights add up to at most `weight_max`.
    pub(crate) fn with_timeout(weight_max: usize, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..Self::without_timeout(weight_max) }
    }

    /// A batcher for jobs that wait for as long as it takes.
    pub(crate) fn without_timeout(weight_max: usize) -> Self {
        let queue = Queue { waiting: VecDeque::new(), weight: 0, busy: 0, is_watched: false, is_closed: false };
        Self { queue: Mutex::new(queue), filled: Condvar::new(), weight_max, timeout: None }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<J>> {
        // Nobody panics half way through a change in here.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a job; it is refused at once when the batcher is full.
    pub(crate) fn submit(&self, job: J, weight: usize) {
        match self.reserve(weight) {
            true => self.submit_reserved(job, weight),
            false => job.refuse(StoreError::Overloaded.into()),
        }
    }

    /// Makes room for a job, if there is any. A job of any weight is taken by an empty batcher.
    pub(crate) fn reserve(&self, weight: usize) -> bool {
        let mut queue = self.lock();
        let has_room = queue.weight == 0 || queue.weight + weight <= self.weight_max;
        if has_room {
            queue.weight += weight;
        }
        has_room
    }

    /// Gives back what was reserved for a job that does not come.
    pub(crate) fn release(&self, weight: usize) {
        self.lock().weight -= weight;
    }

    /// Leaves a job for which there is room.
    pub(crate) fn submit_reserved(&self, job: J, weight: usize) {
        let mut queue = self.lock();
        queue.waiting.push_back(Waiting { job, since: Instant::now(), weight });
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
        (queue.weight, queue.busy)
    }

    /// No more is taken.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }

    /// What the next worker serves: the job that waited longest, and those that go with it, in their order. Empty after
    /// a while without any for it; `None` once the batcher is closed.
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
        let Some(first) = queue.waiting.pop_front() else { return Some(Vec::new()) };
        let mut budget = BatchBudget::default();
        first.job.joins_batch(&first.job, &mut budget);
        let mut weight = first.weight;
        let (mut taken, mut left) = (vec![first], VecDeque::new());
        for waiting in std::mem::take(&mut queue.waiting) {
            if waiting.job.joins_batch(&taken[0].job, &mut budget) {
                weight += waiting.weight;
                taken.push(waiting);
            } else {
                left.push_back(waiting);
            }
        }
        queue.waiting = left;
        queue.weight -= weight;
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

/// How much one worker has taken at once.
#[derive(Default)]
pub(crate) struct BatchBudget {
    pub(crate) jobs: usize,
    pub(crate) parts: usize,
}

impl BatchBudget {
    /// Takes one more job of so many parts, if it fits; the first always does.
    pub(crate) fn take(&mut self, parts: usize, parts_max: usize) -> bool {
        let fits = self.jobs == 0 || self.parts + parts <= parts_max;
        if fits {
            self.jobs += 1;
            self.parts += parts;
        }
        fits
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

#[cfg(test)]
mod tests {
    use super::*;

    impl Job for u32 {
        fn joins_batch(&self, _: &Self, budget: &mut BatchBudget) -> bool {
            budget.take(1, 3)
        }

        fn refuse(self, _: Error) {}
    }

    fn jobs(taken: Option<Vec<Waiting<u32>>>) -> Vec<u32> {
        taken.expect("an open batcher").into_iter().map(|waiting| waiting.job).collect()
    }

    /// What the next worker takes, however long that takes.
    fn take(batcher: &Batcher<u32>) -> Vec<u32> {
        loop {
            let taken = jobs(batcher.take());
            if !taken.is_empty() {
                return taken;
            }
        }
    }

    #[test]
    fn one_clerk_takes_all_until_somebody_has_waited_for_long() {
        let batcher = Batcher::without_timeout(100);
        let submit = |jobs: &[u32]| jobs.iter().for_each(|job| batcher.submit(*job, 1));
        submit(&[1]);
        assert_eq!(jobs(batcher.take()), [1], "a lone job is taken at once");
        let began = Instant::now();
        submit(&[2, 3]);
        assert_eq!(take(&batcher), [2, 3]);
        assert!(began.elapsed() >= SECOND_WORKER_DELAY, "the first worker might have come back");
        batcher.finish();
        submit(&[4, 5, 6, 7]);
        batcher.finish();
        assert_eq!(jobs(batcher.take()), [4, 5, 6], "as many as fit, at once: nobody else is at work");
        batcher.finish();
        assert_eq!(jobs(batcher.take()), [7]);
    }

    #[test]
    fn whoever_waits_is_served_while_a_clerk_hangs() {
        let batcher = Batcher::without_timeout(100);
        batcher.submit(1, 1);
        assert_eq!(take(&batcher), [1], "this worker never comes back");
        thread::scope(|threads| {
            let other = threads.spawn(|| {
                let mut served = Vec::new();
                while served.len() < 20 {
                    served.extend(take(&batcher));
                    batcher.finish();
                }
                served
            });
            for job in 0..20 {
                batcher.submit(job, 1);
                thread::sleep(Duration::from_millis(3));
            }
            let served = other.join().expect("no panic");
            assert_eq!(served, (0..20).collect::<Vec<_>>());
        });
    }
}
