//! One turn at an endpoint: what is to be sent to it is read, sent, and what came of it is put down.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::thread;

use billing_domain::Error;
use billing_domain::id::{CustomerKey, MessageId, WebhookEndpointId};
use billing_domain::message::Message;
use billing_domain::store::{DeliveryRecord, FeedRequest, Transaction};
use billing_domain::webhook::{EndpointStatus, PendingDelivery, WebhookEndpoint};

use super::Bodies;
use super::send::{Clock, Letter, Outcome};

/// Messages of the first turn at an endpoint, and of any: what a process that dies has sent and not written down is sent once more.
pub const TURN_MIN: u32 = 32;
const TURN_MAX: u32 = 256;
/// A turn that is over so soon is followed by a larger one.
const BRISK: std::time::Duration = std::time::Duration::from_secs(1);
/// Messages that are on their way to one endpoint at once; to one that fails, one.
const IN_FLIGHT_MAX: usize = 4;
/// A turn sends nothing more once it has taken so long: what is left is written down to be sent next.
const TURN_TIME: std::time::Duration = std::time::Duration::from_secs(10);

/// What there is to do at an endpoint.
pub struct Turn {
    /// The endpoint.
    pub endpoint: WebhookEndpoint,
    jobs: Vec<Job>,
    /// Whether there may be more behind it: it has as many messages as were asked for.
    is_full: bool,
    /// From where to where it goes through the feed.
    reached: Option<(u64, u64)>,
    /// Messages that wait and are not kept any more.
    lost: Vec<MessageId>,
}

/// A message to be sent.
struct Job {
    pending: PendingDelivery,
    /// Whether it is among what waits: otherwise it comes from the feed.
    is_waiting: bool,
    customer: Option<CustomerKey>,
    body: Vec<u8>,
}

/// What a turn was read on.
pub struct Basis {
    endpoint: WebhookEndpoint,
    /// From where it goes through the feed.
    from: Option<u64>,
}

impl Basis {
    /// Whether the turn is what comes next at the endpoint as it stands now: nobody has changed it, or had messages sent again.
    pub fn holds(&self, stands: &WebhookEndpoint) -> bool {
        let WebhookEndpoint { position, failing_since, .. } = *stands;
        let read = WebhookEndpoint { position, failing_since, ..self.endpoint.clone() };
        read == *stands && self.from == Some(position)
    }
}

/// What came of a turn.
pub struct Done {
    /// What is to be written of it.
    pub record: DeliveryRecord,
    /// Whether the endpoint says that it is gone for good.
    pub is_gone: bool,
    /// Attempts that succeeded, and those that failed.
    pub attempts: (u64, u64),
}

impl Turn {
    /// What is to be sent to an endpoint by `clock`, `size` messages at most: what is due again, and behind that what the feed has, from
    /// the endpoint's position on or from that which the turn before reaches (`from`). `None`: nothing is.
    ///
    /// # Errors
    /// Those of the store.
    pub fn read(
        tx: &mut dyn Transaction,
        id: WebhookEndpointId,
        (clock, size, from): (&Clock, u32, Option<u64>),
        bodies: &Bodies,
    ) -> Result<Option<Self>, Error> {
        let endpoint = tx.webhooks().get(id)?;
        if endpoint.status == EndpointStatus::Disabled {
            return Ok(None);
        }
        let now = clock.now();
        let waiting = tx.webhooks().list_pending(id, now, size)?;
        let ids: Vec<MessageId> = waiting.iter().map(|one| one.message).collect();
        let kept = if ids.is_empty() { Vec::new() } else { tx.messages().list_by_id(&ids)? };
        let mut waiting: BTreeMap<MessageId, PendingDelivery> =
            waiting.into_iter().map(|one| (one.message, one)).collect();
        let mut found = Vec::new();
        for (_, message) in kept {
            found.extend(waiting.remove(&message.id).map(|pending| (pending, true, message)));
        }
        let room = size - u32::try_from(found.len()).unwrap_or(size);
        let mut reached = None;
        if room > 0 {
            let after = from.unwrap_or(endpoint.position);
            let wanted = FeedRequest { after, types: endpoint.event_types.clone(), limit: room };
            let page = tx.messages().list(&wanted)?;
            reached = Some((after, page.reached)).filter(|(from, to)| from != to);
            let fresh =
                |(position, message): (u64, Message)| (PendingDelivery::new(position, message.id, now), false, message);
            found.extend(page.messages.into_iter().map(fresh));
        }
        let (places, messages): (Vec<_>, Vec<Message>) = found
            .into_iter()
            .map(|(pending, is_waiting, message)| ((pending, is_waiting, message.customer), message))
            .unzip();
        let bodies = bodies(tx, messages)?;
        let jobs = places.into_iter().zip(bodies).map(|((pending, is_waiting, customer), body)| Job {
            pending,
            is_waiting,
            customer,
            body,
        });
        let jobs: Vec<Job> = jobs.collect();
        let is_full = jobs.len() >= size as usize;
        let turn = Self { endpoint, jobs, is_full, reached, lost: waiting.into_keys().collect() };
        let is_idle = turn.jobs.is_empty() && turn.lost.is_empty() && turn.reached.is_none();
        Ok((!is_idle).then_some(turn))
    }

    /// From where the turn behind this one goes on, if there may be more and it may be read before this one is put down: where everything
    /// is sent for the first time, to an endpoint that does not fail.
    pub fn next_from(&self) -> Option<u64> {
        let is_plain = self.endpoint.failing_since.is_none()
            && self.lost.is_empty()
            && self.jobs.iter().all(|job| !job.is_waiting);
        self.reached.filter(|_| is_plain && self.is_full).map(|(_, to)| to)
    }

    /// What it was read on.
    pub fn basis(&self) -> Basis {
        Basis { endpoint: self.endpoint.clone(), from: self.reached.map(|(from, _)| from) }
    }

    /// Sends everything, each customer's messages one after the other, until there is no more time or `may_go_on` says no.
    pub fn send(
        self,
        clock: &Clock,
        may_go_on: impl Fn() -> bool + Sync,
        send: impl Fn(&Letter) -> Outcome + Sync,
    ) -> Done {
        let Self { endpoint, jobs, reached, lost, .. } = self;
        let in_flight = if endpoint.failing_since.is_some() { 1 } else { IN_FLIGHT_MAX };
        let queues = Mutex::new(by_customer(jobs));
        let next = || queues.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let done: Mutex<Vec<(Job, Option<Outcome>)>> = Mutex::default();
        let work = || {
            while let Some(queue) = next() {
                for job in queue {
                    let outcome = (clock.elapsed() < TURN_TIME && may_go_on()).then(|| send(&job.letter()));
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((job, outcome));
                }
            }
        };
        let others = in_flight.min(queues.lock().unwrap_or_else(PoisonError::into_inner).len()).saturating_sub(1);
        thread::scope(|threads| {
            for _ in 0..others {
                // Without a thread those that there are do it all.
                drop(thread::Builder::new().name("webhook-send".to_owned()).spawn_scoped(threads, work));
            }
            work();
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(job, _)| job.pending.position);
        sum_up(&endpoint, done, reached, lost)
    }
}

impl Job {
    fn letter(&self) -> Letter<'_> {
        Letter { message: self.pending.message, attempt: self.pending.attempts + 1, body: &self.body }
    }
}

/// Messages of the turn behind one of this size that took so long: reading and writing takes a turn about as long however many there
/// are, and whoever takes them slowly gets few at a time.
pub fn size_behind(size: u32, took: std::time::Duration) -> u32 {
    if took < BRISK { (size * 4).min(TURN_MAX) } else { (size / 2).max(TURN_MIN) }
}

/// Messages of each customer, in their order; those of the organization's own stand together.
fn by_customer(mut jobs: Vec<Job>) -> VecDeque<Vec<Job>> {
    jobs.sort_by_key(|job| job.pending.position);
    let mut queues: Vec<(Option<CustomerKey>, Vec<Job>)> = Vec::new();
    for job in jobs {
        match queues.iter_mut().find(|(customer, _)| *customer == job.customer) {
            Some((_, queue)) => queue.push(job),
            None => queues.push((job.customer, vec![job])),
        }
    }
    queues.into_iter().map(|(_, queue)| queue).collect()
}

/// What came of a turn, of which `done` was sent, or was not for want of time.
fn sum_up(
    endpoint: &WebhookEndpoint,
    done: Vec<(Job, Option<Outcome>)>,
    reached: Option<(u64, u64)>,
    lost: Vec<MessageId>,
) -> Done {
    let mut record = DeliveryRecord::new(endpoint.failing_since);
    (record.reached, record.replays, record.settled) = (reached, endpoint.replays, lost);
    let (mut is_gone, mut attempts, mut ends) = (false, (0, 0), Vec::new());
    for (job, outcome) in done {
        let Some(Outcome { attempt, ended_at, retry_after }) = outcome else {
            // It goes on being what waits, or begins to.
            record.pending.extend((!job.is_waiting).then_some(job.pending));
            continue;
        };
        if attempt.is_delivered() {
            attempts.0 += 1;
            record.settled.extend(job.is_waiting.then_some(job.pending.message));
        } else {
            attempts.1 += 1;
            is_gone |= attempt.is_gone();
            match job.pending.failed(ended_at, jitter(), retry_after) {
                Some(again) => record.pending.push(again),
                None => record.settled.push(job.pending.message),
            }
        }
        ends.push((ended_at, attempt.is_delivered()));
        record.attempts.push(attempt);
    }
    record.attempts.sort_by_key(|attempt| attempt.at);
    ends.sort_unstable();
    for (ended_at, is_delivered) in ends {
        record.failing_since = (!is_delivered).then(|| record.failing_since.unwrap_or(ended_at));
    }
    Done { record, is_gone, attempts }
}

/// Up to a thousand, as chance has it: retries of many are spread.
fn jitter() -> u16 {
    let mut bytes = [0; 2];
    // Without chance all wait as long, which does no harm.
    getrandom::fill(&mut bytes).unwrap_or_default();
    u16::from_le_bytes(bytes) % 1_001
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn turns_grow_while_they_are_over_soon() {
        #[rustfmt::skip]
        let cases = [
            // size,   ms,     behind it, why
            (TURN_MIN, 5,      128,       "four times as many"),
            (TURN_MAX, 5,      TURN_MAX,  "never more than that"),
            (TURN_MAX, 999,    TURN_MAX,  "still soon"),
            (TURN_MAX, 1_000,  128,       "not soon any more"),
            (TURN_MIN, 10_000, TURN_MIN,  "never fewer than that"),
        ];
        for (size, took_ms, expected, why) in cases {
            assert_eq!(size_behind(size, Duration::from_millis(took_ms)), expected, "{why}");
        }
    }
}
