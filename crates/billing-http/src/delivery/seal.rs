//! Secrets as the database has them: nobody who reads it, or a backup of it, can sign with them.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use billing_domain::id::WebhookEndpointId;
use billing_outbound::Secret;

use crate::error::ApiError;

/// What the key of these secrets is derived for. Another use of the pepper has another text.
const PURPOSE: &[u8] = b"webhook signing secrets, version 1";

/// Seals secrets by a key that follows from the pepper.
pub struct Sealer(Option<LessSafeKey>);

impl Sealer {
    /// By the key that follows from a pepper.
    pub fn new(pepper: &[u8]) -> Self {
        let derived = Salt::new(HKDF_SHA256, &[]).extract(pepper);
        // Fails for keys that are too long, which this is not.
        Self(derived.expand(&[PURPOSE], &CHACHA20_POLY1305).map(|key| LessSafeKey::new(UnboundKey::from(key))).ok())
    }

    /// The secret of an endpoint, sealed. It opens for no other endpoint.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn seal(&self, endpoint: WebhookEndpointId, secret: &Secret) -> Result<Vec<u8>, ApiError> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(ApiError::internal)?;
        let key = self.0.as_ref().ok_or_else(|| ApiError::internal("no key for signing secrets"))?;
        let mut sealed = secret.reveal().into_bytes();
        let aad = Aad::from(endpoint.uuid().into_bytes());
        let done = key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed);
        done.map_err(ApiError::internal)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// The secret of an endpoint; `None` when it was sealed by another key, or for another endpoint.
    pub fn open(&self, endpoint: WebhookEndpointId, sealed: &[u8]) -> Option<Secret> {
        let (nonce, rest) = sealed.split_at_checked(NONCE_LEN)?;
        let mut rest = rest.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.0.as_ref()?.open_in_place(nonce, Aad::from(endpoint.uuid().into_bytes()), &mut rest).ok()?;
        Secret::parse(std::str::from_utf8(opened).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_is_sealed_opens_with_the_same_pepper_for_the_same_endpoint() {
        let [ours, theirs] = [1, 2].map(|n| WebhookEndpointId::from(Uuid::from_u128(n)));
        let sealer = |pepper: &str| Sealer::new(pepper.as_bytes());
        let secret = Secret::generate().expect("randomness");
        let sealed = sealer("pepper").seal(ours, &secret).expect("sealed");
        let opened = |pepper, endpoint| sealer(pepper).open(endpoint, &sealed).map(|secret| secret.reveal());
        assert_eq!(opened("pepper", ours), Some(secret.reveal()));
        assert_eq!(opened("pepper", theirs), None, "another endpoint's");
        assert_eq!(opened("salt", ours), None, "another pepper");
        assert_eq!(sealer("pepper").open(ours, &sealed[..5]).map(|secret| secret.reveal()), None, "cut");
        let text = String::from_utf8_lossy(&sealed).into_owned();
        assert!(!text.contains(&secret.reveal()[6..]), "not in the clear");
        assert_ne!(sealed, sealer("pepper").seal(ours, &secret).expect("sealed"), "another nonce each time");
    }
}
