//! Counting by organization, in bounded memory: those who do the most are told of.

use std::collections::BTreeMap;

use billing_domain::id::OrganizationId;

/// Organizations that are counted at most: beyond these, those with the least are forgotten.
const COUNTED_MAX: usize = 2_000;
/// Organizations that are kept then.
const KEPT: usize = 1_000;

/// A counter for each organization, of which the largest matter.
#[derive(Debug, Default)]
pub struct ByOrganization(BTreeMap<OrganizationId, u64>);

impl ByOrganization {
    /// Adds to an organization's counter.
    pub fn add(&mut self, organization: OrganizationId, count: u64) {
        if count == 0 {
            return;
        }
        *self.0.entry(organization).or_default() += count;
        if self.0.len() > COUNTED_MAX {
            self.0 = self.largest(KEPT).into_iter().collect();
        }
    }

    /// So many of the largest, the largest first.
    pub fn largest(&self, most: usize) -> Vec<(OrganizationId, u64)> {
        let mut all: Vec<_> = self.0.iter().map(|(organization, count)| (*organization, *count)).collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_largest_are_kept_however_many_there_are() {
        let organization = |number: u128| OrganizationId::from(Uuid::from_u128(number));
        let mut counted = ByOrganization::default();
        counted.add(organization(3), 70);
        counted.add(organization(9_000), 50);
        counted.add(organization(1), 0);
        for number in 0..5_000 {
            counted.add(organization(number), 1);
            assert!(counted.0.len() <= COUNTED_MAX);
        }
        counted.add(organization(9_000), 50);
        assert_eq!(counted.largest(2), [(organization(9_000), 100), (organization(3), 71)]);
        assert_eq!(counted.largest(0), []);
    }
}
