//! What a custom query comes to: a quantity, or the reason why there is none.

use bigdecimal::BigDecimal;

use super::size::WRITTEN_OUT_MAX;
use super::value::is_negative;

/// Decimals that a result is rounded to, half away from zero: what lies beyond is the dust of quotients.
pub const RESULT_DECIMALS: u32 = crate::decimal::TIE_DECIMALS;
/// Digits before the point that a result has at most.
pub const RESULT_DIGITS_MAX: u32 = 18;

/// What the rows of a custom query's result hold. Null is taken as 0, and numbers are rounded to [`RESULT_DECIMALS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomResult {
    /// Whether a row has a number that could not be computed.
    pub is_invalid: bool,
    /// The least of the others; `None`: there is no other row.
    pub least: Option<BigDecimal>,
    /// The greatest of the others.
    pub greatest: Option<BigDecimal>,
}

/// Why a custom query has no usable result. Nothing is billed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CustomFailure {
    /// The result stands on a number that could not be computed.
    #[error(
        "the query has no number as its result: a text that is no number was cast to one, something was divided by \
         zero, or a product was too great"
    )]
    Invalid,
    /// The result has several rows that differ.
    #[error("the query has several rows with different values as its result")]
    Ambiguous,
    /// The result is below zero.
    #[error("the query has a negative number as its result")]
    Negative,
    /// The result is too great.
    #[error("the query has a number of more than {RESULT_DIGITS_MAX} digits as its result")]
    TooGreat,
    /// It ran longer than custom metrics may, or than what was left of the time for all that was asked at once.
    #[error("the query takes too long, by itself or with all else that was asked at once")]
    TimedOut,
    /// It kept more rows in mind at once than custom metrics may.
    #[error("the query takes too much memory")]
    TooMuchMemory,
    /// It says too much in too few words.
    #[error("the query has more than {WRITTEN_OUT_MAX} parts, though every name in it is left as it is")]
    TooLarge,
    /// The store could not run it, through no fault of the query's. The store's log has the cause.
    #[error("a fault of the service kept the query from running")]
    Fault,
}

impl CustomResult {
    /// The quantity that the result is; no rows are 0.
    ///
    /// # Errors
    /// Why it is none.
    pub fn quantity(self) -> Result<BigDecimal, CustomFailure> {
        if self.is_invalid {
            return Err(CustomFailure::Invalid);
        }
        if self.least != self.greatest {
            return Err(CustomFailure::Ambiguous);
        }
        let quantity = self.least.unwrap_or_default();
        if is_negative(&quantity) {
            return Err(CustomFailure::Negative);
        }
        if quantity >= BigDecimal::new(1.into(), -i64::from(RESULT_DIGITS_MAX)) {
            return Err(CustomFailure::TooGreat);
        }
        Ok(quantity.normalized())
    }
}
