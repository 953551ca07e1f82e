//! The users of one organization.

use crate::error::Error;
use crate::id::UserId;
use crate::user::{Invitation, Member, Role, Session};

/// Who belongs to the organization. Addresses come as [`normal_email`](crate::user::normal_email) gives them.
pub trait MemberRepo {
    /// All, by address.
    fn list(&mut self) -> Result<Vec<Member>, Error>;
    /// Gives one another role, from the next page on.
    fn set_role(&mut self, user: UserId, role: Role) -> Result<(), Error>;
    /// Takes one out, with the sessions there. What the user is elsewhere stays.
    fn remove(&mut self, user: UserId) -> Result<(), Error>;
    /// The sessions of one in this organization, newest first, those that are over included.
    fn list_sessions(&mut self, user: UserId) -> Result<Vec<Session>, Error>;
    /// Ends a session of one in this organization.
    fn end_session(&mut self, user: UserId, prefix: &str) -> Result<(), Error>;
    /// Keeps an invitation, in the place of an earlier one to the same address.
    fn invite(&mut self, invitation: &Invitation) -> Result<(), Error>;
    /// Takes an invitation: nobody else finds it any more.
    fn take_invitation(&mut self, prefix: &str) -> Result<Invitation, Error>;
    /// Makes a user, unless there is one with this address, whose password stays; in both cases it has this role here from now on.
    /// Whether it was made.
    fn put(&mut self, email: &str, password_hash: &str, role: Role) -> Result<(UserId, bool), Error>;
}
