//! Who waits behind a batcher: a queue for each organization, and the room that they share.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use billing_domain::id::OrganizationId;

/// How long a worker waits before it looks whether its store is still there.
const IDLE_POLL: Duration = Duration::from_secs(60);
/// How long a job waits for a worker that is busy before another one takes it. Several times what a group takes: that worker's
/// connection may hang.
pub(super) const SECOND_WORKER_DELAY: Duration = Duration::from_millis(30);

/// Organizations of which is remembered when they were served; of those of which nothing waits it is forgotten then.
const TURNS_MAX: usize = 1_000;

/// A job that waits.
pub(super) struct Waiting<J> {
    pub(super) job: J,
    pub(super) since: Instant,
    pub(super) weight: usize,
}

/// How much may wait, by weight.
#[derive(Clone, Copy)]
struct Room {
    /// Of all.
    total: usize,
    /// Of one organization: a quarter is left to others.
    of_one: usize,
}

/// Whose jobs wait together.
pub(super) type Owner = Option<OrganizationId>;

/// The jobs of one batcher, and its workers.
pub(super) struct Queue<J> {
    /// Those of each organization in their order. None of them is empty.
    pub(super) waiting: Vec<(Owner, VecDeque<Waiting<J>>)>,
    /// When each organization was last served, in turns; not of all that ever were.
    turns: BTreeMap<Owner, u64>,
    turn: u64,
    /// Who has no turn until then.
    resting: Vec<(Owner, Instant)>,
    /// The weight of what waits of each organization, where there is any.
    weights: BTreeMap<Owner, usize>,
    /// That of all, where nobody counts for more than is allowed to one.
    room_taken: usize,
    room: Room,
    pub(super) busy: usize,
    /// A free worker will look whether somebody has waited for long.
    pub(super) is_watched: bool,
    pub(super) is_closed: bool,
}

impl Room {
    fn of(total: usize) -> Self {
        Self { total, of_one: (total / 4 * 3).max(1) }
    }

    /// What the weight of one organization takes of the room of all.
    fn counted(self, weight: usize) -> usize {
        weight.min(self.of_one)
    }
}

impl<J> Queue<J> {
    /// An empty one where so much may wait.
    pub(super) fn with_room(total: usize) -> Self {
        Self {
            waiting: Vec::new(),
            turns: BTreeMap::new(),
            turn: 0,
            resting: Vec::new(),
            weights: BTreeMap::new(),
            room_taken: 0,
            room: Room::of(total),
            busy: 0,
            is_watched: false,
            is_closed: false,
        }
    }

    /// The weight of all who wait.
    pub(super) fn weight(&self) -> usize {
        self.weights.values().sum()
    }

    /// Makes room for a job, if there is any.
    pub(super) fn reserve(&mut self, owner: Owner, weight: usize) -> bool {
        let (held, room) = (self.weight_of(owner), self.room);
        let more = room.counted(held + weight) - room.counted(held);
        let has_room = (held == 0 || held + weight <= room.of_one) && self.room_taken + more <= room.total;
        if has_room {
            self.weigh(owner, held + weight);
        }
        has_room
    }

    /// How long a free worker has nothing to do.
    pub(super) fn idle(&self) -> Duration {
        let now = Instant::now();
        let ready_in = |owner: &Owner, since: Instant| {
            let late = match self.busy {
                0 => since,
                _ => since + SECOND_WORKER_DELAY,
            };
            late.max(self.rests_until(owner).unwrap_or(late)).saturating_duration_since(now)
        };
        let firsts = self.waiting.iter().filter_map(|(owner, jobs)| Some(ready_in(owner, jobs.front()?.since)));
        firsts.min().unwrap_or(IDLE_POLL)
    }

    /// Whoever it is has no turn until then.
    pub(super) fn rest(&mut self, owner: Owner, until: Instant) {
        self.resting.retain(|(other, _)| *other != owner);
        self.resting.push((owner, until));
    }

    pub(super) fn rests_until(&self, owner: &Owner) -> Option<Instant> {
        self.resting.iter().find(|(resting, _)| resting == owner).map(|(_, until)| *until)
    }

    fn weight_of(&self, owner: Owner) -> usize {
        self.weights.get(&owner).copied().unwrap_or_default()
    }

    /// The weight of what waits of somebody is another one now.
    fn weigh(&mut self, owner: Owner, weight: usize) {
        let before = self.weights.remove(&owner).unwrap_or_default();
        if weight > 0 {
            self.weights.insert(owner, weight);
        }
        self.room_taken = self.room_taken - self.room.counted(before) + self.room.counted(weight);
    }

    /// Takes out the jobs of the organization whose turn it is: of those that do not rest it was served longest ago, or has only
    /// just come.
    pub(super) fn next(&mut self) -> Option<(Owner, VecDeque<Waiting<J>>)> {
        let turn_of = |owner: &Owner| self.turns.get(owner).copied().unwrap_or_default();
        let now = Instant::now();
        self.resting.retain(|(_, until)| *until > now);
        let ready = (0..self.waiting.len()).filter(|place| self.rests_until(&self.waiting[*place].0).is_none());
        let next = ready.min_by_key(|place| turn_of(&self.waiting[*place].0))?;
        let taken = self.waiting.remove(next);
        if self.turns.len() >= TURNS_MAX {
            self.turns.retain(|owner, _| self.weights.contains_key(owner));
        }
        self.turn += 1;
        self.turns.insert(taken.0, self.turn);
        Some(taken)
    }

    /// Gives room back.
    pub(super) fn release(&mut self, owner: Owner, weight: usize) {
        self.weigh(owner, self.weight_of(owner) - weight);
    }

    /// Puts a job behind the organization's others.
    pub(super) fn push(&mut self, waiting: Waiting<J>, owner: Owner) {
        match self.waiting.iter_mut().find(|(of, _)| *of == owner) {
            Some((_, jobs)) => jobs.push_back(waiting),
            None => self.waiting.push((owner, VecDeque::from([waiting]))),
        }
    }
}
