//! Renewals and month ends: intervals that divide the period follow the calendar of the anchor.

use time::OffsetDateTime;
use time::macros::datetime;

use super::{Life, every};
use crate::decimal::plain;
use crate::period::IntervalUnit::{Month, Year};
use crate::period::{Interval, PlanDuration};
use crate::plan::ChargeBehavior::{self, Full, Prorate};
use crate::plan::ChargeTiming::{self, InAdvance, InArrears};
use crate::subscription::SubscriptionFilters;
use crate::testing::world::{World, component, fee, prepaid_component, tiers, version};
use crate::workflow::{MakeActiveType, UpdatePlanVersion, update_plan_version};

const LAST_OF_JANUARY: OffsetDateTime = datetime!(2023-01-31 00:00 UTC);

/// When a fee of 30 that resets was charged, and how much each time.
fn charged(
    (duration, day): (PlanDuration, Option<u8>),
    (timing, behavior): (ChargeTiming, ChargeBehavior),
    reset: Option<Interval>,
    (start, end): (OffsetDateTime, OffsetDateTime),
) -> Vec<String> {
    let world = World::at(start);
    let mut fee = fee("30", timing);
    (fee.behavior, fee.reset_interval, fee.invoicing_interval) = (behavior, reset, reset);
    let mut priced = version(vec![fee], Vec::new());
    priced.anchors.day = day;
    let plan = world.plan(Some(duration), priced);
    let life = Life::begin(world, plan, start);
    life.at(end);
    let invoices = life.world.invoices("acme");
    let lines = invoices.iter().flat_map(|invoice| &invoice.lines);
    lines.map(|line| format!("{} {}", line.period.start().date(), plain(&line.base))).collect()
}

#[test]
fn a_fee_is_charged_once_for_each_interval_of_the_calendar() {
    use PlanDuration::{Monthly, Quarterly, Yearly};
    let month = every(1, Month);
    #[rustfmt::skip]
    let cases = [
        // plan,               fee,                  reset,          from,            to,                          charged, why
        ((Monthly, None),      (InAdvance, Full),    month,          LAST_OF_JANUARY, datetime!(2023-06-02 0:00 UTC),
            "2023-01-31 30, 2023-02-28 30, 2023-03-31 30, 2023-04-30 30, 2023-05-31 30", "once a month, never on 28 March"),
        ((Monthly, None),      (InAdvance, Prorate), month,          LAST_OF_JANUARY, datetime!(2023-06-02 0:00 UTC),
            "2023-01-31 30, 2023-02-28 30, 2023-03-31 30, 2023-04-30 30, 2023-05-31 30", "each month is a whole one"),
        ((Monthly, None),      (InArrears, Full),    month,          LAST_OF_JANUARY, datetime!(2023-06-02 0:00 UTC),
            "2023-01-31 30, 2023-02-28 30, 2023-03-31 30, 2023-04-30 30",                "the same afterwards"),
        ((Yearly, None),       (InAdvance, Full),    every(1, Year), datetime!(2024-02-29 0:00 UTC), datetime!(2028-03-02 0:00 UTC),
            "2024-02-29 30, 2025-02-28 30, 2026-02-28 30, 2027-02-28 30, 2028-02-29 30", "the leap day comes back, once"),
        ((Quarterly, None),    (InArrears, Prorate), month,          datetime!(2023-11-30 0:00 UTC), datetime!(2024-05-31 0:00 UTC),
            "2023-11-30 30, 2023-12-30 30, 2024-01-30 30, 2024-02-29 30, 2024-03-30 30, 2024-04-30 30", "90 a quarter"),
        ((Monthly, Some(31)),  (InArrears, Full),    month,          datetime!(2023-01-10 0:00 UTC), datetime!(2023-05-01 0:00 UTC),
            "2023-01-10 30, 2023-01-31 30, 2023-02-28 30, 2023-03-31 30",                "an anchored day is no other"),
        ((Quarterly, Some(31)), (InArrears, Prorate), month,         datetime!(2023-01-10 0:00 UTC), datetime!(2023-05-01 0:00 UTC),
            "2023-01-10 20.32, 2023-01-31 30, 2023-02-28 30, 2023-03-31 30",             "21 of the 31 days from the start, then the calendar"),
        ((Monthly, None),      (InArrears, Full),    every(2, Month), LAST_OF_JANUARY, datetime!(2023-04-02 0:00 UTC),
            "2023-01-31 30, 2023-02-28 30",                                              "what does not divide the period restarts with it"),
    ];
    for (plan, fee, reset, from, to, expected, why) in cases {
        assert_eq!(charged(plan, fee, reset, (from, to)).join(", "), expected, "{why}");
    }
}

#[test]
fn a_free_tier_and_a_limit_are_granted_once_a_month() {
    let world = World::at(LAST_OF_JANUARY);
    let calls = world.metric("call", None).id;
    let mut component = component(calls, tiers(&[("0", "10", "free"), ("10", "20", "1")]));
    component.reset_interval = every(1, Month);
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![component]));
    let life = Life::begin(world, plan, LAST_OF_JANUARY);
    life.world.track_many("acme", "call", datetime!(2023-03-05 0:00 UTC), 8);
    life.world.track_many("acme", "call", datetime!(2023-03-29 0:00 UTC), 12);
    life.at(datetime!(2023-03-30 0:00 UTC));
    let access = life.world.access("acme", calls, &SubscriptionFilters::none()).expect("an answer");
    assert_eq!((access.access, plain(&access.subscriptions[0].access.usage)), (false, "20".to_owned()));
    life.at(datetime!(2023-04-02 0:00 UTC));
    assert_eq!(life.invoices().last().map(String::as_str), Some("10"), "10 of the 20 are free, not 10 and 10");
}

#[test]
fn prepaid_units_are_bought_once_a_month() {
    let life = Life::monthly(LAST_OF_JANUARY, |world| {
        let seats = world.metric("seat", None).id;
        let mut component = prepaid_component(seats, tiers(&[("0", "", "1")]), "10", Full);
        component.reset_interval = every(1, Month);
        version(Vec::new(), vec![component])
    });
    life.at(datetime!(2023-04-01 0:00 UTC));
    assert_eq!(life.paid(), "30", "31 January, 28 February, 31 March");
}

#[test]
fn the_day_goes_along_to_plans_of_another_duration() {
    let life = Life::monthly(LAST_OF_JANUARY, |_| version(vec![fee("30", InAdvance)], Vec::new()));
    let mut yearly = fee("30", InAdvance);
    yearly.reset_interval = every(1, Month);
    let next = life.world.plan(Some(PlanDuration::Quarterly), version(vec![yearly], Vec::new()));
    let held = life.world.subscription("acme", life.id).version;
    let command = UpdatePlanVersion {
        version: held,
        localized_name: None,
        active_from: None,
        active_to: None,
        replace_with: None,
        transition_to: Some(Some(next)),
        target_customers: None,
        make_active_type: MakeActiveType::ReplaceOnRenewal,
    };
    life.world.catalog(|tx, now| update_plan_version(tx, &command, now)).expect("a transition");
    life.at(datetime!(2023-06-02 0:00 UTC));
    let starts: Vec<_> = life
        .world
        .subscriptions("acme")
        .iter()
        .map(|subscription| subscription.period.start().date().to_string())
        .collect();
    assert_eq!(starts, ["2023-01-31", "2023-02-28", "2023-05-31"], "not the 28th of May");
    let invoices = life.world.invoices("acme");
    let charged = invoices.iter().flat_map(|invoice| &invoice.lines).map(|line| line.period.start().date().to_string());
    let expected = ["2023-01-31", "2023-02-28", "2023-03-31", "2023-04-30", "2023-05-31"];
    assert_eq!(charged.collect::<Vec<_>>(), expected);
}
