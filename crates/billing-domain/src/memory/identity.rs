//! Accounts of providers, and roles by their groups.

use super::MemoryTransaction;
use super::user::Account;
use crate::error::{Error, Noun};
use crate::id::UserId;
use crate::store::IdentityRepo;
use crate::user::{HeldRole, Identity, Role};

impl MemoryTransaction {
    fn person(&mut self, user: UserId) -> Result<&mut Account, Error> {
        let mut accounts = self.state.people.accounts.values_mut();
        accounts.find(|account| account.id == user).ok_or(Error::NotFound(Noun::User))
    }
}

impl IdentityRepo for MemoryTransaction {
    fn sign_up(&mut self, email: &str, identity: &Identity, role: Role) -> Result<Option<UserId>, Error> {
        let (organization, id) = (self.organization, UserId::from(self.state.new_uuid()));
        let people = &mut self.state.people;
        if people.accounts.contains_key(email) || people.identities.contains_key(identity) {
            return Ok(None);
        }
        let mut account = Account::new(id, "");
        account.roles.insert(organization, role);
        people.accounts.insert(email.to_owned(), account);
        people.identities.insert(identity.clone(), id);
        people.givers.insert((id, organization), identity.issuer.clone());
        Ok(Some(id))
    }

    fn link(&mut self, user: UserId, identity: &Identity) -> Result<bool, Error> {
        self.person(user)?;
        let identities = &mut self.state.people.identities;
        let has_other = identities.iter().any(|(other, of)| *of == user && other.issuer == identity.issuer);
        if has_other || identities.contains_key(identity) {
            return Ok(false);
        }
        identities.insert(identity.clone(), user);
        Ok(true)
    }

    fn unlink(&mut self, user: UserId, identity: &Identity) -> Result<bool, Error> {
        let has_password = !self.person(user)?.password_hash.is_empty();
        let people = &mut self.state.people;
        let has_role = people.givers.iter().any(|((of, _), issuer)| *of == user && *issuer == identity.issuer);
        let is_theirs = people.identities.get(identity) == Some(&user);
        let is_to_go = has_password && !has_role && is_theirs;
        if is_to_go {
            people.identities.remove(identity);
        }
        Ok(is_to_go)
    }

    fn find_role(&mut self, user: UserId) -> Result<Option<HeldRole>, Error> {
        let organization = self.organization;
        let issuer = self.state.people.givers.get(&(user, organization)).cloned();
        let role = self.person(user)?.roles.get(&organization).copied();
        Ok(role.map(|role| HeldRole { role, issuer }))
    }

    fn give_role(&mut self, user: UserId, issuer: &str, role: Role) -> Result<(), Error> {
        let organization = self.organization;
        self.person(user)?.roles.insert(organization, role);
        self.state.people.givers.insert((user, organization), issuer.to_owned());
        Ok(())
    }
}
