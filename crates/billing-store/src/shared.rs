//! What everything that touches the database shares.

use crate::custom_sql::Reader;
use crate::pg::pool::Pool;
use crate::remembered::Remembered;
use crate::rollup::KeyRanges;

/// What all clones of a store and its workers share.
pub(crate) struct Shared {
    /// Connections of requests.
    pub(crate) pool: Pool,
    /// Connections of the workers, who never wait behind requests.
    pub(crate) worker_pool: Pool,
    /// Connections of custom metrics.
    pub(crate) reader: Reader,
    pub(crate) key_ranges: KeyRanges,
    pub(crate) remembered: Remembered,
}
