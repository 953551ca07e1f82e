//! Finds when a customer's figures are to be held against usage alerts again though nothing else happens.
//!
//! An event that is dated ahead counts from its own instant on, at which nobody stores anything. So whoever looks at a customer who
//! may have such events says when the next one is due. How often that is, is up to whoever looks: what has come due between two looks
//! is seen by the second.

use time::{Duration, OffsetDateTime};

use crate::error::Error;
use crate::period::MICROSECOND;
use crate::store::{MarkedCustomer, Transaction};
use crate::usage_alert::{AlertKind, AlertOutlook, LaterLook};

/// Intervals begin at whole quarters of an hour; one that a change of what runs has begun in between marks the customer by itself.
const QUARTER: Duration = Duration::minutes(15);

/// When the figures are to be looked at again behind a look at `now`, so that no alert is missed; `None`: no event is to come. None is
/// asked for where nothing says that some lie ahead. That look was also about the interval that ran at the mark's `since`: what began to
/// count long after it, when no other look was (a clock went on by months, no process ran), may lie in another one, and is due at once.
/// What happens at `now` itself is not spent yet: a draft goes up to its instant. What counts before the headroom ends that the look has
/// found for all events needs no other look.
///
/// # Errors
/// Those of the store.
pub fn find_later_look(
    tx: &mut dyn Transaction,
    marked: &MarkedCustomer,
    outlook: &AlertOutlook,
    now: OffsetDateTime,
) -> Result<Option<LaterLook>, Error> {
    if !marked.may_lie_ahead && !outlook.is_reached_ahead {
        return Ok(None);
    }
    let customer = match tx.customers().get(marked.customer) {
        // Whoever makes them has them looked at.
        Err(Error::NotFound(_)) => return Ok(None),
        found => found?,
    };
    let alerts = tx.usage_alerts().list()?;
    if !alerts.iter().any(|alert| alert.kind != AlertKind::CreditBalance && alert.may_concern(&customer.id)) {
        return Ok(None);
    }
    let seen_to = match (marked.since.map(end_of_quarter), outlook.quiet_until()) {
        (Some(passed), _) if passed < now => passed,
        (_, Some(quiet_until)) => quiet_until,
        _ => now,
    };
    let next = tx.events().next_after(customer.key, seen_to - MICROSECOND)?;
    let due = next.map(|next| if next == now { now + MICROSECOND } else { next });
    Ok(due.map(|at| LaterLook::new(at, customer.test_clock.is_some())))
}

/// Where the quarter of an hour ends that an instant is in.
fn end_of_quarter(instant: OffsetDateTime) -> OffsetDateTime {
    let hour = instant.truncate_to_hour();
    let quarters = (instant - hour).whole_minutes() / QUARTER.whole_minutes();
    hour.saturating_add(QUARTER * i32::try_from(quarters + 1).unwrap_or(1))
}
