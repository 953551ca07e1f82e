//! Credits: money on a customer's account that pays invoices down.
//!
//! A [`CreditLedger`] is a credit and its entries, appended and never changed. Whatever happens to it,
//!
//! ```text
//! amount = remaining + (drawn - restored) + voided + expired      with every term at least 0
//! ```
//!
//! [`drawdown_plan`] says which credits pay an invoice, and how much each.
//!
//! Source: `docs/pricing.md`, "Credits".

mod drawdown;
mod ledger;

use bigdecimal::{BigDecimal, Signed};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::decimal;
use crate::id::CreditId;
use crate::period::instant;

pub use drawdown::{Drawdown, drawdown_plan};
pub use ledger::{Balance, CreditLedger, EntryKind, LedgerEntry, LedgerError};

/// Why a credit cannot be made or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreditError {
    /// The amount is not above 0.
    #[error("The amount of a credit is more than 0.")]
    AmountNotPositive,
    /// The amount paid is below 0.
    #[error("The amount paid for a credit is not below 0.")]
    AmountPaidNegative,
    /// Something was paid and the currency of it is missing.
    #[error("The currency of the amount paid is required.")]
    AmountPaidCurrencyRequired,
    /// It would expire when it takes effect, or before.
    #[error("A credit expires after it takes effect.")]
    ExpiresBeforeEffective,
    /// The new expiry is not in the future.
    #[error("The expiry of a credit cannot be set to the past.")]
    ExpiryInPast,
    /// The credit is used up, voided or expired.
    #[error("The credit is no longer active.")]
    NotActive,
}

choices! {
    /// Whether a credit can still pay for something, now or later.
    pub CreditStatus {
        /// Something remains and has not expired. It may not have taken effect yet.
        Active = "active",
        /// It is used up, voided or expired.
        Inactive = "inactive",
    }
}

/// A credit as it was granted. Only its description and expiry may change later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    /// Its id.
    pub id: CreditId,
    /// The currency it pays invoices in; it pays no others.
    pub currency_code: String,
    /// How much it is worth, in major units.
    #[serde(with = "decimal::number")]
    pub amount: BigDecimal,
    /// What the customer paid for it; 0 when it was given.
    #[serde(with = "decimal::number")]
    pub amount_paid: BigDecimal,
    /// What the customer paid in.
    #[serde(default)]
    pub amount_paid_currency_code: Option<String>,
    /// What it is for.
    #[serde(default)]
    pub description: Option<String>,
    /// From when on it pays invoices.
    #[serde(with = "instant")]
    pub effective_at: OffsetDateTime,
    /// From when on it does not; none is never.
    #[serde(with = "instant::optional", default)]
    pub expires_at: Option<OffsetDateTime>,
    /// When it was granted.
    #[serde(with = "instant")]
    pub created_at: OffsetDateTime,
}

impl Credit {
    /// Checks what a caller asks for.
    ///
    /// # Errors
    /// The first of [`CreditError`]'s amounts, currency and expiry that does not hold.
    pub fn check(&self) -> Result<(), CreditError> {
        if !self.amount.is_positive() {
            return Err(CreditError::AmountNotPositive);
        }
        if self.amount_paid.is_negative() {
            return Err(CreditError::AmountPaidNegative);
        }
        if self.amount_paid.is_positive() && self.amount_paid_currency_code.is_none() {
            return Err(CreditError::AmountPaidCurrencyRequired);
        }
        if self.expires_at.is_some_and(|expires_at| expires_at <= self.effective_at) {
            return Err(CreditError::ExpiresBeforeEffective);
        }
        Ok(())
    }

    /// Whether it has expired at `now`: the instant of expiry itself is too late. There is no other test of it.
    pub fn is_expired(&self, now: OffsetDateTime) -> bool {
        self.expires_at.is_some_and(|expires_at| now >= expires_at)
    }

    /// Whether it pays an invoice issued at `issued_at`: effective, and not expired.
    pub fn is_usable(&self, issued_at: OffsetDateTime) -> bool {
        self.effective_at <= issued_at && !self.is_expired(issued_at)
    }
}

#[cfg(test)]
mod tests;
