//! Notes whether an invoice was paid.

use time::OffsetDateTime;

use super::note_payment::{NotePayment, add_payment, catch_up_if_possible};
use crate::error::{Error, Refusal};
use crate::id::{CustomerKey, InvoiceId};
use crate::invoice::{Invoice, PaymentStatus};
use crate::store::Transaction;

/// Which invoice, and whether it is paid.
#[derive(Clone, Copy, Debug)]
pub struct UpdateInvoice {
    /// Whose.
    pub customer: CustomerKey,
    /// Which.
    pub invoice: InvoiceId,
    /// Whether it is paid; nothing changes for one that is not and stays so.
    pub is_paid: bool,
}

/// Notes that an unpaid invoice was paid: the whole rest of it, as one payment that came now.
///
/// # Errors
/// [`Error::NotFound`]; [`Refusal::InvoiceFinal`] when it is paid or voided; [`Refusal::TestClockAdvancing`].
pub fn update_invoice(
    tx: &mut dyn Transaction,
    command: &UpdateInvoice,
    now: OffsetDateTime,
) -> Result<Invoice, Error> {
    let is_behind = catch_up_if_possible(tx, command.customer, now)?;
    let invoice = tx.invoices().get(command.invoice)?;
    if invoice.payment_status != PaymentStatus::Unpaid {
        return Err(Refusal::InvoiceFinal.into());
    }
    if !command.is_paid {
        return Ok(invoice);
    }
    let payment = NotePayment {
        customer: command.customer,
        invoice: command.invoice,
        amount: invoice.amount_due(),
        at: None,
        method: None,
        reference: None,
    };
    let (paid, _) = add_payment(tx, invoice, &payment, is_behind, now)?;
    Ok(paid)
}
