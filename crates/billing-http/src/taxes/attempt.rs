//! One attempt to do something that needs tax rates.

use std::time::{Duration, Instant};

use billing_domain::TaxNeed;
use billing_domain::tax::{QUOTES_MAX, TaxOutcome};
use billing_domain::workflow::TaxAnswer;

use super::PATIENCE;

/// One attempt to do something: it asks for rates until it needs no more, but not again once there was no answer.
#[derive(Debug, Default)]
pub struct Attempt {
    asked: usize,
    has_failed: bool,
    ends_at: Option<Instant>,
}

impl Attempt {
    /// One that asks for nothing more after `deadline`.
    pub fn within(deadline: Duration) -> Self {
        Self { ends_at: Some(Instant::now() + deadline), ..Self::default() }
    }

    /// Whether to ask: not again after there was no answer, and not for ever. That somebody else had none before is no reason.
    pub fn goes_on(&mut self, need: &TaxNeed) -> bool {
        self.asked += 1;
        let is_late = self.asked > 1 && self.ends_at.is_some_and(|ends_at| ends_at <= Instant::now());
        !is_late && self.asked <= QUOTES_MAX && !(self.has_failed && need.failure.is_some())
    }

    /// How long it can wait to ask, and still be answered in time.
    pub fn can_wait(&self) -> Duration {
        let left = self.ends_at.map(|ends_at| ends_at.saturating_duration_since(Instant::now()));
        left.unwrap_or_default().saturating_sub(PATIENCE)
    }

    /// Whether there was no answer to something it has asked.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Notes that there is nobody to ask any more.
    pub fn give_up(&mut self) {
        self.has_failed = true;
    }

    /// Remembers what came of a question.
    pub fn note(&mut self, answer: &TaxAnswer) {
        self.has_failed |= matches!(answer.outcome, TaxOutcome::Failed(_));
    }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::*;

    fn need(failure: Option<&str>) -> TaxNeed {
        let failure = failure.map(str::to_owned);
        TaxNeed { customer: Uuid::nil().into(), at: OffsetDateTime::UNIX_EPOCH, failure }
    }

    #[test]
    fn an_attempt_asks_until_there_is_no_answer() {
        let failed = TaxAnswer { outcome: TaxOutcome::Failed("down".to_owned()), valid_until: None };
        let mut attempt = Attempt::default();
        assert!(attempt.goes_on(&need(Some("down"))), "somebody else had no answer, before");
        attempt.note(&failed);
        assert!(!attempt.goes_on(&need(Some("down"))), "nor has this one");
        assert!(attempt.goes_on(&need(None)), "another invoice is another question");
        let asked = (0..100).filter(|_| attempt.goes_on(&need(None))).count();
        assert!(asked < QUOTES_MAX, "but there is an end to it");

        let mut late = Attempt::within(Duration::ZERO);
        assert!(late.goes_on(&need(None)), "whatever the deadline is, something is tried");
        assert!(!late.goes_on(&need(None)), "and nothing behind it");
        assert_eq!(late.can_wait(), Duration::ZERO);
    }
}
