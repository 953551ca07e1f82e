//! What a tax rate may be, of an organization as of a customer.

use bigdecimal::{BigDecimal, Signed};

use crate::error::{FieldCode, FieldError};

/// A tax rate stays below this, in percent.
const TAX_RATE_LIMIT: u16 = 1_000;

/// Checks a tax rate in percent: 0 to below 1000, at most 4 decimals.
///
/// # Errors
/// The first bound that it breaks.
pub(super) fn check_tax_rate(rate: &BigDecimal) -> Result<(), FieldError> {
    let bad = |code, detail| Err(FieldError::new("", code, detail));
    if rate.is_negative() {
        return bad(FieldCode::MinValue, "Ensure this value is greater than or equal to 0.");
    }
    if rate >= &BigDecimal::from(TAX_RATE_LIMIT) {
        return bad(FieldCode::MaxValue, "Ensure this value is less than 1000.");
    }
    if rate.normalized().fractional_digit_count() > 4 {
        return bad(FieldCode::MaxDecimalPlaces, "Ensure that there are no more than 4 decimal places.");
    }
    Ok(())
}
