//! Tokens of what rows were read: under the same token the rows are the same. Triggers give another one with every change.

use uuid::Uuid;

/// The version of an organization's catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CatalogVersion(pub(crate) Uuid);

/// The version of a customer's roll-ups; of one without any there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RollupVersion(pub(crate) Option<Uuid>);

/// The version of a customer's subscriptions; of one without any there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubscriptionVersion(pub(crate) Option<Uuid>);
