//! Taking a user out of an organization, which always has an owner.

use super::change_role::refuse_last_owner;
use super::find_member::find_member;
use crate::error::Error;
use crate::id::UserId;
use crate::store::Transaction;

/// Takes a user out of the organization, and ends the sessions there.
///
/// # Errors
/// [`Error::NotFound`] where there is no such user; [`Refusal::LastOwner`](crate::Refusal::LastOwner).
pub fn remove_member(tx: &mut dyn Transaction, user: UserId) -> Result<(), Error> {
    let member = find_member(tx, user)?;
    refuse_last_owner(tx, &member)?;
    tx.members().remove(user)
}
