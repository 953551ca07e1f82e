//! Finds a currency by its code.

use crate::currency::Currency;
use crate::error::{Error, Noun};
use crate::store::Transaction;

/// The currency of `code`: the organization's own before those of ISO 4217.
///
/// # Errors
/// [`Error::NotFound`].
pub fn find_currency(tx: &mut dyn Transaction, code: &str) -> Result<Currency, Error> {
    let added = tx.currencies().list()?.into_iter().find(|currency| currency.code == code);
    added.or_else(|| Currency::iso_4217(code)).ok_or(Error::NotFound(Noun::Currency))
}
