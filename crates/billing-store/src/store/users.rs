//! Users and their sessions, each by one short piece of work on a connection.

use billing_domain::Error;
use billing_domain::api_key::Fingerprint;
use billing_domain::id::{OrganizationId, UserId};
use billing_domain::store::Users;
use billing_domain::user::{Identity, Invited, Role, Session, SignInAttempt, SignedIn, User};
use diesel::PgConnection;
use time::OffsetDateTime;

use super::PgStore;
use crate::pg::error::Failure;
use crate::repo::{identity, member, user};

impl PgStore {
    fn on_users<T>(&self, work: impl FnMut(&mut PgConnection) -> Result<T, Failure>) -> Result<T, Error> {
        self.shared.pool.try_run(work).map_err(Failure::into_error)
    }
}

impl Users for PgStore {
    fn has_users(&self) -> Result<bool, Error> {
        self.on_users(|pg| Ok(user::has_any(pg)?))
    }

    fn find_user(&self, email: &str) -> Result<Option<User>, Error> {
        self.on_users(|pg| user::find(pg, email))
    }

    fn put_user(
        &self,
        email: &str,
        password_hash: &str,
        organization: OrganizationId,
        role: Role,
    ) -> Result<bool, Error> {
        self.on_users(|pg| user::put(pg, email, password_hash, organization, role))
    }

    fn set_password(&self, email: &str, password_hash: &str) -> Result<bool, Error> {
        self.on_users(|pg| user::set_password(pg, email, password_hash))
    }

    fn set_timezone(&self, user: UserId, timezone: Option<&str>) -> Result<bool, Error> {
        self.on_users(|pg| Ok(user::set_timezone(pg, user, timezone)?))
    }

    fn remove_member(&self, organization: OrganizationId, email: &str) -> Result<bool, Error> {
        self.on_users(|pg| Ok(user::remove_member(pg, organization, email)?))
    }

    fn list_members(&self, organization: OrganizationId) -> Result<Vec<(String, Role)>, Error> {
        self.on_users(|pg| user::list_members(pg, organization))
    }

    fn begin_session(
        &self,
        fingerprint: &Fingerprint,
        user: UserId,
        organization: OrganizationId,
        browser: &str,
    ) -> Result<(), Error> {
        self.on_users(|pg| Ok(user::begin_session(pg, fingerprint, user, organization, browser)?))
    }

    fn find_session(&self, prefix: &str) -> Result<Option<SignedIn>, Error> {
        self.on_users(|pg| user::find_session(pg, prefix))
    }

    fn switch_session(
        &self,
        user: UserId,
        prefix: &str,
        fingerprint: &Fingerprint,
        organization: OrganizationId,
    ) -> Result<bool, Error> {
        self.on_users(|pg| Ok(user::switch_session(pg, user, prefix, fingerprint, organization)?))
    }

    fn note_seen(&self, prefix: &str) -> Result<(), Error> {
        self.on_users(|pg| Ok(user::note_seen(pg, prefix)?))
    }

    fn end_session(&self, user: UserId, prefix: &str) -> Result<bool, Error> {
        self.on_users(|pg| Ok(user::end_session(pg, user, prefix)?))
    }

    fn find_invitation(&self, prefix: &str) -> Result<Option<Invited>, Error> {
        self.on_users(|pg| member::find_invitation(pg, prefix))
    }

    fn list_sessions(&self, user: UserId) -> Result<Vec<Session>, Error> {
        self.on_users(|pg| Ok(user::list_sessions(pg, user)?))
    }

    fn find_linked(&self, linked: &Identity) -> Result<Option<User>, Error> {
        self.on_users(|pg| identity::find_linked(pg, linked))
    }

    fn list_identities(&self, user: UserId) -> Result<Vec<Identity>, Error> {
        self.on_users(|pg| Ok(identity::list(pg, user)?))
    }

    fn list_given(&self, user: UserId, issuer: &str) -> Result<Vec<OrganizationId>, Error> {
        self.on_users(|pg| Ok(identity::list_given(pg, user, issuer)?))
    }

    fn begin_attempt(
        &self,
        fingerprint: &Fingerprint,
        linking: Option<UserId>,
        destination: &str,
    ) -> Result<(), Error> {
        self.on_users(|pg| Ok(identity::begin_attempt(pg, fingerprint, linking, destination)?))
    }

    fn take_attempt(&self, prefix: &str) -> Result<Option<(SignInAttempt, OffsetDateTime)>, Error> {
        self.on_users(|pg| Ok(identity::take_attempt(pg, prefix)?))
    }
}
