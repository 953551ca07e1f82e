//! Group commit: whatever comes in while a transaction runs is stored together in the next one.
//!
//! There is no thread and no timer of its own. A caller that finds a free place leads: it stores its own events at
//! once. A caller that finds none waits; when a leader is done, the first in the queue leads next and takes along
//! what has queued up behind it. So nobody works for others longer than for one transaction, a lone caller never
//! waits, and a crowd shares commits.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use billing_domain::event::{Event, Ingested};
use billing_domain::id::OrganizationId;
use billing_domain::store::Window;
use billing_domain::{Error, StoreError};

/// Most events in one transaction.
pub(crate) const GROUP_MAX: usize = 5_000;
/// Transactions at a time: while one commits, the next is made ready.
const LEADERS_MAX: usize = 2;
/// Most events that may wait; beyond that callers are told to come back.
const WAITING_MAX: usize = 100_000;

/// What a caller gets in the end.
pub(crate) type Outcome = Result<Vec<Ingested>, Error>;

/// What the events of one transaction have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) organization: OrganizationId,
    pub(crate) window: Window,
}

/// The events of one caller on their way.
struct Job {
    terms: Terms,
    events: Vec<Event>,
    turn: Mutex<Turn>,
    changed: Condvar,
}

enum Turn {
    Waits,
    Leads,
    Done(Outcome),
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<Job>>,
    waiting_events: usize,
    leaders: usize,
}

/// Where callers meet.
#[derive(Default)]
pub(crate) struct Groups {
    queue: Mutex<Queue>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nobody panics half way through a change in here.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    fn tell(&self, turn: Turn) {
        *locked(&self.turn) = turn;
        self.changed.notify_one();
    }

    /// Waits until the job is done, or is to lead: then there is no outcome yet.
    fn wait(&self) -> Option<Outcome> {
        let mut turn = locked(&self.turn);
        loop {
            match std::mem::replace(&mut *turn, Turn::Waits) {
                Turn::Waits => turn = self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner),
                Turn::Leads => return None,
                Turn::Done(outcome) => return Some(outcome),
            }
        }
    }
}

impl Groups {
    /// Events that wait, and transactions at work.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let queue = locked(&self.queue);
        (queue.waiting_events, queue.leaders)
    }

    /// Stores at most [`GROUP_MAX`] events by `store`, alone or together with those of other callers on the same
    /// terms. `store` answers one outcome for all the events it is given, in their order.
    pub(crate) fn submit(&self, terms: Terms, events: &[Event], store: impl Fn(&[&Event]) -> Outcome) -> Outcome {
        let job = {
            let mut queue = locked(&self.queue);
            if queue.leaders < LEADERS_MAX {
                queue.leaders += 1;
                None
            } else if queue.waiting_events + events.len() > WAITING_MAX {
                return Err(StoreError::PoolExhausted.into());
            } else {
                let turn = Mutex::new(Turn::Waits);
                let job = Arc::new(Job { terms, events: events.to_vec(), turn, changed: Condvar::new() });
                queue.waiting_events += events.len();
                queue.waiting.push_back(Arc::clone(&job));
                Some(job)
            }
        };
        let Some(job) = job else {
            let _lead = Lead { groups: self, followers: Vec::new() };
            return store(&events.iter().collect::<Vec<_>>());
        };
        match job.wait() {
            Some(outcome) => outcome,
            None => self.lead(&job, store),
        }
    }

    /// Stores the job, which is to lead, and those behind it that fit into its transaction.
    fn lead(&self, job: &Arc<Job>, store: impl Fn(&[&Event]) -> Outcome) -> Outcome {
        let followers = self.take_followers(job);
        let mut lead = Lead { groups: self, followers };
        let members: Vec<&Arc<Job>> = std::iter::once(job).chain(&lead.followers).collect();
        let events: Vec<&Event> = members.iter().flat_map(|member| &member.events).collect();
        let outcome = store(&events);
        let mut outcomes = outcome.map(Vec::into_iter);
        let mut next = |count: usize| match &mut outcomes {
            Ok(answers) => Ok(answers.by_ref().take(count).collect()),
            Err(error) => Err(error.clone()),
        };
        let own = next(job.events.len());
        for follower in lead.followers.drain(..) {
            let outcome = next(follower.events.len());
            follower.tell(Turn::Done(outcome));
        }
        own
    }

    /// Those in the queue that fit into one transaction with `job`, in their order.
    fn take_followers(&self, job: &Job) -> Vec<Arc<Job>> {
        let mut queue = locked(&self.queue);
        let mut room = GROUP_MAX.saturating_sub(job.events.len());
        let (mut taken, mut left) = (Vec::new(), VecDeque::new());
        for waiting in std::mem::take(&mut queue.waiting) {
            if waiting.terms == job.terms && waiting.events.len() <= room {
                room -= waiting.events.len();
                queue.waiting_events -= waiting.events.len();
                taken.push(waiting);
            } else {
                left.push_back(waiting);
            }
        }
        queue.waiting = left;
        taken
    }

    /// Passes the leader's place on to whoever waits longest.
    fn pass_on(&self) {
        let mut queue = locked(&self.queue);
        // Out of the queue at once: it must not be given a second place before it has taken its first.
        match queue.waiting.pop_front() {
            Some(next) => {
                queue.waiting_events -= next.events.len();
                next.tell(Turn::Leads);
            }
            None => queue.leaders -= 1,
        }
    }
}

/// The place of a leader. However leading ends, the followers are answered and the place is passed on.
struct Lead<'g> {
    groups: &'g Groups,
    followers: Vec<Arc<Job>>,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        for follower in self.followers.drain(..) {
            // Only when storing has panicked.
            let error = StoreError::Internal("storing the events ended without an answer".to_owned());
            follower.tell(Turn::Done(Err(error.into())));
        }
        self.groups.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;
    use std::time::Duration;

    use billing_domain::id::OrganizationId;
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::*;

    fn terms() -> Terms {
        Terms { organization: OrganizationId::from(Uuid::nil()), window: Window::Enforced }
    }

    fn event(id: usize) -> Event {
        Event {
            customer: "acme".parse().expect("an id"),
            name: "call".to_owned(),
            idempotency_id: id.to_string(),
            time_created: OffsetDateTime::UNIX_EPOCH,
            properties: serde_json::Map::new(),
        }
    }

    /// Answers `Duplicate` for ids that end in 7, slowly.
    fn store(events: &[&Event]) -> Outcome {
        thread::sleep(Duration::from_millis(2));
        let answer = |event: &&Event| match event.idempotency_id.ends_with('7') {
            true => Ingested::Duplicate,
            false => Ingested::Stored,
        };
        Ok(events.iter().map(answer).collect())
    }

    #[test]
    fn every_caller_gets_its_own_answers() {
        let (groups, transactions) = (Groups::default(), AtomicUsize::new(0));
        thread::scope(|threads| {
            for caller in 0..16 {
                let (groups, transactions) = (&groups, &transactions);
                threads.spawn(move || {
                    for round in 0..20 {
                        let events: Vec<_> =
                            (0..=caller % 3).map(|n| event(caller * 1_000 + round * 10 + n * 7)).collect();
                        let outcome = groups.submit(terms(), &events, |group| {
                            transactions.fetch_add(1, Ordering::Relaxed);
                            store(group)
                        });
                        assert_eq!(outcome, store(&events.iter().collect::<Vec<_>>()));
                    }
                });
            }
        });
        let transactions = transactions.into_inner();
        assert!(transactions < 16 * 20 / 2, "{transactions} transactions for 320 calls");
        assert_eq!(locked(&groups.queue).leaders, 0, "every place has been given back");
        assert_eq!(locked(&groups.queue).waiting_events, 0);
    }

    #[test]
    fn a_panic_leaves_nobody_waiting() {
        let groups = Groups::default();
        let fails = |_: &[&Event]| -> Outcome {
            thread::sleep(Duration::from_millis(5));
            panic!("on purpose")
        };
        let outcomes: Vec<_> = thread::scope(|threads| {
            let calls: Vec<_> = (0..8)
                .map(|n| {
                    let groups = &groups;
                    threads.spawn(move || groups.submit(terms(), &[event(n)], fails))
                })
                .collect();
            calls.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        assert!(outcomes.iter().all(|outcome| !matches!(outcome, Ok(Ok(_)))), "panicked or told so");
        assert_eq!(groups.submit(terms(), &[event(1)], store), Ok(vec![Ingested::Stored]));
        assert_eq!(locked(&groups.queue).leaders, 0);
    }
}
