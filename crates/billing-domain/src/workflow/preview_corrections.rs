//! Shows what an invoice owes the truth: what it billed of usage, and what that comes to by today's events.

use bigdecimal::{BigDecimal, Signed, Zero};
use time::OffsetDateTime;

use super::credited_lines::{CreditedLines, standing_notes};
use super::recount_usage::recount_usage;
pub use super::recount_usage::{Outlook, RecountedUsage};
use crate::credit_note::{CreditNoteLine, LinePart};
use crate::error::{Error, Refusal};
use crate::id::{InvoiceId, LineId};
use crate::invoice::{Invoice, PaymentStatus};
use crate::store::Transaction;

/// What the books owe the truth for one invoice.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CorrectionsPreview {
    /// The invoice.
    pub invoice: Invoice,
    /// Line by line, all of them.
    pub lines: Vec<LineCorrection>,
    /// What the differences come to on the next invoice, in major units with tax; below 0: it comes back.
    pub next_invoice: BigDecimal,
    /// What a credit note on this invoice would give back of it instead, with tax.
    pub credit_note: BigDecimal,
}

/// What one line owes the truth.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LineCorrection {
    /// The line.
    pub line: LineId,
    /// What credit notes took of it.
    pub credited: BigDecimal,
    /// What is left of it that credit notes can take.
    pub left: BigDecimal,
    /// Its usage, counted again; `None`: events do not decide what it charges.
    pub usage: Option<RecountedUsage>,
    /// What a credit note on request takes of it.
    pub credit_note: LinePart,
}

/// Counts what an invoice billed of usage again and says, line by line, what the difference is and what becomes of it. Nothing is
/// written.
///
/// # Errors
/// [`Error::NotFound`]; [`Refusal::InvoiceVoided`]; [`Error::TaxRate`]; [`Error::Store`].
///
/// # Source
/// `docs/pricing.md`, "Corrections".
pub fn preview_corrections(tx: &mut dyn Transaction, id: InvoiceId) -> Result<CorrectionsPreview, Error> {
    let invoice = tx.invoices().get(id)?;
    if invoice.payment_status == PaymentStatus::Voided {
        return Err(Refusal::InvoiceVoided.into());
    }
    let now = tx.customers().now(invoice.customer)?;
    let mut usages = recount_usage(tx, &invoice, now)?;
    let notes = standing_notes(tx, invoice.customer, Some(id))?;
    let mut books = CreditedLines::load(tx, &invoice)?;
    let mut lines = Vec::new();
    for (line, _) in invoice.named_lines() {
        let on_line = notes.iter().flat_map(|note| &note.lines).filter(|credited| credited.line == line);
        let credited = on_line.map(|credited| &credited.part.amount).sum();
        let left = books.left(line.place() - 1);
        let at = usages.iter().position(|usage| usage.line == line);
        lines.push(LineCorrection {
            line,
            credited,
            left,
            usage: at.map(|at| usages.swap_remove(at)),
            credit_note: LinePart::default(),
        });
    }
    for line in &mut lines {
        if let Some(wanted) = line.usage.as_ref().and_then(too_much) {
            line.credit_note = books.give_back(line.line.place() - 1, &wanted);
        }
    }
    let to_come = lines.iter().filter_map(|line| line.usage.as_ref()?.to_come_by_itself());
    Ok(CorrectionsPreview {
        next_invoice: to_come.sum(),
        credit_note: lines.iter().map(|line| &line.credit_note.amount).sum(),
        invoice,
        lines,
    })
}

/// Gives back what corrected events make too much of what an invoice charged, as far as that much is left of its lines.
///
/// # Errors
/// [`Error::TaxRate`]; [`Error::Store`].
pub(super) fn give_corrections_back(
    tx: &mut dyn Transaction,
    books: &mut CreditedLines,
    invoice: &Invoice,
    now: OffsetDateTime,
) -> Result<Vec<CreditNoteLine>, Error> {
    let mut lines = Vec::new();
    for usage in recount_usage(tx, invoice, now)? {
        let Some(wanted) = too_much(&usage) else { continue };
        let part = books.give_back(usage.line.place() - 1, &wanted);
        if !part.amount.is_zero() {
            lines.push(CreditNoteLine { line: usage.line, part });
        }
    }
    lines.sort_by_key(|line| line.line.place());
    Ok(lines)
}

/// What is to come back of a line; `None`: nothing.
fn too_much(usage: &RecountedUsage) -> Option<LinePart> {
    let line = usage.to_come.as_ref().filter(|line| line.amount.is_negative())?;
    let whole = LinePart::whole(line);
    Some(LinePart { amount: -whole.amount, base: -whole.base, tax: -whole.tax })
}
