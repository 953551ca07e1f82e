//! What a tax rate may be, and who may be asked for one, of an organization as of a customer.

use bigdecimal::{BigDecimal, Signed};

use crate::error::{FieldCode, FieldError, FieldErrors};
use crate::tax::TaxProvider;

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

/// Checks a list of providers: each once, and [`TaxProvider::Http`] only where there is an address to ask.
pub(super) fn check_tax_providers(errors: &mut FieldErrors, providers: &[TaxProvider], has_hook: bool) {
    for (i, provider) in providers.iter().enumerate() {
        if providers[..i].contains(provider) {
            errors.push(format!("tax_providers.{i}"), FieldCode::Unique, "A provider is named once.");
        }
        if *provider == TaxProvider::Http && !has_hook {
            let detail = "The organization has no tax_provider_url to ask.";
            errors.push(format!("tax_providers.{i}"), FieldCode::Invalid, detail);
        }
    }
}
