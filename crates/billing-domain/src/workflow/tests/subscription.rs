use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::error::{Error, FieldCode, Refusal};
use crate::period::PlanDuration;
use crate::plan::ChargeTiming::InAdvance;
use crate::testing::world::{World, fee, filters, subscription, version};
use crate::workflow::VersionChoice;

const NOW: OffsetDateTime = datetime!(2024-01-15 12:00 UTC);

fn world() -> (World, crate::id::PlanId) {
    let world = World::at(NOW);
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], Vec::new()));
    world.customer("acme");
    (world, plan)
}

#[test]
fn dates_are_held_to_the_rules() {
    let day = Duration::days(1);
    #[rustfmt::skip]
    let cases = [
        // start,          end given,          renews, accepted, why
        (NOW,              None,               true,   true,     "the plan says how long"),
        (NOW - day * 40,   None,               true,   true,     "a computed end in the past is caught up with"),
        (NOW - day * 40,   None,               false,  false,    "without renewal it would be over already"),
        (NOW - day,        Some(NOW + day),    true,   true,     "a start in the past"),
        (NOW + day * 60,   None,               true,   true,     "a start in the future"),
        (NOW - day,        Some(NOW),          true,   false,    "a given end must lie ahead"),
        (NOW + day,        Some(NOW + day),    true,   true,     "an empty period"),
        (NOW + day * 2,    Some(NOW + day),    true,   false,    "an end before the start"),
    ];
    for (start, end, auto_renew, accepted, why) in cases {
        let (world, plan) = world();
        let mut command = subscription("acme", plan, start);
        (command.end, command.auto_renew) = (end, auto_renew);
        let result = world.subscribe(&command);
        assert_eq!(result.is_ok(), accepted, "{why}: {result:?}");
        if let Err(error) = result {
            let Error::Fields(errors) = error else { panic!("{why}: {error}") };
            assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("end_date", FieldCode::Invalid), "{why}");
        }
    }
}

#[test]
fn a_plan_without_duration_needs_an_end() {
    let world = World::at(NOW);
    let plan = world.plan(None, version(vec![fee("30", InAdvance)], Vec::new()));
    world.customer("acme");
    let Err(Error::Fields(errors)) = world.subscribe(&subscription("acme", plan, NOW)) else { panic!("refused") };
    assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("end_date", FieldCode::Required));

    let mut command = subscription("acme", plan, NOW);
    command.end = Some(NOW + Duration::days(3));
    world.subscribe(&command).expect("subscribed");
    world.advance("acme", NOW + Duration::days(10));
    assert_eq!(world.subscriptions("acme").len(), 1, "nothing says how long a renewal would be");
}

#[test]
fn two_subscriptions_never_count_the_same_events() {
    let month = Duration::days(31);
    let none: &[(&str, &str)] = &[];
    let prod: &[(&str, &str)] = &[("env", "prod")];
    let test: &[(&str, &str)] = &[("env", "test")];
    let prod_eu: &[(&str, &str)] = &[("region", "eu"), ("env", "prod")];
    #[rustfmt::skip]
    let cases = [
        // existing, new,     starts after, accepted, why
        (none,       none,    Duration::ZERO, false,  "the same events"),
        (prod,       prod,    Duration::ZERO, false,  "the same events"),
        (none,       prod,    Duration::ZERO, false,  "one wants all, the other some of them"),
        (prod_eu,    prod,    Duration::ZERO, false,  "one set of filters is part of the other"),
        (prod,       test,    Duration::ZERO, true,   "different values: no event is in both"),
        (none,       none,    month,          true,   "one period after the other"),
        (none,       none,    month - Duration::microseconds(1), false, "they share a microsecond"),
    ];
    for (existing, new, after, accepted, why) in cases {
        let (world, plan) = world();
        let mut command = subscription("acme", plan, NOW);
        (command.filters, command.auto_renew) = (filters(existing), false);
        world.subscribe(&command).expect("subscribed");
        let mut command = subscription("acme", plan, NOW + after);
        command.filters = filters(new);
        match world.subscribe(&command) {
            Ok(_) => assert!(accepted, "{why}"),
            Err(error) => {
                assert!(!accepted, "{why}");
                assert_eq!(error, Error::Refused(Refusal::OverlappingPlans), "{why}");
                assert_eq!((world.subscriptions("acme").len(), world.invoices("acme").len()), (1, 1), "{why}");
            }
        }
    }
}

#[test]
fn another_subscription_in_the_way_of_a_renewal_ends_it() {
    let (world, plan) = world();
    let first = world.subscribe(&subscription("acme", plan, NOW)).expect("subscribed");
    let later = world.subscribe(&subscription("acme", plan, first.period.end())).expect("subscribed");
    world.advance("acme", first.period.end() + Duration::days(1));
    let ids: Vec<_> = world.subscriptions("acme").iter().map(|subscription| subscription.id).collect();
    assert_eq!(ids, [first.id, later.id]);
    assert!(!world.subscription("acme", first.id).auto_renew);
}

#[test]
fn filter_properties_become_known_to_the_organization() {
    let (world, plan) = world();
    let mut command = subscription("acme", plan, NOW);
    command.filters = filters(&[("region", "eu"), ("env", "prod")]);
    world.subscribe(&command).expect("subscribed");
    let organization = world.catalog(|tx, _| tx.organizations().get()).expect("an organization");
    assert_eq!(organization.subscription_filter_keys, ["env", "region"]);
}

#[test]
fn references_that_do_not_exist_name_their_field() {
    let (world, plan) = world();
    let absent = uuid::Uuid::from_u128(u128::MAX);
    #[rustfmt::skip]
    let cases = [
        // customer, version,                              attr
        ("nobody",   VersionChoice::Plan(plan),             "customer_id"),
        ("acme",     VersionChoice::Plan(absent.into()),    "plan_id"),
        ("acme",     VersionChoice::Version(absent.into()), "version_id"),
    ];
    for (customer, version, attr) in cases {
        let mut command = subscription(customer, plan, NOW);
        command.version = version;
        let Err(Error::Fields(errors)) = world.subscribe(&command) else { panic!("{attr}: refused") };
        assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), (attr, FieldCode::DoesNotExist));
    }
}
