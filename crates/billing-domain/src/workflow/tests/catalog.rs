use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::error::{Error, FieldCode, Refusal};
use crate::id::PlanId;
use crate::metric::{Aggregation, MetricFilters};
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::plan::{
    ChargeTiming::{InAdvance, InArrears},
    PlanVersion, PlanVersionStatus,
};
use crate::test_clock::TestClockStatus;
use crate::testing::world::{World, component, fee, subscription, tiers, version};
use crate::workflow::{
    ActiveFrom, AdvanceTestClock, CreateCustomer, CreateMetric, CreatePlanVersion, CreateSubscription, CreateTestClock,
    MakeActiveType, NewPlanVersion, NewRecurringCharge, Progress, advance_customer, advance_test_clock, archive_metric,
    create_customer, create_metric, create_plan_version, create_test_clock, finish_test_clock,
};

const NOW: OffsetDateTime = datetime!(2024-01-15 12:00 UTC);

fn free() -> NewPlanVersion {
    version(vec![fee("30", InAdvance)], Vec::new())
}

fn add(world: &World, plan: PlanId, new: NewPlanVersion) -> Result<PlanVersion, Error> {
    let command = CreatePlanVersion { plan, version: new };
    world.catalog(|tx, now| create_plan_version(tx, &command, now))
}

fn versions(world: &World, plan: PlanId) -> Vec<PlanVersion> {
    world.catalog(|tx, _| tx.plans().list_versions(Some(plan))).expect("versions")
}

#[test]
fn a_new_version_takes_the_place_of_the_old() {
    for (make_active_type, status) in [
        (MakeActiveType::ReplaceOnRenewal, PlanVersionStatus::Retiring),
        (MakeActiveType::Grandfather, PlanVersionStatus::Grandfathered),
    ] {
        let world = World::at(NOW);
        let plan = world.plan(Some(PlanDuration::Monthly), free());
        world.store.set_now(NOW + Duration::days(1));
        let new = add(&world, plan, NewPlanVersion { make_active_type, ..free() }).expect("a version");
        assert_eq!(new.number, 2);
        let old = &versions(&world, plan)[0];
        assert_eq!(old.active_to, new.active_from);
        assert_eq!(old.status(NOW + Duration::days(2), 1), status);
        assert_eq!(old.status(NOW + Duration::days(2), 0), PlanVersionStatus::Inactive);
    }
}

#[test]
fn versions_in_other_currencies_and_for_other_customers_stay() {
    let world = World::at(NOW);
    let plan = world.plan(Some(PlanDuration::Monthly), free());
    world.customer("acme");
    let euro = NewPlanVersion { currency_code: "EUR".to_owned(), number: Some(1), ..free() };
    add(&world, plan, euro).expect("the same number in another currency");
    let custom = NewPlanVersion { target_customers: vec!["acme".parse().expect("an id")], ..free() };
    add(&world, plan, custom).expect("a custom version");
    let not_started = NewPlanVersion { active_from: ActiveFrom::NotStarted, ..free() };
    add(&world, plan, not_started).expect("a version that is not on offer");
    assert!(versions(&world, plan).iter().all(|version| version.active_to.is_none()), "nothing was replaced");

    let again = NewPlanVersion { number: Some(1), ..free() };
    let refused = add(&world, plan, again).expect_err("the number is taken");
    assert!(matches!(refused, Error::Refused(Refusal::DuplicateResource(_))));
}

#[test]
fn every_bad_field_of_a_version_is_named() {
    let world = World::at(NOW);
    let metric = world.metric("call", None).id;
    let plan = world.plan(None, free());
    let absent = uuid::Uuid::from_u128(u128::MAX);
    let bad = NewPlanVersion {
        currency_code: "ZZZ".to_owned(),
        features: vec![absent.into()],
        target_customers: vec!["nobody".parse().expect("an id")],
        active_to: Some(NOW - Duration::days(1)),
        ..version(
            vec![fee("-1", InAdvance), fee("1", InAdvance)],
            vec![
                component(metric, tiers(&[("0", "", "1")])),
                component(metric, tiers(&[("0", "", "1")])),
                component(absent.into(), tiers(&[("0", "", "1")])),
            ],
        )
    };
    let Err(Error::Fields(errors)) = add(&world, plan, bad) else { panic!("refused") };
    let mut found: Vec<_> = errors.0.iter().map(|error| (error.attr.as_str(), error.code)).collect();
    found.sort_unstable();
    #[rustfmt::skip]
    assert_eq!(found, [
        ("active_to",                FieldCode::MinValue),
        ("components.1.metric_id",   FieldCode::Unique),
        ("components.2.metric_id",   FieldCode::DoesNotExist),
        ("currency_code",            FieldCode::DoesNotExist),
        ("features.0",               FieldCode::DoesNotExist),
        ("recurring_charges.0.amount", FieldCode::MinValue),
        ("recurring_charges.1.name", FieldCode::Unique),
        ("target_customers.0",       FieldCode::DoesNotExist),
    ]);
    assert_eq!(versions(&world, plan).len(), 1);
}

#[test]
fn the_version_of_a_plan_is_chosen_for_the_customer() {
    let dollars =
        |number| NewPlanVersion { number: Some(number), make_active_type: MakeActiveType::Grandfather, ..free() };
    let euros = || NewPlanVersion { currency_code: "EUR".to_owned(), number: Some(1), ..free() };
    let francs = || NewPlanVersion { currency_code: "CHF".to_owned(), number: Some(1), ..free() };
    let made_for = |customer: &str, new: NewPlanVersion| NewPlanVersion {
        target_customers: vec![customer.parse().expect("an id")],
        ..new
    };
    #[rustfmt::skip]
    let cases: Vec<(Vec<NewPlanVersion>, Result<usize, Refusal>, &str)> = vec![
        (vec![],                                     Ok(0), "the only version"),
        (vec![euros()],                              Ok(0), "the customer's currency"),
        (vec![euros(), made_for("acme", francs())],  Ok(2), "made for the customer, whatever the currency"),
        (vec![made_for("other", dollars(5))],        Ok(0), "made for another customer: does not count"),
        (vec![made_for("acme", dollars(5)), made_for("acme", dollars(6))], Err(Refusal::AmbiguousPlanVersion),
                                                     "two made for the customer in one currency"),
        (vec![made_for("acme", euros()), made_for("acme", francs())], Err(Refusal::NoMatchingPlanVersion),
                                                     "two made for the customer, none in a currency of theirs"),
        (vec![dollars(2)],                           Ok(1), "the newer one took the place of the older"),
    ];
    for (more, expected, why) in cases {
        let world = World::at(NOW);
        let plan = world.plan(Some(PlanDuration::Monthly), free());
        world.customer("acme");
        world.customer("other");
        for new in more {
            add(&world, plan, new).expect(why);
        }
        let chosen = world.subscribe(&subscription("acme", plan, NOW)).map(|subscription| subscription.version);
        let all = versions(&world, plan);
        assert_eq!(chosen, expected.map(|i| all[i].id).map_err(Error::Refused), "{why}");
    }
}

#[test]
fn nothing_on_offer_is_refused() {
    let world = World::at(NOW);
    let plan = world.plan(None, NewPlanVersion { active_from: ActiveFrom::NotStarted, ..free() });
    world.customer("acme");
    let refused = world.subscribe(&subscription("acme", plan, NOW));
    assert_eq!(refused, Err(Error::Refused(Refusal::NoMatchingPlanVersion)));
}

#[test]
fn a_metric_in_use_is_not_archived() {
    let world = World::at(NOW);
    let (used, idle) = (world.metric("call", None).id, world.metric("idle", None).id);
    world.plan(None, version(Vec::new(), vec![component(used, tiers(&[("0", "", "1")]))]));
    let archive = |id| world.catalog(|tx, now| archive_metric(tx, &id, now));
    assert_eq!(archive(used), Err(Error::Refused(Refusal::MetricInUse)));
    let archived = archive(idle).expect("archived").archived_at;
    world.store.set_now(NOW + Duration::days(1));
    assert_eq!(archive(idle).expect("archived already").archived_at, archived, "nothing happens");
}

#[test]
fn metric_names_are_unique_and_made_up_where_missing() {
    let world = World::at(NOW);
    let command = |name: Option<&str>| CreateMetric {
        name: name.map(str::to_owned),
        event_name: "commit".to_owned(),
        measure: Aggregation::Sum { property_name: "insertions".to_owned() }.into(),
        filters: MetricFilters::default(),
        is_cost_metric: false,
    };
    let create = |name| world.catalog(|tx, now| create_metric(tx, &command(name), now));
    assert_eq!(create(None).expect("a metric").name, "sum of insertions of commit");
    assert!(create(Some("lines")).is_ok(), "the same definition under another name");
    assert!(matches!(create(Some("lines")), Err(Error::Refused(Refusal::DuplicateResource(_)))));
}

#[test]
fn customers_live_by_their_test_clock() {
    let world = World::at(NOW);
    let plan = world.plan(Some(PlanDuration::Monthly), free());
    let frozen = datetime!(2020-03-31 00:00 UTC);
    let command = CreateTestClock { name: "march".to_owned(), frozen_time: frozen };
    let clock = world.catalog(|tx, now| create_test_clock(tx, &command, now)).expect("a clock").id;
    let command =
        CreateCustomer { test_clock: Some(clock), ..CreateCustomer::new("acme".parse().expect("an id"), "a@acme.io") };
    let customer = world.on("acme", |tx, now| create_customer(tx, &command, now)).expect("a customer");
    assert_eq!(customer.created_at, frozen);
    let first = world.subscribe(&subscription("acme", plan, frozen)).expect("a plan made after the clock's time");
    assert_eq!(first.created_at, frozen);

    let advance = |to| {
        let command = AdvanceTestClock { clock, frozen_time: to };
        world.catalog(|tx, now| advance_test_clock(tx, &command, now))
    };
    let to = datetime!(2020-06-15 00:00 UTC);
    assert_eq!(advance(to).expect("on its way").status, TestClockStatus::Advancing);
    assert_eq!(advance(to), Err(Error::Refused(Refusal::TestClockAdvancing)));
    let refused = world.subscribe(&subscription("acme", plan, to));
    assert_eq!(refused, Err(Error::Refused(Refusal::TestClockAdvancing)));
    let arrived = world.on("acme", |tx, _| advance_customer(tx, clock, customer.key));
    assert_eq!(arrived, Ok(Progress::Arrived));
    let stale = datetime!(2020-06-01 00:00 UTC);
    world.catalog(|tx, _| finish_test_clock(tx, clock, stale, TestClockStatus::Failed)).expect("ignored");
    assert_eq!(advance(to), Err(Error::Refused(Refusal::TestClockAdvancing)), "another advance has nothing to say");
    world.catalog(|tx, _| finish_test_clock(tx, clock, to, TestClockStatus::Ready)).expect("arrived");

    let starts: Vec<_> =
        world.subscriptions("acme").iter().map(|subscription| subscription.period.start().date().to_string()).collect();
    assert_eq!(starts, ["2020-03-31", "2020-04-30", "2020-05-31"]);
    assert_eq!(world.invoices("acme").len(), 3);
    let Err(Error::Fields(errors)) = advance(to) else { panic!("a clock never goes back") };
    assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("frozen_time", FieldCode::Invalid));
}

#[test]
fn an_advance_is_bounded_by_the_shortest_interval() {
    let every = |count, unit| Interval::new(unit, count).expect("an interval");
    let daily = || {
        let (reset_interval, invoicing_interval) =
            (Some(every(1, IntervalUnit::Month)), Some(every(1, IntervalUnit::Day)));
        let charge = NewRecurringCharge { reset_interval, invoicing_interval, ..fee("1", InArrears) };
        version(vec![charge], Vec::new())
    };
    let from = datetime!(2020-01-31 00:00 UTC);
    let far = datetime!(9000-01-01 00:00 UTC);
    #[rustfmt::skip]
    let cases = [
        // offer,   auto_renew, farthest,                           why
        (None,      true,       far,                                "nobody has anything"),
        (Some(free()),  true,   datetime!(2120-01-31 00:00 UTC),    "a century of months, by the plan's duration"),
        (Some(daily()), true,   datetime!(2023-05-15 00:00 UTC),    "1,200 days: its invoices come every day"),
        (Some(daily()), false,  far,                                "it ends long before"),
    ];
    for (offer, auto_renew, farthest, why) in cases {
        let world = World::at(NOW);
        let command = CreateTestClock { name: "clock".to_owned(), frozen_time: from };
        let clock = world.catalog(|tx, now| create_test_clock(tx, &command, now)).expect("a clock").id;
        let id = "acme".parse().expect("an id");
        let command = CreateCustomer { test_clock: Some(clock), ..CreateCustomer::new(id, "a@acme.io") };
        world.on("acme", |tx, now| create_customer(tx, &command, now)).expect("a customer");
        if let Some(offer) = offer {
            let plan = world.plan(Some(PlanDuration::Monthly), offer);
            let command = CreateSubscription { auto_renew, ..subscription("acme", plan, from) };
            world.subscribe(&command).expect("subscribed");
        }
        let advance = |frozen_time| {
            let command = AdvanceTestClock { clock, frozen_time };
            world.catalog(|tx, now| advance_test_clock(tx, &command, now))
        };
        if farthest < far {
            let Err(Error::Fields(errors)) = advance(farthest + Duration::MICROSECOND) else { panic!("{why}") };
            assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("frozen_time", FieldCode::MaxValue), "{why}");
            let day = farthest.date().to_string();
            assert!(errors.0[0].detail.contains(&day), "{}: {why}", errors.0[0].detail);
        }
        assert_eq!(advance(farthest).map(|clock| clock.frozen_time), Ok(farthest), "{why}");
    }
}

#[test]
fn an_advance_is_kept_as_far_as_it_has_come() {
    let world = World::at(NOW);
    let plan = world.plan(Some(PlanDuration::Monthly), free());
    let (frozen_time, to) = (datetime!(2020-01-01 00:00 UTC), datetime!(2024-01-15 00:00 UTC));
    let command = CreateTestClock { name: "clock".to_owned(), frozen_time };
    let clock = world.catalog(|tx, now| create_test_clock(tx, &command, now)).expect("a clock").id;
    let command =
        CreateCustomer { test_clock: Some(clock), ..CreateCustomer::new("acme".parse().expect("an id"), "a@acme.io") };
    let customer = world.on("acme", |tx, now| create_customer(tx, &command, now)).expect("a customer").key;
    world.subscribe(&subscription("acme", plan, frozen_time)).expect("subscribed");
    world.catalog(|tx, now| advance_test_clock(tx, &AdvanceTestClock { clock, frozen_time: to }, now)).expect("told");

    let now = || world.on("acme", |tx, _| tx.customers().now(customer)).expect("a time");
    let mut reached = vec![now()];
    while world.on("acme", |tx, _| advance_customer(tx, clock, customer)).expect("billed") == Progress::OnTheWay {
        reached.push(now());
        let last = world.subscriptions("acme").last().map(|subscription| subscription.period);
        assert!(last.is_some_and(|period| period.contains(now())), "what has been reached is there to be seen");
        let refused = world.subscribe(&subscription("acme", plan, to));
        assert_eq!(refused, Err(Error::Refused(Refusal::TestClockAdvancing)));
    }
    reached.push(now());
    assert!(reached.is_sorted() && reached.len() >= 4, "{reached:?}");
    assert_eq!((reached[0], now()), (frozen_time, to));
    assert_eq!(world.subscriptions("acme").len(), 49);
}
