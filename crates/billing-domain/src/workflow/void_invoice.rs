//! Withdraws an invoice.

use time::OffsetDateTime;

use super::account::catch_up;
use crate::error::{Error, Refusal};
use crate::id::{CreditId, CustomerKey, InvoiceId};
use crate::invoice::{Invoice, PaymentStatus, Trace};
use crate::store::Transaction;

/// Voids an unpaid invoice: what credits paid of it goes back to them, and the credit that it was to pay for is taken
/// away. What it charged is not charged again.
///
/// # Errors
/// [`Error::NotFound`]; [`Refusal::InvoiceNotUnpaid`]; [`Refusal::CreditDrawn`]; [`Refusal::TestClockAdvancing`].
pub fn void_invoice(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    id: InvoiceId,
    now: OffsetDateTime,
) -> Result<Invoice, Error> {
    catch_up(tx, customer, now)?;
    let mut invoice = tx.invoices().get(id)?;
    if invoice.payment_status != PaymentStatus::Unpaid {
        return Err(Refusal::InvoiceNotUnpaid.into());
    }
    for line in &invoice.lines {
        match &line.trace {
            Trace::CreditPurchase { credit_id } | Trace::CreditGranted { credit_id } => {
                take_away(tx, customer, *credit_id, now)?;
            }
            Trace::CreditApplied { drawdowns } => {
                for drawdown in drawdowns {
                    give_back(tx, customer, drawdown.credit, id, now)?;
                }
            }
            _ => {}
        }
    }
    invoice.payment_status = PaymentStatus::Voided;
    tx.invoices().update(&invoice)?;
    catch_up(tx, customer, now)?;
    Ok(invoice)
}

fn take_away(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    credit: CreditId,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let mut ledger = tx.credits().get(customer, credit)?;
    if ledger.balance().drawn > ledger.balance().restored {
        return Err(Refusal::CreditDrawn.into());
    }
    if ledger.void(tx.new_uuid().into(), now).is_some() {
        tx.credits().update(customer, &ledger)?;
    }
    Ok(())
}

/// What comes back to a credit that has expired meanwhile expires again.
fn give_back(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    credit: CreditId,
    invoice: InvoiceId,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let mut ledger = tx.credits().get(customer, credit)?;
    ledger.restore(invoice, tx.new_uuid().into(), now);
    ledger.expire(tx.new_uuid().into(), now);
    tx.credits().update(customer, &ledger)
}
