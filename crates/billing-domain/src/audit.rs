//! The audit log: who changed what, when, from where, and what it was before and is since.
//!
//! An entry is written in the transaction of its change, so that the set of entries is the set of changes: what is refused or
//! undone leaves none, and what was done once has one. Entries never change.

use time::OffsetDateTime;

use crate::customer::CustomerId;
use crate::id::{AuditEntryId, CustomerKey, UserId};

choices! {
    /// What somebody who changes something is.
    pub ActorKind {
        /// A program, by its API key.
        ApiKey = "api_key",
        /// A person who signed in.
        User = "user",
        /// A provider that people sign in with, by what it says of one of them.
        IdentityProvider = "identity_provider",
    }
}

/// Who changed something, as they were called then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// What they are.
    pub kind: ActorKind,
    /// The prefix of the key, the id of the user, or the issuer.
    pub id: String,
    /// The name of the key, the address of the user, or the subject that the issuer spoke of.
    pub name: String,
}

impl Actor {
    /// Whoever holds the key with this prefix.
    pub fn api_key(prefix: &str, name: &str) -> Self {
        Self { kind: ActorKind::ApiKey, id: prefix.to_owned(), name: name.to_owned() }
    }

    /// This user.
    pub fn user(id: UserId, email: &str) -> Self {
        Self { kind: ActorKind::User, id: id.to_string(), name: email.to_owned() }
    }

    /// The provider that has vouched for this account.
    #[cfg(feature = "service")]
    pub fn identity_provider(identity: &crate::user::Identity) -> Self {
        let (issuer, subject) = (identity.issuer.clone(), identity.subject.clone());
        Self { kind: ActorKind::IdentityProvider, id: issuer, name: subject }
    }
}

/// A change, as whoever makes it tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Who made it.
    pub actor: Actor,
    /// Where they called from, where that is known.
    pub address: Option<String>,
    /// The request by which they did.
    pub request_id: String,
    /// What they called, by the name that the interface gives it.
    pub operation: String,
    /// What kind of thing was changed.
    pub kind: String,
    /// Which one; `None`: several, or one that has no name.
    pub subject: Option<String>,
    /// Whose it is; `None`: the organization's.
    pub customer: Option<CustomerKey>,
    /// The thing as it was shown before, as JSON; `None`: it was not there.
    pub before: Option<String>,
    /// What the call answered, as JSON and without secrets; `None`: it is not there any more.
    pub after: Option<String>,
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Names it for ever.
    pub id: AuditEntryId,
    /// When it was made, in real time, whatever clock its customer lives by.
    pub at: OffsetDateTime,
    /// The customer's own name for itself.
    pub customer: Option<CustomerId>,
    /// What was changed.
    pub change: Change,
}

/// Which entries are wanted. What is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// What belongs to this customer.
    pub customer: Option<CustomerKey>,
    /// [`Actor::id`] or [`Actor::name`].
    pub actor: Option<String>,
    /// [`Change::operation`].
    pub operation: Option<String>,
    /// [`Change::kind`].
    pub kind: Option<String>,
    /// [`Change::subject`].
    pub subject: Option<String>,
    /// The first instant.
    pub from: Option<OffsetDateTime>,
    /// The first instant behind the last.
    pub to: Option<OffsetDateTime>,
}

impl AuditFilter {
    /// Whether an entry is among those that are wanted.
    pub fn keeps(&self, entry: &AuditEntry) -> bool {
        let Change { actor, operation, kind, subject, customer, .. } = &entry.change;
        let is = |wanted: &Option<String>, given: &str| wanted.as_deref().is_none_or(|wanted| wanted == given);
        self.customer.is_none_or(|wanted| *customer == Some(wanted))
            && (is(&self.actor, &actor.id) || is(&self.actor, &actor.name))
            && is(&self.operation, operation)
            && is(&self.kind, kind)
            && (self.subject.is_none() || self.subject == *subject)
            && self.from.is_none_or(|from| entry.at >= from)
            && self.to.is_none_or(|to| entry.at < to)
    }
}
