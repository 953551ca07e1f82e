//! Signatures by the Standard Webhooks specification: version 1 of its symmetric scheme, and of its asymmetric one.

use std::fmt;
use std::sync::{Arc, OnceLock};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// What signatures begin with.
const VERSION: &str = "v1,";
/// What signatures by a private key begin with.
const PUBLIC_VERSION: &str = "v1a,";
/// What public keys begin with.
const PUBLIC_PREFIX: &str = "whpk_";
/// Bytes that a secret may have, by the specification.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Bytes of a secret that is made here.
const NEW_SECRET_BYTES: usize = 32;

/// How old or how far ahead a message may be that is taken, in seconds: whoever has recorded one cannot send it again later.
pub const SIGNATURE_AGE_MAX_SECONDS: i64 = 300;

/// What sender and receiver share: `whsec_` and 24 to 64 bytes in base64.
#[derive(Clone)]
pub struct Secret {
    bytes: Vec<u8>,
    /// The key pair that follows from them, once it is needed.
    key_pair: OnceLock<Option<Arc<Ed25519KeyPair>>>,
}

/// The text is not a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("A secret is whsec_ and 24 to 64 bytes in base64.")]
pub struct BadSecret;

/// The message is not from whoever has the secret, or not of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature is wrong, or too old")]
pub struct WrongSignature;

/// What is signed: a message is what its id, its time and its body say.
#[derive(Clone, Copy, Debug)]
pub struct Message<'m> {
    /// The same for every attempt to deliver it. Without a full stop.
    pub id: &'m str,
    /// When this attempt is made, in seconds since 1970.
    pub timestamp: i64,
    /// The bytes as they are sent.
    pub body: &'m [u8],
}

/// The three headers of a signed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedHeaders {
    /// `webhook-id`
    pub id: String,
    /// `webhook-timestamp`
    pub timestamp: String,
    /// `webhook-signature`: two signatures for each secret, apart by spaces: `v1` for whoever has it, `v1a` for whoever has its public key.
    pub signature: String,
}

impl SignedHeaders {
    /// Names and values, as they are sent.
    pub fn as_pairs(&self) -> [(&'static str, &str); 3] {
        [("webhook-id", &self.id), ("webhook-timestamp", &self.timestamp), ("webhook-signature", &self.signature)]
    }
}

impl Secret {
    /// What secrets begin with.
    pub const PREFIX: &str = "whsec_";

    /// A new one, of the operating system's randomness.
    ///
    /// # Errors
    /// When there is none.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = vec![0; NEW_SECRET_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self::of(bytes))
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`BadSecret`].
    pub fn parse(text: &str) -> Result<Self, BadSecret> {
        let bytes =
            text.strip_prefix(Self::PREFIX).and_then(|encoded| STANDARD.decode(encoded).ok()).ok_or(BadSecret)?;
        if SECRET_BYTES.contains(&bytes.len()) { Ok(Self::of(bytes)) } else { Err(BadSecret) }
    }

    /// The text to show its owner, and to keep.
    pub fn reveal(&self) -> String {
        format!("{}{}", Self::PREFIX, STANDARD.encode(&self.bytes))
    }

    /// The headers of a message. While one secret takes the place of another, both sign: see [`Secret::sign_with`].
    pub fn sign(&self, message: &Message<'_>) -> SignedHeaders {
        Self::sign_with(&[self], message)
    }

    /// [`Secret::sign`] by several secrets, the newest first.
    pub fn sign_with(secrets: &[&Self], message: &Message<'_>) -> SignedHeaders {
        let shared = secrets.iter().map(|secret| secret.signature(message));
        let public = secrets.iter().filter_map(|secret| secret.public_signature(message));
        let signatures: Vec<String> = shared.chain(public).collect();
        SignedHeaders {
            id: message.id.to_owned(),
            timestamp: message.timestamp.to_string(),
            signature: signatures.join(" "),
        }
    }

    /// What verifies the `v1a` signatures: `whpk_` and an ed25519 public key in base64.
    pub fn public_key(&self) -> String {
        let key = self.key_pair().map(|pair| STANDARD.encode(pair.public_key().as_ref()));
        format!("{PUBLIC_PREFIX}{}", key.unwrap_or_default())
    }

    fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, key_pair: OnceLock::new() }
    }

    /// The key pair that follows from the secret.
    fn key_pair(&self) -> Option<&Ed25519KeyPair> {
        let derive = || {
            let mut mac = Hmac::<Sha256>::new_from_slice(&self.bytes).ok()?;
            mac.update(b"the ed25519 key of a webhook secret");
            Ed25519KeyPair::from_seed_unchecked(&mac.finalize().into_bytes()).ok().map(Arc::new)
        };
        self.key_pair.get_or_init(derive).as_deref()
    }

    /// The signature that whoever has the public key verifies.
    fn public_signature(&self, message: &Message<'_>) -> Option<String> {
        let signed = [format!("{}.{}.", message.id, message.timestamp).as_bytes(), message.body].concat();
        Some(format!("{PUBLIC_VERSION}{}", STANDARD.encode(self.key_pair()?.sign(&signed))))
    }

    /// Checks that one of the signatures is this secret's, at `now` in seconds since 1970. How long it takes says nothing of how far off a wrong
    /// one is.
    ///
    /// # Errors
    /// [`WrongSignature`].
    pub fn verify(&self, headers: &SignedHeaders, body: &[u8], now: i64) -> Result<(), WrongSignature> {
        let timestamp: i64 = headers.timestamp.parse().map_err(|_| WrongSignature)?;
        if now.abs_diff(timestamp) > SIGNATURE_AGE_MAX_SECONDS.unsigned_abs() {
            return Err(WrongSignature);
        }
        let expected = self.signature(&Message { id: &headers.id, timestamp, body });
        let mut given = headers.signature.split(' ').filter(|one| one.starts_with(VERSION));
        let is_right = given.any(|one| bool::from(one.as_bytes().ct_eq(expected.as_bytes())));
        if is_right { Ok(()) } else { Err(WrongSignature) }
    }

    fn signature(&self, message: &Message<'_>) -> String {
        // An HMAC takes a key of any length, so that this is never the other case.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.bytes) else { return String::new() };
        mac.update(format!("{}.{}.", message.id, message.timestamp).as_bytes());
        mac.update(message.body);
        format!("{VERSION}{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// Never the secret itself: it would be in logs.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NOW: i64 = 1_614_265_330;

    fn signed() -> (Secret, SignedHeaders) {
        let secret = Secret::parse(SECRET).expect("a secret");
        let headers = secret.sign(&Message {
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp: NOW,
            body: br#"{"test": 2432232314}"#,
        });
        (secret, headers)
    }

    #[test]
    fn signatures_are_those_of_the_specification() {
        // The example of the specification's reference libraries.
        let (secret, headers) = signed();
        let (shared, public) = headers.signature.split_once(' ').expect("two signatures");
        assert_eq!(shared, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let key = STANDARD.decode(secret.public_key().trim_start_matches("whpk_")).expect("base64");
        let signature = STANDARD.decode(public.trim_start_matches("v1a,")).expect("base64");
        let key = aws_lc_rs::signature::UnparsedPublicKey::new(&aws_lc_rs::signature::ED25519, key);
        let signed = format!("msg_p5jXN8AQM9LWM0D4loKWxJek.{NOW}.{}", r#"{"test": 2432232314}"#);
        assert!(key.verify(signed.as_bytes(), &signature).is_ok());
        assert!(key.verify(signed.to_uppercase().as_bytes(), &signature).is_err());
        assert_eq!(headers.as_pairs()[1], ("webhook-timestamp", "1614265330"));
    }

    #[test]
    fn only_what_was_signed_of_late_is_taken() {
        let (secret, headers) = signed();
        let other = Secret::generate().expect("randomness");
        let body = br#"{"test": 2432232314}"#.as_slice();
        let with = |change: &dyn Fn(&mut SignedHeaders)| {
            let mut changed = headers.clone();
            change(&mut changed);
            changed
        };
        #[rustfmt::skip]
        let cases = [
            // headers,                                                                      body,            seconds later, taken, why
            (headers.clone(),                                                                body,            0,    true,  "as it was sent"),
            (headers.clone(),                                                                body,            300,  true,  "just in time"),
            (headers.clone(),                                                                body,            -300, true,  "of a clock that is ahead"),
            (headers.clone(),                                                                body,            301,  false, "sent again later"),
            (headers.clone(),                                                                body,            -301, false, "of a clock that is wrong"),
            (headers.clone(),                                                                b"{}".as_slice(), 0,   false, "another body"),
            (with(&|h| h.id.push('x')),                                                      body,            0,    false, "another id"),
            (with(&|h| h.timestamp = (NOW + 1).to_string()),                                 body,            0,    false, "another time"),
            (with(&|h| h.timestamp = "soon".to_owned()),                                     body,            0,    false, "no time"),
            (with(&|h| h.signature = h.signature.replace("v1,", "v2,")),                     body,            0,    false, "another scheme"),
            (with(&|h| h.signature = String::new()),                                         body,            0,    false, "no signature"),
            (with(&|h| h.signature = format!("v1,AAAA {}", h.signature)),                    body,            0,    true,  "one of two secrets"),
        ];
        for (headers, body, later, taken, why) in cases {
            assert_eq!(secret.verify(&headers, body, NOW + later).is_ok(), taken, "{why}");
            assert!(other.verify(&headers, body, NOW + later).is_err(), "{why}, with another secret");
        }
    }

    #[test]
    fn two_secrets_sign_while_one_takes_the_others_place() {
        let (old, _) = signed();
        let new = Secret::generate().expect("randomness");
        let headers = Secret::sign_with(&[&new, &old], &Message { id: "a", timestamp: NOW, body: b"" });
        for secret in [&old, &new] {
            assert_eq!(secret.verify(&headers, b"", NOW), Ok(()));
        }
    }

    #[test]
    fn secrets_are_read_as_they_are_shown_and_never_logged() {
        let secret = Secret::generate().expect("randomness");
        assert_eq!(Secret::parse(&secret.reveal()).expect("a secret").bytes, secret.bytes);
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        #[rustfmt::skip]
        let cases = [
            // text,                     why
            ("",                         "nothing"),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "without its prefix"),
            ("whsec_AAAA",               "too short to be one"),
            ("whsec_!!!!",               "not base64"),
        ];
        for (text, why) in cases {
            assert_eq!(Secret::parse(text).map(drop), Err(BadSecret), "{text}: {why}");
        }
        let long = format!("whsec_{}", STANDARD.encode([7; 65]));
        assert_eq!(Secret::parse(&long).map(drop), Err(BadSecret), "too long");
    }
}
