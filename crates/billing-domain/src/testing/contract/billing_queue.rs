//! The queue of customers that have something to be billed.

use std::collections::BTreeSet;

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use super::{Harness, Tenant};
use crate::id::{CustomerKey, OrganizationId};
use crate::store::{Leased, Parked, Queued};

/// More than other cases can have put into the queue.
const MANY: u32 = 10_000;

fn lease(tenant: &Tenant<'_>, lease: Duration) -> Vec<CustomerKey> {
    leases(tenant, lease, None).into_iter().map(|leased| leased.customer).collect()
}

fn leases(tenant: &Tenant<'_>, lease: Duration, until: Option<OffsetDateTime>) -> Vec<Leased> {
    let leased = tenant.harness.queue.lease_due(MANY, lease, until, &[]).expect("leased");
    leased.into_iter().filter(|leased| leased.organization == tenant.id).collect()
}

fn set_due(tenant: &Tenant<'_>, customer: CustomerKey, due_at: Option<OffsetDateTime>) {
    tenant.customer(customer, |tx, _| tx.customers().set_billing_due(customer, due_at));
}

pub(super) fn leases_what_is_due(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (first, second) = (tenant.new_customer("first"), tenant.new_customer("second"));
    set_due(&tenant, first.key, Some(first.created_at));
    set_due(&tenant, second.key, Some(first.created_at - Duration::days(1)));
    assert_eq!(harness.queue.lease_due(0, Duration::hours(1), None, &[]), Ok(Vec::new()), "not more than wanted");
    let until = first.created_at - Duration::hours(1);
    let early = leases(&tenant, Duration::ZERO, Some(until));
    assert_eq!(
        early,
        [Leased { organization: tenant.id, customer: second.key, failures: 0 }],
        "only what was due by then"
    );
    let mut leased = lease(&tenant, Duration::hours(1));
    leased.sort();
    let mut both = [first.key, second.key];
    both.sort();
    assert_eq!(leased, both);
    assert_eq!(lease(&tenant, Duration::hours(1)), [], "nobody else gets them meanwhile");
    set_due(&tenant, first.key, Some(first.created_at));
    assert_eq!(lease(&tenant, Duration::ZERO), [first.key], "set anew, it is free again");
    assert_eq!(lease(&tenant, Duration::ZERO), [first.key], "and so it is when the lease is over");
}

pub(super) fn leaves_those_who_wait_for_tax_alone(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let queue = harness.queue;
    let [waiting, other, behind] = ["waiting", "other", "behind"].map(|id| tenant.new_customer(id));
    let now = waiting.created_at;
    [&waiting, &other, &behind].iter().for_each(|customer| set_due(&tenant, customer.key, Some(now)));
    let of_tenant = |leased: Vec<Leased>| -> BTreeSet<CustomerKey> {
        leased.into_iter().filter(|one| one.organization == tenant.id).map(|one| one.customer).collect()
    };
    let take = |tax_waits: &[OrganizationId]| {
        of_tenant(queue.lease_due(MANY, Duration::ZERO, None, tax_waits).expect("leased"))
    };
    let all = BTreeSet::from([waiting.key, other.key, behind.key]);
    assert_eq!(take(&[tenant.id]), all, "nobody is known to wait");
    let hold = || leases(&tenant, Duration::hours(1), None);
    let of = |leased: &[Leased], customer: CustomerKey| {
        leased.iter().copied().filter(|one| one.customer == customer).collect::<Vec<_>>()
    };

    let held = hold();
    queue.wait_for_tax(&of(&held, waiting.key), Duration::hours(1)).expect("noted");
    assert_eq!(take(&[tenant.id]), BTreeSet::new(), "the others are leased still");
    assert_eq!(take(&[]), BTreeSet::from([waiting.key]), "it was given back, and goes on where there is room");
    [&other, &behind].iter().for_each(|customer| set_due(&tenant, customer.key, Some(now)));
    assert_eq!(take(&[tenant.id]), BTreeSet::from([other.key, behind.key]), "those go on who are not known to wait");
    assert_eq!(hold().len(), 3, "nobody is lost");

    set_due(&tenant, waiting.key, Some(now));
    assert_eq!(take(&[tenant.id]), BTreeSet::from([waiting.key]), "what was billed is forgotten");
    queue.wait_for_tax(&of(&held, other.key), Duration::ZERO).expect("noted");
    assert_eq!(
        take(&[tenant.id]),
        BTreeSet::from([waiting.key, other.key]),
        "nobody is left alone for longer than that"
    );
    queue.put_off(&of(&held, behind.key)[0], "no luck", Duration::ZERO).expect("put off");
    queue.wait_for_tax(&of(&held, behind.key), Duration::hours(1)).expect("noted");
    assert_eq!(take(&[tenant.id]), all, "who was leased by somebody else since is theirs");

    let [failing] = of(&hold(), behind.key)[..] else { panic!("leased") };
    queue.wait_for_tax(&[failing], Duration::hours(1)).expect("noted");
    tenant.customer(behind.key, |tx, _| tx.customers().set_catching_up(behind.key, true));
    let catching_up = |tax_waits: &[OrganizationId]| {
        of_tenant(queue.lease_catching_up(MANY, Duration::ZERO, None, tax_waits).expect("leased"))
    };
    assert_eq!(catching_up(&[tenant.id]), BTreeSet::new(), "nor is who is catching up");
    assert_eq!(catching_up(&[]), BTreeSet::from([behind.key]));
    tenant.customer(behind.key, |tx, _| tx.customers().set_catching_up(behind.key, false));
    all.iter().for_each(|customer| set_due(&tenant, *customer, None));
}

pub(super) fn leaves_out_what_is_not_due(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let customer = tenant.new_customer("acme");
    assert_eq!(lease(&tenant, Duration::ZERO), [], "never set");
    set_due(&tenant, customer.key, Some(customer.created_at + Duration::days(1)));
    assert_eq!(lease(&tenant, Duration::ZERO), [], "not yet");
    set_due(&tenant, customer.key, Some(customer.created_at));
    assert_eq!(lease(&tenant, Duration::ZERO), [customer.key]);
    set_due(&tenant, customer.key, None);
    assert_eq!(lease(&tenant, Duration::ZERO), [], "never again");
}

pub(super) fn leaves_out_test_clocks(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let clock = tenant.new_clock(datetime!(2020-01-01 0:00 UTC));
    let customer = tenant.new_customer_of(&clock, "acme");
    set_due(&tenant, customer.key, Some(clock.frozen_time));
    assert_eq!(lease(&tenant, Duration::ZERO), [], "their clock drives them");
}

pub(super) fn tells_how_far_billing_is_behind(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let customer = tenant.new_customer("acme");
    let before = harness.queue.backlog().expect("a backlog");
    // Far behind whatever other cases have put into the queue.
    set_due(&tenant, customer.key, Some(customer.created_at - Duration::weeks(5_000)));
    let behind = harness.queue.backlog().expect("a backlog");
    assert_eq!(behind.customers, before.customers + 1);
    assert!(behind.lag >= Duration::weeks(5_000), "{behind:?}");
    assert_eq!(lease(&tenant, Duration::hours(1)), [customer.key]);
    assert_eq!(harness.queue.backlog().expect("a backlog").customers, behind.customers, "leased is not done");
    set_due(&tenant, customer.key, None);
    let done = harness.queue.backlog().expect("a backlog");
    assert!(done.customers == before.customers && done.lag < Duration::weeks(5_000), "{done:?}");
}

pub(super) fn puts_off_what_fails(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let queue = tenant.harness.queue;
    let customer = tenant.new_customer("acme").key;
    let due_at = tenant.new_customer("other").created_at;
    set_due(&tenant, customer, Some(due_at));
    let before = queue.backlog().expect("a backlog");
    let take = || leases(&tenant, Duration::hours(1), None).pop().expect("leased");
    let mut failing = take();
    for failures in 1..=2 {
        queue.put_off(&failing, "no luck", Duration::ZERO).expect("put off");
        failing = take();
        assert_eq!(failing, Leased { organization: tenant.id, customer, failures });
    }
    assert_eq!(queue.backlog().expect("a backlog").failing, before.failing + 1);
    queue.put_off(&failing, "no luck", Duration::hours(1)).expect("put off");
    assert_eq!(lease(&tenant, Duration::ZERO), [], "not before its time");

    set_due(&tenant, customer, Some(due_at));
    let fresh = take();
    assert_eq!(fresh.failures, 0, "billed at last, everything is forgotten");
    let park = |leased: Leased, reason: &'static str| {
        tenant.customer(customer, |tx, _| tx.customers().park_billing(leased.customer, leased.failures, reason))
    };
    queue.put_off(&failing, "too late", Duration::ZERO).expect("put off");
    assert!(!park(failing, "too late"), "it was billed meanwhile");
    assert_eq!(queue.backlog().expect("a backlog").parked, before.parked, "somebody else billed it meanwhile");

    assert!(park(fresh, "hopeless"));
    assert_eq!(queue.backlog().expect("a backlog").parked, before.parked + 1);
    assert_eq!(lease(&tenant, Duration::ZERO), [], "left alone");
    let listed = queue.list_parked(MANY).expect("listed").into_iter().filter(|parked| parked.organization == tenant.id);
    let parked = Parked {
        organization: tenant.id,
        customer: "acme".parse().expect("an id"),
        due_at,
        failures: 1,
        reason: "hopeless".to_owned(),
    };
    assert_eq!(listed.collect::<Vec<_>>(), [parked]);
    assert_eq!(queue.list_parked(0), Ok(Vec::new()), "not more than wanted");
    shows_one_that_failed(&tenant, customer, due_at);
    assert_eq!(queue.release_parked(), Ok(before.parked + 1));
    assert_eq!(take().failures, 0, "it starts anew");
}

/// How an organization sees that the billing of its `acme` failed, beside one that is just due; and that it can be tried again.
fn shows_one_that_failed(tenant: &Tenant<'_>, customer: CustomerKey, due_at: OffsetDateTime) {
    let other = tenant.new_customer("just due").key;
    set_due(tenant, other, Some(due_at - Duration::weeks(1)));
    let shown = |limit| tenant.harness.overviews.billing_queue(tenant.id, limit).expect("read");
    let ids = |limit| shown(limit).iter().map(|one| one.customer.as_str().to_owned()).collect::<Vec<_>>();
    let parked = Queued {
        customer: "acme".parse().expect("an id"),
        due_at,
        failures: 1,
        failure: Some("hopeless".to_owned()),
        is_parked: true,
    };
    assert_eq!(shown(1), [parked], "who waits for a person comes first, and no more than asked for");
    assert_eq!(ids(9), ["acme", "just due"]);
    let stranger = Tenant::new(tenant.harness);
    assert_eq!(tenant.harness.overviews.billing_queue(stranger.id, 9), Ok(Vec::new()), "nobody else's");
    let retry = |key| tenant.customer(key, |tx, _| tx.customers().retry_billing(key));
    assert!(!retry(other), "nothing has failed");
    let backlog = tenant.harness.queue.backlog().expect("a backlog");
    assert!(retry(customer), "it had failed");
    assert_eq!(tenant.harness.queue.backlog().expect("a backlog").parked, backlog.parked - 1);
    assert_eq!(ids(9), ["just due", "acme"], "both are due, the longest overdue first");
    assert_eq!(lease(tenant, Duration::ZERO).len(), 2, "and both are taken up");
    set_due(tenant, other, None);
    set_due(tenant, customer, Some(due_at));
    let leased = leases(tenant, Duration::hours(1), None).pop().expect("leased");
    assert!(tenant.customer(customer, |tx, _| tx.customers().park_billing(customer, leased.failures, "hopeless")));
}

pub(super) fn leases_those_who_catch_up_apart(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let [first, second, usual] = ["first", "second", "usual"].map(|id| tenant.new_customer(id));
    let now = first.created_at;
    let lags = [(first.key, Duration::weeks(6_000)), (second.key, Duration::weeks(5_999)), (usual.key, Duration::ZERO)];
    for (key, lag) in lags {
        set_due(&tenant, key, Some(now - lag));
    }
    let before = harness.queue.backlog().expect("a backlog");
    for key in [first.key, second.key] {
        tenant.customer(key, |tx, _| tx.customers().set_catching_up(key, true));
    }
    let backlog = harness.queue.backlog().expect("a backlog");
    assert_eq!((backlog.customers, backlog.catching_up), (before.customers, before.catching_up + 2));
    assert!(
        before.lag >= Duration::weeks(6_000) && backlog.lag < Duration::weeks(5_999),
        "it is no delay: {backlog:?}"
    );
    assert_eq!(lease(&tenant, Duration::ZERO), [usual.key], "only whose billing has just fallen due");

    let leases = |lease, until| {
        let leased = harness.queue.lease_catching_up(MANY, lease, until, &[]).expect("leased");
        leased.into_iter().filter(|leased| leased.organization == tenant.id).map(|leased| leased.customer)
    };
    assert_eq!(harness.queue.lease_catching_up(0, Duration::ZERO, None, &[]), Ok(Vec::new()), "not more than wanted");
    let early = now - Duration::weeks(6_001);
    assert_eq!(leases(Duration::ZERO, Some(early)).count(), 0, "nothing was due by then");
    let one = leases(Duration::hours(1), None).collect::<Vec<_>>();
    assert_eq!(one, [first.key], "one of each organization, the furthest behind");
    assert_eq!(leases(Duration::hours(1), None).collect::<Vec<_>>(), [second.key], "while that one is at work");
    assert_eq!(leases(Duration::hours(1), None).count(), 0);
    set_due(&tenant, first.key, Some(now - Duration::weeks(5_998)));
    assert_eq!(leases(Duration::ZERO, None).collect::<Vec<_>>(), [first.key], "set anew, it is free again");
    tenant.customer(first.key, |tx, _| tx.customers().set_catching_up(first.key, false));
    assert_eq!(leases(Duration::ZERO, None).count(), 0, "it has caught up");
    assert!(lease(&tenant, Duration::ZERO).contains(&first.key), "and is one of the others");
    for key in [first.key, second.key] {
        tenant.customer(key, |tx, _| tx.customers().set_catching_up(key, false));
        set_due(&tenant, key, None);
    }
}
