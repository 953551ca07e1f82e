//! Payments: money that came for an invoice.
//!
//! The ledger of an invoice is appended to and never changed: what turns out wrong is taken back by a reversal. What a
//! payment brings beyond what is due becomes a credit of the customer's. Whatever happens,
//!
//! ```text
//! amount of the invoice = amount due + payments that stand - what of any payment became credit and was not taken back
//!                         + credit notes that stand - what of them was not due any more
//! ```
//!
//! so what of a reversed payment's credit has paid for other invoices is due again, until one of those is voided and returns it.
//!
//! Source: `docs/pricing.md`, "Payments".

use std::collections::{BTreeMap, BTreeSet};

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use crate::id::{CreditId, CreditNoteId, InvoiceId, PaymentId};

choices! {
    /// What an entry of the ledger did.
    pub PaymentKind {
        /// Money came.
        Payment = "payment",
        /// A payment turned out not to be one: it bounced, was charged back or was noted by mistake.
        Reversal = "reversal",
        /// What the credit of a reversed payment had paid for another invoice came back from it.
        Returned = "returned",
        /// A credit note took a part of what was charged back.
        CreditNote = "credit_note",
        /// A credit note was voided.
        CreditNoteVoided = "credit_note_voided",
    }
}

/// One entry of an invoice's ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    /// Its id.
    pub id: PaymentId,
    /// What for.
    pub invoice: InvoiceId,
    /// What it did.
    pub kind: PaymentKind,
    /// The payment that a reversal takes back; that and no other entry has one.
    pub reverses: Option<PaymentId>,
    /// The credit note that an entry of one of its kinds is about; no other entry has one.
    pub credit_note: Option<CreditNoteId>,
    /// How much, in major units of the invoice's currency, always above 0: all that came, all that is taken back, or all that came
    /// back of a credit.
    pub amount: BigDecimal,
    /// What of a payment was more than was due and became [`Payment::credit`]; of a reversal, what of that credit had not paid
    /// for other invoices; of a return, all of it; of a credit note, what was not due any more and became a credit or was refunded
    /// outside. At most [`Payment::amount`].
    pub credited: BigDecimal,
    /// The credit that an overpayment or a credit note became, or that a return came back to.
    pub credit: Option<CreditId>,
    /// When the money came or went, as the caller says.
    pub at: OffsetDateTime,
    /// How it came, in the caller's words.
    pub method: Option<String>,
    /// What tells it from other payments that came in the same way: a bank's or a card processor's id.
    pub reference: Option<String>,
    /// Why a payment was reversed.
    pub reason: Option<String>,
    /// When it was noted, in the customer's own time.
    pub noted_at: OffsetDateTime,
}

impl Payment {
    /// What became credit by it; below 0 for what was taken back.
    pub fn credits(&self) -> BigDecimal {
        match self.kind {
            PaymentKind::Payment | PaymentKind::CreditNote => self.credited.clone(),
            PaymentKind::Reversal | PaymentKind::Returned | PaymentKind::CreditNoteVoided => -&self.credited,
        }
    }

    /// What it settles of the invoice; below 0 for what is owed again.
    pub fn settles(&self) -> BigDecimal {
        match self.kind {
            PaymentKind::Payment | PaymentKind::CreditNote => &self.amount - &self.credited,
            PaymentKind::Reversal | PaymentKind::CreditNoteVoided => &self.credited - &self.amount,
            PaymentKind::Returned => self.credited.clone(),
        }
    }
}

/// What was paid of one invoice, in the order in which it was noted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaymentLedger {
    entries: Vec<Payment>,
}

impl From<Vec<Payment>> for PaymentLedger {
    fn from(entries: Vec<Payment>) -> Self {
        Self { entries }
    }
}

impl PaymentLedger {
    /// Everything that was noted.
    pub fn entries(&self) -> &[Payment] {
        &self.entries
    }

    /// What all of it comes to: what is paid of the invoice. Below 0 when what a reversed payment had overpaid has paid for others.
    pub fn settled(&self) -> BigDecimal {
        self.entries.iter().map(Payment::settles).sum()
    }

    /// What of money came and was neither taken back nor became a credit: as much can be refunded outside.
    pub fn money_settled(&self) -> BigDecimal {
        let is_money = |entry: &&Payment| entry.credit_note.is_none();
        self.entries.iter().filter(is_money).map(Payment::settles).sum()
    }

    /// When a reversal or the void of a credit note last made an invoice of this amount unpaid again; `None` when it never was paid in between.
    pub fn reopened_at(&self, amount: &BigDecimal) -> Option<OffsetDateTime> {
        let (mut settled, mut reopened_at) = (BigDecimal::default(), None);
        for entry in &self.entries {
            let settles = entry.settles();
            if settled == *amount && settles < BigDecimal::default() {
                reopened_at = Some(entry.noted_at);
            }
            settled += settles;
        }
        reopened_at
    }

    /// The payment of this id; reversals are none.
    pub fn find(&self, id: PaymentId) -> Option<&Payment> {
        self.entries.iter().find(|entry| entry.id == id && entry.kind == PaymentKind::Payment)
    }

    /// The payments that were not reversed.
    pub fn standing(&self) -> impl Iterator<Item = &Payment> {
        let reversed: BTreeSet<PaymentId> = self.entries.iter().filter_map(|entry| entry.reverses).collect();
        let stands = move |entry: &&Payment| entry.kind == PaymentKind::Payment && !reversed.contains(&entry.id);
        self.entries.iter().filter(stands)
    }

    /// The credits of reversed payments, each with what of it is owed with this invoice: what it had paid for others when its
    /// payment was reversed, less what has returned since.
    pub fn owed_credits(&self) -> BTreeMap<CreditId, BigDecimal> {
        let mut owed = BTreeMap::new();
        for entry in &self.entries {
            let Some(credit) = entry.credit.filter(|_| entry.kind == PaymentKind::Reversal) else { continue };
            let of_credit = self.entries.iter().filter(|entry| entry.credit == Some(credit));
            owed.insert(credit, of_credit.map(Payment::credits).sum());
        }
        owed
    }

    /// Whether a payment that came in this way bears this reference, reversed or not: the same file of a bank counts once.
    pub fn knows(&self, method: Option<&str>, reference: &str) -> bool {
        let same = |entry: &Payment| entry.method.as_deref() == method && entry.reference.as_deref() == Some(reference);
        self.entries.iter().any(same)
    }
}
