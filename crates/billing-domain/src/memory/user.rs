//! Users and their sessions.

use std::collections::BTreeMap;

use time::OffsetDateTime;

use super::{MemoryStore, State};
use crate::api_key::Fingerprint;
use crate::error::{Error, Noun};
use crate::id::{OrganizationId, UserId};
use crate::store::Users;
use crate::user::{Identity, Invitation, Invited, Membership, Role, Session, SignInAttempt, SignedIn, User};

/// Everybody, whatever organization they belong to.
#[derive(Clone, Debug, Default)]
pub(super) struct People {
    /// By address.
    pub accounts: BTreeMap<String, Account>,
    /// By prefix.
    pub sessions: BTreeMap<String, Session>,
    /// By prefix.
    pub invitations: BTreeMap<String, Invitation>,
    /// Whom accounts of providers are linked with.
    pub identities: BTreeMap<Identity, UserId>,
    /// The issuer of the groups that have given a role.
    pub givers: BTreeMap<(UserId, OrganizationId), String>,
    /// By prefix.
    pub attempts: BTreeMap<String, SignInAttempt>,
}

#[derive(Clone, Debug)]
pub(super) struct Account {
    pub id: UserId,
    pub password_hash: String,
    timezone: Option<String>,
    pub roles: BTreeMap<OrganizationId, Role>,
}

impl Account {
    /// Of nobody's organization yet.
    pub fn new(id: UserId, password_hash: &str) -> Self {
        Self { id, password_hash: password_hash.to_owned(), timezone: None, roles: BTreeMap::new() }
    }
}

impl State {
    fn user(&self, email: &str) -> Result<Option<User>, Error> {
        let Some(account) = self.people.accounts.get(email) else { return Ok(None) };
        let memberships = account.roles.iter().map(|(organization, role)| self.membership(*organization, *role));
        let mut memberships: Vec<Membership> = memberships.collect::<Result<_, _>>()?;
        memberships.sort_by(|a, b| {
            (&a.organization_name, a.organization.uuid()).cmp(&(&b.organization_name, b.organization.uuid()))
        });
        let password_hash = account.password_hash.clone();
        Ok(Some(User { id: account.id, email: email.to_owned(), password_hash, memberships }))
    }

    fn membership(&self, organization: OrganizationId, role: Role) -> Result<Membership, Error> {
        let organization_name = self.tenant(organization)?.organization.name.clone();
        Ok(Membership { organization, organization_name, role })
    }
}

impl Users for MemoryStore {
    fn has_users(&self) -> Result<bool, Error> {
        Ok(!self.lock().people.accounts.is_empty())
    }

    fn find_user(&self, email: &str) -> Result<Option<User>, Error> {
        self.lock().user(email)
    }

    fn put_user(
        &self,
        email: &str,
        password_hash: &str,
        organization: OrganizationId,
        role: Role,
    ) -> Result<bool, Error> {
        let mut state = self.lock();
        state.tenant(organization)?;
        let id = state.new_uuid().into();
        let is_new = !state.people.accounts.contains_key(email);
        let made = || Account::new(id, password_hash);
        let account = state.people.accounts.entry(email.to_owned()).or_insert_with(made);
        account.roles.insert(organization, role);
        let id = account.id;
        state.people.givers.remove(&(id, organization));
        Ok(is_new)
    }

    fn set_password(&self, email: &str, password_hash: &str) -> Result<bool, Error> {
        let mut state = self.lock();
        let Some(account) = state.people.accounts.get_mut(email) else { return Ok(false) };
        account.password_hash = password_hash.to_owned();
        let id = account.id;
        state.people.sessions.retain(|_, session| session.user != id);
        Ok(true)
    }

    fn set_timezone(&self, user: UserId, timezone: Option<&str>) -> Result<bool, Error> {
        let mut state = self.lock();
        let account = state.people.accounts.values_mut().find(|account| account.id == user);
        let Some(account) = account else { return Ok(false) };
        account.timezone = timezone.map(str::to_owned);
        Ok(true)
    }

    fn remove_member(&self, organization: OrganizationId, email: &str) -> Result<bool, Error> {
        let mut state = self.lock();
        let Some(account) = state.people.accounts.get_mut(email) else { return Ok(false) };
        let (id, was_member) = (account.id, account.roles.remove(&organization).is_some());
        state.people.givers.remove(&(id, organization));
        state.people.sessions.retain(|_, session| session.user != id || session.organization != organization);
        Ok(was_member)
    }

    fn list_members(&self, organization: OrganizationId) -> Result<Vec<(String, Role)>, Error> {
        let state = self.lock();
        let role = |(email, account): (&String, &Account)| Some((email.clone(), *account.roles.get(&organization)?));
        Ok(state.people.accounts.iter().filter_map(role).collect())
    }

    fn begin_session(
        &self,
        fingerprint: &Fingerprint,
        user: UserId,
        organization: OrganizationId,
        browser: &str,
    ) -> Result<(), Error> {
        let mut state = self.lock();
        let now = state.now;
        if !state.people.accounts.values().any(|account| account.id == user) {
            return Err(Error::NotFound(Noun::User));
        }
        state.people.sessions.retain(|_, session| session.user != user || !session.is_over(now));
        let session = Session {
            fingerprint: fingerprint.clone(),
            user,
            organization,
            browser: browser.to_owned(),
            created_at: now,
            seen_at: now,
        };
        state.people.sessions.insert(fingerprint.prefix.clone(), session);
        Ok(())
    }

    fn find_session(&self, prefix: &str) -> Result<Option<SignedIn>, Error> {
        let state = self.lock();
        let Some(session) = state.people.sessions.get(prefix) else { return Ok(None) };
        let user = state.people.accounts.iter().find(|(_, account)| account.id == session.user);
        let role = user.and_then(|(email, account)| Some((email, account, *account.roles.get(&session.organization)?)));
        let Some((email, account, role)) = role else { return Ok(None) };
        let membership = state.membership(session.organization, role)?;
        let (email, has_others) = (email.clone(), account.roles.len() > 1);
        let timezone = account.timezone.clone();
        let organization_timezone = state.tenant(session.organization)?.organization.timezone.to_string();
        let (session, now) = (session.clone(), state.now);
        Ok(Some(SignedIn { session, email, membership, has_others, timezone, organization_timezone, now }))
    }

    fn switch_session(
        &self,
        user: UserId,
        prefix: &str,
        fingerprint: &Fingerprint,
        organization: OrganizationId,
    ) -> Result<bool, Error> {
        let mut state = self.lock();
        let belongs = |account: &Account| account.id == user && account.roles.contains_key(&organization);
        let is_theirs = state.people.sessions.get(prefix).is_some_and(|session| session.user == user);
        if !is_theirs || !state.people.accounts.values().any(belongs) {
            return Ok(false);
        }
        let Some(mut session) = state.people.sessions.remove(prefix) else { return Ok(false) };
        session.fingerprint = fingerprint.clone();
        session.organization = organization;
        session.seen_at = state.now;
        state.people.sessions.insert(fingerprint.prefix.clone(), session);
        Ok(true)
    }

    fn note_seen(&self, prefix: &str) -> Result<(), Error> {
        let mut state = self.lock();
        let now = state.now;
        if let Some(session) = state.people.sessions.get_mut(prefix) {
            session.seen_at = now;
        }
        Ok(())
    }

    fn end_session(&self, user: UserId, prefix: &str) -> Result<bool, Error> {
        let mut state = self.lock();
        let is_theirs = state.people.sessions.get(prefix).is_some_and(|session| session.user == user);
        if is_theirs {
            state.people.sessions.remove(prefix);
        }
        Ok(is_theirs)
    }

    fn find_invitation(&self, prefix: &str) -> Result<Option<Invited>, Error> {
        let state = self.lock();
        let Some(invitation) = state.people.invitations.get(prefix).cloned() else { return Ok(None) };
        let organization_name = state.tenant(invitation.organization)?.organization.name.clone();
        let is_user = state.people.accounts.contains_key(&invitation.email);
        Ok(Some(Invited { invitation, organization_name, is_user, now: state.now }))
    }

    fn list_sessions(&self, user: UserId) -> Result<Vec<Session>, Error> {
        let state = self.lock();
        let mut sessions: Vec<Session> =
            state.people.sessions.values().filter(|session| session.user == user).cloned().collect();
        sessions.sort_by(|a, b| (b.created_at, &b.fingerprint.prefix).cmp(&(a.created_at, &a.fingerprint.prefix)));
        Ok(sessions)
    }

    fn find_linked(&self, identity: &Identity) -> Result<Option<User>, Error> {
        let state = self.lock();
        let Some(id) = state.people.identities.get(identity) else { return Ok(None) };
        let found = state.people.accounts.iter().find(|(_, account)| account.id == *id);
        found.map_or(Ok(None), |(email, _)| state.user(email))
    }

    fn list_identities(&self, user: UserId) -> Result<Vec<Identity>, Error> {
        let state = self.lock();
        let linked = state.people.identities.iter().filter(|(_, linked)| **linked == user);
        Ok(linked.map(|(identity, _)| identity.clone()).collect())
    }

    fn list_given(&self, user: UserId, issuer: &str) -> Result<Vec<OrganizationId>, Error> {
        let state = self.lock();
        let given = state.people.givers.iter().filter(|((of, _), giver)| *of == user && *giver == issuer);
        Ok(given.map(|((_, organization), _)| *organization).collect())
    }

    fn begin_attempt(
        &self,
        fingerprint: &Fingerprint,
        linking: Option<UserId>,
        destination: &str,
    ) -> Result<(), Error> {
        let mut state = self.lock();
        let now = state.now;
        state.people.attempts.retain(|_, attempt| !attempt.is_over(now));
        let (fingerprint, destination) = (fingerprint.clone(), destination.to_owned());
        let attempt = SignInAttempt { fingerprint, linking, destination, created_at: now };
        state.people.attempts.insert(attempt.fingerprint.prefix.clone(), attempt);
        Ok(())
    }

    fn take_attempt(&self, prefix: &str) -> Result<Option<(SignInAttempt, OffsetDateTime)>, Error> {
        let mut state = self.lock();
        let now = state.now;
        Ok(state.people.attempts.remove(prefix).map(|attempt| (attempt, now)))
    }
}
