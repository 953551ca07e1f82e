//! Tells what became true of a customer at work, once it is stored.

use std::collections::BTreeSet;

use time::OffsetDateTime;

use super::account::Account;
use super::list_subscriptions::fully_billed;
use super::tell::tell;
use super::untold::Of;
use crate::error::Error;
use crate::id::SubscriptionId;
use crate::message::{NewSubscription, Subject};
use crate::store::Transaction;

impl Account {
    /// Tells what became true of the customer and was not told yet, at their `now`. All of it is stored.
    pub fn tell(&mut self, tx: &mut dyn Transaction, now: OffsetDateTime) -> Result<(), Error> {
        for (message_type, at, of) in std::mem::take(&mut self.untold).0 {
            let subject = match of {
                Of::New(id) => Subject::NewSubscription(self.new_subscription(tx, id)?),
                Of::Stored(id) => Subject::Subscription(self.subscription(id)?.clone()),
                Of::Addon(id) => Subject::Addon(self.subscription(id)?.clone()),
                Of::Invoice(id) => Subject::Invoice(id),
                Of::Credit(ledger) => Subject::Credit(self.customer.key, *ledger, now),
            };
            tell(tx, &self.customer, (message_type, at), &subject)?;
        }
        Ok(())
    }

    /// What there is to say of a subscription that was made here, without asking the store for it.
    pub fn new_subscription(&self, tx: &mut dyn Transaction, id: SubscriptionId) -> Result<NewSubscription, Error> {
        let subscription = self.subscription(id)?.clone();
        let addons: Vec<_> = self.subscriptions.values().filter(|addon| addon.parent == Some(id)).cloned().collect();
        let mut fully_billed_ids = BTreeSet::new();
        for one in std::iter::once(&subscription).chain(&addons) {
            if fully_billed(tx, one, &self.records)? {
                fully_billed_ids.insert(one.id);
            }
        }
        Ok(NewSubscription::new(subscription, addons, fully_billed_ids))
    }
}
