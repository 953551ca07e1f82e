//! Withdraws a credit note.

use bigdecimal::Signed;
use time::OffsetDateTime;

use super::bill_customer::catch_up;
use super::create_credit_note::entry_of;
use super::credited_lines::CreditedLines;
use super::note_payment::append;
use super::return_credits::take_away;
use super::second_person::hold_above_limit;
use super::tell::tell;
use super::void_invoice::next_invoicing;
use crate::credit_note::CreditNote;
use crate::error::{Error, Refusal};
use crate::id::{CreditNoteId, CustomerKey};
use crate::message::{MessageType, Subject};
use crate::payment::PaymentKind;
use crate::store::Transaction;

/// Voids a credit note: what it reduced is due again, the credit that it became is taken away, and what would have come back of its
/// lines without it comes back with the next invoice.
///
/// # Errors
/// [`Error::NotFound`]; [`Refusal::CreditNoteVoided`]; [`Refusal::CreditDrawn`] when its credit has paid for invoices that stand;
/// [`Refusal::TestClockAdvancing`], [`Refusal::CatchingUp`].
///
/// # Source
/// `docs/pricing.md`, "Credit notes".
pub fn void_credit_note(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    id: CreditNoteId,
    now: OffsetDateTime,
) -> Result<CreditNote, Error> {
    catch_up(tx, customer, now)?;
    let mut note = tx.invoices().get_credit_note(id)?;
    if !note.stands() {
        return Err(Refusal::CreditNoteVoided.into());
    }
    hold_above_limit(tx, &note.amount, &note.currency_code)?;
    if let Some(credit) = note.credit
        && take_away(tx, customer, credit, now)?.is_positive()
    {
        return Err(Refusal::CreditDrawn.into());
    }
    let mut invoice = tx.invoices().get(note.invoice)?;
    let again_at = next_invoicing(tx, customer, now)?;
    let mut books = CreditedLines::load(tx, &invoice)?;
    for line in &note.lines {
        match note.is_correction {
            true => books.take_again(line.line.place() - 1, &line.part, again_at),
            false => books.undo(line.line.place() - 1, &line.part, again_at),
        }
    }
    books.save(tx)?;
    tx.invoices().void_credit_note(customer, id, now)?;
    note.voided_at = Some(now);
    let entry = entry_of(tx, &note, PaymentKind::CreditNoteVoided, now);
    append(tx, &mut invoice, &entry)?;
    let owner = tx.customers().get_even_deleted(customer)?;
    let subject = Subject::CreditNote(Box::new(note.clone()));
    tell(tx, &owner, (MessageType::CreditNoteVoided, now), &subject)?;
    catch_up(tx, customer, now)?;
    Ok(note)
}
