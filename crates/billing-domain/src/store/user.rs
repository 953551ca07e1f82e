//! Users and their sessions, which are found before an organization is known.

use time::OffsetDateTime;

use crate::api_key::Fingerprint;
use crate::error::Error;
use crate::id::{OrganizationId, UserId};
use crate::user::{Identity, Invited, Role, Session, SignInAttempt, SignedIn, User};

/// Keeps who signs in. Addresses come as [`normal_email`](crate::user::normal_email) gives them.
pub trait Users: Send + Sync {
    /// Whether there is any user at all.
    fn has_users(&self) -> Result<bool, Error>;
    /// The user with this address.
    fn find_user(&self, email: &str) -> Result<Option<User>, Error>;
    /// Makes a user, unless there is one with this address, whose password stays; in both cases it has this role in the
    /// organization from now on. Whether it was made.
    ///
    /// # Errors
    /// [`Error::NotFound`] without such an organization.
    fn put_user(
        &self,
        email: &str,
        password_hash: &str,
        organization: OrganizationId,
        role: Role,
    ) -> Result<bool, Error>;
    /// Gives a user another password and ends all its sessions; whether there is such a user.
    fn set_password(&self, email: &str, password_hash: &str) -> Result<bool, Error>;
    /// Notes the time zone that a user reads instants in, or that the organization's holds; whether there is such a user.
    fn set_timezone(&self, user: UserId, timezone: Option<&str>) -> Result<bool, Error>;
    /// Takes a user out of an organization, and ends its sessions there; whether it belonged there.
    fn remove_member(&self, organization: OrganizationId, email: &str) -> Result<bool, Error>;
    /// Who belongs to an organization, by address.
    fn list_members(&self, organization: OrganizationId) -> Result<Vec<(String, Role)>, Error>;
    /// Begins a session of a user who has just proven to be one; those of the user's that are over go.
    fn begin_session(
        &self,
        fingerprint: &Fingerprint,
        user: UserId,
        organization: OrganizationId,
        browser: &str,
    ) -> Result<(), Error>;
    /// The session with this prefix, over or not, as long as its user belongs to its organization.
    fn find_session(&self, prefix: &str) -> Result<Option<SignedIn>, Error>;
    /// Has a session of a user's opened by another text, and look at another of the user's organizations, from now on. It stays as old
    /// as it was, so that nobody stays signed in by going to and fro. Whether there was one, and the user belongs there.
    fn switch_session(
        &self,
        user: UserId,
        prefix: &str,
        fingerprint: &Fingerprint,
        organization: OrganizationId,
    ) -> Result<bool, Error>;
    /// Notes that a session is used now.
    fn note_seen(&self, prefix: &str) -> Result<(), Error>;
    /// Ends a session of a user's; whether there was one.
    fn end_session(&self, user: UserId, prefix: &str) -> Result<bool, Error>;
    /// The invitation with this prefix, over or not.
    fn find_invitation(&self, prefix: &str) -> Result<Option<Invited>, Error>;
    /// The user whom an account of a provider is linked with.
    fn find_linked(&self, identity: &Identity) -> Result<Option<User>, Error>;
    /// The accounts that a user is linked with, by issuer.
    fn list_identities(&self, user: UserId) -> Result<Vec<Identity>, Error>;
    /// The organizations in which the groups of an issuer have given a user its role.
    fn list_given(&self, user: UserId, issuer: &str) -> Result<Vec<OrganizationId>, Error>;
    /// Keeps that somebody was sent to the provider; whoever is not waited for any more is forgotten.
    fn begin_attempt(&self, fingerprint: &Fingerprint, linking: Option<UserId>, destination: &str)
    -> Result<(), Error>;
    /// Takes who was sent, and the present instant: nobody else finds it any more, in whatever process.
    fn take_attempt(&self, prefix: &str) -> Result<Option<(SignInAttempt, OffsetDateTime)>, Error>;
    /// The sessions of a user, newest first, those that are over included.
    fn list_sessions(&self, user: UserId) -> Result<Vec<Session>, Error>;
}
