use time::OffsetDateTime;
use time::macros::datetime;

use crate::error::{Error, Refusal};
use crate::period::PlanDuration;
use crate::plan::ChargeBehavior::{Full, Prorate};
use crate::testing::world::{World, decimal, prepaid_component, subscription, tiers, version};

const START: OffsetDateTime = datetime!(2024-01-01 00:00 UTC);

#[test]
fn prepaid_units_are_billed_at_the_start_and_usage_beyond_them_at_the_end() {
    #[rustfmt::skip]
    let cases = [
        // default, given, behavior, end,      used, invoices,           why
        ("20",      "",    Full,     None,     25,   vec!["10", "5"],    "20 prepaid cost 10, the other 5 are overage"),
        ("20",      "15",  Full,     None,     25,   vec!["5", "10"],    "the subscription's own number of units"),
        ("",        "15",  Full,     None,     12,   vec!["5", "0"],     "less used than prepaid: nothing comes back"),
        ("20",      "",    Prorate,  Some(16), 25,   vec!["4.84", "10.16"], "15 of 31 days of 10; the rest is overage"),
        ("20",      "",    Full,     Some(16), 25,   vec!["10", "5"],    "a full charge is not cut"),
    ];
    for (default, given, behavior, end_day, used, amounts, why) in cases {
        let world = World::at(START);
        let seats = world.metric("seat", None);
        let schedule = tiers(&[("0", "10", "free"), ("10", "", "1")]);
        let component = prepaid_component(seats.id, schedule, default, behavior);
        let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![component]));
        world.customer("acme");
        let mut command = subscription("acme", plan, START);
        command.auto_renew = false;
        command.end = end_day.map(|day| START.replace_day(day).expect("a day"));
        if !given.is_empty() {
            command.prepaid_units = vec![(seats.id, decimal(given))];
        }
        world.subscribe(&command).expect("subscribed");
        world.track_many("acme", "seat", START, used);
        world.advance("acme", datetime!(2024-03-01 00:00 UTC));
        let issued: Vec<_> = world.invoices("acme").into_iter().map(|invoice| invoice.amount).collect();
        assert_eq!(issued, amounts.into_iter().map(decimal).collect::<Vec<_>>(), "{why}");
    }
}

#[test]
fn units_must_come_from_somewhere() {
    let world = World::at(START);
    let seats = world.metric("seat", None);
    let component = prepaid_component(seats.id, tiers(&[("0", "", "1")]), "", Full);
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![component]));
    world.customer("acme");
    let refused = world.subscribe(&subscription("acme", plan, START));
    assert_eq!(refused, Err(Error::Refused(Refusal::PrepaymentCantDetermineUnits(seats.id))));
    assert!(world.subscriptions("acme").is_empty() && world.invoices("acme").is_empty(), "nothing is left behind");
}

#[test]
fn prepaid_units_renew() {
    let world = World::at(START);
    let seats = world.metric("seat", None);
    let component = prepaid_component(seats.id, tiers(&[("0", "", "1")]), "20", Full);
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![component]));
    world.customer("acme");
    let mut command = subscription("acme", plan, START);
    command.prepaid_units = vec![(seats.id, decimal("7"))];
    world.subscribe(&command).expect("subscribed");
    world.advance("acme", datetime!(2024-02-02 00:00 UTC));
    let issued: Vec<_> = world.invoices("acme").into_iter().map(|invoice| invoice.amount).collect();
    assert_eq!(issued, [decimal("7"), decimal("7")], "the subscription's units, not the plan's");
}
