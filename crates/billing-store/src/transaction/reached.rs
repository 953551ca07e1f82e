//! The instants that customers reach, which are written once.

use std::collections::BTreeMap;

use billing_domain::id::CustomerKey;
use time::OffsetDateTime;

/// The instant that each customer has reached, and when something of theirs is due again.
#[derive(Default)]
pub(crate) struct Reached(pub(crate) BTreeMap<CustomerKey, (OffsetDateTime, Option<OffsetDateTime>)>);

impl Reached {
    /// [`billing_domain::store::CustomerRepo::advance_instant_and_queue`].
    pub(crate) fn advance(&mut self, customer: CustomerKey, instant: OffsetDateTime, due_at: Option<OffsetDateTime>) {
        let reached = self.0.get(&customer).map_or(instant, |(before, _)| instant.max(*before));
        self.0.insert(customer, (reached, due_at));
    }
}
