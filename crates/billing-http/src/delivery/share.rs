//! What an organization may take of what a process does at once, so that nobody's receivers keep the others' waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use billing_domain::id::OrganizationId;

/// Places of a process, of which an organization takes a quarter at most.
#[derive(Debug)]
pub(super) struct Room {
    total: usize,
    /// How many of them each organization holds.
    held: Mutex<BTreeMap<OrganizationId, usize>>,
}

/// A place that is held until this is dropped, by a panic too.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<Room>,
    organization: OrganizationId,
}

impl Room {
    /// As many places.
    pub(super) fn of(total: usize) -> Arc<Self> {
        Arc::new(Self { total, held: Mutex::default() })
    }

    /// A place, unless all are taken or the organization holds its quarter.
    pub(super) fn take(self: &Arc<Self>, organization: OrganizationId) -> Option<Place> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (held.values().sum::<usize>(), held.get(&organization).copied().unwrap_or(0));
        if all >= self.total || own >= self.total.div_ceil(4) {
            return None;
        }
        held.insert(organization, own + 1);
        drop(held);
        Some(Place { room: Arc::clone(self), organization })
    }

    /// How many nobody holds.
    pub(super) fn free(&self) -> usize {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        self.total.saturating_sub(held.values().sum())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.room.held.lock().unwrap_or_else(PoisonError::into_inner);
        let left = held.get(&self.organization).map_or(0, |own| own.saturating_sub(1));
        if left == 0 {
            held.remove(&self.organization);
        } else {
            held.insert(self.organization, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn organization(n: u128) -> OrganizationId {
        Uuid::from_u128(n).into()
    }

    #[test]
    fn an_organization_takes_a_quarter_at_most() {
        #[rustfmt::skip]
        let cases = [
            // places, most, organizations that find one, why
            (64,       16,   4,                           "lanes"),
            (32,       8,    4,                           "lanes of those that fail"),
            (8,        2,    4,                           "endpoints that are tried out"),
            (5,        2,    3,                           "rounded up, and never more than there are"),
            (1,        1,    1,                           "somebody must be served"),
        ];
        for (total, most, organizations, why) in cases {
            let room = Room::of(total);
            let held: Vec<Vec<Place>> =
                (0..5).map(|n| (0..total).filter_map(|_| room.take(organization(n))).collect()).collect();
            assert_eq!(held[0].len(), most, "{why}");
            assert_eq!(held.iter().filter(|own| !own.is_empty()).count(), organizations, "{why}");
            assert_eq!(room.free(), 0, "{why}");
            drop(held);
            assert_eq!(room.free(), total, "{why}: all are given back");
        }
    }

    #[test]
    fn whoever_gives_one_back_takes_another() {
        let room = Room::of(8);
        let mut held: Vec<_> = (0..2).filter_map(|_| room.take(organization(1))).collect();
        assert!(room.take(organization(1)).is_none(), "it holds its quarter");
        drop(held.pop());
        assert!(room.take(organization(1)).is_some());
    }
}
