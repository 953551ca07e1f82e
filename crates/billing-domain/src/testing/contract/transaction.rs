//! Transactions: all or nothing, alone in their scope, at one instant.

use std::collections::BTreeSet;
use std::thread;

use time::Duration;

use super::{Harness, Tenant};
use crate::error::{Error, Noun, Refusal};
use crate::store::Scope;
use crate::testing::build::{customer, days_from, plan, subscription};

/// Threads, and what each of them does, where cases look for interleaving.
const THREADS: u32 = 4;
const ROUNDS: u32 = 10;

pub(super) fn commits_on_ok(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let made = tenant.new_customer("acme");
    assert_eq!(tenant.look(|tx, _| tx.customers().get(made.key)), made, "another transaction sees it");
}

pub(super) fn leaves_no_trace_on_err(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let made = customer(tenant.id, "acme", tenant.now());
    let refused = tenant.try_customer(made.key, |tx, _| {
        tx.customers().insert(&made)?;
        assert_eq!(tx.customers().get(made.key)?, made, "the transaction sees its own work");
        Err::<(), _>(Refusal::OverlappingPlans.into())
    });
    assert_eq!(refused, Err(Refusal::OverlappingPlans.into()), "the work's own error comes back");
    let found = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.customers().get(made.key));
    assert_eq!(found, Err(Error::NotFound(Noun::Customer)));
}

pub(super) fn leaves_no_trace_of_a_refusal(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let first = tenant.new_customer("acme");
    let refused = tenant.try_customer(first.key, |tx, now| {
        tx.customers().advance_instant(first.key, now + Duration::days(9))?;
        tx.customers().insert(&first)
    });
    assert!(matches!(refused, Err(Error::Refused(Refusal::DuplicateResource(_)))), "{refused:?}");
    assert!(tenant.customer(first.key, |_, now| Ok(now)) < first.created_at + Duration::days(9));
}

pub(super) fn is_alone_with_its_customer(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (_, version) = tenant.new_plan("gold");
    let made = tenant.new_customer("acme");
    let counter = tenant.build(|ids| subscription(ids, made.key, &version, days_from(made.created_at, 30)));
    tenant.customer(made.key, |tx, _| tx.subscriptions().insert(&counter));
    let (store, scope) = (harness.store, Scope::Customer(tenant.id, made.key));
    let add_one = || {
        store.run_for(&scope, |tx, _| {
            let mut counter = tx.subscriptions().get(made.key, counter.id)?;
            counter.quantity += 1;
            tx.subscriptions().update(&counter)
        })
    };
    thread::scope(|threads| {
        for _ in 0..THREADS {
            threads.spawn(|| (0..ROUNDS).for_each(|_| add_one().expect("a transaction")));
        }
    });
    let counted = tenant.look(|tx, _| tx.subscriptions().get(made.key, counter.id)).quantity;
    assert_eq!(counted, 1 + THREADS * ROUNDS, "no reading is overtaken by another's writing");
}

pub(super) fn works_on_each_as_if_alone(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let [a, b, c] = ["a", "b", "c"].map(|id| tenant.new_customer(id).key);
    let later = tenant.now() + Duration::days(9);
    let mut begun = BTreeSet::new();
    let results = harness.store.run_each(tenant.id, &[c, a, b], &mut |tx, customer, now| {
        begun.insert(customer);
        assert!(now < later, "the customer's own time, and nothing of a try before");
        assert_eq!(tx.customers().get(customer)?.key, customer);
        tx.customers().advance_instant_and_queue(customer, later, Some(later + Duration::days(1)))?;
        if customer == a { Err(Refusal::OverlappingPlans.into()) } else { Ok(()) }
    });
    assert_eq!(results, [Ok(()), Err(Refusal::OverlappingPlans.into()), Ok(())], "in the order of the customers");
    assert_eq!(begun, BTreeSet::from([a, b, c]));
    let has_moved = |key| tenant.customer(key, |_, now| Ok(now)) >= later;
    assert_eq!([a, b, c].map(has_moved), [false, true, true], "only what failed has left no trace");
    assert_eq!(harness.store.run_each(tenant.id, &[], &mut |_, _, _| Ok(())), []);
    let stranger = customer(tenant.id, "nobody", later).key;
    let results =
        harness.store.run_each(tenant.id, &[stranger, b], &mut |tx, key, _| tx.customers().get(key).map(drop));
    assert_eq!(results, [Err(Error::NotFound(Noun::Customer)), Ok(())]);
}

pub(super) fn sees_what_was_reached(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme").key;
    let later = tenant.now() + Duration::days(9);
    tenant.customer(acme, |tx, now| {
        tx.customers().advance_instant_and_queue(acme, later, Some(later))?;
        assert!(tx.customers().now(acme)? >= later, "before it is committed");
        tx.customers().advance_instant_and_queue(acme, now, None)?;
        assert!(tx.customers().nows(&[acme])?.iter().all(|now| *now >= later), "it never goes back");
        Ok(())
    });
    assert!(tenant.customer(acme, |_, now| Ok(now)) >= later);
    let stranger = customer(tenant.id, "nobody", later).key;
    let missing =
        tenant.try_customer(stranger, |tx, now| tx.customers().advance_instant_and_queue(stranger, now, None));
    assert_eq!(missing, Err(Error::NotFound(Noun::Customer)), "at the end of the work at the latest");
}

pub(super) fn is_alone_with_its_catalog(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (store, scope) = (harness.store, Scope::Catalog(tenant.id));
    let add_one = || {
        store.run_for(&scope, |tx, _| {
            let mut organization = tx.organizations().get()?;
            organization.invoice_grace_minutes += 1;
            tx.organizations().update(&organization)
        })
    };
    let before = tenant.look(|tx, _| tx.organizations().get()).invoice_grace_minutes;
    thread::scope(|threads| {
        for _ in 0..THREADS {
            threads.spawn(|| (0..ROUNDS).for_each(|_| add_one().expect("a transaction")));
        }
    });
    let after = tenant.look(|tx, _| tx.organizations().get()).invoice_grace_minutes;
    assert_eq!(after, before + THREADS * ROUNDS);
}

pub(super) fn gives_whole_microseconds(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let made = tenant.new_customer("acme");
    for scope in [
        Scope::Customer(tenant.id, made.key),
        Scope::Catalog(tenant.id),
        Scope::Organization(tenant.id),
        Scope::CustomerReading(tenant.id, made.key),
    ] {
        let now = tenant.run(&scope, |_, now| Ok(now)).expect("now");
        assert_eq!(now.nanosecond() % 1_000, 0, "{scope:?}");
        assert!(now.offset().is_utc(), "{scope:?}");
    }
}

pub(super) fn gives_new_ids(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let ids = tenant.catalog(|tx, _| Ok((0..100).map(|_| tx.new_uuid()).collect::<Vec<_>>()));
    let later = tenant.catalog(|tx, _| Ok(tx.new_uuid()));
    assert!(ids.is_sorted(), "later ids are greater, so that ids can break ties by age");
    assert_eq!(ids.iter().chain([&later]).collect::<BTreeSet<_>>().len(), 101, "no id comes twice");
    // Ids of one kind are fit for keeping.
    tenant.catalog(|tx, now| {
        let mut made = tenant.build(|ids| plan(ids, "gold", now));
        made.id = later.into();
        tx.plans().insert(&made)
    });
}
