//! Adds a currency to those of ISO 4217.

use crate::currency::Currency;
use crate::error::{Error, FieldCode, FieldErrors, Refusal};
use crate::store::Transaction;
use crate::text;

/// Longest code and symbol, in characters.
const CODE_CHARACTERS_MAX: usize = 10;
/// Most decimals of a unit.
const DECIMALS_MAX: u8 = 15;

/// Adds a currency of the organization's own.
///
/// # Errors
/// Every bad field; [`Refusal::DuplicateResource`] when the code is taken, by ISO 4217 or the organization.
pub fn create_currency(tx: &mut dyn Transaction, currency: &Currency) -> Result<Currency, Error> {
    check(currency)?;
    let added = tx.currencies().list()?;
    if Currency::iso_4217(&currency.code).is_some() || added.iter().any(|other| other.code == currency.code) {
        return Err(Refusal::DuplicateResource("A currency with this code already exists").into());
    }
    tx.currencies().insert(currency)?;
    Ok(currency.clone())
}

fn check(currency: &Currency) -> Result<(), FieldErrors> {
    let mut errors = FieldErrors::default();
    errors.keep("code", text::check(&currency.code, CODE_CHARACTERS_MAX));
    errors.keep("name", text::check(&currency.name, text::NAME_CHARACTERS_MAX));
    errors.keep("symbol", text::check(&currency.symbol, CODE_CHARACTERS_MAX));
    if currency.decimals > DECIMALS_MAX {
        errors.push("decimals", FieldCode::MaxValue, format!("Ensure this value is at most {DECIMALS_MAX}."));
    }
    errors.finish(())
}
