//! Add-ons, and subscriptions to them.

use time::Duration;

use super::{Harness, Tenant};
use crate::addon::{Addon, AddonTerms, BillingFrequency, InvoiceWhen};
use crate::error::{Error, Noun};
use crate::store::Scope;
use crate::subscription::Subscription;
use crate::testing::build::{Ids, addon, component, count_metric, days_from, subscription};

pub(super) fn keeps_addons(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.now();
    let mails = tenant.build(|ids| count_metric(ids, "mail", now));
    tenant.catalog(|tx, _| tx.metrics().insert(&mails));
    let (old, new) = tenant.build(|ids| (addon(ids, "seats", now - Duration::SECOND), addon(ids, "mails", now)));
    let terms = AddonTerms {
        billing_frequency: BillingFrequency::Recurring,
        invoice_when: InvoiceWhen::InvoiceOnSubscriptionEnd,
    };
    let mut new = Addon { terms, description: Some("more".to_owned()), ..new };
    new.content.components = vec![tenant.build(|ids| component(ids, mails.id))];
    for made in [&old, &new] {
        tenant.catalog(|tx, _| tx.addons().insert(made));
        assert_eq!(&tenant.look(|tx, _| tx.addons().get(made.id)), made);
        assert_eq!(tenant.look(|tx, _| tx.plans().get_version(made.content.id)), made.content);
        let no_plan = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.plans().get(made.plan_id()));
        assert_eq!(no_plan, Err(Error::NotFound(Noun::Plan)));
    }
    let (plan, _) = tenant.new_plan("gold");
    assert_eq!(tenant.look(|tx, _| tx.addons().list()), [new, old], "newest first");
    assert_eq!(tenant.look(|tx, _| tx.plans().list()).len(), 1, "add-ons are not listed");
    let no_addon =
        tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.addons().get(crate::addon::addon_of(plan.id)));
    assert_eq!(no_addon, Err(Error::NotFound(Noun::Addon)));
}

pub(super) fn attaches_addons(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.now();
    let customer = tenant.new_customer("acme");
    let (_, version) = tenant.new_plan("gold");
    let extra = tenant.build(|ids| addon(ids, "extra", now));
    tenant.catalog(|tx, _| tx.addons().insert(&extra));
    let period = days_from(now, 30);
    let parent = tenant.build(|ids| subscription(ids, customer.key, &version, period));
    let attached = |ids: &mut Ids| Subscription {
        parent: Some(parent.id),
        ..subscription(ids, customer.key, &extra.content, period)
    };
    let (one, two) = tenant.build(|ids| (attached(ids), attached(ids)));
    tenant.customer(customer.key, |tx, _| {
        tx.subscriptions().insert(&parent)?;
        tx.subscriptions().insert(&one)?;
        tx.subscriptions().insert(&two)
    });
    assert_eq!(tenant.look(|tx, _| tx.subscriptions().list(customer.key)).len(), 3, "they do not overlap");
    assert_eq!(tenant.look(|tx, _| tx.subscriptions().get(customer.key, one.id)), one);
    let owner = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.subscriptions().customer_of(one.id));
    assert_eq!(owner, Err(Error::NotFound(Noun::Subscription)), "an add-on is reached by its parent");
}
