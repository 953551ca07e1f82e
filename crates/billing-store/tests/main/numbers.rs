//! Invoice numbers, past what the contract can see.

use billing_domain::customer::Customer;
use billing_domain::id::OrganizationId;
use billing_domain::store::{InvoiceFilter, PageRequest, Scope, Store};
use billing_domain::testing::build::{self, Ids};
use billing_store::testing::TestStore;

use crate::sql::{execute, query};

/// A store with an organization that has issued an invoice to a customer.
fn furnished(ids: &mut Ids) -> (TestStore, Customer) {
    let store = TestStore::in_one_lane();
    let organization: OrganizationId = ids.next();
    let as_store: &dyn Store = &*store;
    let made = as_store.run_for(&Scope::Catalog(organization), |tx, now| {
        tx.organizations().insert(&build::organization(organization, now))?;
        let customer = build::customer(organization, "acme", now);
        tx.customers().insert(&customer)?;
        Ok(customer)
    });
    let customer = made.expect("a customer");
    issue(&store, ids, &customer);
    (store, customer)
}

fn issue(store: &TestStore, ids: &mut Ids, customer: &Customer) {
    let store: &dyn Store = &**store;
    let issued = store.run_for(&Scope::Customer(customer.organization, customer.key), |tx, now| {
        tx.invoices().issue(build::invoice(ids, customer, now, vec![build::line("fee", "1.10", now)]))
    });
    issued.expect("issued");
}

#[test]
fn numbers_grow_longer_than_six_digits() {
    let mut ids = Ids::new(1);
    let (store, customer) = furnished(&mut ids);
    execute(store.url(), "UPDATE invoice_counters SET last_sequence = 999998").expect("nearly a million");
    issue(&store, &mut ids, &customer);
    issue(&store, &mut ids, &customer);
    let as_store: &dyn Store = &*store;
    let everything = as_store.run_for(&Scope::Organization(customer.organization), |tx, _| {
        tx.invoices().list(&InvoiceFilter::default(), &PageRequest::first())
    });
    for invoice in everything.expect("invoices").items {
        let (_, sequence) = invoice.number.split_once('-').expect("a day and a sequence");
        assert_eq!(
            invoice.number,
            billing_domain::invoice::number(invoice.issued_at, sequence.parse().expect("digits"))
        );
    }
    let kept = query(
        store.url(),
        "SELECT split_part(number, '-', 2) AS value FROM invoices JOIN invoice_numbers USING (number) ORDER BY id",
    );
    assert_eq!(kept, ["000001", "999999", "1000000"]);
}

#[test]
fn nobody_waits_for_a_number_before_the_work_is_done() {
    let mut ids = Ids::new(1);
    let (store, customer) = furnished(&mut ids);
    let scope = Scope::Customer(customer.organization, customer.key);
    let as_store: &dyn Store = &*store;
    let issued = as_store.run_for(&scope, |tx, now| {
        tx.invoices().issue(build::invoice(&mut ids, &customer, now, vec![build::line("fee", "1.10", now)]))?;
        execute(store.url(), "SELECT FROM invoice_counters FOR UPDATE NOWAIT").expect("the sequence is free");
        tx.invoices().list(&InvoiceFilter::default(), &PageRequest::first())?;
        let taken = execute(store.url(), "SELECT FROM invoice_counters FOR UPDATE NOWAIT").expect_err("it was taken");
        assert!(taken.contains("could not obtain lock"), "{taken}");
        Ok(())
    });
    issued.expect("issued");
}
