use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::charge::BillingRecord;
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::plan::{ChargeBehavior, ChargeTiming};
use crate::testing::world::{World, component, fee, prepaid_component, subscription, tiers, version};

const START: OffsetDateTime = datetime!(2024-01-01 00:00 UTC);

fn every(count: u32, unit: IntervalUnit) -> Option<Interval> {
    Some(Interval::new(unit, count).expect("an interval"))
}

/// How many invoicing instants each record of a monthly subscription over the 31 days of January has, made as
/// if it were to start in the future, so that none has passed.
fn instants(make: impl Fn(&World) -> crate::workflow::NewPlanVersion) -> Vec<Vec<i64>> {
    let world = World::at(START - Duration::days(1));
    let plan = world.plan(Some(PlanDuration::Monthly), make(&world));
    let customer = world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    let mut records = world.on("acme", |tx, _| tx.billing_records().list_open(customer)).expect("records");
    records.sort_by_key(|record| record.period.start());
    let days = |record: &BillingRecord| record.invoicing_instants.iter().map(|at| (*at - START).whole_days()).collect();
    records.iter().map(days).collect()
}

#[test]
fn a_component_invoiced_weekly_is_one_record_with_five_instants() {
    let found = instants(|world| {
        let mut component = component(world.metric("call", None).id, tiers(&[("0", "", "1")]));
        component.invoicing_interval = every(1, IntervalUnit::Week);
        version(Vec::new(), vec![component])
    });
    assert_eq!(found, [[7, 14, 21, 28, 31]]);
}

#[test]
fn a_fee_in_advance_is_billed_from_its_start_on() {
    let found = instants(|_| {
        let mut fee = fee("30", ChargeTiming::InAdvance);
        fee.invoicing_interval = every(1, IntervalUnit::Week);
        version(vec![fee], Vec::new())
    });
    assert_eq!(found, [[0, 7, 14, 21, 28, 31]]);
}

#[test]
fn a_daily_reset_without_invoicing_interval_is_billed_at_the_end() {
    let found = instants(|world| {
        let mut component = component(world.metric("call", None).id, tiers(&[("0", "", "1")]));
        component.reset_interval = every(1, IntervalUnit::Day);
        version(Vec::new(), vec![component])
    });
    assert_eq!(found, vec![vec![31]; 31]);
}

#[test]
fn each_record_is_billed_up_to_the_first_instant_at_or_after_its_end() {
    let found = instants(|world| {
        let mut component = component(world.metric("call", None).id, tiers(&[("0", "", "1")]));
        component.reset_interval = every(1, IntervalUnit::Week);
        component.invoicing_interval = every(2, IntervalUnit::Day);
        version(Vec::new(), vec![component])
    });
    #[rustfmt::skip]
    assert_eq!(found, [
        vec![2, 4, 6, 8],
        vec![8, 10, 12, 14],
        vec![16, 18, 20, 22],
        vec![22, 24, 26, 28],
        vec![30, 31],
    ]);
}

#[test]
fn prepaid_units_are_billed_at_the_start_of_each_reset_interval() {
    let found = instants(|world| {
        let metric = world.metric("seat", None).id;
        let mut component = prepaid_component(metric, tiers(&[("0", "", "1")]), "5", ChargeBehavior::Full);
        component.reset_interval = every(1, IntervalUnit::Week);
        version(Vec::new(), vec![component])
    });
    assert_eq!(found, [[0, 31], [7, 31], [14, 31], [21, 31], [28, 31]]);
}

#[test]
fn a_fee_in_advance_is_billed_at_the_start_of_each_reset_interval() {
    #[rustfmt::skip]
    let cases = [
        // invoicing interval,               invoices,                              why
        (None,                               vec!["10", "10", "10", "10", "10"],    "a day each: the first one and four that began since"),
        (every(1, IntervalUnit::Month),      vec!["10"],                            "the others with the month's invoice, as it says"),
    ];
    for (invoicing_interval, amounts, why) in cases {
        let world = World::at(START + Duration::days(4));
        let mut fee = fee("10", ChargeTiming::InAdvance);
        fee.reset_interval = every(1, IntervalUnit::Day);
        fee.invoicing_interval = invoicing_interval;
        let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee], Vec::new()));
        world.customer("acme");
        world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
        world.advance("acme", START + Duration::days(4) + Duration::minutes(30));
        let issued: Vec<_> =
            world.invoices("acme").into_iter().map(|invoice| crate::decimal::plain(&invoice.amount)).collect();
        assert_eq!(issued, amounts, "{why}");
    }
}
