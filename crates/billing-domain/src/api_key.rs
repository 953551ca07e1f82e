//! API keys and access tokens: who may speak for an organization. The store sees only a digest.

use std::collections::BTreeSet;

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

choices! {
    /// What calls an API key may be used for.
    pub KeyScope {
        /// Looking at everything but who calls.
        Read = "read",
        /// Sending usage events.
        Ingest = "ingest",
        /// Asking whether a customer may go on.
        AccessCheck = "access_check",
        /// Changing customers, subscriptions, invoices, payments and credits.
        Billing = "billing",
        /// Changing everything else: what is sold, keys, settings, webhooks, test clocks; and looking at who did what.
        Admin = "admin",
    }
}

/// What an API key may be used for: everything, unless something is said. It never changes while the key lasts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyScopes(Option<BTreeSet<KeyScope>>);

impl KeyScopes {
    /// These alone; none of them: everything.
    pub fn of(scopes: impl IntoIterator<Item = KeyScope>) -> Self {
        let scopes: BTreeSet<KeyScope> = scopes.into_iter().collect();
        Self((!scopes.is_empty()).then_some(scopes))
    }

    /// Whether a call that needs this one may be made.
    pub fn allow(&self, needed: KeyScope) -> bool {
        self.0.as_ref().is_none_or(|scopes| scopes.contains(&needed))
    }

    /// Those that were said; `None`: everything.
    pub fn said(&self) -> Option<Vec<KeyScope>> {
        self.0.as_ref().map(|scopes| scopes.iter().copied().collect())
    }

    /// All that it may be used for.
    pub fn to_vec(&self) -> Vec<KeyScope> {
        self.said().unwrap_or_else(|| KeyScope::ALL.to_vec())
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
    /// What it may be used for.
    pub scopes: KeyScopes,
    /// When it was used last, give or take a minute.
    pub last_used_at: Option<OffsetDateTime>,
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
