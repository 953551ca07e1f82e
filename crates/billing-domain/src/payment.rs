//! Payments: money that came for an invoice.
//!
//! The ledger of an invoice is appended to and never changed: what turns out wrong is taken back by a reversal. What a
//! payment brings beyond what is due becomes a credit of the customer's. Whatever happens,
//!
//! ```text
//! amount of the invoice = amount due + payments that stand - what of them became credit
//! ```
//!
//! and what of a reversed payment's credit had paid for other invoices is due again.
//!
//! Source: `docs/pricing.md`, "Payments".

use std::collections::BTreeSet;

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use crate::id::{CreditId, InvoiceId, PaymentId};

choices! {
    /// What an entry of the ledger did.
    pub PaymentKind {
        /// Money came.
        Payment = "payment",
        /// A payment turned out not to be one: it bounced, was charged back or was noted by mistake.
        Reversal = "reversal",
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
    /// How much, in major units of the invoice's currency, always above 0: all that came, or all that is taken back.
    pub amount: BigDecimal,
    /// What of a payment was more than was due and became [`Payment::credit`]; of a reversal, what of that credit had not paid
    /// for other invoices. At most [`Payment::amount`].
    pub credited: BigDecimal,
    /// The credit that an overpayment became.
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
    /// What it settles of the invoice; below 0 for what is owed again.
    pub fn settles(&self) -> BigDecimal {
        match self.kind {
            PaymentKind::Payment => &self.amount - &self.credited,
            PaymentKind::Reversal => &self.credited - &self.amount,
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

    /// Whether a payment that came in this way bears this reference, reversed or not: the same file of a bank counts once.
    pub fn knows(&self, method: Option<&str>, reference: &str) -> bool {
        let same = |entry: &Payment| entry.method.as_deref() == method && entry.reference.as_deref() == Some(reference);
        self.entries.iter().any(same)
    }
}
