//! API keys and access tokens: who may speak for an organization. The store sees only a digest.

use time::OffsetDateTime;

use crate::error::Noun;
use crate::id::OrganizationId;

choices! {
    /// What a key opens.
    pub KeyKind {
        /// Every call, by itself.
        ApiKey = "api_key",
        /// Nothing by itself: it goes beside an API key of the same organization.
        AccessToken = "access_token",
    }
}

impl KeyKind {
    /// What is missing when there is no such key.
    pub fn noun(self) -> Noun {
        match self {
            Self::ApiKey => Noun::ApiKey,
            Self::AccessToken => Noun::AccessToken,
        }
    }
}

/// What the store may know of a key's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The first 8 characters.
    pub prefix: String,
    /// Keyed digest of the whole key (32 bytes).
    pub digest: Vec<u8>,
}

/// A key as it is kept: everything but the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// What it opens.
    pub kind: KeyKind,
    /// First 8 characters of the key, unique among keys of every kind; fit for lists and logs.
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
    /// What the store may know of its text.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint { prefix: self.prefix.clone(), digest: self.digest.clone() }
    }

    /// Whether the key is worthless at `now`. The instant of expiry itself is too late.
    pub fn is_expired(&self, now: OffsetDateTime) -> bool {
        self.expires_at.is_some_and(|at| now >= at)
    }
}
