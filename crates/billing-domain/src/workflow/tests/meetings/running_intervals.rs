//! Switches within reset intervals: the running one ends where it would have ended.

use time::OffsetDateTime;
use time::macros::datetime;

use super::{Life, every};
use crate::decimal::plain;
use crate::period::IntervalUnit::{Month, Week};
use crate::period::{Interval, PlanDuration};
use crate::plan::ChargeBehavior::Prorate;
use crate::plan::ChargeTiming::{InAdvance, InArrears};
use crate::subscription::SubscriptionFilters;
use crate::testing::world::{World, component, fee, prepaid_component, tiers, version};
use crate::workflow::NewPlanVersion;

const START: OffsetDateTime = datetime!(2024-01-01 00:00 UTC);
const SWITCHED: OffsetDateTime = datetime!(2024-02-15 00:00 UTC);

/// A quarter of a plan made by `version`, switched to the same again in the middle of February.
fn switched(make: impl Fn(&World) -> NewPlanVersion) -> Life {
    let world = World::at(START);
    let version = make(&world);
    let [first, second] = [(); 2].map(|()| world.plan(Some(PlanDuration::Quarterly), version.clone()));
    let mut life = Life::begin(world, first, START);
    life.at(datetime!(2024-02-03 00:00 UTC));
    life.world.track_many("acme", "call", datetime!(2024-02-03 00:00 UTC), 8);
    life.at(SWITCHED);
    life.switch(second);
    life
}

#[test]
fn a_month_stays_a_month() {
    let life = switched(|world| {
        let calls = world.metric("call", None).id;
        let mut component = component(calls, tiers(&[("0", "10", "free"), ("10", "12", "1")]));
        component.reset_interval = every(1, Month);
        version(Vec::new(), vec![component])
    });
    let calls = life.world.catalog(|tx, _| tx.metrics().list()).expect("metrics")[0].id;
    let usage = |now| {
        life.at(now);
        let access = life.world.access("acme", calls, &SubscriptionFilters::none()).expect("an answer");
        plain(&access.subscriptions[0].access.usage)
    };
    assert_eq!(usage(SWITCHED), "8", "it goes on");
    life.world.track_many("acme", "call", datetime!(2024-03-03 00:00 UTC), 8);
    assert_eq!(usage(datetime!(2024-03-04 00:00 UTC)), "8", "and ends with February");
    life.at(datetime!(2024-04-01 00:30 UTC));
    assert_eq!(life.paid(), "0", "8 in February, 8 in March: 10 are free in each");
}

#[test]
fn a_switch_to_the_same_plan_costs_nothing() {
    let resets: [(Option<Interval>, &str); 4] =
        [(None, "a quarter"), (every(1, Month), "months"), (every(1, Week), "weeks"), (every(2, Month), "two months")];
    for (reset, why) in resets {
        for timing in [InAdvance, InArrears] {
            let life = switched(|_| {
                let mut fee = fee("30", timing);
                fee.reset_interval = reset;
                version(vec![fee], Vec::new())
            });
            life.at(datetime!(2024-03-31 00:00 UTC));
            life.cancel(Some(crate::subscription::FlatFeeBehavior::ChargeFull));
            let world = World::at(START);
            let mut fee = fee("30", timing);
            fee.reset_interval = reset;
            let plan = world.plan(Some(PlanDuration::Quarterly), version(vec![fee], Vec::new()));
            let same = Life::begin(world, plan, START);
            same.at(datetime!(2024-03-31 00:00 UTC));
            same.cancel(Some(crate::subscription::FlatFeeBehavior::ChargeFull));
            let difference =
                crate::testing::world::decimal(&life.paid()) - crate::testing::world::decimal(&same.paid());
            assert!(difference.abs() <= crate::testing::world::decimal("0.01"), "{why}, {timing:?}: {difference}");
        }
    }
}

#[test]
fn prepaid_weeks_stay_weeks() {
    let life = switched(|world| {
        let seats = world.metric("seat", None).id;
        let mut component = prepaid_component(seats, tiers(&[("0", "", "1")]), "7", Prorate);
        component.reset_interval = every(1, Week);
        version(Vec::new(), vec![component])
    });
    let before = crate::testing::world::decimal(&life.paid());
    assert_eq!(plain(&before), "49", "seven weeks have begun, and a switch to the same changes none");
    life.at(datetime!(2024-03-31 00:00 UTC));
    assert_eq!(life.paid(), "91", "13 weeks");
}

#[test]
fn the_new_plan_goes_on_by_its_own_calendar() {
    let world = World::at(START);
    let calls = world.metric("call", None).id;
    let plan = |reset| {
        let mut component = component(calls, tiers(&[("0", "", "1")]));
        component.reset_interval = reset;
        version(Vec::new(), vec![component])
    };
    let first = world.plan(Some(PlanDuration::Quarterly), plan(every(1, Month)));
    let second = world.plan(Some(PlanDuration::Quarterly), plan(every(2, Week)));
    let mut life = Life::begin(world, first, START);
    life.at(SWITCHED);
    let new = life.switch(second);
    let key = life.world.key("acme");
    let records = life.world.on("acme", |tx, _| tx.billing_records().list(key, new.id)).expect("records");
    let periods: Vec<_> = records
        .iter()
        .map(|record| format!("{} to {}", record.period.start().date(), record.period.end().date()))
        .collect();
    let expected = [
        "2024-02-01 to 2024-03-01", // the running month
        "2024-03-01 to 2024-03-11", // what it leaves of the two weeks from 26 February
        "2024-03-11 to 2024-03-25",
        "2024-03-25 to 2024-04-01",
    ];
    assert_eq!(periods, expected);
    assert_eq!(records[1].full.start().date().to_string(), "2024-02-26", "measured against two whole weeks");
}
