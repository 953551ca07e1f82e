//! Customers that were read before: the one the transaction is alone with, or those that a snapshot was asked about.

use billing_domain::customer::Customer;
use billing_domain::id::{CustomerKey, SubscriptionId};
use billing_domain::store::{CustomerRepo, Page, PageRequest, SubscriptionRepo, Transaction as _};
use billing_domain::subscription::Subscription;
use billing_domain::{Error, Noun};
use time::{Date, OffsetDateTime};

use super::CachedTransaction;
use crate::transaction::hand_on;

impl CustomerRepo for CachedTransaction<'_, '_> {
    fn get(&mut self, key: CustomerKey) -> Result<Customer, Error> {
        let found = self.get_even_deleted(key)?;
        if found.deleted_at.is_some() { Err(Error::NotFound(Noun::Customer)) } else { Ok(found) }
    }

    fn get_even_deleted(&mut self, key: CustomerKey) -> Result<Customer, Error> {
        let prefetched = self.prefetched.customers.get(&key.uuid()).map(|present| &present.customer);
        let own = self.own_customer.as_ref().filter(|customer| customer.key == key);
        match prefetched.or(own) {
            Some(customer) => Ok(customer.clone()),
            None => self.inner.customers().get_even_deleted(key),
        }
    }

    fn now(&mut self, key: CustomerKey) -> Result<OffsetDateTime, Error> {
        match self.prefetched.customers.get(&key.uuid()) {
            Some(present) => Ok(present.now),
            None => self.inner.customers().now(key),
        }
    }

    fn update(&mut self, customer: &Customer) -> Result<(), Error> {
        self.own_customer = None;
        self.inner.customers().update(customer)
    }

    fn set_catching_up(&mut self, key: CustomerKey, catching_up: bool) -> Result<(), Error> {
        self.inner.customers().set_catching_up(key, catching_up)?;
        if let Some(customer) = self.own_customer.as_mut().filter(|customer| customer.key == key) {
            customer.catching_up = catching_up;
        }
        Ok(())
    }

    hand_on! { customers =>
        fn insert(customer: &Customer) -> ();
        fn list(page: &PageRequest) -> Page<Customer>;
        fn nows(keys: &[CustomerKey]) -> Vec<OffsetDateTime>;
        fn advance_instant(key: CustomerKey, instant: OffsetDateTime) -> ();
        fn set_billing_due(key: CustomerKey, due_at: Option<OffsetDateTime>) -> ();
        fn advance_instant_and_queue(key: CustomerKey, instant: OffsetDateTime, due_at: Option<OffsetDateTime>) -> ();
    }
}

impl SubscriptionRepo for CachedTransaction<'_, '_> {
    fn list_current(&mut self, customer: CustomerKey, instant: OffsetDateTime) -> Result<Vec<Subscription>, Error> {
        let held = self.prefetched.subscriptions.get(&customer.uuid());
        match held.and_then(|held| held.list_current(instant)) {
            Some(current) => Ok(current),
            None => self.inner.subscriptions().list_current(customer, instant),
        }
    }

    hand_on! { subscriptions =>
        fn insert(subscription: &Subscription) -> ();
        fn customer_of(id: SubscriptionId) -> CustomerKey;
        fn get(customer: CustomerKey, id: SubscriptionId) -> Subscription;
        fn list(customer: CustomerKey) -> Vec<Subscription>;
        fn list_of(customers: &[CustomerKey]) -> Vec<Subscription>;
        fn update(subscription: &Subscription) -> ();
        fn save(new: &[Subscription], changed: &[Subscription]) -> ();
        fn count_invoicing(customer: CustomerKey, subscriptions: &[SubscriptionId], day: Date) -> Vec<u32>;
    }
}
