//! Leaves the billing of a customer alone that failed too often.

use time::OffsetDateTime;

use super::tell::tell;
use crate::error::Error;
use crate::message::{MessageType, ParkedBilling, Subject};
use crate::store::{Leased, Transaction};

/// Parks the billing of a leased customer because it failed once more, until somebody releases it. One that was billed
/// meanwhile is left as it is.
///
/// # Errors
/// [`Error::NotFound`] for the customer; those of the store.
pub fn park_billing(tx: &mut dyn Transaction, leased: &Leased, reason: &str, now: OffsetDateTime) -> Result<(), Error> {
    if !tx.customers().park_billing(leased.customer, leased.failures, reason)? {
        return Ok(());
    }
    let customer = tx.customers().get_even_deleted(leased.customer)?;
    let parked = Subject::Parked(ParkedBilling::new(customer.clone(), leased.failures + 1));
    tell(tx, &customer, (MessageType::CustomerBillingParked, now), &parked)
}
