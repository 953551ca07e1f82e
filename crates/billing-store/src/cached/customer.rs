//! Customers that were read before: the one the transaction is alone with, or those that a snapshot was asked about.

use billing_domain::customer::Customer;
use billing_domain::id::CustomerKey;
use billing_domain::store::{CustomerRepo, Page, PageRequest, SearchedBy, Transaction as _};
use billing_domain::{Error, Noun};
use time::OffsetDateTime;

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

    fn nows(&mut self, keys: &[CustomerKey]) -> Result<Vec<OffsetDateTime>, Error> {
        let prefetched = keys.iter().map(|key| Some(self.prefetched.customers.get(&key.uuid())?.now));
        match prefetched.collect() {
            Some(nows) => Ok(nows),
            None => self.inner.customers().nows(keys),
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
        fn find_by_email(email: &str) -> Option<CustomerKey>;
        fn search(by: SearchedBy, beginning: &str, limit: u32) -> Vec<Customer>;
        fn park_billing(key: CustomerKey, failures: u32, reason: &str) -> bool;
        fn retry_billing(key: CustomerKey) -> bool;
        fn advance_instant(key: CustomerKey, instant: OffsetDateTime) -> ();
        fn set_billing_due(key: CustomerKey, due_at: Option<OffsetDateTime>) -> ();
        fn advance_instant_and_queue(key: CustomerKey, instant: OffsetDateTime, due_at: Option<OffsetDateTime>) -> ();
    }
}
