//! Finding a user of an organization.

use crate::error::{Error, Noun};
use crate::id::UserId;
use crate::store::Transaction;
use crate::user::Member;

/// A user of the organization.
///
/// # Errors
/// [`Error::NotFound`] where there is no such user.
pub fn find_member(tx: &mut dyn Transaction, user: UserId) -> Result<Member, Error> {
    let members = tx.members().list()?;
    members.into_iter().find(|member| member.user == user).ok_or(Error::NotFound(Noun::User))
}
