//! Giving a user another role. An organization always has an owner.

use super::find_member::find_member;
use crate::error::{Error, Refusal};
use crate::id::UserId;
use crate::store::Transaction;
use crate::user::{Member, Role};

/// Gives a user another role.
///
/// # Errors
/// [`Error::NotFound`] where there is no such user; [`Refusal::LastOwner`].
pub fn change_role(tx: &mut dyn Transaction, user: UserId, role: Role) -> Result<Member, Error> {
    let member = find_member(tx, user)?;
    if role != Role::Owner {
        refuse_last_owner(tx, &member)?;
    }
    tx.members().set_role(user, role)?;
    Ok(Member { role, ..member })
}

/// Refuses what would leave the organization without an owner.
pub(super) fn refuse_last_owner(tx: &mut dyn Transaction, member: &Member) -> Result<(), Error> {
    let owners = tx.members().list()?.iter().filter(|other| other.role == Role::Owner).count();
    match member.role == Role::Owner && owners < 2 {
        true => Err(Refusal::LastOwner.into()),
        false => Ok(()),
    }
}
