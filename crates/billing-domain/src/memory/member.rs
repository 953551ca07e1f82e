//! The users of one organization, and who is invited.

use super::MemoryTransaction;
use super::user::Account;
use crate::error::{Error, Noun};
use crate::id::UserId;
use crate::store::MemberRepo;
use crate::user::{Invitation, Member, Role, Session};

impl MemoryTransaction {
    fn member(&mut self, user: UserId) -> Result<&mut Account, Error> {
        let organization = self.organization;
        let mut accounts = self.state.people.accounts.values_mut();
        accounts
            .find(|account| account.id == user && account.roles.contains_key(&organization))
            .ok_or(Error::NotFound(Noun::User))
    }
}

impl MemberRepo for MemoryTransaction {
    fn list(&mut self) -> Result<Vec<Member>, Error> {
        let member = |(email, account): (&String, &Account)| {
            Some(Member { user: account.id, email: email.clone(), role: *account.roles.get(&self.organization)? })
        };
        Ok(self.state.people.accounts.iter().filter_map(member).collect())
    }

    fn set_role(&mut self, user: UserId, role: Role) -> Result<(), Error> {
        let organization = self.organization;
        self.member(user)?.roles.insert(organization, role);
        self.state.people.givers.remove(&(user, organization));
        Ok(())
    }

    fn remove(&mut self, user: UserId) -> Result<(), Error> {
        let organization = self.organization;
        self.member(user)?.roles.remove(&organization);
        self.state.people.givers.remove(&(user, organization));
        let sessions = &mut self.state.people.sessions;
        sessions.retain(|_, session| session.user != user || session.organization != organization);
        Ok(())
    }

    fn list_sessions(&mut self, user: UserId) -> Result<Vec<Session>, Error> {
        self.member(user)?;
        let organization = self.organization;
        let is_theirs = |session: &&Session| session.user == user && session.organization == organization;
        let mut sessions: Vec<Session> = self.state.people.sessions.values().filter(is_theirs).cloned().collect();
        sessions.sort_by(|a, b| (b.created_at, &b.fingerprint.prefix).cmp(&(a.created_at, &a.fingerprint.prefix)));
        Ok(sessions)
    }

    fn end_session(&mut self, user: UserId, prefix: &str) -> Result<(), Error> {
        let organization = self.organization;
        let sessions = &mut self.state.people.sessions;
        match sessions.get(prefix) {
            Some(session) if session.user == user && session.organization == organization => {
                sessions.remove(prefix);
                Ok(())
            }
            _ => Err(Error::NotFound(Noun::Session)),
        }
    }

    fn invite(&mut self, invitation: &Invitation) -> Result<(), Error> {
        let organization = self.organization;
        let kept = Invitation { organization, ..invitation.clone() };
        let invitations = &mut self.state.people.invitations;
        invitations.retain(|_, other| other.organization != organization || other.email != kept.email);
        invitations.insert(kept.fingerprint.prefix.clone(), kept);
        Ok(())
    }

    fn take_invitation(&mut self, prefix: &str) -> Result<Invitation, Error> {
        let organization = self.organization;
        let invitations = &mut self.state.people.invitations;
        let is_ours = invitations.get(prefix).is_some_and(|invitation| invitation.organization == organization);
        let taken = if is_ours { invitations.remove(prefix) } else { None };
        taken.ok_or(Error::NotFound(Noun::Invitation))
    }

    fn put(&mut self, email: &str, password_hash: &str, role: Role) -> Result<(UserId, bool), Error> {
        let (organization, id) = (self.organization, self.state.new_uuid().into());
        let is_new = !self.state.people.accounts.contains_key(email);
        let made = || Account::new(id, password_hash);
        let account = self.state.people.accounts.entry(email.to_owned()).or_insert_with(made);
        account.roles.insert(organization, role);
        let id = account.id;
        self.state.people.givers.remove(&(id, organization));
        Ok((id, is_new))
    }
}
