//! Many calls to one destination within moments: its name is looked up once, and connections are used again.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ureq::Agent;

use crate::client::{Answer, Client, Failure, TIMEOUT, post};
use crate::destination::Destination;

/// Connections that are kept for the next call.
pub(crate) const SESSION_CONNECTIONS_MAX: usize = 8;

/// Calls to one destination for a short while. Every connection is made to the addresses that its name had, and that were checked, when
/// it was looked up: whatever the name resolves to later is asked by the next session.
pub struct Session {
    agent: Agent,
    client: Client,
    has_answered: AtomicBool,
}

impl Session {
    pub(crate) fn new(agent: Agent, client: Client) -> Self {
        Self { agent, client, has_answered: AtomicBool::new(false) }
    }

    /// As [`Client::post`]. The other side may close a connection that is kept, in the moment in which it is used again: then the call
    /// is made anew, on one of its own.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn post(
        &self,
        to: &Destination,
        headers: &[(&str, &str)],
        body: &[u8],
        timeout: Duration,
    ) -> Result<Answer, Failure> {
        let (timeout, began) = (timeout.min(TIMEOUT), Instant::now());
        let answered = post(&self.agent, to, (headers, body), timeout);
        match answered {
            Err(Failure::Broken(_)) if self.has_answered.load(Ordering::Relaxed) => {
                self.client.post(to, headers, body, timeout.saturating_sub(began.elapsed()))
            }
            Ok(answer) => {
                self.has_answered.store(true, Ordering::Relaxed);
                Ok(answer)
            }
            failed => failed,
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("client", &self.client).finish_non_exhaustive()
    }
}
