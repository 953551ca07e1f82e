//! What customers hold, remembered under a version in the database that is another one after every change of it.

use std::sync::Arc;

use billing_domain::subscription::Subscription;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::cache::{SubscriptionVersion, VersionedCache};

/// Most memory that all of it takes, in bytes, roughly.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// What a customer's entry takes without its subscriptions.
const ENTRY_BYTES: usize = 200;
/// What a subscription takes without its metadata.
const SUBSCRIPTION_BYTES: usize = 2 * size_of::<Subscription>();

/// What a customer holds from an instant on.
#[derive(Clone)]
pub(crate) struct CachedSubscriptions {
    /// What ended before is not in it, unless it awaits renewal.
    from: OffsetDateTime,
    subscriptions: Arc<[Subscription]>,
}

impl CachedSubscriptions {
    /// `subscriptions` in the order of their starts: all that end after `from` or await renewal.
    pub(crate) fn new(from: OffsetDateTime, subscriptions: Vec<Subscription>) -> Self {
        Self { from, subscriptions: subscriptions.into() }
    }

    /// [`billing_domain::store::SubscriptionRepo::list_current`]; `None` at an instant that is too early to tell.
    pub(crate) fn list_current(&self, instant: OffsetDateTime) -> Option<Vec<Subscription>> {
        let current = || self.all().filter(|subscription| subscription.is_current(instant));
        (self.from <= instant).then(|| current().cloned().collect())
    }

    /// Everything in it.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Subscription> {
        self.subscriptions.iter()
    }

    fn bytes(&self) -> usize {
        let metadata = |subscription: &Subscription| {
            subscription.metadata.iter().map(|(name, value)| name.len() + bytes_of(value)).sum::<usize>()
        };
        ENTRY_BYTES + self.all().map(|subscription| SUBSCRIPTION_BYTES + metadata(subscription)).sum::<usize>()
    }
}

/// What a value takes, roughly.
fn bytes_of(value: &Value) -> usize {
    2 * size_of::<Value>()
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(bytes_of).sum(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| size_of::<String>() + name.len() + bytes_of(value)).sum()
            }
        }
}

/// What customers hold that have been asked about.
pub(crate) struct SubscriptionCache(VersionedCache<Uuid, SubscriptionVersion, CachedSubscriptions>);

impl Default for SubscriptionCache {
    fn default() -> Self {
        Self(VersionedCache::of_bytes(BYTES_MAX, ENTRY_BYTES + SUBSCRIPTION_BYTES, |_, cached| cached.bytes()))
    }
}

impl SubscriptionCache {
    /// What is known of a customer, if it holds the same still and its clock, which says `now`, has not been put back.
    pub(crate) fn find(
        &self,
        customer: Uuid,
        version: SubscriptionVersion,
        now: OffsetDateTime,
    ) -> Option<CachedSubscriptions> {
        let holds =
            |read_under: SubscriptionVersion, cached: &CachedSubscriptions| read_under == version && cached.from <= now;
        self.0.look(&customer, |read_under, cached| holds(*read_under, cached).then(|| cached.clone()))
    }

    /// What a customer held when that was read last.
    pub(crate) fn latest(&self, customer: Uuid) -> Option<CachedSubscriptions> {
        self.0.latest(&customer)
    }

    /// Remembers what a customer holds under a version.
    pub(crate) fn keep(&self, customer: Uuid, version: SubscriptionVersion, cached: &CachedSubscriptions) {
        self.0.keep(customer, version, cached.clone());
    }
}

#[cfg(test)]
mod tests {
    use billing_domain::testing::build::{self, Ids};
    use time::macros::datetime;

    use super::*;

    fn cached(from: OffsetDateTime, metadata: Value) -> CachedSubscriptions {
        let ids = &mut Ids::new(1);
        let start = datetime!(2026-01-01 00:00 UTC);
        let plan = build::plan(ids, "Pro", start);
        let version = build::plan_version(ids, &plan, start);
        let customer = build::customer(ids.next(), "acme", start);
        let held = build::subscription(ids, customer.key, &version, build::days_from(start, 10));
        let metadata = metadata.as_object().cloned().unwrap_or_default();
        let subscription = Subscription { metadata, auto_renew: false, ..held };
        CachedSubscriptions::new(from, vec![subscription])
    }

    #[test]
    fn what_has_ended_is_not_current_and_what_is_too_early_is_not_known() {
        let held = cached(datetime!(2026-01-05 00:00 UTC), Value::Null);
        #[rustfmt::skip]
        let cases = [
            // instant,                        current, why
            (datetime!(2026-01-04 23:59 UTC), None,    "what ended before is not in it"),
            (datetime!(2026-01-05 00:00 UTC), Some(1), "the first instant it is of"),
            (datetime!(2026-01-10 23:59 UTC), Some(1), "still"),
            (datetime!(2026-01-11 00:00 UTC), Some(0), "it has ended and will not be renewed"),
        ];
        for (instant, current, why) in cases {
            assert_eq!(held.list_current(instant).map(|subscriptions| subscriptions.len()), current, "{why}");
        }
    }

    #[test]
    fn memory_is_bounded_whatever_metadata_there_is() {
        let cache = SubscriptionCache::default();
        let version = SubscriptionVersion::default();
        let long = cached(OffsetDateTime::UNIX_EPOCH, serde_json::json!({"text": "x".repeat(BYTES_MAX / 8)}));
        let bytes = || cache.0.size().1;
        for n in 0..20 {
            cache.keep(Uuid::from_u128(n % 16), version, &long);
            assert!((BYTES_MAX / 8..=BYTES_MAX).contains(&bytes()), "after {n}: {}", bytes());
        }
        let huge = cached(OffsetDateTime::UNIX_EPOCH, serde_json::json!({"text": "x".repeat(BYTES_MAX)}));
        cache.keep(Uuid::from_u128(3), version, &huge);
        assert!(cache.latest(Uuid::from_u128(3)).is_none(), "what is larger than all may be is not kept");
        assert!(bytes() <= BYTES_MAX);
    }
}
