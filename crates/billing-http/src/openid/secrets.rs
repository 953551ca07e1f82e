//! What is sent to the provider with somebody, and compared when they come back.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use crate::caller::{KeyText, Pepper};

/// Everything follows from the cookie of the browser by a key that nobody else has: nothing of it is kept, another browser cannot make
/// it, and who reads the database learns nothing.
pub struct Secrets {
    /// Goes to the provider and comes back with the browser.
    pub state: String,
    /// Goes to the provider and comes back in the token.
    pub nonce: String,
    /// Its digest goes to the provider with the browser, and it goes there with the code.
    pub verifier: String,
}

impl Secrets {
    /// Those of a cookie.
    pub fn of(pepper: &Pepper, cookie: &KeyText) -> Self {
        let derived = |purpose: &str| {
            let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(pepper.bytes()) else {
                unreachable!("HMAC takes keys of any length");
            };
            mac.update(b"the openid ");
            mac.update(purpose.as_bytes());
            mac.update(b" of the cookie ");
            mac.update(cookie.reveal().as_bytes());
            mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
        };
        Self { state: derived("state"), nonce: derived("nonce"), verifier: derived("verifier") }
    }

    /// Whether a browser has come back that was sent with these.
    pub fn has_state(&self, sent: &str) -> bool {
        self.state.as_bytes().ct_eq(sent.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cookie_has_its_own() {
        let pepper = Pepper::from_text("pepper");
        let [one, two] = [(); 2].map(|()| KeyText::generate().expect("randomness"));
        let (first, again) = (Secrets::of(&pepper, &one), Secrets::of(&pepper, &one));
        assert!(first.has_state(&again.state) && first.nonce == again.nonce && first.verifier == again.verifier);
        let elsewhere = Secrets::of(&Pepper::from_text("another"), &one);
        let all = [&first, &Secrets::of(&pepper, &two), &elsewhere]
            .map(|one| [&one.state, &one.nonce, &one.verifier].map(String::clone));
        let mut different = all.concat();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), 9, "none of another cookie, purpose or pepper");
        assert!(!first.has_state("") && !first.has_state(&first.nonce));
        assert!(different.iter().all(|text| (43..=128).contains(&text.len())), "as long as a verifier may be");
    }
}
