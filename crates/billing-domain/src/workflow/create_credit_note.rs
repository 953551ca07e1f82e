//! Takes back a part of what an invoice charged.

use std::collections::BTreeSet;

use bigdecimal::{BigDecimal, Signed, Zero};
use time::OffsetDateTime;

use super::bill_customer::catch_up;
use super::credited_lines::{CreditedLines, standing_notes};
use super::note_payment::{append, grant};
use super::preview_corrections::give_corrections_back;
use super::second_person::hold_above_limit;
use super::tell::tell;
use crate::credit_note::{CreditNote, CreditNoteLine, LinePart, NewCreditNote, Settlement};
use crate::currency::Currency;
use crate::decimal::plain;
use crate::error::{Error, FieldCode, FieldErrors, Refusal};
use crate::id::{CreditNoteId, CustomerKey, InvoiceId, LineId};
use crate::invoice::{Invoice, PaymentStatus};
use crate::message::{MessageType, Subject};
use crate::money::spread;
use crate::payment::{Payment, PaymentKind, PaymentLedger};
use crate::store::Transaction;
use crate::text;

/// What is taken back, and why.
#[derive(Clone, Debug)]
pub struct CreateCreditNote {
    /// Whose invoice.
    pub customer: CustomerKey,
    /// Which.
    pub invoice: InvoiceId,
    /// Of these lines; none: of all that charge for something.
    pub lines: Vec<CreditLine>,
    /// Of the whole invoice, where no lines are named; `None`: all that is left.
    pub share: Option<Share>,
    /// Just what corrected events make too much of what the lines charged, where neither lines nor a share are named.
    pub corrections: bool,
    /// Why.
    pub reason: String,
    /// Where the money goes.
    pub settlement: Settlement,
    /// What names a refund outside.
    pub reference: Option<String>,
}

/// What is taken back of one line.
#[derive(Clone, Debug)]
pub struct CreditLine {
    /// Which.
    pub line: LineId,
    /// How much; `None`: all that is left.
    pub share: Option<Share>,
}

/// A part of what was charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// In major units, with tax.
    Amount(BigDecimal),
    /// In percent of what was charged, above 0.
    Percent(BigDecimal),
}

/// Most decimals of a percentage.
const PERCENT_DECIMALS_MAX: i64 = 6;

/// Issues a credit note on an invoice. Settled to the balance, it reduces what is due of the invoice, and what is not due any more
/// becomes a credit; settled outside, it notes a refund.
///
/// # Errors
/// Every bad field, also where more is asked for than is left of a line; [`Error::NotFound`]; [`Refusal::InvoiceVoided`];
/// [`Refusal::NothingToCredit`]; [`Refusal::RefundExceedsPayments`]; [`Refusal::TestClockAdvancing`], [`Refusal::CatchingUp`].
///
/// # Source
/// `docs/pricing.md`, "Credit notes".
pub fn create_credit_note(
    tx: &mut dyn Transaction,
    command: &CreateCreditNote,
    now: OffsetDateTime,
) -> Result<(Invoice, CreditNote), Error> {
    let found = tx.invoices().get(command.invoice)?;
    command.faults(&found).finish(())?;
    catch_up(tx, command.customer, now)?;
    let mut invoice = tx.invoices().get(command.invoice)?;
    if invoice.payment_status == PaymentStatus::Voided {
        return Err(Refusal::InvoiceVoided.into());
    }
    let mut books = CreditedLines::load(tx, &invoice)?;
    let lines = match command.corrections {
        true => give_corrections_back(tx, &mut books, &invoice, now)?,
        false => command.credit(&mut books, &invoice)?,
    };
    let amount: BigDecimal = lines.iter().map(|line| &line.part.amount).sum();
    if amount.is_zero() {
        return Err(Refusal::NothingToCredit.into());
    }
    hold_above_limit(tx, &amount, &invoice.currency.code)?;
    let credited = command.not_due(tx, &invoice, &amount)?;
    books.save(tx)?;
    let credit = match command.settlement {
        Settlement::Balance if credited.is_positive() => {
            let text = format!("Credit note on invoice {}", invoice.number);
            Some(grant(tx, &invoice, &credited, text, now)?)
        }
        Settlement::Balance | Settlement::Outside => None,
    };
    let note = NewCreditNote::new(CreditNote {
        id: CreditNoteId::from(tx.new_uuid()),
        number: String::new(),
        customer: command.customer,
        invoice: invoice.id,
        currency_code: invoice.currency.code.clone(),
        issued_at: now,
        amount,
        credited,
        settlement: command.settlement,
        credit,
        reason: command.reason.clone(),
        reference: command.reference.clone(),
        lines,
        is_correction: command.corrections,
        voided_at: None,
    });
    let note = tx.invoices().add_credit_note(note)?;
    let entry = entry_of(tx, &note, PaymentKind::CreditNote, now);
    append(tx, &mut invoice, &entry)?;
    let customer = tx.customers().get_even_deleted(note.customer)?;
    let subject = Subject::CreditNote(Box::new(note.clone()));
    tell(tx, &customer, (MessageType::CreditNoteCreated, now), &subject)?;
    invoice.credit_notes.push(note.brief());
    Ok((invoice, note))
}

/// What a credit note, or its void, puts into the ledger of its invoice.
pub(super) fn entry_of(tx: &mut dyn Transaction, note: &CreditNote, kind: PaymentKind, now: OffsetDateTime) -> Payment {
    Payment {
        id: tx.new_uuid().into(),
        invoice: note.invoice,
        kind,
        reverses: None,
        credit_note: Some(note.id),
        amount: note.amount.clone(),
        credited: note.credited.clone(),
        credit: note.credit,
        at: now,
        method: None,
        reference: None,
        reason: None,
        noted_at: now,
    }
}

impl CreateCreditNote {
    fn faults(&self, invoice: &Invoice) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let currency = &invoice.currency;
        if self.corrections && (self.share.is_some() || !self.lines.is_empty()) {
            let detail = "What corrections come to follows from the events: name no lines and no share.";
            errors.push("corrections", FieldCode::NotAllowedTogether, detail);
        }
        if let Some(share) = &self.share {
            share.check("", currency, &mut errors);
            if !self.lines.is_empty() {
                let detail = "Name lines, each with its share, or a share of the whole invoice.";
                errors.push("lines", FieldCode::NotAllowedTogether, detail);
            }
        }
        let mut seen = BTreeSet::new();
        for (i, line) in self.lines.iter().enumerate() {
            let attr = format!("lines.{i}.line_id");
            let is_there = line.line.invoice() == self.invoice && line.line.place() <= invoice.lines.len();
            if !is_there {
                errors.push(attr, FieldCode::DoesNotExist, "The invoice has no line of this id.");
            } else if !seen.insert(line.line) {
                errors.push(attr, FieldCode::Unique, "This line is named twice.");
            }
            if let Some(share) = &line.share {
                share.check(&format!("lines.{i}."), currency, &mut errors);
            }
        }
        if self.reason.trim().is_empty() {
            errors.push("reason", FieldCode::Blank, "Say why: the customer reads it.");
        }
        errors.keep("reason", text::check_length(&self.reason, text::DESCRIPTION_CHARACTERS_MAX));
        if let Some(reference) = &self.reference {
            errors.keep("reference", text::check_id(reference));
            if self.settlement == Settlement::Balance {
                let detail = "A reference names a refund outside: nothing is refunded to the balance.";
                errors.push("reference", FieldCode::NotAllowedTogether, detail);
            }
        }
        errors
    }

    /// Takes what is wanted back of the lines.
    fn credit(&self, books: &mut CreditedLines, invoice: &Invoice) -> Result<Vec<CreditNoteLine>, Error> {
        let parts =
            if self.lines.is_empty() { self.credit_whole(books, invoice)? } else { self.credit_lines(books, invoice)? };
        let is_some = |(_, part): &(usize, LinePart)| !part.amount.is_zero();
        let lines = parts.into_iter().filter(is_some);
        Ok(lines.map(|(place, part)| CreditNoteLine { line: LineId::new(self.invoice, place + 1), part }).collect())
    }

    fn credit_lines(&self, books: &mut CreditedLines, invoice: &Invoice) -> Result<Vec<(usize, LinePart)>, Error> {
        let (mut errors, mut parts) = (FieldErrors::default(), Vec::new());
        for (i, wanted) in self.lines.iter().enumerate() {
            let place = wanted.line.place() - 1;
            let left = books.left(place);
            let amount = match &wanted.share {
                None => left.clone(),
                Some(share) => share.of(&books.charged(place), &invoice.currency),
            };
            if amount > left || left.is_zero() {
                let field = wanted.share.as_ref().map_or("line_id", Share::field);
                errors.push(format!("lines.{i}.{field}"), FieldCode::MaxValue, only_left(&left, "the line"));
                continue;
            }
            parts.push((place, books.credit(place, &amount)));
        }
        Ok(errors.finish(parts)?)
    }

    /// Spread over the lines by what is left of each.
    fn credit_whole(&self, books: &mut CreditedLines, invoice: &Invoice) -> Result<Vec<(usize, LinePart)>, Error> {
        // Lines of one charge share what is left of it.
        let mut trial = books.clone();
        let lefts: Vec<BigDecimal> = (0..books.len())
            .map(|place| {
                let left = trial.left(place);
                trial.credit(place, &left);
                left
            })
            .collect();
        let left: BigDecimal = lefts.iter().sum();
        let Some(share) = &self.share else {
            return Ok(lefts.iter().enumerate().map(|(place, left)| (place, books.credit(place, left))).collect());
        };
        let charged: BigDecimal = (0..books.len()).map(|place| books.charged(place)).sum();
        let amount = share.of(&charged, &invoice.currency);
        if amount > left {
            let mut errors = FieldErrors::default();
            errors.push(share.field(), FieldCode::MaxValue, only_left(&left, "the invoice"));
            return Err(errors.into());
        }
        let amounts = spread(&amount, &lefts, invoice.currency.decimals);
        Ok(amounts.iter().enumerate().map(|(place, amount)| (place, books.credit(place, amount))).collect())
    }

    /// What of the note's amount is not due any more: it becomes a credit, or was refunded.
    fn not_due(&self, tx: &mut dyn Transaction, invoice: &Invoice, amount: &BigDecimal) -> Result<BigDecimal, Error> {
        if self.settlement == Settlement::Balance {
            return Ok((amount - invoice.amount_due()).max(BigDecimal::zero()));
        }
        let ledger = PaymentLedger::from(tx.invoices().list_payments(self.customer, Some(self.invoice))?);
        let notes = standing_notes(tx, self.customer, Some(self.invoice))?;
        let outside = notes.iter().filter(|note| note.settlement == Settlement::Outside);
        let refunded: BigDecimal = outside.map(|note| &note.amount).sum();
        match amount + refunded <= ledger.money_settled() {
            true => Ok(amount.clone()),
            false => Err(Refusal::RefundExceedsPayments.into()),
        }
    }
}

fn only_left(left: &BigDecimal, of: &str) -> String {
    format!("{} is left of {of} that a credit note can take back.", plain(left))
}

impl Share {
    /// The field that it comes in.
    fn field(&self) -> &'static str {
        match self {
            Self::Amount(_) => "amount",
            Self::Percent(_) => "percent",
        }
    }

    fn of(&self, charged: &BigDecimal, currency: &Currency) -> BigDecimal {
        match self {
            Self::Amount(amount) => amount.clone(),
            Self::Percent(percent) => currency.round(&(charged * percent * BigDecimal::new(1.into(), 2))),
        }
    }

    fn check(&self, under: &str, currency: &Currency, errors: &mut FieldErrors) {
        let attr = format!("{under}{}", self.field());
        match self {
            Self::Amount(amount) | Self::Percent(amount) if !amount.is_positive() => {
                errors.push(attr, FieldCode::MinValue, "This must be greater than 0.");
            }
            Self::Amount(amount) if currency.round(amount) != *amount => {
                let detail = format!("Ensure that there are no more than {} decimal places.", currency.decimals);
                errors.push(attr, FieldCode::MaxDecimalPlaces, detail);
            }
            Self::Percent(percent) if (percent - BigDecimal::from(100)).is_positive() => {
                errors.push(attr, FieldCode::MaxValue, "Ensure this value is at most 100.");
            }
            Self::Percent(percent) if percent.normalized().fractional_digit_count() > PERCENT_DECIMALS_MAX => {
                let detail = format!("Ensure that there are no more than {PERCENT_DECIMALS_MAX} decimal places.");
                errors.push(attr, FieldCode::MaxDecimalPlaces, detail);
            }
            Self::Amount(_) | Self::Percent(_) => {}
        }
    }
}
