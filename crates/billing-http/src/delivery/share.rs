//! How many more endpoints a process may serve, of all organizations and of each, so that nobody's receivers keep the others' waiting.

use std::collections::BTreeMap;

use billing_domain::id::OrganizationId;

/// Endpoints that one process serves at once.
const LANES_MAX: u32 = 64;
/// Those of them that fail: the others never wait for them.
const FAILING_LANES_MAX: u32 = 32;
/// An organization has one of so many of either, used or not: an endpoint keeps its lane until its receiver has answered.
const SHARE: u32 = 4;

/// An endpoint that is served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub organization: OrganizationId,
    /// Whether it was failing when that began.
    pub is_failing: bool,
}

/// How many more may be served.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub of_all: u32,
    pub of_each: u32,
    /// Of organizations of which some are served.
    pub of: BTreeMap<OrganizationId, u32>,
}

#[derive(Clone, Copy, Default)]
struct Served {
    all: u32,
    failing: u32,
}

impl Served {
    fn add(&mut self, lane: Lane) {
        self.all += 1;
        self.failing += u32::from(lane.is_failing);
    }

    /// How many more fit in one of so many parts of the lanes.
    fn room(self, are_failing: bool, parts: u32) -> u32 {
        let room = (LANES_MAX / parts).saturating_sub(self.all);
        if are_failing { room.min((FAILING_LANES_MAX / parts).saturating_sub(self.failing)) } else { room }
    }
}

impl Room {
    /// For endpoints that fail, or for those that do not, beside these.
    pub(super) fn beside(lanes: impl IntoIterator<Item = Lane>, are_failing: bool) -> Self {
        let (mut all, mut each) = (Served::default(), BTreeMap::<_, Served>::new());
        for lane in lanes {
            all.add(lane);
            each.entry(lane.organization).or_default().add(lane);
        }
        Self {
            of_all: all.room(are_failing, 1),
            of_each: Served::default().room(are_failing, SHARE),
            of: each
                .into_iter()
                .map(|(organization, served)| (organization, served.room(are_failing, SHARE)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_organization_has_a_quarter_at_most() {
        let [one, others] = [1, 2].map(|n: u128| OrganizationId::from(Uuid::from_u128(n)));
        #[rustfmt::skip]
        let cases = [
            // one serves well, failing, others well, failing; more that are well: all, one's, and failing: all, one's; why
            ((0,  0),  (0,  0),  (64, None,    32, None),    "nobody is served: an organization has 16 and 8"),
            ((3,  2),  (0,  0),  (59, Some(11), 30, Some(6)), "what it has is taken off"),
            ((12, 0),  (0,  0),  (52, Some(4),  32, Some(4)), "those that fail are among its 16"),
            ((16, 0),  (9,  0),  (39, Some(0),  32, Some(0)), "it has its quarter"),
            ((0,  8),  (0,  0),  (56, Some(8),  24, Some(0)), "eight of what fails"),
            ((1,  0),  (30, 32), (1,  Some(15), 0,  Some(8)), "others have all that is for what fails"),
            ((1,  0),  (63, 0),  (0,  Some(15), 0,  Some(8)), "there are no more than 64"),
            ((17, 0),  (0,  0),  (47, Some(0),  32, Some(0)), "its share was never larger, but nothing is below none"),
        ];
        for ((well, failing), (others_well, others_failing), (all, own, all_failing, own_failing), why) in cases {
            let lanes = [
                (one, false, well),
                (one, true, failing),
                (others, false, others_well),
                (others, true, others_failing),
            ]
            .into_iter()
            .flat_map(|(organization, is_failing, count)| (0..count).map(move |_| Lane { organization, is_failing }));
            let lanes: Vec<Lane> = lanes.collect();
            for (are_failing, of_all, of_one, of_each) in [(false, all, own, 16), (true, all_failing, own_failing, 8)] {
                let room = Room::beside(lanes.iter().copied(), are_failing);
                let found = (room.of_all, room.of.get(&one).copied(), room.of_each);
                assert_eq!(found, (of_all, of_one, of_each), "{why}; failing: {are_failing}");
            }
        }
    }
}
