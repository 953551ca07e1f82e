//! What the groups of a provider make of a user in one organization.

use super::change_role::refuse_last_owner;
use super::find_member::find_member;
use crate::error::{Error, Refusal};
use crate::id::UserId;
use crate::store::Transaction;
use crate::user::{HeldRole, Role};

/// A user, and what the groups of an issuer say of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyGroupRole {
    /// Who has signed in with an account of the issuer that is linked.
    pub user: UserId,
    /// The provider.
    pub issuer: String,
    /// What the groups make of them here; `None`: nothing.
    pub role: Option<Role>,
}

/// What became of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppliedRole {
    /// It is what it was.
    Unchanged,
    /// It was one, or none, and is another one, or none.
    Changed {
        /// What it was.
        before: Option<Role>,
        /// What it is.
        after: Option<Role>,
    },
    /// It stays, since the organization would have no owner.
    LastOwner,
}

/// Gives a user the role that the groups of an issuer say, and takes away what they gave before and do not say any more. What a person
/// gave stays where the groups say nothing; where they say something, their word holds from then on.
///
/// # Errors
/// Those of the store.
pub fn apply_group_role(tx: &mut dyn Transaction, command: &ApplyGroupRole) -> Result<AppliedRole, Error> {
    let ApplyGroupRole { user, issuer, role } = command;
    let held = tx.identities().find_role(*user)?;
    let is_theirs = held.as_ref().is_some_and(|held| held.issuer.as_ref() == Some(issuer));
    let before = held.map(|HeldRole { role, .. }| role);
    if before == *role && (is_theirs || before.is_none()) || role.is_none() && !is_theirs {
        return Ok(AppliedRole::Unchanged);
    }
    if before == Some(Role::Owner) && *role != Some(Role::Owner) {
        let member = find_member(tx, *user)?;
        match refuse_last_owner(tx, &member) {
            Err(Error::Refused(Refusal::LastOwner)) => return Ok(AppliedRole::LastOwner),
            other => other?,
        }
    }
    match role {
        Some(role) => tx.identities().give_role(*user, issuer, *role)?,
        None => tx.members().remove(*user)?,
    }
    // The same role, which the groups say from now on, is no change.
    if before == *role { Ok(AppliedRole::Unchanged) } else { Ok(AppliedRole::Changed { before, after: *role }) }
}
