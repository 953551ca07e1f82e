//! Credits as JSON.

use billing_domain::credit::{CreditLedger, CreditStatus, EntryKind, LedgerEntry};
use billing_domain::id::{CreditId, CustomerKey, InvoiceId};
use billing_domain::store::Transaction;
use billing_domain::workflow::find_currency;
use billing_domain::{BigDecimal, Error};
use time::OffsetDateTime;

use crate::wire::{CurrencyView, CustomerBriefView, Instant, Number, view};

view! {
    /// Money on a customer's account that pays invoices down.
    CreditView {
        /// Its id.
        credit_id: CreditId,
        /// Whose it is.
        customer: CustomerBriefView,
        /// What it was worth when it was granted.
        amount: Number,
        /// What is left.
        amount_remaining: Number,
        /// The currency it pays invoices in.
        currency: CurrencyView,
        /// What it is for.
        description: Option<String>,
        /// From when on it pays invoices.
        effective_at: Instant,
        /// From when on it does not; null: never.
        expires_at: Option<Instant>,
        /// Whether something is left of it that can pay.
        status: CreditStatus,
        /// What the customer paid for it.
        amount_paid: Number,
        /// What the customer paid in; null when nothing was paid.
        amount_paid_currency: Option<CurrencyView>,
        /// What changed what is left, oldest first.
        drawdowns: Vec<DrawdownView>,
    }
}

view! {
    /// A change of what a credit has left.
    DrawdownView {
        /// Its own id.
        credit_id: CreditId,
        /// Below 0 when it took something away, above 0 when a voided invoice gave it back.
        amount: Number,
        /// Why.
        description: Option<String>,
        /// When.
        applied_at: Instant,
        /// The invoice that it paid, or that gave it back; null of what was voided or has expired.
        invoice_id: Option<InvoiceId>,
    }
}

impl CreditView {
    /// Of a customer's credit.
    ///
    /// # Errors
    /// Those of the store.
    pub fn load(tx: &mut dyn Transaction, customer: CustomerKey, ledger: &CreditLedger) -> Result<Self, Error> {
        let now = tx.customers().now(customer)?;
        Self::at(tx, customer, ledger, now)
    }

    /// Of a customer's credit, at the customer's `now`.
    ///
    /// # Errors
    /// Those of the store.
    pub fn at(
        tx: &mut dyn Transaction,
        customer: CustomerKey,
        ledger: &CreditLedger,
        now: OffsetDateTime,
    ) -> Result<Self, Error> {
        let credit = ledger.credit();
        let paid_in = match &credit.amount_paid_currency_code {
            Some(code) => Some((&find_currency(tx, code)?).into()),
            None => None,
        };
        let changes = ledger.entries().iter().filter(|entry| entry.kind != EntryKind::Grant);
        Ok(Self {
            credit_id: credit.id,
            customer: (&tx.customers().get_even_deleted(customer)?).into(),
            amount: (&credit.amount).into(),
            amount_remaining: (&ledger.remaining()).into(),
            currency: (&find_currency(tx, &credit.currency_code)?).into(),
            description: credit.description.clone(),
            effective_at: Instant(credit.effective_at),
            expires_at: credit.expires_at.map(Instant),
            status: ledger.status(now),
            amount_paid: (&credit.amount_paid).into(),
            amount_paid_currency: paid_in,
            drawdowns: changes.map(DrawdownView::from).collect(),
        })
    }
}

impl From<&LedgerEntry> for DrawdownView {
    fn from(entry: &LedgerEntry) -> Self {
        let (amount, description): (BigDecimal, _) = match entry.kind {
            EntryKind::Restored => (entry.amount.clone(), "Given back by a voided invoice"),
            EntryKind::Void => (-&entry.amount, "Voided"),
            EntryKind::Expiry => (-&entry.amount, "Expired"),
            EntryKind::Drawdown | EntryKind::Grant => (-&entry.amount, "Applied to an invoice"),
        };
        Self {
            credit_id: entry.id,
            amount: (&amount).into(),
            description: Some(description.to_owned()),
            applied_at: Instant(entry.at),
            invoice_id: entry.invoice,
        }
    }
}
