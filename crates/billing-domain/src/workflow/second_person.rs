//! Holds what one person alone may not do.

use bigdecimal::BigDecimal;

use crate::error::{Error, HeldAmount, Refusal};
use crate::store::Transaction;

/// Refuses what gives away or takes more than one person may without another, unless another has approved as much.
///
/// The limit is a number that holds for each currency. It is read in the transaction that does the work, so that no change of the books
/// or of the limit comes between.
///
/// # Errors
/// [`Refusal::NeedsApproval`]; [`Refusal::ApprovalExceeded`] when it comes to more than was approved.
///
/// # Source
/// `docs/operating.md`, "A second person for large amounts".
pub(super) fn hold_above_limit(
    tx: &mut dyn Transaction,
    amount: &BigDecimal,
    currency_code: &str,
) -> Result<(), Error> {
    let amount = amount.abs();
    match tx.organizations().get()?.approval_limit {
        Some(limit) if amount > limit => {}
        _ => return Ok(()),
    }
    let held = HeldAmount { amount: Some(amount), currency_code: Some(currency_code.to_owned()) };
    match tx.approved().map(|approved| &approved.held) {
        None => Err(Refusal::NeedsApproval(Box::new(held)).into()),
        Some(approved) if approved.currency_code == held.currency_code && approved.amount >= held.amount => Ok(()),
        Some(_) => Err(Refusal::ApprovalExceeded.into()),
    }
}

/// Refuses to raise the limit or to turn it off, unless another person has approved just that.
///
/// # Errors
/// As [`hold_above_limit`].
pub(super) fn hold_looser_limit(tx: &mut dyn Transaction, limit: Option<&BigDecimal>) -> Result<(), Error> {
    let held = HeldAmount { amount: limit.cloned(), currency_code: None };
    match tx.approved().map(|approved| &approved.held) {
        None => Err(Refusal::NeedsApproval(Box::new(held)).into()),
        Some(approved) if *approved == held => Ok(()),
        Some(_) => Err(Refusal::ApprovalExceeded.into()),
    }
}
