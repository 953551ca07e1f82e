//! A customer's statement: every document and payment in order, with what is due and what credit is left behind each.
//!
//! Each stands at the instant that it bears in the customer's own time: an invoice at its issue, a payment when it was noted, whenever the
//! money came. The balance is what is due less what credit is left, so that an overpayment is below 0.
//!
//! Source: `docs/pricing.md`, "Statements".

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::credit::{CreditLedger, EntryKind, LedgerEntry};
use crate::id::{CreditId, CreditNoteId, InvoiceId, PaymentId};
use crate::invoice::InvoiceSummary;
use crate::payment::{Payment, PaymentKind};

choices! {
    /// What an entry of a statement is.
    pub StatementKind {
        /// An invoice was issued.
        Invoice = "invoice",
        /// One was voided.
        Void = "void",
        /// Money came for one.
        Payment = "payment",
        /// It went again.
        Reversal = "reversal",
        /// What the credit of a reversed payment had paid for another invoice came back from it.
        Returned = "returned",
        /// A credit note took back a part of what one charged.
        CreditNote = "credit_note",
        /// A credit note was voided.
        CreditNoteVoided = "credit_note_voided",
        /// A credit came into being.
        CreditGranted = "credit_granted",
        /// A part of one paid for an invoice.
        CreditDrawn = "credit_drawn",
        /// It came back, because the invoice was voided.
        CreditRestored = "credit_restored",
        /// What was left of one was taken away.
        CreditVoided = "credit_voided",
        /// What was left of one ran out of time.
        CreditExpired = "credit_expired",
    }
}

/// What a customer owes and has in one currency, in major units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatementBalance {
    /// What is due of invoices.
    pub due: BigDecimal,
    /// What is left of credits, of those too that are not effective yet.
    pub credit: BigDecimal,
}

impl StatementBalance {
    /// What the customer owes when everything is set against everything; below 0 what they have.
    pub fn net(&self) -> BigDecimal {
        &self.due - &self.credit
    }

    fn add(&mut self, change: &Self) {
        self.due += &change.due;
        self.credit += &change.credit;
    }
}

/// One thing that came into the books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementEntry {
    /// When, in the customer's own time.
    pub at: OffsetDateTime,
    /// What.
    pub kind: StatementKind,
    /// The currency it is in.
    pub currency_code: String,
    /// The invoice, by id and number; none for what happens to a credit by itself.
    pub invoice: Option<(InvoiceId, String)>,
    /// The credit; of a payment the one that its overpayment became.
    pub credit: Option<CreditId>,
    /// The entry of the invoice's ledger.
    pub payment: Option<PaymentId>,
    /// The credit note.
    pub credit_note: Option<CreditNoteId>,
    /// What it adds to what is due and to what credit is left.
    pub change: StatementBalance,
    /// Both behind it, in its currency.
    pub balance: StatementBalance,
}

/// What came into the books within a time, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// What was due and left before, by currency.
    pub opening: BTreeMap<String, StatementBalance>,
    /// What came.
    pub entries: Vec<StatementEntry>,
    /// What is due and left behind it, by currency.
    pub closing: BTreeMap<String, StatementBalance>,
}

/// An entry that has no place yet: what comes at one instant is in the order in which its ids were made, and voids, which have none,
/// behind it.
struct Unplaced {
    place: (OffsetDateTime, Uuid),
    entry: StatementEntry,
}

impl Statement {
    /// Of all invoices, credits and payments of a customer, what came at or after `from` and before `to`; `None`: no bound.
    pub fn new(
        invoices: &[InvoiceSummary],
        credits: &[CreditLedger],
        payments: &[Payment],
        (from, to): (Option<OffsetDateTime>, Option<OffsetDateTime>),
    ) -> Self {
        let known: BTreeMap<InvoiceId, &InvoiceSummary> =
            invoices.iter().map(|invoice| (invoice.id, invoice)).collect();
        let mut all: Vec<Unplaced> = invoices.iter().flat_map(of_invoice).collect();
        all.extend(credits.iter().flat_map(|credit| of_credit(credit, &known)));
        all.extend(payments.iter().filter_map(|payment| of_payment(payment, &known)));
        all.sort_by_key(|unplaced| unplaced.place);
        let mut statement = Self::default();
        for Unplaced { mut entry, .. } in all {
            if to.is_some_and(|to| entry.at >= to) {
                break;
            }
            let balance = statement.closing.entry(entry.currency_code.clone()).or_default();
            balance.add(&entry.change);
            entry.balance = balance.clone();
            if from.is_some_and(|from| entry.at < from) {
                statement.opening.insert(entry.currency_code, entry.balance);
            } else {
                statement.opening.entry(entry.currency_code.clone()).or_default();
                statement.entries.push(entry);
            }
        }
        statement
    }
}

fn entry(at: OffsetDateTime, kind: StatementKind, currency_code: &str, change: StatementBalance) -> StatementEntry {
    StatementEntry {
        at,
        kind,
        currency_code: currency_code.to_owned(),
        invoice: None,
        credit: None,
        payment: None,
        credit_note: None,
        change,
        balance: StatementBalance::default(),
    }
}

fn due(amount: BigDecimal) -> StatementBalance {
    StatementBalance { due: amount, credit: BigDecimal::default() }
}

/// Its issue, and its void: when it was voided, no payment of it stood.
fn of_invoice(invoice: &InvoiceSummary) -> impl Iterator<Item = Unplaced> + use<> {
    let named = |at, kind, amount, id| Unplaced {
        place: (at, id),
        entry: StatementEntry {
            invoice: Some((invoice.id, invoice.number.clone())),
            ..entry(at, kind, &invoice.currency.code, due(amount))
        },
    };
    let issue = named(invoice.issued_at, StatementKind::Invoice, invoice.amount.clone(), invoice.id.uuid());
    let void = invoice.voided_at.map(|at| named(at, StatementKind::Void, -&invoice.amount, Uuid::max()));
    std::iter::once(issue).chain(void)
}

fn of_credit(ledger: &CreditLedger, invoices: &BTreeMap<InvoiceId, &InvoiceSummary>) -> Vec<Unplaced> {
    let of_entry = |line: &LedgerEntry| {
        let (kind, credit) = match line.kind {
            EntryKind::Grant => (StatementKind::CreditGranted, line.amount.clone()),
            EntryKind::Restored => (StatementKind::CreditRestored, line.amount.clone()),
            EntryKind::Drawdown => (StatementKind::CreditDrawn, -&line.amount),
            EntryKind::Void => (StatementKind::CreditVoided, -&line.amount),
            EntryKind::Expiry => (StatementKind::CreditExpired, -&line.amount),
        };
        let change = StatementBalance { due: BigDecimal::default(), credit };
        let named = line.invoice.and_then(|id| invoices.get(&id));
        let entry = StatementEntry {
            invoice: named.map(|invoice| (invoice.id, invoice.number.clone())),
            credit: Some(ledger.credit().id),
            ..entry(line.at, kind, &ledger.credit().currency_code, change)
        };
        Unplaced { place: (line.at, line.id.uuid()), entry }
    };
    ledger.entries().iter().map(of_entry).collect()
}

/// By when it was noted, whenever the money came.
fn of_payment(payment: &Payment, invoices: &BTreeMap<InvoiceId, &InvoiceSummary>) -> Option<Unplaced> {
    let invoice = invoices.get(&payment.invoice)?;
    let kind = match payment.kind {
        PaymentKind::Payment => StatementKind::Payment,
        PaymentKind::Reversal => StatementKind::Reversal,
        PaymentKind::Returned => StatementKind::Returned,
        PaymentKind::CreditNote => StatementKind::CreditNote,
        PaymentKind::CreditNoteVoided => StatementKind::CreditNoteVoided,
    };
    let entry = StatementEntry {
        invoice: Some((invoice.id, invoice.number.clone())),
        credit: payment.credit,
        payment: Some(payment.id),
        credit_note: payment.credit_note,
        ..entry(payment.noted_at, kind, &invoice.currency.code, due(-payment.settles()))
    };
    Some(Unplaced { place: (payment.noted_at, payment.id.uuid()), entry })
}
