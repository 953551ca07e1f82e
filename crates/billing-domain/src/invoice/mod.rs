//! Invoices: what they say, and how they are numbered.

use bigdecimal::{BigDecimal, Zero};
use serde::{Deserialize, Serialize};
use time::{Date, OffsetDateTime, UtcOffset};

use crate::address::Address;
use crate::currency::Currency;
use crate::id::{CustomerKey, InvoiceId, LineId};
use crate::period::Period;

mod credit_note;
mod line;
mod trace;

pub use credit_note::{CreditNoteBrief, Settlement};
pub use line::{
    Adjustment, AdjustmentBasis, AdjustmentKind, BillingType, LineItem, PlanVersionBrief, add_tax, adjust_price,
};
pub use trace::{MetricTrace, PrepaidSegmentTrace, Rounding, Trace};

/// An issued invoice. Nothing on it ever changes but what is paid of it, which credit notes took something back, and whether it is voided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoice {
    /// Its id.
    pub id: InvoiceId,
    /// `YYMMDD-NNNNNN`: the UTC day of issue and a sequence of the organization without gaps.
    pub number: String,
    /// Whose it is.
    pub customer: CustomerKey,
    /// The customer as it was on the day of issue.
    pub billed_to: BilledTo,
    /// The organization as it was on the day of issue.
    pub seller: Seller,
    /// Everything on it is in this currency.
    pub currency: Currency,
    /// When it was issued.
    pub issued_at: OffsetDateTime,
    /// When it falls due.
    pub due_at: Option<OffsetDateTime>,
    /// Where its payment stands.
    pub payment_status: PaymentStatus,
    /// What is charged, line by line.
    pub lines: Vec<LineItem>,
    /// The sum of the lines' amounts.
    pub amount: BigDecimal,
    /// What its payments and credit notes have settled of it ([`PaymentLedger::settled`](crate::payment::PaymentLedger::settled)): at most the
    /// amount, and below 0 where what a reversed payment had overpaid is owed again.
    pub amount_paid: BigDecimal,
    /// When it was voided.
    pub voided_at: Option<OffsetDateTime>,
    /// What was due of it when it was noted as past due.
    pub amount_past_due: Option<BigDecimal>,
    /// The credit notes that took something back of it, oldest first.
    pub credit_notes: Vec<CreditNoteBrief>,
    /// The voided invoice in whose place it was issued.
    pub replaces: Option<InvoiceId>,
    /// The invoice that was issued in its place when it was voided.
    pub replaced_by: Option<InvoiceId>,
}

/// An invoice that is to be issued: its number comes with the issue, and its amount from its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInvoice {
    /// [`Invoice::id`].
    pub id: InvoiceId,
    /// [`Invoice::customer`].
    pub customer: CustomerKey,
    /// [`Invoice::billed_to`].
    pub billed_to: BilledTo,
    /// [`Invoice::seller`].
    pub seller: Seller,
    /// [`Invoice::currency`].
    pub currency: Currency,
    /// [`Invoice::issued_at`].
    pub issued_at: OffsetDateTime,
    /// [`Invoice::due_at`].
    pub due_at: Option<OffsetDateTime>,
    /// [`Invoice::lines`].
    pub lines: Vec<LineItem>,
    /// [`Invoice::replaces`].
    pub replaces: Option<InvoiceId>,
}

impl NewInvoice {
    /// The sum of the lines' amounts.
    pub fn amount(&self) -> BigDecimal {
        self.lines.iter().map(|line| &line.amount).sum()
    }

    /// Nothing to pay is paid.
    pub fn payment_status(&self) -> PaymentStatus {
        PaymentStatus::when_issued(&self.amount())
    }

    /// The invoice, when it is the `sequence`th of its organization.
    pub fn numbered(self, sequence: u64) -> Invoice {
        Invoice {
            id: self.id,
            number: number(self.issued_at, sequence),
            customer: self.customer,
            amount: self.amount(),
            payment_status: self.payment_status(),
            billed_to: self.billed_to,
            seller: self.seller,
            currency: self.currency,
            issued_at: self.issued_at,
            due_at: self.due_at,
            lines: self.lines,
            amount_paid: BigDecimal::zero(),
            voided_at: None,
            amount_past_due: None,
            credit_notes: Vec::new(),
            replaces: self.replaces,
            replaced_by: None,
        }
    }
}

/// An invoice without its lines and its customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvoiceSummary {
    /// [`Invoice::id`].
    pub id: InvoiceId,
    /// [`Invoice::number`].
    pub number: String,
    /// [`Invoice::customer`].
    pub customer: CustomerKey,
    /// [`Invoice::seller`].
    pub seller: Seller,
    /// [`Invoice::currency`].
    pub currency: Currency,
    /// [`Invoice::issued_at`].
    pub issued_at: OffsetDateTime,
    /// [`Invoice::due_at`].
    pub due_at: Option<OffsetDateTime>,
    /// [`Invoice::payment_status`].
    pub payment_status: PaymentStatus,
    /// [`Invoice::voided_at`].
    pub voided_at: Option<OffsetDateTime>,
    /// The first day that its charges are for; the day of issue when it has none.
    pub start_date: Date,
    /// The last day that its charges are for; the day of issue when it has none.
    pub end_date: Date,
    /// [`Invoice::amount`].
    pub amount: BigDecimal,
    /// [`Invoice::amount_due`].
    pub amount_due: BigDecimal,
}

/// The customer on an invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BilledTo {
    /// The caller's own id.
    pub customer_id: String,
    /// Display name.
    pub name: Option<String>,
    /// E-mail address.
    pub email: Option<String>,
    /// Billing address.
    pub address: Option<Address>,
}

/// The organization on an invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seller {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Option<Address>,
}

choices! {
    /// Where the payment of an invoice stands.
    pub PaymentStatus {
        /// A preview; never kept.
        Draft = "draft",
        /// Withdrawn.
        Voided = "voided",
        /// Paid, or nothing to pay.
        Paid = "paid",
        /// Awaiting payment.
        Unpaid = "unpaid",
    }
}

impl PaymentStatus {
    /// That of an invoice of this amount when it is issued: nothing to pay is paid.
    pub fn when_issued(amount: &BigDecimal) -> Self {
        if amount.is_zero() { Self::Paid } else { Self::Unpaid }
    }
}

impl Invoice {
    /// What can be said of it without its lines.
    pub fn summary(&self) -> InvoiceSummary {
        InvoiceSummary {
            id: self.id,
            number: self.number.clone(),
            customer: self.customer,
            seller: self.seller.clone(),
            currency: self.currency.clone(),
            issued_at: self.issued_at,
            due_at: self.due_at,
            payment_status: self.payment_status,
            voided_at: self.voided_at,
            start_date: self.charged().map(|period| period.start()).min().unwrap_or(self.issued_at).date(),
            end_date: self.charged().map(|period| period.last_instant()).max().unwrap_or(self.issued_at).date(),
            amount: self.amount.clone(),
            amount_due: self.amount_due(),
        }
    }

    /// What is still to be paid: the amount less what is paid of it; nothing once it is voided.
    pub fn amount_due(&self) -> BigDecimal {
        match self.payment_status {
            PaymentStatus::Voided => BigDecimal::zero(),
            PaymentStatus::Draft | PaymentStatus::Paid | PaymentStatus::Unpaid => &self.amount - &self.amount_paid,
        }
    }

    /// What it charges, less what it takes back, before credits pay for it or are made of it.
    pub fn total_before_credits(&self) -> BigDecimal {
        let is_of_credit =
            |line: &&LineItem| matches!(line.trace, Trace::CreditApplied { .. } | Trace::CreditGranted { .. });
        self.lines.iter().filter(|line| !is_of_credit(line)).map(|line| &line.amount).sum()
    }

    /// Adds to what is paid of it, or takes off; it is paid when nothing is due any more.
    pub fn settle(&mut self, settled: &BigDecimal) {
        self.amount_paid += settled;
        let is_paid = self.amount_paid == self.amount;
        self.payment_status = if is_paid { PaymentStatus::Paid } else { PaymentStatus::Unpaid };
    }

    /// Each line by its id, in the order in which they stand on the invoice.
    pub fn named_lines(&self) -> impl Iterator<Item = (LineId, &LineItem)> {
        (1..).zip(&self.lines).map(|(place, line)| (LineId::new(self.id, place), line))
    }

    /// The lines that charge for something, by their ids: voiding the invoice forgives them.
    pub fn forgiven_when_voided(&self) -> impl Iterator<Item = (LineId, &LineItem)> {
        let is_charge = |line: &LineItem| line.subscription.is_some() || line.is_one_off();
        self.named_lines().filter(move |(_, line)| is_charge(line) && line.charges())
    }

    /// The lines that take back what earlier invoices charged, by their ids: voiding the invoice makes it owed again.
    pub fn owed_again_when_voided(&self) -> impl Iterator<Item = (LineId, &LineItem)> {
        self.named_lines().filter(|(_, line)| line.subscription.is_some() && line.takes_back())
    }

    fn charged(&self) -> impl Iterator<Item = Period> {
        self.lines.iter().filter(|line| line.subscription.is_some()).map(|line| line.period)
    }
}

/// Digits of the sequence in an invoice number; more where it has more.
pub const SEQUENCE_DIGITS: usize = 6;

/// The invoice number of `sequence` on the UTC day of `issued_at`.
pub fn number(issued_at: OffsetDateTime, sequence: u64) -> String {
    format!("{}{sequence:0SEQUENCE_DIGITS$}", number_prefix(issued_at))
}

/// What stands before the sequence in the number of an invoice that is issued at `issued_at`: the UTC day.
pub fn number_prefix(issued_at: OffsetDateTime) -> String {
    let (year, month, day) = issued_at.to_offset(UtcOffset::UTC).to_calendar_date();
    format!("{:02}{:02}{:02}-", year.rem_euclid(100), u8::from(month), day)
}
