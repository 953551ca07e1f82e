//! The billing run's rules: what becomes of a customer whose billing failed, and how much billing is too much.

use time::{Date, Duration};

use crate::error::{Error, StoreError};
use crate::id::SubscriptionId;

/// Failures in a row after which a customer is parked.
pub const FAILURES_MAX: u32 = 8;
/// The wait after the first failure; it doubles with each one.
pub const FIRST_WAIT: Duration = Duration::minutes(1);
/// The longest wait.
pub const WAIT_MAX: Duration = Duration::hours(1);
/// Most scheduled invoices of one subscription issued on one UTC day: each billing interval is at least a day, so that
/// more than a few can only be a mistake.
pub const INVOICES_PER_DAY_MAX: u32 = 20;

/// How long ago a subscription may have ended to be read with those that run: a renewal looks for what overlaps it, and
/// happens within minutes of its instant, but after an outage.
pub const LOOK_BACK: Duration = Duration::days(7);

/// What becomes of a customer whose billing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// It was the store's fault and says nothing of the customer: it comes up again when its lease is over.
    NotCounted,
    /// It is tried again after so long.
    TryAgain(Duration),
    /// It is left alone until somebody has looked at it.
    Park,
}

/// What becomes of a customer whose billing failed with `error`, after `failures` failures in a row before.
pub fn after_failure(error: &Error, failures: u32) -> AfterFailure {
    match error {
        Error::Store(
            StoreError::Unavailable(_)
            | StoreError::PoolExhausted
            | StoreError::Overloaded
            | StoreError::StorageFull(_)
            | StoreError::ReadOnly,
        ) => AfterFailure::NotCounted,
        Error::Store(StoreError::SafetyBound(_)) => AfterFailure::Park,
        // It is nobody's mistake that could be looked at here: the provider comes back.
        Error::TaxRate(_) => AfterFailure::TryAgain(wait_after(failures)),
        _ if failures + 1 >= FAILURES_MAX => AfterFailure::Park,
        _ => AfterFailure::TryAgain(wait_after(failures)),
    }
}

/// The wait after one more failure than these in a row.
fn wait_after(failures: u32) -> Duration {
    (FIRST_WAIT * 2_i32.pow(failures.min(FAILURES_MAX))).min(WAIT_MAX)
}

/// Refuses one more scheduled invoicing of a subscription that has had `count` of them on `day`, itself included.
///
/// # Errors
/// [`StoreError::SafetyBound`] beyond [`INVOICES_PER_DAY_MAX`]: nothing of the transaction may be kept.
pub fn check_bound(subscription: SubscriptionId, day: Date, count: u32) -> Result<(), StoreError> {
    if count <= INVOICES_PER_DAY_MAX {
        return Ok(());
    }
    let message = format!("more than {INVOICES_PER_DAY_MAX} scheduled invoices of {subscription} on {day}");
    Err(StoreError::SafetyBound(message))
}

#[cfg(test)]
mod tests {
    use time::macros::date;
    use uuid::Uuid;

    use super::*;
    use crate::error::TaxNeed;

    #[test]
    fn failures_are_waited_out_ever_longer_and_then_parked() {
        let bug = || Error::from(StoreError::Internal("a bug".to_owned()));
        let runaway = || Error::from(StoreError::SafetyBound("too many".to_owned()));
        let no_tax = || {
            let failure = Some("no answer in time".to_owned());
            Error::TaxRate(TaxNeed { customer: Uuid::nil().into(), at: time::OffsetDateTime::UNIX_EPOCH, failure })
        };
        let minutes = |count| AfterFailure::TryAgain(Duration::minutes(count));
        #[rustfmt::skip]
        let cases = [
            // error,                                                before, then,                     why
            (bug(),                                                  0,      minutes(1),               "the first time"),
            (bug(),                                                  1,      minutes(2),               "twice as long"),
            (bug(),                                                  5,      minutes(32),              "and so on"),
            (bug(),                                                  6,      minutes(60),              "but never longer than this"),
            (bug(),                                                  7,      AfterFailure::Park,       "the eighth is the last"),
            (bug(),                                                  900,    AfterFailure::Park,       "whatever came before"),
            (StoreError::LockTimeout.into(),                         0,      minutes(1),               "somebody holds on to the customer"),
            (StoreError::PoolExhausted.into(),                       7,      AfterFailure::NotCounted, "not the customer's fault"),
            (StoreError::Unavailable("gone".to_owned()).into(),      7,      AfterFailure::NotCounted, "not the customer's fault"),
            (no_tax(),                                               0,      minutes(1),               "the tax provider may be back by then"),
            (no_tax(),                                               900,    minutes(60),              "and is waited for as long as it takes"),
            (runaway(),                                              0,      AfterFailure::Park,       "no more of that"),
        ];
        for (error, failures, expected, why) in cases {
            assert_eq!(after_failure(&error, failures), expected, "{error}, {failures}: {why}");
        }
    }

    #[test]
    fn too_many_invoices_a_day_are_refused() {
        let (id, day) = (SubscriptionId::from(Uuid::from_u128(1)), date!(2024 - 03 - 02));
        assert_eq!(check_bound(id, day, INVOICES_PER_DAY_MAX), Ok(()));
        let stopped = check_bound(id, day, INVOICES_PER_DAY_MAX + 1);
        assert!(matches!(stopped, Err(StoreError::SafetyBound(_))), "{stopped:?}");
    }
}
