//! A server that cannot be reached: since when, and how often the log says so.

use std::sync::{Mutex, PoisonError};
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

/// Since when no connection could be made.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    since: Mutex<Option<Instant>>,
}

impl Outage {
    /// A connection could be made now, or could not.
    pub(crate) fn note(&self, is_failing: bool, now: Instant) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        *since = is_failing.then(|| since.unwrap_or(now));
    }

    /// Whether it is more than a moment.
    pub(crate) fn lasts(&self, now: Instant) -> bool {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.is_some_and(|since| now.saturating_duration_since(since) >= MOMENT)
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
            // milliseconds, failed, lasts, why
            (0,     true,  false, "it has just begun"),
            (999,   true,  false, "a restart may take as long"),
            (1_000, true,  true,  "counted from its beginning"),
            (1_001, false, false, "it is over"),
            (1_002, true,  false, "and begins anew"),
        ];
        for (milliseconds, has_failed, lasts, why) in cases {
            let now = start + Duration::from_millis(milliseconds);
            outage.note(has_failed, now);
            assert_eq!(outage.lasts(now), lasts, "{why}");
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
