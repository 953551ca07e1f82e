//! Finds a currency by its code.

use crate::currency::Currency;
use crate::error::{Error, FieldCode, FieldErrors, Noun};
use crate::nearest;
use crate::store::Transaction;

/// The currency of `code`: the organization's own before those of ISO 4217.
///
/// # Errors
/// [`Error::NotFound`].
pub fn find_currency(tx: &mut dyn Transaction, code: &str) -> Result<Currency, Error> {
    let added = tx.currencies().list()?.into_iter().find(|currency| currency.code == code);
    added.or_else(|| Currency::iso_4217(code)).ok_or(Error::NotFound(Noun::Currency))
}

/// [`find_currency`] for the field `attr`: where there is none of the `code`, that is noted there with what may have been meant.
///
/// # Errors
/// Those of the store.
pub(super) fn look_up_currency(
    errors: &mut FieldErrors,
    attr: &str,
    tx: &mut dyn Transaction,
    code: &str,
) -> Result<Option<Currency>, Error> {
    match find_currency(tx, code) {
        Err(Error::NotFound(Noun::Currency)) => {
            let added = tx.currencies().list()?;
            let known = added.into_iter().chain(Currency::all_iso_4217()).map(|known| (known.code.clone(), known.code));
            let question = nearest::question(&nearest::near(code, known));
            let detail = format!("There is no currency {}.{question}", nearest::quoted(code));
            errors.push(attr, FieldCode::DoesNotExist, detail);
            Ok(None)
        }
        found => found.map(Some),
    }
}
