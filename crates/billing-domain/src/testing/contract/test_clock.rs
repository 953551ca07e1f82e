//! Test clocks.

use time::Duration;
use time::macros::datetime;

use super::{Harness, Tenant};
use crate::customer::Customer;
use crate::error::{Error, Noun};
use crate::store::{HeldVersion, Scope};
use crate::subscription::Subscription;
use crate::test_clock::{TestClock, TestClockStatus};
use crate::testing::build::{Ids, customer, days_from, subscription, test_clock};

impl Tenant<'_> {
    /// A clock that stands at `frozen_time`, kept.
    pub(super) fn new_clock(&self, frozen_time: time::OffsetDateTime) -> TestClock {
        self.catalog(|tx, now| {
            let clock = self.build(|ids| test_clock(ids, frozen_time, now));
            tx.test_clocks().insert(&clock)?;
            Ok(clock)
        })
    }

    /// A customer that lives by `clock`.
    pub(super) fn new_customer_of(&self, clock: &TestClock, id: &str) -> Customer {
        let made = Customer { test_clock: Some(clock.id), ..customer(self.id, id, clock.frozen_time) };
        self.customer(made.key, |tx, _| tx.customers().insert(&made));
        made
    }
}

pub(super) fn keeps_clocks(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let first = tenant.new_clock(datetime!(2020-02-29 0:00 UTC));
    let second = TestClock { created_at: first.created_at + Duration::seconds(1), ..first.clone() };
    let second = TestClock { id: tenant.build(Ids::next), name: "second".to_owned(), ..second };
    tenant.catalog(|tx, _| tx.test_clocks().insert(&second));
    assert_eq!(tenant.look(|tx, _| tx.test_clocks().list()), [first.clone(), second.clone()], "oldest first");
    let frozen_time = datetime!(2020-03-31 0:00 UTC);
    let moved = TestClock { frozen_time, status: TestClockStatus::Failed, ..first };
    tenant.catalog(|tx, _| tx.test_clocks().update(&moved));
    assert_eq!(tenant.look(|tx, _| tx.test_clocks().get(moved.id)), moved);
    let absent = TestClock { id: tenant.build(Ids::next), ..second };
    let missing = tenant.run(&Scope::Catalog(tenant.id), |tx, _| tx.test_clocks().update(&absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::TestClock)));
    let missing = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.test_clocks().get(absent.id));
    assert_eq!(missing, Err(Error::NotFound(Noun::TestClock)));
}

pub(super) fn sets_the_time_of_its_customers(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let clock = tenant.new_clock(datetime!(2030-01-01 0:00 UTC));
    let acme = tenant.new_customer_of(&clock, "acme");
    let now = || tenant.customer(acme.key, |_, now| Ok(now));
    assert_eq!(now(), clock.frozen_time, "it stands");
    assert_eq!(tenant.look(|tx, _| tx.customers().now(acme.key)), clock.frozen_time, "from any scope");
    let target = datetime!(2030-02-01 0:00 UTC);
    for status in [TestClockStatus::Advancing, TestClockStatus::Failed] {
        let moving = TestClock { frozen_time: target, status, ..clock.clone() };
        tenant.catalog(|tx, _| tx.test_clocks().update(&moving));
        assert_eq!(now(), clock.frozen_time, "{status:?}: where the customer has got to");
    }
    let reached = datetime!(2030-01-15 0:00 UTC);
    tenant.customer(acme.key, |tx, _| tx.customers().advance_instant(acme.key, reached));
    assert_eq!(now(), reached);
    let arrived = TestClock { frozen_time: target, ..clock };
    tenant.catalog(|tx, _| tx.test_clocks().update(&arrived));
    assert_eq!(now(), target, "arrived");
    assert!(tenant.now() != target, "only its customers live by it");
}

pub(super) fn lists_its_customers(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let clock = tenant.new_clock(datetime!(2030-01-01 0:00 UTC));
    let other = tenant.new_clock(datetime!(2031-01-01 0:00 UTC));
    let mut keys: Vec<_> = ["a", "b", "c"].map(|id| tenant.new_customer_of(&clock, id).key).into();
    keys.sort();
    tenant.new_customer_of(&other, "d");
    tenant.new_customer("e");
    assert_eq!(tenant.look(|tx, _| tx.test_clocks().list_customers(clock.id)), keys, "in order of key");
}

pub(super) fn lists_the_versions_that_they_hold(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let clock = tenant.new_clock(datetime!(2030-01-01 0:00 UTC));
    let now = clock.frozen_time;
    let versions: Vec<_> = (0..5).map(|n| tenant.new_plan(&format!("plan {n}")).1).collect();
    let other = tenant.new_clock(now);
    let holders =
        [("a", &clock), ("b", &clock), ("c", &other)].map(|(id, clock)| tenant.new_customer_of(clock, id).key);
    let gone = tenant.new_customer_of(&clock, "d");
    #[rustfmt::skip]
    let held = [
        // holder,    version, days from now, and for, renews, renewed, replaced     why
        (holders[0],  0,       0,             10,      false,  false,   false),    // runs
        (holders[1],  0,       5,             15,      false,  false,   false),    // another one's ends later
        (holders[0],  1,       -20,           10,      true,   false,   false),    // ended, its renewal is due
        (holders[1],  1,       -10,           10,      true,   true,    false),    // ended, and was renewed
        (holders[0],  2,       -20,           10,      false,  false,   false),    // ended
        (holders[1],  3,       0,             10,      true,   false,   true),     // switched away from
        (holders[2],  4,       0,             10,      true,   false,   false),    // by another clock
        (gone.key,    4,       0,             10,      true,   false,   false),    // deleted
    ];
    for (holder, version, from, days, auto_renew, is_renewed, is_replaced) in held {
        let period = days_from(now + Duration::days(from), days);
        let made = Subscription {
            auto_renew,
            is_renewed,
            replaced_by: is_replaced.then(|| tenant.build(Ids::next)),
            ..tenant.build(|ids| subscription(ids, holder, &versions[version], period))
        };
        tenant.customer(holder, |tx, _| tx.subscriptions().insert(&made));
    }
    tenant.customer(gone.key, |tx, _| tx.customers().update(&Customer { deleted_at: Some(now), ..gone.clone() }));
    let held = |version: usize, renews, days| HeldVersion {
        version: versions[version].id,
        renews,
        ends_at: now + Duration::days(days),
    };
    let mut expected = [held(0, false, 20), held(1, true, -10)];
    expected.sort_by_key(|held| held.version);
    assert_eq!(tenant.look(|tx, _| tx.test_clocks().list_versions(clock.id, now)), expected);
}

pub(super) fn lists_advancing_clocks(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let clock = tenant.new_clock(datetime!(2030-01-01 0:00 UTC));
    let is_listed = || {
        let clocks = harness.queue.list_advancing_clocks().expect("clocks");
        clocks.contains(&(tenant.id, clock.id))
    };
    for (status, listed) in
        [(TestClockStatus::Ready, false), (TestClockStatus::Advancing, true), (TestClockStatus::Failed, false)]
    {
        tenant.catalog(|tx, _| tx.test_clocks().update(&TestClock { status, ..clock.clone() }));
        assert_eq!(is_listed(), listed, "{status:?}");
    }
}

pub(super) fn lists_who_catches_up(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let clock = tenant.new_clock(datetime!(2030-01-01 0:00 UTC));
    let mut keys = ["a", "b"].map(|id| tenant.new_customer_of(&clock, id).key);
    keys.sort();
    tenant.new_customer_of(&clock, "c");
    let in_real_time = tenant.new_customer("d").key;
    for key in keys.into_iter().chain([in_real_time]) {
        tenant.customer(key, |tx, _| tx.customers().set_catching_up(key, true));
    }
    let listed = |each| {
        let all = harness.queue.list_catching_up(each).expect("customers");
        all.into_iter().filter(|(owner, ..)| *owner == tenant.id).collect::<Vec<_>>()
    };
    let both = keys.map(|key| (tenant.id, clock.id, key));
    assert_eq!(listed(9), both, "who lives by a clock");
    assert_eq!(listed(1), both[..1], "so many of each organization");
    for status in [TestClockStatus::Advancing, TestClockStatus::Failed] {
        tenant.catalog(|tx, _| tx.test_clocks().update(&TestClock { status, ..clock.clone() }));
        assert_eq!(listed(9), [], "{status:?}: its advance takes them along");
    }
}
