//! What ingesting remembers, all of it committed: rules are held against their version, and making a month or registering a name
//! twice changes nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::iter::Sum;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use billing_domain::store::{EventMinute, EventTally};
use quick_cache::Equivalent;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::cache::VersionedCache;
use crate::pg::conflict_cooldown::ConflictCooldown;
use crate::pg::month::Month;
use crate::rollup::{HotBucketCache, RolledMetric};

/// Most organizations whose rules are remembered.
const ORGANIZATIONS_MAX: usize = 10_000;
/// Most months of events that are remembered as made: there are as many as events are dated in.
const MONTHS_MAX: usize = 10_000;
/// Most event names that are remembered as registered.
const NAMES_MAX: usize = 100_000;
/// Most customers that are remembered as there: whoever else sends events is looked for with them.
const CUSTOMERS_MAX: usize = 100_000;

/// What ingesting one organization's events looks at, as of a version.
pub(crate) struct IngestRules {
    pub(crate) window_days: u16,
    pub(crate) has_test_clocks: bool,
    /// Their queries look at the events of all names.
    pub(crate) has_custom_metrics: bool,
    /// By event name.
    pub(crate) metrics: HashMap<String, Vec<RolledMetric>>,
    /// Whose figures usage alerts look at.
    pub(crate) alerted: Alerted,
}

/// Whose figures are looked at by usage alerts when an event of theirs was stored.
#[derive(Default)]
pub(crate) struct Alerted {
    /// By event name; under none those who are looked at with every event.
    by_name: HashMap<Option<String>, AlertedCustomers>,
}

/// The customers that alerts are about.
#[derive(Default)]
struct AlertedCustomers {
    /// Whether that is all of them.
    are_all: bool,
    some: HashSet<Uuid>,
}

impl Alerted {
    /// Adds an alert on events of a name, or on all of them, of one customer or of all.
    pub(crate) fn add(&mut self, event_name: Option<String>, customer: Option<Uuid>) {
        let customers = self.by_name.entry(event_name).or_default();
        match customer {
            Some(customer) => {
                customers.some.insert(customer);
            }
            None => customers.are_all = true,
        }
    }

    /// Whether nobody's are.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether this customer's are, with an event of this name.
    pub(crate) fn contains(&self, event_name: &str, customer: Uuid) -> bool {
        let of_name = self.by_name.get(&Some(event_name.to_owned())).into_iter().chain(self.by_name.get(&None));
        of_name.into_iter().any(|customers| customers.are_all || customers.some.contains(&customer))
    }
}

/// Events that were stored and count for nothing: each is among one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncounted {
    /// No metric counts their name.
    pub of_unknown_names: u64,
    /// Their customer is not there: it may come yet, and then they count.
    pub of_unknown_customers: u64,
}

impl Uncounted {
    /// Those of a tally.
    pub(crate) fn of(tally: &EventTally) -> Self {
        let minute = |minute: &EventMinute| Self {
            of_unknown_names: minute.of_unknown_names,
            of_unknown_customers: minute.of_unknown_customers,
        };
        tally.minutes().map(minute).sum()
    }
}

impl Sum for Uncounted {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            of_unknown_names: sum.of_unknown_names + one.of_unknown_names,
            of_unknown_customers: sum.of_unknown_customers + one.of_unknown_customers,
        })
    }
}

/// What ingesting remembers.
pub(crate) struct IngestCache {
    /// By organization, under the version of what ingesting looks at.
    pub(crate) rules: VersionedCache<Uuid, i64, Arc<IngestRules>>,
    months: VersionedCache<Month, (), ()>,
    /// By organization and name, an hour before which all events of the name are.
    names: VersionedCache<(Uuid, String), (), OffsetDateTime>,
    /// Customers that are there: none ever goes.
    customers: VersionedCache<Uuid, (), ()>,
    pub(crate) cooldown: ConflictCooldown,
    pub(crate) hours: HotBucketCache,
    of_unknown_names: AtomicU64,
    of_unknown_customers: AtomicU64,
}

impl Default for IngestCache {
    fn default() -> Self {
        Self::one_of(1)
    }
}

impl IngestCache {
    /// One of so many, which share the memory that is taken.
    pub(crate) fn one_of(caches: usize) -> Self {
        Self {
            rules: VersionedCache::of_entries((ORGANIZATIONS_MAX / caches).max(1_000)),
            months: VersionedCache::of_entries((MONTHS_MAX / caches).max(1_000)),
            names: VersionedCache::of_entries((NAMES_MAX / caches).max(1_000)),
            customers: VersionedCache::of_entries((CUSTOMERS_MAX / caches).max(1_000)),
            cooldown: ConflictCooldown::default(),
            hours: HotBucketCache::one_of(caches),
            of_unknown_names: AtomicU64::default(),
            of_unknown_customers: AtomicU64::default(),
        }
    }
}

/// An organization's event name, looked up without being copied.
#[derive(Hash)]
struct NameOf<'n>(Uuid, &'n str);

impl Equivalent<(Uuid, String)> for NameOf<'_> {
    fn equivalent(&self, (organization, name): &(Uuid, String)) -> bool {
        self.0 == *organization && self.1 == name
    }
}

impl IngestCache {
    /// Notes events that were stored and count for nothing.
    pub(crate) fn note_uncounted(&self, events: Uncounted) {
        self.of_unknown_names.fetch_add(events.of_unknown_names, Ordering::Relaxed);
        self.of_unknown_customers.fetch_add(events.of_unknown_customers, Ordering::Relaxed);
    }

    /// How many of those this process has stored.
    pub(crate) fn uncounted(&self) -> Uncounted {
        Uncounted {
            of_unknown_names: self.of_unknown_names.load(Ordering::Relaxed),
            of_unknown_customers: self.of_unknown_customers.load(Ordering::Relaxed),
        }
    }

    /// Whether the customer is known to be there.
    pub(crate) fn has_customer(&self, customer: Uuid) -> bool {
        self.customers.latest(&customer).is_some()
    }

    /// Remembers customers that are there.
    pub(crate) fn remember_customers(&self, customers: impl IntoIterator<Item = Uuid>) {
        customers.into_iter().for_each(|customer| self.customers.keep(customer, (), ()));
    }

    /// Whether the month is known to be made.
    pub(crate) fn has_month(&self, month: Month) -> bool {
        self.months.latest(&month).is_some()
    }

    /// Remembers months that are there.
    pub(crate) fn remember_months(&self, months: impl IntoIterator<Item = Month>) {
        months.into_iter().for_each(|month| self.months.keep(month, (), ()));
    }

    /// Whether the name is known to be registered with all of its events before `before`.
    pub(crate) fn has_name(&self, organization: Uuid, name: &str, before: OffsetDateTime) -> bool {
        self.names.look(&NameOf(organization, name), |(), known| (*known >= before).then_some(())).is_some()
    }

    /// Remembers names that are registered, each with an hour before which all of its events are.
    pub(crate) fn remember_names(&self, organization: Uuid, names: &BTreeMap<String, OffsetDateTime>) {
        for (name, before) in names {
            if !self.has_name(organization, name, *before) {
                self.names.keep((organization, name.clone()), (), *before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use billing_domain::period::instant;

    use super::*;

    #[test]
    fn a_name_is_found_by_its_organization_and_text() {
        let cache = IngestCache::default();
        let (organization, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        cache.remember_names(organization, &BTreeMap::from([("call".to_owned(), OffsetDateTime::UNIX_EPOCH)]));
        #[rustfmt::skip]
        let cases = [
            // organization, name,    before,                      is known, why
            (organization,   "call",  OffsetDateTime::UNIX_EPOCH,  true,     "as it was registered"),
            (organization,   "call",  instant::LAST,               false,    "a later event is to be noted"),
            (organization,   "calls", OffsetDateTime::UNIX_EPOCH,  false,    "another name"),
            (other,          "call",  OffsetDateTime::UNIX_EPOCH,  false,    "another organization's"),
        ];
        for (organization, name, before, is_known, why) in cases {
            assert_eq!(cache.has_name(organization, name, before), is_known, "{why}");
        }
    }

    #[test]
    fn organizations_that_were_ever_seen_are_not_all_remembered() {
        let cache = IngestCache::default();
        for number in 0..3 * ORGANIZATIONS_MAX as u128 {
            let rules = IngestRules {
                window_days: 1,
                has_test_clocks: false,
                has_custom_metrics: false,
                metrics: HashMap::new(),
                alerted: Alerted::default(),
            };
            cache.rules.keep(Uuid::from_u128(number), 1, Arc::new(rules));
        }
        assert!(cache.rules.size().0 <= ORGANIZATIONS_MAX);
    }
}
