//! Takes a one-off line away that was not billed yet.

use time::OffsetDateTime;

use super::bill_customer::catch_up;
use super::second_person::hold_above_limit;
use super::tell::tell;
use crate::error::{Error, Noun, Refusal};
use crate::id::{CustomerKey, OneOffLineId};
use crate::message::{MessageType, Subject};
use crate::store::Transaction;

/// Takes a one-off line away that waits for the next invoice: it is never charged. What is due by now is billed first, and the line may be.
///
/// # Errors
/// [`Error::NotFound`] for the customer, and for a line that there is not or that was taken away before; [`Refusal::OneOffLineBilled`];
/// [`Refusal::TestClockAdvancing`], [`Refusal::CatchingUp`].
///
/// # Source
/// `docs/pricing.md`, "One-off lines".
pub fn remove_one_off_line(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    id: OneOffLineId,
    now: OffsetDateTime,
) -> Result<(), Error> {
    tx.customers().get(customer)?;
    catch_up(tx, customer, now)?;
    let mut owner = tx.customers().get(customer)?;
    let Some(place) = owner.one_off_lines.iter().position(|line| line.id == id) else {
        return match tx.invoices().find_one_off_line(customer, id)? {
            Some(billed_on) => Err(Refusal::OneOffLineBilled(billed_on.invoice()).into()),
            None => Err(Error::NotFound(Noun::OneOffLine)),
        };
    };
    let line = owner.one_off_lines.remove(place);
    hold_above_limit(tx, &line.amount, &line.currency_code)?;
    tx.customers().update(&owner)?;
    let subject = Subject::OneOffLine(Box::new(line), None);
    tell(tx, &owner, (MessageType::OneOffLineRemoved, now), &subject)
}
