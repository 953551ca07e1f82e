//! What is missing to tax an invoice.

use std::fmt;

use time::OffsetDateTime;

use crate::id::CustomerKey;

/// The organization's own provider is to be asked before the customer can be billed as of `at`; nothing was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaxNeed {
    /// Whose rate.
    pub customer: CustomerKey,
    /// When the invoice is dated.
    pub at: OffsetDateTime,
    /// Why it had no answer when it was asked, if it was.
    pub failure: Option<String>,
}

impl fmt::Display for TaxNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            None => f.write_str("the tax provider is still to be asked"),
            Some(reason) => write!(f, "the tax provider had no answer: {reason}"),
        }
    }
}
