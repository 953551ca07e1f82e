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

/// Whether a test clock stands or moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestClockStatus {
    /// It stands at its time.
    Ready,
    /// Its customers are being billed up to its time.
    Advancing,
    /// The billing of a customer failed; advancing to the same or a later time tries again.
    Failed,
}

impl TestClockStatus {
    /// Every status.
    pub const ALL: &'static [Self] = &[Self::Ready, Self::Advancing, Self::Failed];

    /// The text on the wire and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Advancing => "advancing",
            Self::Failed => "failed",
        }
    }
}
