//! API keys: who may speak for an organization. The store sees only a digest.

use time::OffsetDateTime;

use crate::id::OrganizationId;

/// A key as it is kept: everything but the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// First 8 characters of the key, unique; fit for lists and logs.
    pub prefix: String,
    /// The organization it speaks for.
    pub organization: OrganizationId,
    /// What it is for.
    pub name: String,
    /// Keyed digest of the whole key (32 bytes); the key itself is kept nowhere.
    pub digest: Vec<u8>,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// From this instant on it is worthless.
    pub expires_at: Option<OffsetDateTime>,
}

impl ApiKey {
    /// Whether the key is worthless at `now`. The instant of expiry itself is too late.
    pub fn is_expired(&self, now: OffsetDateTime) -> bool {
        self.expires_at.is_some_and(|at| now >= at)
    }
}
