//! The link that makes the first user: on the terminal, for fifteen minutes, once.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use billing_domain::id::OrganizationId;
use subtle::ConstantTimeEq;

use crate::caller::KeyText;

/// How long it opens.
const OPEN_FOR: Duration = Duration::from_secs(15 * 60);

/// A link that whoever sees the terminal can open. Only this process knows it: it is kept nowhere, and logged nowhere.
pub struct FirstLink {
    /// Whose owner it makes.
    pub organization: OrganizationId,
    until: Instant,
    /// Taken by whoever makes the user.
    text: Mutex<Option<String>>,
}

impl FirstLink {
    /// A link that opens from now on, and its path.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new(organization: OrganizationId, now: Instant) -> Result<(Self, String), getrandom::Error> {
        let text = KeyText::generate()?.reveal().to_owned();
        let path = format!("/console/welcome/{text}/");
        Ok((Self { organization, until: now + OPEN_FOR, text: Mutex::new(Some(text)) }, path))
    }

    /// Whether `text` opens it now.
    pub fn is_open(&self, text: &str, now: Instant) -> bool {
        let kept = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        now < self.until && kept.as_ref().is_some_and(|kept| kept.as_bytes().ct_eq(text.as_bytes()).into())
    }

    /// Takes it: true for one of all who come with it.
    pub fn take(&self, text: &str, now: Instant) -> bool {
        self.is_open(text, now) && self.text.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn it_opens_once_and_for_a_while() {
        let now = Instant::now();
        let (link, path) = FirstLink::new(Uuid::nil().into(), now).expect("randomness");
        let text = path.trim_matches('/').rsplit('/').next().expect("a text");
        assert!(link.is_open(text, now) && !link.is_open("abcdefgh.x", now) && !link.is_open("", now));
        assert!(!link.is_open(text, now + OPEN_FOR), "its time is over");
        assert!(!link.take("abcdefgh.x", now), "another text takes nothing");
        assert!(link.take(text, now));
        assert!(!link.take(text, now) && !link.is_open(text, now), "once");
    }
}
