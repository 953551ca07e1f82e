//! What an invoice says of the credit notes that took something back of it.

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use crate::id::CreditNoteId;

choices! {
    /// Where the money of a credit note goes.
    pub Settlement {
        /// It reduces what is due of the invoice, and what is not due any more becomes a credit.
        Balance = "balance",
        /// It was given back by other means: a refund to the card or the bank account.
        Outside = "outside",
    }
}

/// A credit note as its invoice lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditNoteBrief {
    /// Its id.
    pub id: CreditNoteId,
    /// Its number.
    pub number: String,
    /// What it takes back, with tax.
    pub amount: BigDecimal,
    /// Where the money goes.
    pub settlement: Settlement,
    /// When it was issued.
    pub issued_at: OffsetDateTime,
    /// When it was voided.
    pub voided_at: Option<OffsetDateTime>,
}
