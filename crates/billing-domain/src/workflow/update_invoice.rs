//! Notes whether an invoice was paid.

use time::OffsetDateTime;

use super::bill_customer::catch_up;
use super::tell::tell;
use crate::error::{Error, Refusal};
use crate::id::{CustomerKey, InvoiceId};
use crate::invoice::{Invoice, PaymentStatus};
use crate::message::{MessageType, Subject};
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

/// Notes that an unpaid invoice was paid. That is for good.
///
/// # Errors
/// [`Error::NotFound`]; [`Refusal::InvoiceFinal`] when it is paid or voided; [`Refusal::TestClockAdvancing`].
pub fn update_invoice(
    tx: &mut dyn Transaction,
    command: &UpdateInvoice,
    now: OffsetDateTime,
) -> Result<Invoice, Error> {
    // Billing looks at no payment, so one that came in need not wait for what is past.
    if !tx.customers().get_even_deleted(command.customer)?.catching_up {
        catch_up(tx, command.customer, now)?;
    }
    let mut invoice = tx.invoices().get(command.invoice)?;
    if invoice.payment_status != PaymentStatus::Unpaid {
        return Err(Refusal::InvoiceFinal.into());
    }
    if command.is_paid {
        invoice.payment_status = PaymentStatus::Paid;
        tx.invoices().update(&invoice)?;
        let customer = tx.customers().get_even_deleted(command.customer)?;
        tell(tx, &customer, (MessageType::InvoicePaid, now), &Subject::Invoice(invoice.id))?;
    }
    Ok(invoice)
}
