//! Notes that money came for an invoice.

use bigdecimal::{BigDecimal, Signed, Zero};
use time::OffsetDateTime;

use super::bill_customer::{catch_up, catch_up_but_taxes};
use super::second_person::hold_above_limit;
use super::tell::tell;
use crate::credit::{Credit, CreditLedger};
use crate::currency::Currency;
use crate::error::{Error, FieldCode, FieldErrors, Refusal, StoreError};
use crate::id::{CreditId, CustomerKey, InvoiceId};
use crate::invoice::{Invoice, PaymentStatus};
use crate::message::{MessageType, Subject};
use crate::payment::{Payment, PaymentKind, PaymentLedger};
use crate::period::instant;
use crate::store::Transaction;
use crate::text;

/// What came.
#[derive(Clone, Debug)]
pub struct NotePayment {
    /// Whose invoice.
    pub customer: CustomerKey,
    /// Which.
    pub invoice: InvoiceId,
    /// How much, in major units of the invoice's currency.
    pub amount: BigDecimal,
    /// When it came; `None`: now.
    pub at: Option<OffsetDateTime>,
    /// How.
    pub method: Option<String>,
    /// What tells it from others that came in the same way.
    pub reference: Option<String>,
}

/// Notes a payment of an invoice that was not voided. What it brings beyond what is due becomes a credit, in the same transaction.
///
/// # Errors
/// Every bad field; [`Error::NotFound`]; [`Refusal::InvoiceVoided`]; [`Refusal::DuplicateResource`] when the invoice has a payment
/// of this method and reference; [`Refusal::TestClockAdvancing`]; [`Refusal::CatchingUp`] and [`Error::TaxRate`] when it is more than is due.
///
/// # Source
/// `docs/pricing.md`, "Payments".
pub fn note_payment(
    tx: &mut dyn Transaction,
    command: &NotePayment,
    now: OffsetDateTime,
) -> Result<(Invoice, Payment), Error> {
    let invoice = tx.invoices().get(command.invoice)?;
    command.faults(&invoice.currency, now).finish(())?;
    let is_behind = catch_up_if_possible(tx, command.customer, now)?;
    if invoice.payment_status == PaymentStatus::Voided {
        return Err(Refusal::InvoiceVoided.into());
    }
    if let Some(reference) = &command.reference {
        let ledger = PaymentLedger::from(tx.invoices().list_payments(command.customer, Some(command.invoice))?);
        if ledger.knows(command.method.as_deref(), reference) {
            return Err(Refusal::DuplicateResource(KNOWN_REFERENCE).into());
        }
    }
    add_payment(tx, invoice, command, is_behind, now)
}

/// What a payment is told that has been noted before.
const KNOWN_REFERENCE: &str = "The invoice has a payment of this method with this reference: \
    GET /api/invoices/{invoice_id}/payments/ lists them. It counts once.";

/// Billing looks at no payment, so one that came in need not wait for what is past, nor for a tax rate. Whether there is something past
/// to wait for.
///
/// # Errors
/// As [`catch_up_but_taxes`].
pub(super) fn catch_up_if_possible(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    now: OffsetDateTime,
) -> Result<bool, Error> {
    match tx.customers().get_even_deleted(customer)?.catching_up {
        true => Ok(true),
        false => catch_up_but_taxes(tx, customer, now),
    }
}

/// Billing looks at credits, so what changes one waits for what is past.
///
/// # Errors
/// [`Refusal::CatchingUp`], [`Error::TaxRate`].
pub(super) fn wait_for_billing(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    now: OffsetDateTime,
) -> Result<(), Error> {
    match tx.customers().get_even_deleted(customer)?.catching_up {
        true => Err(Refusal::CatchingUp.into()),
        false => catch_up(tx, customer, now),
    }
}

/// Appends a payment that was checked to the ledger of its invoice.
///
/// # Errors
/// Those of [`wait_for_billing`] when it is more than is due.
pub(super) fn add_payment(
    tx: &mut dyn Transaction,
    mut invoice: Invoice,
    command: &NotePayment,
    is_behind: bool,
    now: OffsetDateTime,
) -> Result<(Invoice, Payment), Error> {
    let credited = (&command.amount - invoice.amount_due()).max(BigDecimal::zero());
    let credit = if credited.is_positive() {
        if is_behind {
            wait_for_billing(tx, invoice.customer, now)?;
        }
        hold_above_limit(tx, &credited, &invoice.currency.code)?;
        let text = format!("Overpayment of invoice {}", invoice.number);
        Some(grant(tx, &invoice, &credited, text, now)?)
    } else {
        None
    };
    let payment = Payment {
        id: tx.new_uuid().into(),
        invoice: invoice.id,
        kind: PaymentKind::Payment,
        reverses: None,
        credit_note: None,
        amount: command.amount.clone(),
        credited,
        credit,
        at: command.at.map_or(now, instant::whole),
        method: command.method.clone(),
        reference: command.reference.clone(),
        reason: None,
        noted_at: now,
    };
    append(tx, &mut invoice, &payment)?;
    Ok((invoice, payment))
}

/// Appends an entry to the ledger of its invoice, and tells when that makes it paid.
///
/// # Errors
/// [`Error::Store`].
pub(super) fn append(tx: &mut dyn Transaction, invoice: &mut Invoice, entry: &Payment) -> Result<(), Error> {
    let was_paid = invoice.payment_status == PaymentStatus::Paid;
    tx.invoices().add_payment(invoice.customer, entry)?;
    invoice.settle(&entry.settles());
    if invoice.payment_status == PaymentStatus::Paid && !was_paid {
        let customer = tx.customers().get_even_deleted(invoice.customer)?;
        tell(tx, &customer, (MessageType::InvoicePaid, entry.noted_at), &Subject::Invoice(invoice.id))?;
    }
    Ok(())
}

/// Turns what of an invoice is paid beyond what is due into a credit that never expires.
///
/// # Errors
/// [`Error::Store`].
pub(super) fn grant(
    tx: &mut dyn Transaction,
    invoice: &Invoice,
    amount: &BigDecimal,
    description: String,
    now: OffsetDateTime,
) -> Result<CreditId, Error> {
    let credit = Credit {
        id: tx.new_uuid().into(),
        currency_code: invoice.currency.code.clone(),
        amount: amount.clone(),
        amount_paid: BigDecimal::zero(),
        amount_paid_currency_code: None,
        description: Some(description),
        effective_at: now,
        expires_at: None,
        created_at: now,
    };
    let id = credit.id;
    let refused = |error| StoreError::Internal(format!("what was overpaid is no credit: {error}"));
    let ledger = CreditLedger::grant(credit, tx.new_uuid().into()).map_err(refused)?;
    tx.credits().insert(invoice.customer, &ledger)?;
    let customer = tx.customers().get_even_deleted(invoice.customer)?;
    tell(tx, &customer, (MessageType::CreditCreated, now), &Subject::Credit(customer.key, ledger, now))?;
    Ok(id)
}

impl NotePayment {
    fn faults(&self, currency: &Currency, now: OffsetDateTime) -> FieldErrors {
        let mut errors = FieldErrors::default();
        if !self.amount.is_positive() {
            errors.push("amount", FieldCode::MinValue, "Amount must be greater than 0.");
        } else if currency.round(&self.amount) != self.amount {
            let detail = format!("Ensure that there are no more than {} decimal places.", currency.decimals);
            errors.push("amount", FieldCode::MaxDecimalPlaces, detail);
        }
        check_at(&mut errors, self.at, now);
        for (attr, text) in [("method", &self.method), ("reference", &self.reference)] {
            if let Some(text) = text {
                errors.keep(attr, text::check_id(text));
            }
        }
        errors
    }
}

/// Notes at `at` that money has not come yet.
pub(super) fn check_at(errors: &mut FieldErrors, at: Option<OffsetDateTime>, now: OffsetDateTime) {
    if at.is_some_and(|at| at > now) {
        errors.push("at", FieldCode::MaxValue, "This is in the future of the customer: note what has come.");
    }
}
