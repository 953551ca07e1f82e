//! Desks: callers leave what they want and go on; clerks serve what has come in, as much of it at once as goes together.
//!
//! There is no timer. A clerk that is free takes what is there, if only one job; what comes in while clerks are busy is
//! taken together by the next that is free. So a lone caller never waits, and a crowd shares statements and commits.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use billing_domain::{Error, StoreError};

use crate::pool::CHECK_OUT_MAX;
use crate::store::{PgStore, Shared};

/// How long a clerk waits before it looks whether its store is still there.
const LOOK_UP: Duration = Duration::from_secs(60);

/// What somebody wants, and where the answer goes. One that is dropped unanswered tells its caller so.
pub(crate) trait Job: Send + 'static {
    /// Whether it is served together with `first`, the job that waited longest. Called for `first` itself too, and then
    /// for those behind it in order; what fits is noted in `room`.
    fn goes_with(&self, first: &Self, room: &mut Room) -> bool;
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
    is_closed: bool,
}

/// Where jobs of one kind wait.
pub(crate) struct Desk<J> {
    queue: Mutex<Queue<J>>,
    filled: Condvar,
    weight_max: usize,
    /// Jobs that waited longer are told that everybody is busy; `None`: they wait as long as it takes.
    patience: Option<Duration>,
}

/// How a clerk serves the jobs it took.
pub(crate) type Serve<J> = fn(&PgStore, Vec<J>);

impl<J: Job> Desk<J> {
    /// A desk for jobs that wait at most a second. Weights add up to at most `weight_max`.
    pub(crate) fn hasty(weight_max: usize) -> Self {
        Self { patience: Some(CHECK_OUT_MAX), ..Self::patient(weight_max) }
    }

    /// A desk for jobs that wait for as long as it takes.
    pub(crate) fn patient(weight_max: usize) -> Self {
        let queue = Queue { waiting: VecDeque::new(), weight: 0, busy: 0, is_closed: false };
        Self { queue: Mutex::new(queue), filled: Condvar::new(), weight_max, patience: None }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<J>> {
        // Nobody panics half way through a change in here.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a job; it is refused at once when the desk is full.
    pub(crate) fn submit(&self, job: J, weight: usize) {
        match self.reserve(weight) {
            true => self.submit_reserved(job, weight),
            false => job.refuse(StoreError::Overloaded.into()),
        }
    }

    /// Makes room for a job, if there is any. A job of any weight is taken by an empty desk.
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
        self.lock().waiting.push_back(Waiting { job, since: Instant::now(), weight });
        self.filled.notify_one();
    }

    /// The weight of what waits, and the clerks at work.
    pub(crate) fn load(&self) -> (usize, usize) {
        let queue = self.lock();
        (queue.weight, queue.busy)
    }

    /// No more is taken.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }

    /// What the next clerk serves: the job that waited longest, and those that go with it, in their order. Empty after
    /// a while without any; `None` once the desk is closed.
    fn take(&self) -> Option<Vec<Waiting<J>>> {
        let mut queue = self.lock();
        if queue.waiting.is_empty() && !queue.is_closed {
            queue = self.filled.wait_timeout(queue, LOOK_UP).unwrap_or_else(PoisonError::into_inner).0;
        }
        if queue.is_closed {
            return None;
        }
        let Some(first) = queue.waiting.pop_front() else { return Some(Vec::new()) };
        let mut room = Room::default();
        first.job.goes_with(&first.job, &mut room);
        let mut weight = first.weight;
        let (mut taken, mut left) = (vec![first], VecDeque::new());
        for waiting in std::mem::take(&mut queue.waiting) {
            if waiting.job.goes_with(&taken[0].job, &mut room) {
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
            // Whoever was told of them may be this very clerk.
            self.filled.notify_one();
        }
        Some(taken)
    }

    fn work(&self, store: &PgStore, taken: Vec<Waiting<J>>, serve: Serve<J>) {
        let is_late = |since: Instant| self.patience.is_some_and(|patience| since.elapsed() > patience);
        let mut jobs = Vec::with_capacity(taken.len());
        for Waiting { job, since, .. } in taken {
            match is_late(since) {
                true => job.refuse(StoreError::PoolExhausted.into()),
                false => jobs.push(job),
            }
        }
        // What a panic leaves behind is dropped, and so whoever waits for it is told.
        if !jobs.is_empty() && catch_unwind(AssertUnwindSafe(|| serve(store, jobs))).is_err() {
            log::error!("a clerk panicked");
        }
        self.lock().busy -= 1;
    }
}

/// How much one clerk has taken at once.
#[derive(Default)]
pub(crate) struct Room {
    pub(crate) jobs: usize,
    pub(crate) parts: usize,
}

impl Room {
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

/// Puts clerks behind a desk. They leave when the store is dropped.
pub(crate) fn employ<J: Job>(
    shared: &Arc<Shared>,
    (desk, clerks): (&Arc<Desk<J>>, usize),
    serve: Serve<J>,
) -> Result<(), StoreError> {
    for _ in 0..clerks {
        let (desk, shared): (_, Weak<Shared>) = (Arc::clone(desk), Arc::downgrade(shared));
        let work = move || {
            while let Some(taken) = desk.take() {
                if taken.is_empty() {
                    continue;
                }
                let Some(shared) = shared.upgrade() else { return };
                desk.work(&PgStore { shared }, taken, serve);
            }
        };
        let spawned = thread::Builder::new().name("clerk".to_owned()).spawn(work);
        spawned.map_err(|error| StoreError::Unavailable(format!("no thread for a clerk: {error}")))?;
    }
    Ok(())
}
