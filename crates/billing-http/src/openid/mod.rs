//! Signing in with an OpenID provider: what is set, and the conversation with the provider. It knows no page, no user and no store.
//!
//! Whoever signs in is sent to the provider and comes back with a code, which is exchanged for a token that says who they are
//! (OpenID Connect Core 1.0, the authorization code flow, with PKCE). What is sent along and compared later follows from the cookie of
//! the browser: see [`Secrets`].

mod calls;
mod group_roles;
mod provider;
mod secrets;
mod settings;

pub use group_roles::GroupRoles;
pub use provider::{Account, Provider, ProviderFailure};
pub use secrets::Secrets;
pub use settings::{OpenIdFlags, OpenIdSettings};
