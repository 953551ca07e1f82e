//! Accounts of OpenID providers, and what their groups make of users in one organization.

use crate::error::Error;
use crate::id::UserId;
use crate::user::{HeldRole, Identity, Role};

/// Which accounts users are linked with, and the roles that groups give here. [`MemberRepo::remove`](super::MemberRepo::remove) takes
/// a role away, and a role that is given there is a person's.
pub trait IdentityRepo {
    /// Makes a user without a password who is linked with an account, and gives it a role here by the groups of the issuer. `None`, and
    /// nothing is done, where there is a user with this address, or one whom the account is linked with.
    fn sign_up(&mut self, email: &str, identity: &Identity, role: Role) -> Result<Option<UserId>, Error>;
    /// Links a user with an account; whether that was done. It is not where the account is linked with somebody, or the user with
    /// another one of the issuer.
    fn link(&mut self, user: UserId, identity: &Identity) -> Result<bool, Error>;
    /// Takes the link away; whether that was done. It is not where there is none, where the user could not sign in any more for want of
    /// a password, or has a role by the groups of the issuer, in whatever organization.
    fn unlink(&mut self, user: UserId, identity: &Identity) -> Result<bool, Error>;
    /// What a user is here, and who said so.
    fn find_role(&mut self, user: UserId) -> Result<Option<HeldRole>, Error>;
    /// Gives a user, who is linked with an account of the issuer, a role here by its groups, in the place of any other.
    fn give_role(&mut self, user: UserId, issuer: &str, role: Role) -> Result<(), Error>;
}
