//! Puts a new key in the place of one.

use time::OffsetDateTime;

use crate::api_key::{ApiKey, Fingerprint, KeyKind};
use crate::error::{Error, Noun, Refusal};
use crate::store::Transaction;

/// Which key gets which new text.
#[derive(Clone, Debug)]
pub struct RegenerateApiKey {
    /// The key that ends with this.
    pub prefix: String,
    /// What is kept of the new text.
    pub fingerprint: Fingerprint,
}

/// Ends a key and makes one of the same name and expiry, in one step: no request sees both, none sees neither.
///
/// # Errors
/// [`Error::NotFound`] for a key that is not there; [`Refusal::KeyExpired`]: what takes its place would be worthless too.
pub fn regenerate_api_key(
    tx: &mut dyn Transaction,
    command: &RegenerateApiKey,
    now: OffsetDateTime,
) -> Result<ApiKey, Error> {
    let keys = tx.api_keys().list(KeyKind::ApiKey)?;
    let old = keys.into_iter().find(|key| key.prefix == command.prefix).ok_or(Error::NotFound(Noun::ApiKey))?;
    if old.is_expired(now) {
        return Err(Refusal::KeyExpired.into());
    }
    tx.api_keys().delete(KeyKind::ApiKey, &old.prefix)?;
    let Fingerprint { prefix, digest } = command.fingerprint.clone();
    let new = ApiKey { prefix, digest, created_at: now, last_used_at: None, ..old };
    tx.api_keys().insert(&new)?;
    Ok(new)
}
