//! Who is calling: API keys, what a request knows of its caller, and the claim that it makes.

mod bearer;
mod claim;
mod key;
mod known;

use std::sync::Arc;

use billing_domain::api_key::{ApiKey, KeyScopes};
use billing_domain::approval::Approved;
use billing_domain::audit::Actor;
use billing_domain::id::OrganizationId;

use crate::noted_call::Call;

pub use bearer::Bearer;
pub use claim::{Pending, Terms};
pub use key::{KeyText, Pepper, PepperError};
pub use known::KnownKeys;

/// Who is calling. The organization comes from here and from nowhere else.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The organization that the key speaks for.
    pub organization: OrganizationId,
    /// The part of the key that may be logged.
    pub key_prefix: String,
    /// Who that is, as the audit log tells of it.
    pub actor: Actor,
    /// What the key may be used for.
    pub scopes: KeyScopes,
    /// The claim of the request: what it changes is changed once.
    pub claim: Option<Arc<Pending>>,
    /// The call that is made, where it may change something.
    pub call: Option<Call>,
    /// What a second person has approved, whose call is made now.
    pub approved: Option<Approved>,
}

impl Caller {
    /// Whoever has this key.
    pub fn of_key(key: &ApiKey) -> Self {
        let actor = Actor::api_key(&key.prefix, &key.name);
        Self {
            organization: key.organization,
            key_prefix: key.prefix.clone(),
            actor,
            scopes: key.scopes.clone(),
            claim: None,
            call: None,
            approved: None,
        }
    }

    /// With the call that the request makes.
    #[must_use]
    pub fn making(self, call: Option<Call>) -> Self {
        Self { call: call.or(self.call), ..self }
    }
}
