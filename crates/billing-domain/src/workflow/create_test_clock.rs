//! Creates a test clock.

use time::OffsetDateTime;

use crate::error::{Error, FieldErrors};
use crate::period::instant;
use crate::store::Transaction;
use crate::test_clock::{TestClock, TestClockStatus};
use crate::text;

/// A new clock.
#[derive(Clone, Debug)]
pub struct CreateTestClock {
    /// What it is for.
    pub name: String,
    /// Where it stands.
    pub frozen_time: OffsetDateTime,
}

/// Creates a clock that stands at the time given.
///
/// # Errors
/// A bad name.
pub fn create_test_clock(
    tx: &mut dyn Transaction,
    command: &CreateTestClock,
    now: OffsetDateTime,
) -> Result<TestClock, Error> {
    command.check()?;
    let clock = TestClock {
        id: tx.new_uuid().into(),
        name: command.name.clone(),
        frozen_time: instant::whole(command.frozen_time),
        status: TestClockStatus::Ready,
        created_at: now,
    };
    tx.test_clocks().insert(&clock)?;
    Ok(clock)
}

impl CreateTestClock {
    fn check(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        errors.keep("name", text::check(&self.name, text::NAME_CHARACTERS_MAX));
        errors.finish(())
    }
}
