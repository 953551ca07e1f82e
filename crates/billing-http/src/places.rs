//! The places for what is scarce, shared out between organizations: connections to the database, and the processors.
//!
//! Each place stands for one of them. No organization ever holds more than half of the connections: a place that is given is not
//! taken back, so what another one may need is not given away before it comes. Of those who wait, whoever holds least comes first.
//! So however much one of them asks for, another one's call begins at once. And it goes on: in company an organization holds no
//! more than keep the processors at work, since what more of them would do at once only makes everybody's calls take longer.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use billing_domain::id::OrganizationId;
use billing_store::Company;
use tokio::sync::oneshot;

/// Whose a place is; `None`: the service's own.
pub type Holder = Option<OrganizationId>;

/// The places there are.
pub struct Places {
    total: usize,
    /// The most that one organization ever holds.
    most: usize,
    /// The same while there are others.
    most_in_company: usize,
    company: Arc<Company>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    held: BTreeMap<Holder, usize>,
    taken: usize,
    /// In the order in which they came.
    waiting: VecDeque<(Holder, oneshot::Sender<Place>)>,
}

/// One place, held until it is dropped.
pub struct Place {
    places: Arc<Places>,
    holder: Holder,
    /// Whether somebody else had to give it back first.
    has_waited: bool,
    /// False for one that was given to nobody.
    is_held: bool,
}

impl Places {
    /// One for each connection to the database; `company` says whether organizations share them. Each has half of them at most, and
    /// in company as many as there are processors.
    pub fn of_connections(connections: usize, company: Arc<Company>) -> Arc<Self> {
        Self::of(connections, (connections / 2).max(1), processors(), company)
    }

    /// One for each processor. Alone, an organization has all but a quarter, where there are enough to divide; in company half: what
    /// computes leaves the rest to everybody else, whose requests are also taken up, and answered, by a processor.
    pub fn of_processors(company: Arc<Company>) -> Arc<Self> {
        let total = processors();
        let most = if total < 4 { total } else { total - total.div_ceil(4) };
        Self::of(total, most, total.div_ceil(2), company)
    }

    fn of(total: usize, most: usize, in_company: usize, company: Arc<Company>) -> Arc<Self> {
        Arc::new(Self { total, most, most_in_company: most.min(in_company), company, state: Mutex::default() })
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.total
    }

    /// How many nobody holds.
    pub fn free(&self) -> usize {
        self.total.saturating_sub(self.lock().taken)
    }

    /// A place, once there is one for `holder`. Whoever stops waiting leaves the queue.
    pub async fn take(self: &Arc<Self>, holder: Holder) -> Place {
        let mut receiver = {
            let mut state = self.lock();
            let (sender, receiver) = oneshot::channel();
            state.waiting.push_back((holder, sender));
            self.give_out(&mut state);
            receiver
        };
        if let Ok(place) = receiver.try_recv() {
            return place;
        }
        match receiver.await {
            Ok(mut place) => {
                place.has_waited = true;
                place
            }
            // Never: a sender is dropped only after it has sent.
            Err(_) => Place { places: self.clone(), holder, has_waited: true, is_held: false },
        }
    }

    /// Gives free places to those who wait: the one whose organization holds least, of those the one who came first.
    fn give_out(self: &Arc<Self>, state: &mut State) {
        let most = if self.company.is_company(Instant::now()) { self.most_in_company } else { self.most };
        while state.taken < self.total {
            state.waiting.retain(|(_, sender)| !sender.is_closed());
            let held = |holder: &Holder| state.held.get(holder).copied().unwrap_or_default();
            let next = state
                .waiting
                .iter()
                .enumerate()
                .filter(|(_, (holder, _))| held(holder) < if holder.is_some() { most } else { self.most });
            let Some((index, _)) = next.min_by_key(|(index, (holder, _))| (held(holder), *index)) else { return };
            let Some((holder, sender)) = state.waiting.remove(index) else { return };
            *state.held.entry(holder).or_default() += 1;
            state.taken += 1;
            // Who has gone meanwhile gives it back; the lock is held here, so not by dropping it.
            if let Err(mut place) =
                sender.send(Place { places: self.clone(), holder, has_waited: false, is_held: true })
            {
                place.is_held = false;
                state.give_back(holder);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

impl State {
    fn give_back(&mut self, holder: Holder) {
        self.taken -= 1;
        if let Some(held) = self.held.get_mut(&holder) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&holder);
            }
        }
    }
}

impl Place {
    /// Whether it was not free at once.
    pub fn has_waited(&self) -> bool {
        self.has_waited
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_held {
            let mut state = self.places.lock();
            state.give_back(self.holder);
            self.places.give_out(&mut state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn organization(n: u128) -> Holder {
        Some(uuid::Uuid::from_u128(n).into())
    }

    /// The place, when there is one at once.
    fn at_once(places: &Arc<Places>, holder: Holder) -> Option<Place> {
        let mut taking = pin!(places.take(holder));
        match taking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    #[test]
    fn nobody_holds_more_than_half_of_the_connections() {
        #[rustfmt::skip]
        let cases = [
            // connections, most, why
            (16,       8,    "half"),
            (5,        2,    "and never more"),
            (3,        1,    "also of few"),
            (2,        1,    "one each"),
            (1,        1,    "somebody must work"),
        ];
        for (total, most, why) in cases {
            let places = Places::of_connections(total, Arc::default());
            let hold = |n| (0..total).filter_map(|_| at_once(&places, organization(n))).collect::<Vec<_>>();
            let (greedy, others) = (hold(1), hold(2));
            assert_eq!(greedy.len(), most, "{why}, although nobody else is there");
            assert_eq!(others.len(), most.min(total - most), "{why}: whoever comes has as many at once");
        }
    }

    #[test]
    fn whoever_holds_least_comes_first() {
        let places = Places::of(4, 3, 8, Arc::default());
        let (greedy, modest) = (organization(1), organization(2));
        let mut held: Vec<_> = (0..3).filter_map(|_| at_once(&places, greedy)).collect();
        let others = at_once(&places, modest).expect("what is left");
        let mut context = Context::from_waker(Waker::noop());
        let (mut more, mut second) = (pin!(places.take(greedy)), pin!(places.take(modest)));
        assert!(more.as_mut().poll(&mut context).is_pending() && second.as_mut().poll(&mut context).is_pending());
        drop(held.pop());
        assert!(more.as_mut().poll(&mut context).is_pending(), "it holds two, the other one");
        assert!(second.as_mut().poll(&mut context).is_ready(), "although it came later");
        drop(others);
        assert!(more.as_mut().poll(&mut context).is_ready(), "then its turn has come");
    }

    #[test]
    fn in_company_nobody_takes_more_than_keeps_the_processors_at_work() {
        let (greedy, modest) = (organization(1), organization(2));
        #[rustfmt::skip]
        let cases = [
            // most in company, alone, in company, why
            (2,                 8,     2,          "as many as keep the processors at work"),
            (16,                8,     8,          "but never more than alone"),
        ];
        for (most, alone, in_company, why) in cases {
            let company = Arc::<Company>::default();
            let places = Places::of(16, 8, most, Arc::clone(&company));
            let hold = || (0..16).filter_map(|_| at_once(&places, greedy)).collect::<Vec<_>>();
            assert_eq!(hold().len(), alone, "{why}");
            for organization in [greedy, modest].into_iter().flatten() {
                company.note(organization, Instant::now());
            }
            assert_eq!(hold().len(), in_company, "{why}");
        }
    }

    #[test]
    fn whoever_stops_waiting_takes_nothing() {
        let places = Places::of(1, 1, 1, Arc::default());
        let held = at_once(&places, organization(1)).expect("the only one");
        assert!(at_once(&places, organization(2)).is_none(), "and gone again");
        drop(held);
        assert_eq!(places.free(), 1);
        let again = at_once(&places, organization(3));
        assert!(again.is_some());
        drop(again);
        assert_eq!(places.free(), 1);
    }
}
