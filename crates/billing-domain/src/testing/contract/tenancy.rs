//! Tenants: what belongs to another organization does not exist.

use time::Duration;

use super::{Harness, Tenant};
use crate::api_key::KeyKind;
use crate::charge::ChargeRef;
use crate::error::{Error, Noun};
use crate::store::{InvoiceFilter, PageRequest, Scope, Transaction};
use crate::subscription::SubscriptionFilters;
use crate::testing::build::{api_key, billing_record, count_metric, days_from, event, feature, payment, subscription};
use crate::usage::{Usage, UsageRequest};

impl Tenant<'_> {
    /// What `work` meets in this organization must be the absence of `noun`.
    fn finds_no<T: std::fmt::Debug>(&self, noun: Noun, mut work: impl FnMut(&mut dyn Transaction) -> Result<T, Error>) {
        let found = self.run(&Scope::Catalog(self.id), |tx, _| work(tx));
        match found {
            Err(Error::NotFound(absent)) if absent == noun => {}
            other => panic!("{noun}: {other:?}"),
        }
    }
}

pub(super) fn hides_the_catalog(harness: &Harness<'_>) {
    let (owner, other) = (Tenant::new(harness), Tenant::new(harness));
    let now = owner.now();
    let (plan, version) = owner.new_plan("gold");
    let clock = owner.new_clock(now);
    let metric = owner.build(|ids| count_metric(ids, "call", now));
    let feature = owner.build(|ids| feature(ids, "sso"));
    let key = api_key(owner.id, &format!("t{:07x}", metric.id.uuid().as_u64_pair().0 & 0xfff_ffff), now);
    owner.catalog(|tx, _| {
        tx.metrics().insert(&metric)?;
        tx.features().insert(&feature)?;
        tx.api_keys().insert(&key)
    });
    other.finds_no(Noun::Metric, |tx| tx.metrics().get(metric.id));
    other.finds_no(Noun::Metric, |tx| tx.metrics().update(&metric));
    other.finds_no(Noun::Feature, |tx| tx.features().get(feature.id));
    other.finds_no(Noun::Plan, |tx| tx.plans().get(plan.id));
    other.finds_no(Noun::PlanVersion, |tx| tx.plans().get_version(version.id));
    other.finds_no(Noun::PlanVersion, |tx| tx.plans().update_version(&version));
    other.finds_no(Noun::TestClock, |tx| tx.test_clocks().get(clock.id));
    other.finds_no(Noun::TestClock, |tx| tx.test_clocks().update(&clock));
    other.finds_no(Noun::ApiKey, |tx| tx.api_keys().delete(KeyKind::ApiKey, &key.prefix));
    other.look(|tx, _| {
        assert_eq!(tx.metrics().list()?, []);
        assert_eq!(tx.features().list()?, []);
        assert_eq!(tx.plans().list()?, []);
        assert_eq!(tx.plans().list_versions(None)?, []);
        assert_eq!(tx.plans().list_versions(Some(plan.id))?, []);
        assert_eq!(tx.test_clocks().list()?, []);
        assert_eq!(tx.test_clocks().list_customers(clock.id)?, []);
        assert_eq!(tx.api_keys().list(KeyKind::ApiKey)?, []);
        assert_eq!(tx.currencies().list()?, []);
        Ok(())
    });
}

pub(super) fn hides_what_customers_own(harness: &Harness<'_>) {
    let (owner, other) = (Tenant::new(harness), Tenant::new(harness));
    let (_, version) = owner.new_plan("gold");
    let acme = owner.new_customer("acme");
    let now = acme.created_at;
    let held = owner.build(|ids| subscription(ids, acme.key, &version, days_from(now, 30)));
    let record = owner.build(|ids| {
        let charge = ChargeRef::Recurring(ids.next());
        billing_record(ids, &held, charge)
    });
    owner.customer(acme.key, |tx, _| {
        tx.subscriptions().insert(&held)?;
        tx.billing_records().insert(acme.key, std::slice::from_ref(&record))
    });
    let invoice = owner.new_invoice(&acme);
    let paid = owner.build(|ids| payment(ids, invoice, "0.25", now));
    owner.customer(acme.key, |tx, _| tx.invoices().add_payment(acme.key, &paid));
    let credit = owner.new_credit(&acme, "5", now);
    let id = credit.credit().id;
    // The same id in another organization is another customer.
    let twin = other.new_customer("acme");
    assert_ne!(twin.key, acme.key);
    other.finds_no(Noun::Customer, |tx| tx.customers().get(acme.key));
    let advanced =
        other.run(&Scope::Customer(other.id, acme.key), |tx, _| tx.customers().advance_instant(acme.key, now));
    assert_eq!(advanced, Err(Error::NotFound(Noun::Customer)), "not in its own scope either");
    let more = other.build(|ids| payment(ids, invoice, "0.25", now));
    for key in [acme.key, twin.key] {
        let noted = other.run(&Scope::Customer(other.id, key), |tx, _| tx.invoices().add_payment(key, &more));
        assert_eq!(noted, Err(Error::NotFound(Noun::Invoice)), "no payment for another's");
    }
    other.finds_no(Noun::Subscription, |tx| tx.subscriptions().customer_of(held.id));
    other.finds_no(Noun::Subscription, |tx| tx.subscriptions().get(twin.key, held.id));
    other.finds_no(Noun::Invoice, |tx| tx.invoices().get(invoice));
    other.finds_no(Noun::Credit, |tx| tx.credits().customer_of(id));
    other.finds_no(Noun::Credit, |tx| tx.credits().get(twin.key, id));
    other.look(|tx, _| {
        assert_eq!(tx.customers().list(&PageRequest::first())?.items, std::slice::from_ref(&twin));
        assert_eq!(tx.subscriptions().list(twin.key)?, []);
        assert_eq!(tx.billing_records().list_open(twin.key)?, []);
        assert_eq!(tx.credits().list(twin.key)?, []);
        for key in [acme.key, twin.key] {
            assert_eq!(tx.invoices().list_payments(key, Some(invoice))?, []);
            assert_eq!(tx.invoices().list_payments(key, None)?, []);
        }
        assert_eq!(tx.invoices().find_by_number("260331-000001")?, None);
        for filter in [InvoiceFilter::default(), InvoiceFilter::of(acme.key)] {
            assert_eq!(tx.invoices().list(&filter, &PageRequest::first())?.items, []);
        }
        assert!(tx.plans().active_subscriptions(now)?.is_empty());
        Ok(())
    });
}

pub(super) fn hides_events(harness: &Harness<'_>) {
    let (owner, other) = (Tenant::new(harness), Tenant::new(harness));
    let now = owner.now();
    let metric = owner.build(|ids| count_metric(ids, "call", now));
    owner.catalog(|tx, _| tx.metrics().insert(&metric));
    owner.send(&[event("acme", "call", "1", now)]);
    let period = days_from(now - Duration::days(1), 2);
    let request = UsageRequest::billed(owner.key("acme"), metric, SubscriptionFilters::none(), period, &period);
    let requests = std::slice::from_ref(&request);
    assert_eq!(owner.look(|tx, _| tx.events().usages(requests))[0].event_count, 1);
    assert_eq!(other.look(|tx, _| tx.events().usages(requests)), [Usage::zero()], "not even by the other's key");
    let (ids, since) = (["1".to_owned()], now - Duration::days(1));
    for customer in [None, Some(owner.key("acme"))] {
        assert_eq!(other.look(|tx, _| tx.events().missing(customer, &ids, since)), ids);
    }
}
