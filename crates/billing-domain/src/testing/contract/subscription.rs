//! Subscriptions.

use std::collections::BTreeMap;

use time::Duration;
use time::macros::date;

use super::billing_record::taxed;
use super::{Harness, Tenant};
use crate::adjustment::{AdjustmentState, Forgiven};
use crate::error::{Error, Noun, Refusal};
use crate::period::{Calendar, Period};
use crate::store::Scope;
use crate::subscription::{Cancellation, CarriedUsage, FlatFeeBehavior, Settled, Subscription, UsageBehavior};
use crate::tax::TaxState;
use crate::testing::build::{Ids, days_from, object, subscription};
use crate::testing::world::{decimal, filters};

pub(super) fn keeps_every_field(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (_, version) = tenant.new_plan("gold");
    let holder = tenant.new_customer("acme");
    let period = days_from(holder.created_at, 10);
    let made = Subscription {
        full: days_from(period.start() - Duration::days(3), 31),
        calendar: Calendar {
            start: period.start() - Duration::days(1),
            from: period.start() - Duration::days(90),
            day: 31,
            months: 3,
        },
        chain_began_at: period.start() - Duration::days(2),
        auto_renew: false,
        is_renewed: true,
        is_new: false,
        quantity: 4_000_000_000,
        filters: filters(&[("environment", "prod \"x\""), ("région", "eu")]),
        metadata: object(r#"{"a": {"b": [1, 2.50, 1e999]}}"#),
        prepaid_units: BTreeMap::from([(tenant.build(Ids::next), decimal("12345678901234567890.123456789012345"))]),
        settled: Settled {
            adjustment: AdjustmentState {
                charges: decimal("10.01"),
                given: decimal("-3.30"),
                forgiven: Forgiven { charges: decimal("9.01"), given: decimal("-2.30") },
            },
            tax: TaxState {
                exact: decimal("0.7707707707707707707707707"),
                given: decimal("0.77"),
                forgiven: decimal("0.70"),
                taxed: taxed("7.7", "10.01"),
            },
        },
        ..tenant.build(|ids| subscription(ids, holder.key, &version, period))
    };
    tenant.customer(holder.key, |tx, _| tx.subscriptions().insert(&made));
    assert_eq!(tenant.look(|tx, _| tx.subscriptions().get(holder.key, made.id)), made);
    assert_eq!(tenant.look(|tx, _| tx.subscriptions().customer_of(made.id)), holder.key);
    let absent = tenant.build(Ids::next);
    let scope = Scope::Organization(tenant.id);
    let missing = tenant.run(&scope, |tx, _| tx.subscriptions().get(holder.key, absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::Subscription)));
    let missing = tenant.run(&scope, |tx, _| tx.subscriptions().customer_of(absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::Subscription)));
    let other = tenant.new_customer("other");
    let missing = tenant.run(&scope, |tx, _| tx.subscriptions().get(other.key, made.id));
    assert_eq!(missing, Err(Error::NotFound(Noun::Subscription)), "another customer's");
}

pub(super) fn lists_by_start(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let ((_, gold), (_, silver)) = (tenant.new_plan("gold"), tenant.new_plan("silver"));
    let holder = tenant.new_customer("acme");
    let start = holder.created_at;
    let make = |version, from| tenant.build(|ids| subscription(ids, holder.key, version, days_from(from, 10)));
    let (later, first, second) = (make(&gold, start + Duration::days(10)), make(&gold, start), make(&silver, start));
    tenant.customer(holder.key, |tx, _| {
        [&second, &later, &first].into_iter().try_for_each(|each| tx.subscriptions().insert(each))
    });
    assert_eq!(
        tenant.look(|tx, _| tx.subscriptions().list(holder.key)),
        [first, second, later],
        "by start, then by id"
    );
}

pub(super) fn lists_what_is_current(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (_, version) = tenant.new_plan("gold");
    let holder = tenant.new_customer("acme");
    let start = holder.created_at;
    let make = |n: i64, auto_renew, is_renewed| {
        let period = days_from(start + Duration::days(10 * n), 10);
        let made = tenant.build(|ids| subscription(ids, holder.key, &version, period));
        let made = Subscription { auto_renew, is_renewed, ..made };
        tenant.customer(holder.key, |tx, _| tx.subscriptions().insert(&made));
        made
    };
    make(0, false, false);
    make(1, true, true);
    let (waiting, running) = (make(2, true, false), make(3, false, false));
    let current = |at| tenant.look(|tx, _| tx.subscriptions().list_current(holder.key, at));
    let at = start + Duration::days(35);
    assert_eq!(current(at), [waiting.clone(), running], "what runs, and what waits for its renewal");
    assert_eq!(current(start + Duration::days(40)), [waiting], "the end itself is over");
    assert_eq!(current(start + Duration::days(10) - Duration::microseconds(1)).len(), 4, "what is to come too");
}

pub(super) fn lists_of_many_customers(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (_, version) = tenant.new_plan("gold");
    let holders = ["acme", "beta", "coop"].map(|id| tenant.new_customer(id));
    let start = holders[0].created_at;
    for n in [20, 0, 10] {
        for holder in &holders {
            let made =
                tenant.build(|ids| subscription(ids, holder.key, &version, days_from(start + Duration::days(n), 10)));
            tenant.customer(holder.key, |tx, _| tx.subscriptions().insert(&made));
        }
    }
    let asked = [holders[2].key, holders[0].key];
    let found = tenant.look(|tx, _| tx.subscriptions().list_with_billing(&asked));
    assert_eq!(found.len(), 6, "nobody else's");
    for key in asked {
        let listed = found.iter().map(|(subscription, _)| subscription);
        let listed: Vec<_> = listed.filter(|subscription| subscription.customer == key).cloned().collect();
        assert_eq!(listed, tenant.look(|tx, _| tx.subscriptions().list(key)), "by start, as for one");
    }
    assert_eq!(tenant.look(|tx, _| tx.subscriptions().list_with_billing(&[])), []);
}

pub(super) fn updates(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (_, version) = tenant.new_plan("gold");
    let holder = tenant.new_customer("acme");
    let made = tenant.build(|ids| subscription(ids, holder.key, &version, days_from(holder.created_at, 30)));
    tenant.customer(holder.key, |tx, _| tx.subscriptions().insert(&made));
    let mut settled = Settled::default();
    settled.tax.exact = decimal("1.5");
    let changed = Subscription {
        period: made.period.cut_at(made.period.start() + Duration::days(5)),
        auto_renew: false,
        is_renewed: true,
        metadata: object(r#"{"note": "cancelled"}"#),
        cancellation: Some(Cancellation {
            flat_fee_behavior: Some(FlatFeeBehavior::ChargeFull),
            usage_behavior: UsageBehavior::BillNone,
        }),
        uncancelled_end: Some(made.period.end()),
        carried_usage: BTreeMap::from([(
            tenant.build(Ids::next),
            CarriedUsage { start: made.period.start(), end: Some(made.period.end()), full: made.full },
        )]),
        settled,
        ..made
    };
    tenant.customer(holder.key, |tx, _| tx.subscriptions().update(&changed));
    assert_eq!(tenant.look(|tx, _| tx.subscriptions().get(holder.key, changed.id)), changed);
    let absent = Subscription { id: tenant.build(Ids::next), ..changed };
    let missing = tenant.try_customer(holder.key, |tx, _| tx.subscriptions().update(&absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::Subscription)));
}

pub(super) fn saves_changed_and_new_together(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (_, version) = tenant.new_plan("gold");
    let holder = tenant.new_customer("acme");
    let period = days_from(holder.created_at, 30);
    let made = tenant.build(|ids| subscription(ids, holder.key, &version, period));
    tenant.customer(holder.key, |tx, _| tx.subscriptions().insert(&made));
    let half = period.start() + Duration::days(15);
    let cut = Subscription { period: period.cut_at(half), auto_renew: false, is_renewed: true, ..made.clone() };
    let next = Subscription {
        id: tenant.build(Ids::next),
        period: days_from(half, 30),
        is_new: false,
        metadata: object(r#"{"n": 1.50}"#),
        ..made.clone()
    };
    let save = |new: &Subscription, changed: &[Subscription]| {
        tenant.try_customer(holder.key, |tx, _| tx.subscriptions().save(std::slice::from_ref(new), changed))
    };
    assert_eq!(save(&next, std::slice::from_ref(&made)), Err(Refusal::OverlappingPlans.into()), "nothing made room");
    save(&next, std::slice::from_ref(&cut)).expect("what changed has made room for what is new");
    assert_eq!(tenant.look(|tx, _| tx.subscriptions().list(holder.key)), [cut, next]);
}

pub(super) fn hides_what_was_replaced(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (_, version) = tenant.new_plan("gold");
    let holder = tenant.new_customer("acme");
    let period = days_from(holder.created_at, 30);
    let made = tenant.build(|ids| subscription(ids, holder.key, &version, period));
    let replaced = Subscription { replaced_by: Some(tenant.build(Ids::next)), ..made.clone() };
    tenant.customer(holder.key, |tx, _| tx.subscriptions().insert(&made));
    tenant.customer(holder.key, |tx, _| tx.subscriptions().update(&replaced));
    assert_eq!(tenant.look(|tx, _| tx.subscriptions().get(holder.key, made.id)), replaced, "who knows it finds it");
    assert_eq!(tenant.look(|tx, _| tx.subscriptions().list(holder.key)), []);
    assert_eq!(tenant.look(|tx, _| tx.subscriptions().list_current(holder.key, period.start())), []);
    let gone = tenant.try_customer(holder.key, |tx, _| tx.subscriptions().customer_of(made.id));
    assert_eq!(gone, Err(Error::NotFound(Noun::Subscription)), "its id is no longer valid");
}

pub(super) fn refuses_an_overlap(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (_, version) = tenant.new_plan("gold");
    let holder = tenant.new_customer("acme");
    let make = |days| {
        let period = days_from(holder.created_at + Duration::days(days), 30);
        let made = tenant.build(|ids| subscription(ids, holder.key, &version, period));
        let pairs = [("environment", "prod"), ("region", "eu")];
        let pairs = if days == 0 { pairs } else { [pairs[1], pairs[0]] };
        Subscription { filters: filters(&pairs), ..made }
    };
    let (first, second) = (make(0), make(29));
    tenant.customer(holder.key, |tx, _| tx.subscriptions().insert(&first));
    let refused = tenant.try_customer(holder.key, |tx, _| tx.subscriptions().insert(&second));
    assert_eq!(refused, Err(Refusal::OverlappingPlans.into()), "one set of filters, in whatever order");
    assert_eq!(tenant.look(|tx, _| tx.subscriptions().list(holder.key)), [first]);
}

pub(super) fn allows_what_does_not_overlap(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let ((_, gold), (_, silver)) = (tenant.new_plan("gold"), tenant.new_plan("silver"));
    let (acme, other) = (tenant.new_customer("acme"), tenant.new_customer("other"));
    let first = days_from(acme.created_at, 30);
    let next = days_from(first.end(), 30);
    let inside = Period::at(first.start() + Duration::days(3));
    let eu = filters(&[("region", "eu")]);
    let us = filters(&[("region", "us")]);
    #[rustfmt::skip]
    let cases = [
        // customer,  version, period, filters,     why
        (acme.key,    &gold,   first,  eu.clone(),  "the first"),
        (acme.key,    &gold,   next,   eu.clone(),  "periods that touch"),
        (acme.key,    &gold,   first,  us,          "other filters"),
        (acme.key,    &silver, first,  eu.clone(),  "another plan"),
        (other.key,   &gold,   first,  eu.clone(),  "another customer"),
        (acme.key,    &gold,   inside, eu,          "an empty period overlaps nothing"),
    ];
    for (customer, version, period, filters, why) in cases {
        let made = tenant.build(|ids| subscription(ids, customer, version, period));
        let made = Subscription { filters, ..made };
        assert_eq!(tenant.try_customer(customer, |tx, _| tx.subscriptions().insert(&made)), Ok(()), "{why}");
    }
}

pub(super) fn counts_invoicings_of_a_day(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let ((_, gold), (_, silver)) = (tenant.new_plan("gold"), tenant.new_plan("silver"));
    let holder = tenant.new_customer("acme");
    let make = |version| tenant.build(|ids| subscription(ids, holder.key, version, days_from(holder.created_at, 10)));
    let made = [make(&gold), make(&silver)];
    tenant
        .customer(holder.key, |tx, _| made.iter().try_for_each(|subscription| tx.subscriptions().insert(subscription)));
    let [one, other] = [made[0].id, made[1].id];
    let count =
        |ids: &[_], day| tenant.customer(holder.key, |tx, _| tx.subscriptions().count_invoicing(holder.key, ids, day));
    let (today, tomorrow) = (date!(2024 - 02 - 29), date!(2024 - 03 - 01));
    #[rustfmt::skip]
    let cases = [
        // of,              on,       counts,      why
        (vec![one],         today,    vec![1],     "the first"),
        (vec![other, one],  today,    vec![1, 2],  "each has its own count, in the order asked for"),
        (vec![one],         tomorrow, vec![1],     "another day begins anew"),
        (vec![one],         today,    vec![2],     "what is of an earlier day is not forgotten"),
        (vec![other],       today,    vec![2],     "the other is where it was"),
        (vec![],            today,    vec![],      "nothing to count"),
    ];
    for (ids, day, expected, why) in cases {
        assert_eq!(count(&ids, day), expected, "{why}");
    }
    let failed: Result<(), Error> = tenant.run(&Scope::Customer(tenant.id, holder.key), |tx, _| {
        tx.subscriptions().count_invoicing(holder.key, &[one], tomorrow)?;
        Err(Error::NotFound(Noun::Subscription))
    });
    assert_eq!((failed.is_err(), count(&[one], tomorrow)), (true, vec![3]), "what was undone does not count");
}
