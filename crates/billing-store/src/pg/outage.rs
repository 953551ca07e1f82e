//! A server that cannot be reached: since when, why, and how often the log says so.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use billing_domain::StoreError;
use r2d2::HandleError;

/// What is no outage yet, but a server that starts anew.
const MOMENT: Duration = Duration::from_secs(1);
/// How often the log says that connections cannot be made.
const COMPLAINT_EVERY: Duration = Duration::from_secs(1);

/// Says in the log that connections cannot be made, but not each of the many times that it is tried: an outage must not
/// fill a disk.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    last: Mutex<Option<Instant>>,
}

impl Complaints {
    /// Whether the log has heard nothing of it for a while.
    fn is_due(&self, now: Instant) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= COMPLAINT_EVERY);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

impl HandleError<StoreError> for Complaints {
    fn handle_error(&self, error: StoreError) {
        if self.is_due(Instant::now()) {
            log::error!("no new connection: {error}");
        }
    }
}

/// Since when no connection could be made, and why the last one could not.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    failing: Mutex<Option<(Instant, String)>>,
}

impl Outage {
    fn failing(&self) -> MutexGuard<'_, Option<(Instant, String)>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection could be made now, or could not for a reason.
    pub(crate) fn note(&self, failure: Option<String>, now: Instant) {
        let mut failing = self.failing();
        let since = failing.take().map_or(now, |(since, _)| since);
        *failing = failure.map(|reason| (since, reason));
    }

    /// Whether it is more than a moment.
    pub(crate) fn lasts(&self, now: Instant) -> bool {
        self.failing().as_ref().is_some_and(|(since, _)| now.saturating_duration_since(*since) >= MOMENT)
    }

    /// Why the last connection could not be made, for whoever does not wait for the next attempt.
    pub(crate) fn reason(&self) -> Option<String> {
        self.failing().as_ref().map(|(_, reason)| reason.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_more_than_a_moment_from_its_first_failure_to_the_next_success() {
        let (outage, start) = (Outage::default(), Instant::now());
        #[rustfmt::skip]
        let cases = [
            // milliseconds, failure, lasts, why
            (0,     Some("no"), false, "it has just begun"),
            (999,   Some("no"), false, "a restart may take as long"),
            (1_000, Some("!"),  true,  "counted from its beginning"),
            (1_001, None,       false, "it is over"),
            (1_002, Some("no"), false, "and begins anew"),
        ];
        for (milliseconds, failure, lasts, why) in cases {
            let now = start + Duration::from_millis(milliseconds);
            outage.note(failure.map(str::to_owned), now);
            assert_eq!((outage.lasts(now), outage.reason().as_deref()), (lasts, failure), "{why}");
        }
    }

    #[test]
    fn an_outage_is_in_the_log_once_a_second() {
        let (complaints, start) = (Complaints::default(), Instant::now());
        #[rustfmt::skip]
        let cases = [
            // milliseconds, said, why
            (0,     true,  "the first"),
            (1,     false, "said already"),
            (999,   false, "not a second yet"),
            (1_000, true,  "a second later it is still so"),
            (1_999, false, "counted from when it was said last"),
        ];
        for (milliseconds, said, why) in cases {
            assert_eq!(complaints.is_due(start + Duration::from_millis(milliseconds)), said, "{why}");
        }
    }
}
