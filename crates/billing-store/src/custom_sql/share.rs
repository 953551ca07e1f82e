//! Places that organizations share: none holds all of them, and who waits is served in turn by organization, not by who asks
//! most.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use billing_domain::StoreError;
use uuid::Uuid;

/// A number of places, and a queue in front of them.
#[derive(Debug)]
pub(crate) struct Shares {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// A place, held until it is dropped.
pub(crate) struct Place<'s> {
    shares: &'s Shares,
    organization: Uuid,
}

impl Shares {
    /// `places`, of which one organization holds `each_max` at most.
    pub(crate) fn new(places: u32, each_max: u32) -> Self {
        Self { queue: Mutex::new(Queue::new(places, each_max)), changed: Condvar::new() }
    }

    /// A place, when it is the organization's turn.
    ///
    /// # Errors
    /// [`StoreError::PoolExhausted`] when that takes longer than `timeout`.
    pub(crate) fn take(&self, organization: Uuid, timeout: Duration) -> Result<Place<'_>, StoreError> {
        let until = Instant::now() + timeout;
        let mut queue = self.queue();
        let ticket = queue.enter(organization);
        loop {
            if queue.has_been_called(ticket) {
                return Ok(Place { shares: self, organization });
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                queue.give_up(ticket, organization);
                return Err(StoreError::PoolExhausted);
            }
            queue = self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.shares.queue().leave(self.organization);
        self.shares.changed.notify_all();
    }
}

/// Who holds places and who waits for one.
#[derive(Debug)]
struct Queue {
    free: u32,
    each_max: u32,
    /// Those who hold a place or wait.
    parties: BTreeMap<Uuid, Party>,
    /// Those who wait, by the order in which they came.
    waiting: BTreeMap<u64, Uuid>,
    /// Those who have a place and do not know yet.
    called: BTreeSet<u64>,
    /// Tickets and turns so far.
    count: u64,
}

/// An organization.
#[derive(Debug, Default)]
struct Party {
    held: u32,
    waiting: u32,
    /// When it had its last turn; 0: none yet since it came.
    served: u64,
}

impl Queue {
    fn new(places: u32, each_max: u32) -> Self {
        let (parties, waiting, called) = Default::default();
        Self { free: places, each_max, parties, waiting, called, count: 0 }
    }

    /// One more who waits.
    fn enter(&mut self, organization: Uuid) -> u64 {
        self.count += 1;
        self.waiting.insert(self.count, organization);
        self.parties.entry(organization).or_default().waiting += 1;
        let ticket = self.count;
        self.call();
        ticket
    }

    fn has_been_called(&mut self, ticket: u64) -> bool {
        self.called.remove(&ticket)
    }

    /// Gives free places to those whose turn it is: whose organization holds the fewest, of these whose had its last turn longest
    /// ago, of these who came first.
    fn call(&mut self) {
        while self.free > 0 {
            let turn = |(ticket, organization): (&u64, &Uuid)| {
                let party = self.parties.get(organization)?;
                (party.held < self.each_max).then_some((party.held, party.served, *ticket, *organization))
            };
            let Some((_, _, ticket, organization)) = self.waiting.iter().filter_map(turn).min() else { return };
            self.waiting.remove(&ticket);
            self.called.insert(ticket);
            self.free -= 1;
            self.count += 1;
            let party = self.parties.entry(organization).or_default();
            (party.held, party.waiting, party.served) = (party.held + 1, party.waiting - 1, self.count);
        }
    }

    /// A place is given back.
    fn leave(&mut self, organization: Uuid) {
        self.free += 1;
        self.change(organization, |party| party.held -= 1);
        self.call();
    }

    /// Nobody waits behind the ticket any more.
    fn give_up(&mut self, ticket: u64, organization: Uuid) {
        if self.waiting.remove(&ticket).is_some() {
            self.change(organization, |party| party.waiting -= 1);
        } else if self.called.remove(&ticket) {
            self.leave(organization);
        }
    }

    /// Changes an organization, and forgets those who neither hold nor wait.
    fn change(&mut self, organization: Uuid, change: impl FnOnce(&mut Party)) {
        let party = self.parties.entry(organization).or_default();
        change(party);
        if party.held == 0 && party.waiting == 0 {
            self.parties.remove(&organization);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Does what each letter says, and answers who was called, in that order: `A` enters, `a` leaves.
    fn called(places: u32, each_max: u32, script: &str) -> String {
        let mut queue = Queue::new(places, each_max);
        let (mut names, mut called) = (BTreeMap::new(), String::new());
        for step in script.chars() {
            let organization = Uuid::from_u128(u128::from(u32::from(step.to_ascii_uppercase())));
            if step.is_ascii_uppercase() {
                names.insert(queue.enter(organization), step);
            } else {
                queue.leave(organization);
            }
            while let Some(ticket) = queue.called.pop_first() {
                called.push(names[&ticket]);
            }
        }
        called
    }

    #[test]
    fn organizations_take_turns() {
        #[rustfmt::skip]
        let cases = [
            // places, most of each, what happens,  who is called, why
            (3,        2,            "AAB",         "AAB",         "places enough"),
            (3,        2,            "AAA",         "AA",          "the last place is for somebody else"),
            (3,        2,            "AAAB",        "AAB",         "who comes later and has none goes first"),
            (3,        2,            "AAAa",        "AAA",         "a place of its own is free again"),
            (2,        2,            "AAAAABa",     "AAB",         "who holds nothing, however late"),
            (2,        2,            "AAAAABab",    "AABA",        "and then it is the other's turn again"),
            (1,        1,            "AAABBaba",    "ABAB",        "one after the other"),
            (1,        1,            "AAABCabc",    "ABCA",        "as many as there are"),
            (1,        1,            "ABaAbBaA",    "ABAB",        "who comes back waits behind who has waited"),
        ];
        for (places, each_max, script, expected, why) in cases {
            assert_eq!(called(places, each_max, script), expected, "{script}: {why}");
        }
    }

    #[test]
    fn nobody_is_remembered_who_neither_holds_nor_waits() {
        let mut queue = Queue::new(1, 1);
        let (first, second) = (Uuid::from_u128(1), Uuid::from_u128(2));
        queue.enter(first);
        let ticket = queue.enter(second);
        queue.give_up(ticket, second);
        assert_eq!(queue.parties.len(), 1);
        // Called in the moment in which it gave up: the place is not lost.
        let ticket = queue.enter(second);
        queue.leave(first);
        queue.give_up(ticket, second);
        assert_eq!((queue.parties.len(), queue.free, queue.waiting.len()), (0, 1, 0));
    }

    #[test]
    fn who_waits_too_long_is_told_so_and_who_waits_gets_what_is_given_back() {
        let shares = Shares::new(1, 1);
        let (first, second) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let place = shares.take(first, Duration::ZERO).expect("it is free");
        assert!(matches!(shares.take(second, Duration::ZERO), Err(StoreError::PoolExhausted)));
        thread::scope(|threads| {
            let waiting = threads.spawn(|| shares.take(second, Duration::from_secs(60)).map(drop));
            while shares.queue().waiting.is_empty() {
                thread::yield_now();
            }
            drop(place);
            assert_eq!(waiting.join().expect("no panic"), Ok(()));
        });
    }
}
