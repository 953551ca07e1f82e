//! What the process remembers between transactions. None of it is needed to be right, only to be fast: each thing is held
//! against the version it was read under, and may be forgotten at any time.

mod catalog;
mod figures;
mod ingest;
mod rollup_starts;
mod subscriptions;

pub(crate) use self::catalog::{CatalogCache, Contents, Shelf, VersionParts, VersionedCatalog};
pub(crate) use self::figures::{
    BucketSum, EventsVersion, FigureKey, NoFutureEvents, NoFutureEventsCache, PartialHours, Sums, TallyKey,
    UnchangedFigures,
};
pub use self::ingest::Uncounted;
pub(crate) use self::ingest::{Alerted, IngestCache, IngestRules};
pub(crate) use self::rollup_starts::RollupStarts;
pub(crate) use self::subscriptions::{CachedSubscriptions, SubscriptionCache};

/// Everything that is remembered.
#[derive(Default)]
pub(crate) struct Remembered {
    pub(crate) rollup_starts: RollupStarts,
    pub(crate) partial_hours: PartialHours,
    pub(crate) sums: Sums,
    pub(crate) unchanged: UnchangedFigures,
    pub(crate) no_future_events: NoFutureEventsCache,
    pub(crate) subscriptions: SubscriptionCache,
    pub(crate) contents: Contents,
    pub(crate) catalogs: CatalogCache,
    /// The catalogues of questions: each exactly as it was in the snapshots that had its version.
    pub(crate) snapshots: CatalogCache,
}
