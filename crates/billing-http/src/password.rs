//! Passwords: hashed slowly on purpose, two at a time, so that whoever guesses waits and the service does not.

use std::sync::OnceLock;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};

/// Fewest characters of a new password.
pub const CHARACTERS_MIN: usize = 12;
/// Most characters of any password: what is longer is not even hashed.
pub const CHARACTERS_MAX: usize = 200;

/// Whether a password may be chosen. Length is what helps; rules about signs do not.
pub fn is_acceptable(password: &str) -> bool {
    (CHARACTERS_MIN..=CHARACTERS_MAX).contains(&password.chars().count())
}

/// The Argon2id hash of a password with a salt of its own, as text that names its parameters.
///
/// # Errors
/// When the system has no randomness.
pub fn hash(password: &str) -> Result<String, argon2::password_hash::Error> {
    let hash: PasswordHash = Argon2::default().hash_password(password.as_bytes())?;
    Ok(hash.to_string())
}

/// Whether a password is the one that was hashed. Without a hash the same work is done for nothing, so that the time does not tell
/// who is a user.
pub fn is_right(password: &str, hashed: Option<&str>) -> bool {
    static NOBODY: OnceLock<String> = OnceLock::new();
    let text = hashed.unwrap_or_else(|| NOBODY.get_or_init(|| hash("nobody has this password").unwrap_or_default()));
    let Ok(parsed) = PasswordHash::new(text) else { return false };
    let is_match = Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok();
    is_match && hashed.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_again() {
        let hashed = hash("correct horse battery").expect("hashed");
        assert!(hashed.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hashed}");
        assert_ne!(hashed, hash("correct horse battery").expect("hashed"), "each has a salt of its own");
        #[rustfmt::skip]
        let cases = [
            // password,                hash,                   right, why
            ("correct horse battery",   Some(hashed.as_str()),  true,  "the same"),
            ("Correct horse battery",   Some(hashed.as_str()),  false, "case counts"),
            ("",                        Some(hashed.as_str()),  false, "nothing"),
            ("nobody has this password", None,                  false, "nobody has any"),
            ("x",                       Some("x"),              false, "what is no hash opens nothing"),
        ];
        for (password, hashed, right, why) in cases {
            assert_eq!(is_right(password, hashed), right, "{why}");
        }
    }
}
