//! How often somebody may try to sign in.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a try counts.
const WINDOW: Duration = Duration::from_secs(15 * 60);
/// Tries from one address on one account: a person who has forgotten is done before.
const OF_BOTH_MAX: u32 = 6;
/// Tries from one address on whatever accounts, in an office behind one address.
const OF_ADDRESS_MAX: u32 = 60;
/// Tries on one account from wherever: many addresses at once are no way around it.
const OF_ACCOUNT_MAX: u32 = 60;
/// Most counters that are kept.
const COUNTERS_MAX: usize = 20_000;

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Both(Option<IpAddr>, String),
    Address(Option<IpAddr>),
    Account(String),
}

/// Counts tries, in this process. A try counts before its password is looked at, so that many at once are no way around it.
#[derive(Default)]
pub struct Throttle(Mutex<HashMap<Key, (u32, Instant)>>);

impl Throttle {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, (u32, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a try, and says whether it may be made.
    pub fn may_try(&self, address: Option<IpAddr>, account: &str, now: Instant) -> bool {
        let mut counters = self.lock();
        if counters.len() >= COUNTERS_MAX {
            counters.retain(|_, (_, until)| *until > now);
        }
        if counters.len() >= COUNTERS_MAX {
            // A flood of made-up names: nobody new gets in until some of it is over.
            return false;
        }
        // The address first: one that may not try counts for no account, so made-up names from it fill no counters.
        let limits = [
            (Key::Address(network(address)), OF_ADDRESS_MAX),
            (Key::Both(network(address), account.to_owned()), OF_BOTH_MAX),
            (Key::Account(account.to_owned()), OF_ACCOUNT_MAX),
        ];
        limits.into_iter().all(|(key, most)| is_below(counters.entry(key).or_insert((0, now + WINDOW)), most, now))
    }

    /// Counts a try on an account that is not known yet, and says whether it may be made.
    pub fn may_come(&self, address: Option<IpAddr>, now: Instant) -> bool {
        let mut counters = self.lock();
        if counters.len() >= COUNTERS_MAX {
            counters.retain(|_, (_, until)| *until > now);
        }
        let key = Key::Address(network(address));
        if counters.len() >= COUNTERS_MAX && !counters.contains_key(&key) {
            return false;
        }
        is_below(counters.entry(key).or_insert((0, now + WINDOW)), OF_ADDRESS_MAX, now)
    }

    /// Forgets such a try, of somebody who has signed in.
    pub fn came(&self, address: Option<IpAddr>) {
        if let Some((tries, _)) = self.lock().get_mut(&Key::Address(network(address))) {
            *tries = tries.saturating_sub(1);
        }
    }

    /// Forgets the tries of somebody who has signed in.
    pub fn succeeded(&self, address: Option<IpAddr>, account: &str) {
        let mut counters = self.lock();
        counters.remove(&Key::Both(network(address), account.to_owned()));
        for key in [Key::Address(network(address)), Key::Account(account.to_owned())] {
            if let Some((tries, _)) = counters.get_mut(&key) {
                *tries = tries.saturating_sub(1);
            }
        }
    }
}

/// Counts one more, and says whether that is not too many.
fn is_below((tries, until): &mut (u32, Instant), most: u32, now: Instant) -> bool {
    if *until <= now {
        (*tries, *until) = (0, now + WINDOW);
    }
    *tries = tries.saturating_add(1);
    *tries <= most
}

/// What one sender has of addresses: of version 6 the whole network of 64 bits that a house is given.
fn network(address: Option<IpAddr>) -> Option<IpAddr> {
    match address {
        Some(IpAddr::V6(of_host)) => Some(IpAddr::from((of_host.to_bits() >> 64 << 64).to_be_bytes())),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_are_counted_by_account_and_address() {
        let throttle = Throttle::default();
        let now = Instant::now();
        let address = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        for _ in 0..OF_BOTH_MAX {
            assert!(throttle.may_try(address(1), "ada", now));
        }
        assert!(!throttle.may_try(address(1), "ada", now), "one too many");
        assert!(throttle.may_try(address(2), "ada", now), "from elsewhere she may");
        assert!(throttle.may_try(address(1), "bob", now), "and others from there");
        assert!(throttle.may_try(address(1), "ada", now + WINDOW), "until the time is over");
        let spread = (0..=u8::MAX).filter(|last| throttle.may_try(address(*last), "eve", now)).count();
        assert_eq!(spread, OF_ACCOUNT_MAX as usize, "one account from everywhere");
        let names = (0..1_000).filter(|n| throttle.may_try(address(9), &n.to_string(), now)).count();
        assert!(names <= OF_ADDRESS_MAX as usize, "every account from one address: {names}");
    }

    #[test]
    fn who_signs_in_begins_anew() {
        let throttle = Throttle::default();
        let now = Instant::now();
        for _ in 0..10 * OF_ADDRESS_MAX {
            assert!(throttle.may_try(None, "ada", now));
            throttle.succeeded(None, "ada");
        }
    }

    #[test]
    fn tries_on_accounts_that_are_not_known_yet_count_for_their_address() {
        let throttle = Throttle::default();
        let now = Instant::now();
        let address = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        assert_eq!((0..100).filter(|_| throttle.may_come(address(1), now)).count(), OF_ADDRESS_MAX as usize);
        assert!(!throttle.may_try(address(1), "ada", now), "nor with a password");
        assert!(throttle.may_come(address(2), now) && throttle.may_come(address(1), now + WINDOW));
        for _ in 0..10 * OF_ADDRESS_MAX {
            assert!(throttle.may_come(address(3), now));
            throttle.came(address(3));
        }
    }

    #[test]
    fn one_sender_keeps_nobody_else_out() {
        let throttle = Throttle::default();
        let now = Instant::now();
        for n in 0..3 * COUNTERS_MAX {
            throttle.may_try(Some(IpAddr::from([192, 0, 2, 1])), &n.to_string(), now);
            let of_one_house = IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, (n % 60_000) as u16]);
            throttle.may_try(Some(of_one_house), &n.to_string(), now);
        }
        assert!(throttle.lock().len() < COUNTERS_MAX / 10, "made-up names of two senders");
        assert!(throttle.may_try(Some(IpAddr::from([192, 0, 2, 2])), "ada", now), "from elsewhere she may");
    }

    #[test]
    fn memory_is_bounded() {
        let throttle = Throttle::default();
        let now = Instant::now();
        for n in 0..3 * COUNTERS_MAX {
            let address = IpAddr::from((n as u32).to_be_bytes());
            throttle.may_try(Some(address), &n.to_string(), now);
        }
        assert!(throttle.lock().len() <= COUNTERS_MAX + 3);
        assert!(throttle.may_try(None, "ada", now + WINDOW), "and it passes");
    }
}
