//! What a custom query comes to: a quantity, or the reason why there is none.

use bigdecimal::BigDecimal;

use super::value::is_negative;
use crate::error::{CustomFailure, RESULT_DIGITS_MAX};

/// Decimals that a result is rounded to, half away from zero: what lies beyond is the dust of quotients.
pub const RESULT_DECIMALS: u32 = crate::decimal::TIE_DECIMALS;

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
