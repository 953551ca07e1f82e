//! A caller whose key was valid before, and is looked at again by what is asked for.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use billing_domain::api_key::Fingerprint;
use billing_domain::approval::Approved;
use billing_domain::id::OrganizationId;
use billing_domain::store::Requester;

use super::{Caller, KeyText, Pending};
use crate::noted_call::Call;

/// Who is calling, with a key that was valid when it was last looked at.
#[derive(Clone)]
pub struct Bearer {
    caller: Arc<Caller>,
    /// What is to be looked at again; `None`: it has just been.
    key: Option<Arc<(KeyText, Fingerprint)>>,
    /// Whether that has been done since.
    is_confirmed: Rc<Cell<bool>>,
}

impl Bearer {
    /// A caller whose key was valid when it was last looked up.
    pub fn remembered(caller: Arc<Caller>, key: KeyText, fingerprint: Fingerprint) -> Self {
        Self { caller, key: Some(Arc::new((key, fingerprint))), is_confirmed: Rc::default() }
    }

    /// The key that is still to be looked up.
    pub fn unconfirmed_key(&self) -> Option<&KeyText> {
        self.key.as_deref().map(|(key, _)| key).filter(|_| !self.is_confirmed.get())
    }

    /// The caller, as it was when the key was last looked up.
    pub fn last_known(&self) -> &Caller {
        &self.caller
    }

    /// The organization that the key spoke for. What is asked on its behalf goes to the store with [`Bearer::requester`].
    pub fn organization(&self) -> OrganizationId {
        self.caller.organization
    }

    /// The part of the key that may be logged.
    pub fn key_prefix(&self) -> &str {
        &self.caller.key_prefix
    }

    /// With the call that the request makes.
    #[must_use]
    pub fn making(self, call: Option<Call>) -> Self {
        if call.is_none() {
            return self;
        }
        let caller = Arc::unwrap_or_clone(self.caller).making(call);
        Self { caller: Arc::new(caller), ..self }
    }

    /// The call that is made, where it may change something.
    pub fn call(&self) -> Option<Call> {
        self.caller.call.clone()
    }

    /// What a second person has approved, whose call is made now.
    pub fn approved(&self) -> Option<Approved> {
        self.caller.approved.clone()
    }

    /// The claim of the request, whose key has been looked at then.
    pub fn claim(&self) -> Option<Arc<Pending>> {
        self.caller.claim.clone()
    }

    /// The key that the store is to look at; `None`: somebody has.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.key.as_deref().map(|(_, fingerprint)| fingerprint.clone())
    }

    /// Who asks the store, which looks at the key.
    pub fn requester(&self) -> Requester {
        Requester { organization: self.caller.organization, key: self.fingerprint() }
    }

    /// The store did what [`Bearer::requester`] asked for: the key is valid.
    pub fn was_confirmed(&self) {
        self.is_confirmed.set(true);
    }
}

impl From<Caller> for Bearer {
    /// Whose key has just been looked up.
    fn from(caller: Caller) -> Self {
        Self { caller: Arc::new(caller), key: None, is_confirmed: Rc::default() }
    }
}

impl From<&Caller> for Bearer {
    fn from(caller: &Caller) -> Self {
        caller.clone().into()
    }
}

impl From<&Self> for Bearer {
    fn from(bearer: &Self) -> Self {
        bearer.clone()
    }
}
