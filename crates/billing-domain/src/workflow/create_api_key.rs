//! Creates an API key or an access token.

use time::OffsetDateTime;

use crate::api_key::{ApiKey, Fingerprint, KeyKind, KeyScope, KeyScopes};
use crate::error::{Error, FieldCode, FieldErrors};
use crate::store::Transaction;
use crate::text;

/// A new key. Its text stays with the caller, who shows it once.
#[derive(Clone, Debug)]
pub struct CreateApiKey {
    /// What it opens.
    pub kind: KeyKind,
    /// What it is for.
    pub name: String,
    /// From when on it is worthless; never when `None`.
    pub expires_at: Option<OffsetDateTime>,
    /// What it may be used for; everything when `None`.
    pub scopes: Option<Vec<KeyScope>>,
    /// What is kept of its text.
    pub fingerprint: Fingerprint,
}

/// Creates a key of the transaction's organization.
///
/// # Errors
/// A bad name; an expiry that has passed already.
pub fn create_api_key(tx: &mut dyn Transaction, command: &CreateApiKey, now: OffsetDateTime) -> Result<ApiKey, Error> {
    command.check(now)?;
    let CreateApiKey { kind, name, expires_at, scopes, fingerprint } = command.clone();
    let scopes = KeyScopes::of(scopes.unwrap_or_default());
    let Fingerprint { prefix, digest } = fingerprint;
    let organization = tx.organization();
    let key =
        ApiKey { kind, prefix, organization, name, digest, created_at: now, expires_at, scopes, last_used_at: None };
    tx.api_keys().insert(&key)?;
    Ok(key)
}

impl CreateApiKey {
    fn check(&self, now: OffsetDateTime) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        errors.keep("name", text::check(&self.name, text::NAME_CHARACTERS_MAX));
        if self.expires_at.is_some_and(|at| at <= now) {
            errors.push("expires_at", FieldCode::Invalid, "The expiry must not be in the past.");
        }
        // Nothing at all would be everything.
        if self.scopes.as_ref().is_some_and(Vec::is_empty) {
            errors.push("scopes", FieldCode::Empty, "Name at least one scope, or leave them out for all.");
        }
        errors.finish(())
    }
}
