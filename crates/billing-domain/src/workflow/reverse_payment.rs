//! Takes a payment back.

use time::OffsetDateTime;

use super::bill_customer::catch_up;
use super::note_payment::{append, catch_up_if_possible, check_at, wait_for_billing};
use super::return_credits::{return_credits, take_away};
use crate::error::{Error, FieldCode, FieldError, FieldErrors, Noun, Refusal};
use crate::id::{CustomerKey, InvoiceId, PaymentId};
use crate::invoice::Invoice;
use crate::payment::{Payment, PaymentKind, PaymentLedger};
use crate::period::instant;
use crate::store::Transaction;
use crate::text;

/// Which payment, and why.
#[derive(Clone, Debug)]
pub struct ReversePayment {
    /// Whose invoice.
    pub customer: CustomerKey,
    /// Which.
    pub invoice: InvoiceId,
    /// The payment.
    pub payment: PaymentId,
    /// When the money went; `None`: now.
    pub at: Option<OffsetDateTime>,
    /// Why.
    pub reason: Option<String>,
}

/// Reverses a payment as a whole: what it settled is due again, what is left of the credit that it overpaid is taken away, and what
/// that credit has paid for other invoices is due with this one.
///
/// # Errors
/// Every bad field; [`Error::NotFound`]; [`Refusal::PaymentReversed`]; [`Refusal::TestClockAdvancing`];
/// [`Refusal::CatchingUp`] and [`Error::TaxRate`] when it was more than was due.
///
/// # Source
/// `docs/pricing.md`, "Payments".
pub fn reverse_payment(
    tx: &mut dyn Transaction,
    command: &ReversePayment,
    now: OffsetDateTime,
) -> Result<(Invoice, Payment), Error> {
    command.faults(now).finish(())?;
    let is_behind = catch_up_if_possible(tx, command.customer, now)?;
    let mut invoice = tx.invoices().get(command.invoice)?;
    let ledger = PaymentLedger::from(tx.invoices().list_payments(command.customer, Some(invoice.id))?);
    let payment = ledger.find(command.payment).ok_or(Error::NotFound(Noun::Payment))?;
    if !ledger.standing().any(|standing| standing.id == payment.id) {
        return Err(Refusal::PaymentReversed.into());
    }
    if command.at.is_some_and(|at| at < payment.at) {
        return Err(FieldError::new("at", FieldCode::MinValue, "The payment came later: it went behind that.").into());
    }
    let mut reversal = Payment {
        id: tx.new_uuid().into(),
        kind: PaymentKind::Reversal,
        reverses: Some(payment.id),
        at: command.at.map_or(now, instant::whole),
        method: None,
        reference: None,
        reason: command.reason.clone(),
        noted_at: now,
        ..payment.clone()
    };
    if let Some(credit) = payment.credit {
        if is_behind {
            wait_for_billing(tx, command.customer, now)?;
        }
        reversal.credited -= take_away(tx, command.customer, credit, now)?;
    }
    append(tx, &mut invoice, &reversal)?;
    return_credits(tx, &mut invoice, is_behind, now)?;
    if !is_behind {
        // What is due again may fall due, and the credit may have been the next thing to expire.
        catch_up(tx, command.customer, now)?;
    }
    Ok((invoice, reversal))
}

impl ReversePayment {
    fn faults(&self, now: OffsetDateTime) -> FieldErrors {
        let mut errors = FieldErrors::default();
        check_at(&mut errors, self.at, now);
        if let Some(reason) = &self.reason {
            errors.keep("reason", text::check_length(reason, text::DESCRIPTION_CHARACTERS_MAX));
        }
        errors
    }
}
