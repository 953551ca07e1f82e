use serde_json::json;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::error::{Error, FieldCode};
use crate::organization::AccessPolicy;
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::subscription::SubscriptionFilters;
use crate::testing::world::{World, component, decimal, filters, subscription, tiers, version};
use crate::workflow::{CheckFeatureAccess, CreateFeature, OrganizationPatch, check_feature_access, create_feature};

const START: OffsetDateTime = datetime!(2024-01-01 00:00 UTC);

fn limited(world: &World, limit: &str) -> (crate::id::MetricId, crate::id::PlanId) {
    let metric = world.metric("call", None).id;
    let schedule = tiers(&[("0", "2", "free"), ("2", limit, "1")]);
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![component(metric, schedule)]));
    (metric, plan)
}

#[test]
fn access_ends_exactly_at_the_limit() {
    let world = World::at(START);
    let (metric, plan) = limited(&world, "4");
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    for used in 0..6 {
        let checked = world.access("acme", metric, &SubscriptionFilters::none()).expect("an answer");
        assert_eq!(checked.access, used < 4, "{used} of 4 used");
        let access = &checked.subscriptions[0].access;
        assert_eq!((&access.usage, &access.free_limit), (&used.into(), &Some(decimal("2"))));
        world.track_many("acme", "call", START, 1);
    }
}

#[test]
fn an_event_dated_ahead_counts_when_its_time_has_come() {
    let world = World::at(START);
    let (metric, plan) = limited(&world, "4");
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    let ahead = START + Duration::hours(5);
    world.track_many("acme", "call", ahead, 4);
    let access = || world.access("acme", metric, &SubscriptionFilters::none()).expect("an answer").access;
    assert!(access());
    world.store.set_now(ahead - Duration::microseconds(1));
    assert!(access());
    world.store.set_now(ahead);
    assert!(!access(), "an event of this very instant counts");
}

#[test]
fn only_subscriptions_with_the_filters_asked_for_are_considered() {
    let world = World::at(START);
    let (metric, plan) = limited(&world, "4");
    world.customer("acme");
    for env in ["prod", "test"] {
        let mut command = subscription("acme", plan, START);
        command.filters = filters(&[("env", env)]);
        world.subscribe(&command).expect("subscribed");
    }
    for _ in 0..4 {
        world.track("acme", "call", START, &json!({"env": "prod"}));
    }
    #[rustfmt::skip]
    let cases = [
        // asked for,              considered, all,   any,   why
        (vec![],                   2,          false, true,  "prod is at its limit"),
        (vec![("env", "prod")],    1,          false, false, "prod alone"),
        (vec![("env", "test")],    1,          true,  true,  "test alone"),
        (vec![("env", "dev")],     0,          false, false, "no such subscription"),
    ];
    for (policy, pick) in [(AccessPolicy::All, 0), (AccessPolicy::Any, 1)] {
        world.set(&OrganizationPatch { access_policy: Some(policy), ..OrganizationPatch::default() });
        for (asked, considered, all, any, why) in &cases {
            let checked = world.access("acme", metric, &filters(asked)).expect("an answer");
            assert_eq!(checked.subscriptions.len(), *considered, "{why}");
            assert_eq!(checked.access, [*all, *any][pick], "{why}");
        }
    }
}

#[test]
fn usage_is_that_of_the_current_reset_interval() {
    let world = World::at(START);
    let metric = world.metric("call", None).id;
    let mut daily = component(metric, tiers(&[("0", "2", "free")]));
    daily.reset_interval = Some(Interval::new(IntervalUnit::Day, 1).expect("an interval"));
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![daily]));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    world.track_many("acme", "call", START, 2);
    let access = || world.access("acme", metric, &SubscriptionFilters::none()).expect("an answer").access;
    assert!(!access());
    world.store.set_now(START + Duration::days(1));
    assert!(access(), "a new day");
}

#[test]
fn a_renewal_that_is_due_but_not_made_counts_as_made() {
    let world = World::at(START);
    let (metric, plan) = limited(&world, "4");
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    world.track_many("acme", "call", START, 4);
    world.store.set_now(datetime!(2024-03-05 00:00 UTC));
    let checked = world.access("acme", metric, &SubscriptionFilters::none()).expect("an answer");
    assert!(checked.access, "a new period");
    let period = checked.subscriptions[0].subscription.period;
    assert_eq!(period.start(), datetime!(2024-03-01 00:00 UTC));
}

#[test]
fn a_subscription_without_the_metric_gives_no_access() {
    let world = World::at(START);
    let (_, plan) = limited(&world, "4");
    let other = world.metric("other", None).id;
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    let checked = world.access("acme", other, &SubscriptionFilters::none()).expect("an answer");
    assert!(!checked.access);
    assert_eq!(checked.subscriptions.len(), 1, "it is shown with limits of 0");
    assert_eq!(checked.subscriptions[0].access.total_limit, Some(decimal("0")));
}

#[test]
fn unknown_references_name_their_field() {
    let world = World::at(START);
    let (metric, _) = limited(&world, "4");
    world.customer("acme");
    let absent = uuid::Uuid::from_u128(u128::MAX).into();
    for (customer, metric, attr) in [("nobody", metric, "customer_id"), ("acme", absent, "metric_id")] {
        let Err(Error::Fields(errors)) = world.access(customer, metric, &SubscriptionFilters::none()) else {
            panic!("{attr}: refused")
        };
        assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), (attr, FieldCode::DoesNotExist));
    }
}

#[test]
fn a_feature_is_granted_by_any_subscription_that_runs() {
    let world = World::at(START);
    let create = CreateFeature { name: "sso".to_owned(), description: None };
    let feature = world.catalog(|tx, _| create_feature(tx, &create)).expect("a feature").id;
    let mut with = version(Vec::new(), Vec::new());
    with.features = vec![feature];
    let (with, without) = (
        world.plan(Some(PlanDuration::Monthly), with),
        world.plan(Some(PlanDuration::Monthly), version(Vec::new(), Vec::new())),
    );
    world.customer("acme");
    let check = |feature| {
        let customer = "acme".parse().expect("an id");
        let command = CheckFeatureAccess { customer, feature, filters: SubscriptionFilters::none() };
        world.catalog(|tx, now| check_feature_access(tx, &command, now))
    };
    assert!(!check(feature).expect("an answer").access, "no subscription");
    world.subscribe(&subscription("acme", without, START)).expect("subscribed");
    assert!(!check(feature).expect("an answer").access, "another plan");
    world.subscribe(&subscription("acme", with, START + Duration::days(1))).expect("subscribed");
    assert!(!check(feature).expect("an answer").access, "not started yet");
    world.store.set_now(START + Duration::days(1));
    let checked = check(feature).expect("an answer");
    assert!(checked.access);
    let granted: Vec<_> = checked.subscriptions.iter().map(|(.., granted)| *granted).collect();
    assert_eq!(granted, [false, true]);
    let Err(Error::Fields(errors)) = check(uuid::Uuid::from_u128(u128::MAX).into()) else { panic!("refused") };
    assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("feature_id", FieldCode::DoesNotExist));
}
