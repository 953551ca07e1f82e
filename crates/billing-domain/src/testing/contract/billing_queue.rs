//! The queue of customers that have something to be billed.

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use super::{Harness, Tenant};
use crate::id::CustomerKey;

/// More than other cases can have put into the queue.
const MANY: u32 = 10_000;

fn lease(tenant: &Tenant<'_>, lease: Duration) -> Vec<CustomerKey> {
    let leased = tenant.harness.queue.lease_due(MANY, lease).expect("leased");
    leased.into_iter().filter(|(organization, _)| *organization == tenant.id).map(|(_, customer)| customer).collect()
}

fn set_due(tenant: &Tenant<'_>, customer: CustomerKey, due_at: Option<OffsetDateTime>) {
    tenant.customer(customer, |tx, _| tx.customers().set_billing_due(customer, due_at));
}

pub(super) fn leases_what_is_due(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (first, second) = (tenant.new_customer("first"), tenant.new_customer("second"));
    set_due(&tenant, first.key, Some(first.created_at));
    set_due(&tenant, second.key, Some(first.created_at - Duration::days(1)));
    assert_eq!(harness.queue.lease_due(0, Duration::hours(1)), Ok(Vec::new()), "not more than wanted");
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
