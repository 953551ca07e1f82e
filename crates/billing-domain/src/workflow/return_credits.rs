//! Takes credit back for which no money came.

use bigdecimal::Signed;
use time::OffsetDateTime;

use super::note_payment::{append, wait_for_billing};
use super::tell::tell;
use crate::error::Error;
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
        let mut credit = tx.credits().get(customer, id)?;
        // What has expired of it or was voided since came back, too.
        let is_out = &credit.balance().drawn - &credit.balance().restored;
        let amount = (owed - is_out).min(invoice.amount_due());
        if !amount.is_positive() {
            continue;
        }
        if is_behind {
            wait_for_billing(tx, customer, now)?;
        }
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
