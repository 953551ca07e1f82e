//! Test clocks: customers that live at a time of the caller's choosing.

use time::OffsetDateTime;

use crate::id::TestClockId;

/// A clock that stands still until it is told to advance.
///
/// While it advances, each of its customers is billed up to the new time in order; a customer's own "now"
/// is the instant reached so far, and nothing else may change that customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestClock {
    /// Its id.
    pub id: TestClockId,
    /// What it is for.
    pub name: String,
    /// Where it stands; where it will stand, while it advances.
    pub frozen_time: OffsetDateTime,
    /// Whether it stands or moves.
    pub status: TestClockStatus,
    /// When it was made, in real time.
    pub created_at: OffsetDateTime,
}

choices! {
    /// Whether a test clock stands or moves.
    pub TestClockStatus {
        /// It stands at its time.
        Ready = "ready",
        /// Its customers are being billed up to its time.
        Advancing = "advancing",
        /// The billing of a customer failed; advancing to the same or a later time tries again.
        Failed = "failed",
    }
}
