//! Who is calling: API keys, what a request knows of its caller, and the claim that it makes.

mod bearer;
mod claim;
mod key;
mod known;

use std::sync::Arc;

use billing_domain::id::OrganizationId;

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
    /// The claim of the request: what it changes is changed once.
    pub claim: Option<Arc<Pending>>,
}
