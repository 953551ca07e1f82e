//! Bounded caches and the tokens that say whether what is in them still holds. Knows nothing of billing.

mod version;
mod versioned_cache;

pub(crate) use self::version::{CatalogVersion, RollupVersion, SubscriptionVersion};
pub(crate) use self::versioned_cache::VersionedCache;
