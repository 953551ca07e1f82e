//! Takes away what a credit has left.

use time::OffsetDateTime;

use super::account::Account;
use super::bill_customer::{finish_due, process_due};
use super::second_person::hold_above_limit;
use crate::credit::CreditLedger;
use crate::error::Error;
use crate::id::{CreditId, CustomerKey};
use crate::message::MessageType;
use crate::store::Transaction;

/// Voids a credit; nothing happens to one that is expired, used up or voided.
///
/// # Errors
/// [`Error::NotFound`]; [`Refusal::TestClockAdvancing`](crate::Refusal::TestClockAdvancing),
/// [`CatchingUp`](crate::Refusal::CatchingUp).
pub fn void_credit(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    credit: CreditId,
    now: OffsetDateTime,
) -> Result<CreditLedger, Error> {
    let mut account = Account::load(tx, customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    finish_due(tx, &mut account, now)?;
    let mut ledger = tx.credits().get(customer, credit)?;
    let (entry, left) = (tx.new_uuid().into(), ledger.remaining());
    if ledger.void(entry, now).is_some() {
        hold_above_limit(tx, &left, &ledger.credit().currency_code)?;
        tx.credits().update(customer, &ledger)?;
        account.credits.remove(&credit);
        account.untold.credit(MessageType::CreditVoided, now, ledger.clone());
        process_due(tx, &mut account, now)?;
    }
    Ok(ledger)
}
