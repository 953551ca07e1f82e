//! Credits.

use std::thread;

use time::Duration;

use super::{Harness, Tenant};
use crate::credit::{Credit, CreditLedger};
use crate::customer::Customer;
use crate::error::{Error, Noun};
use crate::id::InvoiceId;
use crate::store::Scope;
use crate::testing::build::{Ids, credit, invoice, line};
use crate::testing::world::decimal;

impl Tenant<'_> {
    /// A credit that the customer holds.
    pub(super) fn new_credit(&self, customer: &Customer, amount: &str, at: time::OffsetDateTime) -> CreditLedger {
        let made = self.build(|ids| credit(ids, amount, at));
        self.customer(customer.key, |tx, _| tx.credits().insert(customer.key, &made));
        made
    }

    /// An invoice of 1.00 that the customer received.
    pub(super) fn new_invoice(&self, customer: &Customer) -> InvoiceId {
        let at = customer.created_at;
        let made = self.build(|ids| invoice(ids, customer, at, vec![line("fee", "1.00", at)]));
        self.customer(customer.key, |tx, _| tx.invoices().issue(made.clone()));
        made.id
    }
}

pub(super) fn keeps_every_entry(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let now = acme.created_at;
    let paid = tenant.new_invoice(&acme);
    let full = Credit {
        currency_code: "TOKENS".to_owned(),
        amount: decimal("100.000000000000001"),
        amount_paid: decimal("80.50"),
        amount_paid_currency_code: Some("EUR".to_owned()),
        description: Some("welcome".to_owned()),
        effective_at: now + Duration::hours(1),
        expires_at: Some(now + Duration::days(1)),
        ..tenant.build(|ids| credit(ids, "1", now)).credit().clone()
    };
    let mut ledger = CreditLedger::grant(full, tenant.build(Ids::next)).expect("a valid credit");
    tenant.customer(acme.key, |tx, _| tx.credits().insert(acme.key, &ledger));
    let id = ledger.credit().id;
    let kept = || tenant.look(|tx, _| tx.credits().get(acme.key, id));
    assert_eq!(kept(), ledger);
    ledger.draw(decimal("30.5"), paid, tenant.build(Ids::next), now).expect("drawn");
    tenant.customer(acme.key, |tx, _| tx.credits().update(acme.key, &ledger));
    assert_eq!(kept(), ledger, "drawn");
    ledger.restore(paid, tenant.build(Ids::next), now).expect("restored");
    ledger.draw(decimal("0.000000000000001"), paid, tenant.build(Ids::next), now).expect("drawn");
    ledger.void(tenant.build(Ids::next), now).expect("voided");
    tenant.customer(acme.key, |tx, _| tx.credits().update(acme.key, &ledger));
    assert_eq!(kept(), ledger, "several entries at once");
    ledger.restore(paid, tenant.build(Ids::next), now).expect("restored");
    ledger.expire(tenant.build(Ids::next), now + Duration::days(1)).expect("expired");
    tenant.customer(acme.key, |tx, _| tx.credits().update(acme.key, &ledger));
    assert_eq!(kept(), ledger, "every kind of entry");
    let stale = Credit { id: tenant.build(Ids::next), ..ledger.credit().clone() };
    let stale = CreditLedger::grant(stale, tenant.build(Ids::next)).expect("a valid credit");
    tenant.customer(acme.key, |tx, _| tx.credits().insert(acme.key, &stale));
    let [mut one, mut other] = [stale.clone(), stale];
    one.draw(decimal("1"), paid, tenant.build(Ids::next), now).expect("drawn");
    tenant.customer(acme.key, |tx, _| tx.credits().update(acme.key, &one));
    other.void(tenant.build(Ids::next), now).expect("voided");
    let lost = tenant.run(&Scope::Customer(tenant.id, acme.key), |tx, _| tx.credits().update(acme.key, &other));
    assert!(matches!(lost, Err(Error::Store(_))), "what was read before another entry came writes over none: {lost:?}");
    assert_eq!(tenant.look(|tx, _| tx.credits().customer_of(id)), acme.key);
    let (absent, scope) = (tenant.build(Ids::next), Scope::Organization(tenant.id));
    let missing = tenant.run(&scope, |tx, _| tx.credits().get(acme.key, absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::Credit)));
    assert_eq!(tenant.run(&scope, |tx, _| tx.credits().customer_of(absent)), Err(Error::NotFound(Noun::Credit)));
}

pub(super) fn lists_by_age(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (acme, other) = (tenant.new_customer("acme"), tenant.new_customer("other"));
    let at = |day| acme.created_at + Duration::days(day);
    let (second, first, third) = (
        tenant.new_credit(&acme, "2", at(1)),
        tenant.new_credit(&acme, "1", at(0)),
        tenant.new_credit(&acme, "3", at(2)),
    );
    tenant.new_credit(&other, "9", at(0));
    let list = tenant.look(|tx, _| tx.credits().list(acme.key));
    assert_eq!(list, [third.clone(), second.clone(), first.clone()], "newest first");
    let mut used_up = second;
    used_up.void(tenant.build(Ids::next), at(3)).expect("voided");
    tenant.customer(acme.key, |tx, _| tx.credits().update(acme.key, &used_up));
    assert_eq!(tenant.look(|tx, _| tx.credits().list_open(acme.key)), [first, third], "oldest first, with a rest");
}

pub(super) fn updates_description_and_expiry(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let mut ledger = tenant.new_credit(&acme, "5", acme.created_at);
    let expires_at = Some(acme.created_at + Duration::days(9));
    for (description, expires_at) in [(Some("sorry".to_owned()), expires_at), (None, None)] {
        ledger.update(Some(description), Some(expires_at), acme.created_at).expect("updated");
        tenant.customer(acme.key, |tx, _| tx.credits().update(acme.key, &ledger));
        assert_eq!(tenant.look(|tx, _| tx.credits().get(acme.key, ledger.credit().id)), ledger);
    }
    let absent = tenant.build(|ids| credit(ids, "5", acme.created_at));
    let missing = tenant.try_customer(acme.key, |tx, _| tx.credits().update(acme.key, &absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::Credit)));
}

pub(super) fn is_drawn_once(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let paid = tenant.new_invoice(&acme);
    let id = tenant.new_credit(&acme, "5", acme.created_at).credit().id;
    let (store, scope) = (harness.store, Scope::Customer(tenant.id, acme.key));
    let draw = || {
        store.run_for(&scope, |tx, now| {
            let mut ledger = tx.credits().get(acme.key, id)?;
            let entry = tx.new_uuid().into();
            if ledger.draw(decimal("1"), paid, entry, now).is_err() {
                return Ok(0);
            }
            tx.credits().update(acme.key, &ledger)?;
            Ok(1)
        })
    };
    let drawn: u32 = thread::scope(|threads| {
        let runs: Vec<_> = (0..8).map(|_| threads.spawn(|| draw().expect("a transaction"))).collect();
        runs.into_iter().map(|run| run.join().expect("a thread")).sum()
    });
    assert_eq!(drawn, 5, "eight invoices want one credit of five");
    assert_eq!(tenant.look(|tx, _| tx.credits().list_open(acme.key)), []);
}
