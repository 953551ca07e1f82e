//! Takes credit back for which no money came.

use bigdecimal::{BigDecimal, Signed};
use time::OffsetDateTime;

use super::note_payment::{append, wait_for_billing};
use super::tell::tell;
use crate::credit::CreditLedger;
use crate::error::Error;
use crate::id::{CreditId, CustomerKey};
use crate::invoice::Invoice;
use crate::message::{MessageType, Subject};
use crate::payment::{Payment, PaymentKind, PaymentLedger};
use crate::store::Transaction;

/// What the credits of an invoice's reversed payments have paid for others is due with it. What of that pays for nothing any more
/// settles what is due, and is no credit: whether a payment bounces before or behind a void comes to the same. Once nothing is due,
/// other payments have brought that money, and the rest is a credit like any other.
///
/// # Errors
/// Those of [`wait_for_billing`], while billing may look at such a credit.
///
/// # Source
/// `docs/pricing.md`, "Payments".
pub(super) fn return_credits(
    tx: &mut dyn Transaction,
    invoice: &mut Invoice,
    is_behind: bool,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let customer = invoice.customer;
    let ledger = PaymentLedger::from(tx.invoices().list_payments(customer, Some(invoice.id))?);
    for (id, owed) in ledger.owed_credits() {
        let mut found = returned(tx, invoice, (id, &owed))?;
        if is_behind && found.is_some() {
            // It may have drawn on the credit, or seen it expire.
            wait_for_billing(tx, customer, now)?;
            found = returned(tx, invoice, (id, &owed))?;
        }
        let Some((mut credit, amount)) = found else { continue };
        if credit.void_up_to(&amount, tx.new_uuid().into(), now).is_some() {
            tx.credits().update(customer, &credit)?;
            let owner = tx.customers().get_even_deleted(customer)?;
            tell(tx, &owner, (MessageType::CreditVoided, now), &Subject::Credit(customer, credit, now))?;
        }
        let entry = Payment {
            id: tx.new_uuid().into(),
            invoice: invoice.id,
            kind: PaymentKind::Returned,
            reverses: None,
            credit_note: None,
            credited: amount.clone(),
            amount,
            credit: Some(id),
            at: now,
            method: None,
            reference: None,
            reason: None,
            noted_at: now,
        };
        append(tx, invoice, &entry)?;
    }
    Ok(())
}

/// A credit, and what came back of what is owed of it, as far as that is due; none when nothing did.
fn returned(
    tx: &mut dyn Transaction,
    invoice: &Invoice,
    (id, owed): (CreditId, &BigDecimal),
) -> Result<Option<(CreditLedger, BigDecimal)>, Error> {
    let credit = tx.credits().get(invoice.customer, id)?;
    // What has expired of it or was voided since came back, too.
    let amount = (owed - out_of(&credit)).min(invoice.amount_due());
    Ok(amount.is_positive().then_some((credit, amount)))
}

/// Takes away what is left of a credit; what of it has paid for invoices that stand.
///
/// # Errors
/// [`Error::NotFound`] for the credit.
pub(super) fn take_away(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    id: CreditId,
    now: OffsetDateTime,
) -> Result<BigDecimal, Error> {
    let mut credit = tx.credits().get(customer, id)?;
    // Whatever its status: that of a deleted customer has expired without anybody writing it off.
    let left = credit.remaining();
    if credit.void_up_to(&left, tx.new_uuid().into(), now).is_some() {
        tx.credits().update(customer, &credit)?;
        let owner = tx.customers().get_even_deleted(customer)?;
        tell(tx, &owner, (MessageType::CreditVoided, now), &Subject::Credit(customer, credit.clone(), now))?;
    }
    Ok(out_of(&credit))
}

/// What of a credit has paid for invoices that stand.
fn out_of(credit: &CreditLedger) -> BigDecimal {
    let balance = credit.balance();
    &balance.drawn - &balance.restored
}
