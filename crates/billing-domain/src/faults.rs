//! What is wrong with a command, said all at once.

use time::OffsetDateTime;

use crate::customer::CustomerId;
use crate::error::{Error, FieldCode, FieldErrors};
use crate::id::CustomerKey;
use crate::store::Transaction;

/// Notes which of the `items` of the list at `attr` have been there before.
pub(crate) fn check_once<T: PartialEq>(errors: &mut FieldErrors, attr: &str, items: &[T]) {
    for (i, item) in items.iter().enumerate() {
        if items[..i].contains(item) {
            errors.push(format!("{attr}.{i}"), FieldCode::Unique, "This list has it already.");
        }
    }
}

/// Notes at `attr` that what was looked for does not exist; other errors are passed on.
pub(crate) fn look_up<T>(errors: &mut FieldErrors, attr: &str, found: Result<T, Error>) -> Result<Option<T>, Error> {
    match found.map_err(|error| error.at_field(attr)) {
        Ok(found) => Ok(Some(found)),
        Err(Error::Fields(faults)) => {
            errors.0.extend(faults.0);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The time that the customer lives at. That there is no such customer is noted at `customer_id`.
pub(crate) fn look_up_now(
    errors: &mut FieldErrors,
    tx: &mut dyn Transaction,
    customer: &CustomerId,
) -> Result<OffsetDateTime, Error> {
    let key = CustomerKey::derive(tx.organization(), customer);
    look_up(errors, "customer_id", tx.customers().get(key))?;
    tx.customers().now(key)
}
