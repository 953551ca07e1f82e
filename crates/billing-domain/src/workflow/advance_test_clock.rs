//! Advances a test clock: told once, then carried out customer by customer.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::bill_customer::{Progress, WORKER_WORK_MAX, bill_customer_partly};
use crate::catalog::Catalog;
use crate::error::{Error, FieldCode, FieldError, Refusal};
use crate::id::{CustomerKey, TestClockId};
use crate::period::{PlanDuration, instant};
use crate::store::Transaction;
use crate::test_clock::{TestClock, TestClockStatus};

/// Most billing intervals that a clock may advance by at once, of the shortest that a subscription of its customers has, and
/// that a new subscription may start in the past: more than three years of days, a century of months.
pub const INTERVALS_MAX: u32 = 1_200;

/// A clock and the time it shall advance to.
#[derive(Clone, Debug)]
pub struct AdvanceTestClock {
    /// The clock.
    pub clock: TestClockId,
    /// The time.
    pub frozen_time: OffsetDateTime,
}

/// Sets a clock on its way. [`advance_customer`] of each of its customers, until it has arrived, and [`finish_test_clock`] carry it out;
/// an interrupted advance is carried on by doing the same again.
///
/// # Errors
/// [`Refusal::TestClockAdvancing`] when it is on its way already; a time that is not later than the clock's
/// (after a failure, the same time tries again), or more than `INTERVALS_MAX` away.
pub fn advance_test_clock(
    tx: &mut dyn Transaction,
    command: &AdvanceTestClock,
    _now: OffsetDateTime,
) -> Result<TestClock, Error> {
    let mut clock = tx.test_clocks().get(command.clock)?;
    let to = instant::whole(command.frozen_time);
    let is_later = match clock.status {
        TestClockStatus::Advancing => return Err(Refusal::TestClockAdvancing.into()),
        TestClockStatus::Ready => to > clock.frozen_time,
        TestClockStatus::Failed => to >= clock.frozen_time,
    };
    if !is_later {
        let detail = "A clock only advances: give a time later than its own.";
        return Err(FieldError::new("frozen_time", FieldCode::Invalid, detail).into());
    }
    if let Some(farthest) = farthest(tx, &clock)?.filter(|farthest| *farthest < to) {
        let detail = format!(
            "A clock advances by at most {INTERVALS_MAX} of its customers' shortest billing intervals at once, here to \
             {}; from there it can go on.",
            farthest.format(&Rfc3339).unwrap_or_default()
        );
        return Err(FieldError::new("frozen_time", FieldCode::MaxValue, detail).into());
    }
    clock.frozen_time = to;
    clock.status = TestClockStatus::Advancing;
    tx.test_clocks().update(&clock)?;
    Ok(clock)
}

/// How far a clock may go at once; `None`: anywhere.
fn farthest(tx: &mut dyn Transaction, clock: &TestClock) -> Result<Option<OffsetDateTime>, Error> {
    let mut catalog = Catalog::default();
    let mut farthest = None;
    for held in tx.test_clocks().list_versions(clock.id, clock.frozen_time)? {
        let offer = catalog.offer(tx, held.version)?;
        let duration = offer.plan.duration.filter(|_| held.renews).map(PlanDuration::interval);
        let intervals = offer.version.intervals().chain(duration);
        let limit = intervals.map(|interval| interval.boundary(clock.frozen_time, INTERVALS_MAX)).min();
        // What ends before it has nothing to be billed behind it.
        let limit = limit.filter(|limit| held.renews || held.ends_at > *limit);
        farthest = farthest.into_iter().chain(limit).min();
    }
    Ok(farthest)
}

/// Bills one customer of an advancing clock towards the clock's time, as far as one transaction shall go; one that is there
/// already is left alone. The customer's now is the instant that it has reached.
///
/// # Errors
/// Those of [`bill_customer_partly`].
pub fn advance_customer(
    tx: &mut dyn Transaction,
    clock: TestClockId,
    customer: CustomerKey,
) -> Result<Progress, Error> {
    let clock = tx.test_clocks().get(clock)?;
    bill_customer_partly(tx, customer, clock.frozen_time, WORKER_WORK_MAX)
}

/// Says of a clock that stands that what is past of one of its customers could not be billed: as after an advance that
/// failed, advancing it to the same or a later time tries again.
///
/// # Errors
/// [`Error::NotFound`].
pub fn fail_test_clock(tx: &mut dyn Transaction, clock: TestClockId) -> Result<(), Error> {
    let mut clock = tx.test_clocks().get(clock)?;
    if clock.status == TestClockStatus::Ready {
        clock.status = TestClockStatus::Failed;
        tx.test_clocks().update(&clock)?;
    }
    Ok(())
}

/// Says that the advance to `frozen_time` has arrived, or that it failed. Of two processes that carried out the same
/// one, the later has nothing to say: the clock may be on its way elsewhere already.
///
/// # Errors
/// [`Error::NotFound`].
pub fn finish_test_clock(
    tx: &mut dyn Transaction,
    clock: TestClockId,
    frozen_time: OffsetDateTime,
    status: TestClockStatus,
) -> Result<(), Error> {
    let mut clock = tx.test_clocks().get(clock)?;
    if clock.status == TestClockStatus::Advancing && clock.frozen_time == frozen_time {
        clock.status = status;
        tx.test_clocks().update(&clock)?;
    }
    Ok(())
}
