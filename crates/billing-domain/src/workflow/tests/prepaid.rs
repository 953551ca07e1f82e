use bigdecimal::BigDecimal;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::decimal::plain;
use crate::error::{Error, FieldCode, Noun, Refusal};
use crate::period::PlanDuration;
use crate::plan::ChargeBehavior::{self, Full, Prorate};
use crate::subscription::{Cancellation, InvoicingBehavior};
use crate::testing::world::{World, component, decimal, prepaid_component, subscription, tiers, version};
use crate::workflow::{CancelSubscription, ChangePrepaidUnits, cancel_subscription, change_prepaid_units};

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

/// A month of 30 days with 15 units prepaid, free up to 10 and 1 each beyond; the clock stands after a third.
fn prepaid_april(behavior: ChargeBehavior) -> (World, ChangePrepaidUnits) {
    let start = datetime!(2024-04-01 00:00 UTC);
    let world = World::at(start);
    let seats = world.metric("seat", None);
    let schedule = tiers(&[("0", "10", "free"), ("10", "", "1")]);
    let plain = component(world.metric("call", None).id, schedule.clone());
    let plan = world.plan(
        Some(PlanDuration::Monthly),
        version(Vec::new(), vec![prepaid_component(seats.id, schedule, "15", behavior), plain]),
    );
    let customer = world.customer("acme");
    let mut command = subscription("acme", plan, start);
    command.auto_renew = false;
    let subscription = world.subscribe(&command).expect("subscribed").id;
    world.store.set_now(datetime!(2024-04-11 00:00 UTC));
    let command =
        ChangePrepaidUnits { customer, subscription, metric: seats.id, units: decimal("15"), invoice_now: true };
    (world, command)
}

fn change(world: &World, command: &ChangePrepaidUnits, units: &str) -> Result<(), Error> {
    let command = ChangePrepaidUnits { units: decimal(units), ..command.clone() };
    world.on("acme", |tx, now| change_prepaid_units(tx, &command, now)).map(drop)
}

/// What each invoice says, and what credits have left.
fn books(world: &World) -> (Vec<String>, String) {
    let key = world.key("acme");
    let left: BigDecimal = world
        .on("acme", |tx, _| tx.credits().list(key))
        .expect("credits")
        .iter()
        .map(|ledger| ledger.remaining())
        .sum();
    (world.invoices("acme").iter().map(|invoice| plain(&invoice.amount)).collect(), plain(&left))
}

#[test]
fn a_change_bills_the_difference_and_nothing_else() {
    #[rustfmt::skip]
    let cases = [
        // behaviour, units, now,   at once,          credit, why
        (Full,        "20",  true,  vec!["5", "5"],   "0",    "5 more units"),
        (Full,        "20",  false, vec!["5"],        "0",    "with the next invoice"),
        (Full,        "12",  false, vec!["5", "0"],   "3",    "3 fewer come back at once, whatever was asked for"),
        (Full,        "15",  true,  vec!["5"],        "0",    "as many as there are"),
        (Prorate,     "30",  true,  vec!["5", "10"],  "0",    "15 more for two thirds of the month"),
        (Prorate,     "12",  true,  vec!["5", "0"],   "2",    "3 fewer for two thirds"),
    ];
    for (behavior, units, invoice_now, at_once, credit, why) in cases {
        let (world, mut command) = prepaid_april(behavior);
        command.invoice_now = invoice_now;
        world.track_many("acme", "seat", datetime!(2024-04-05 00:00 UTC), 25);
        change(&world, &command, units).expect("changed");
        let at_once: Vec<_> = at_once.into_iter().map(str::to_owned).collect();
        assert_eq!(books(&world), (at_once, credit.to_owned()), "{why}");
        world.advance("acme", datetime!(2024-06-01 00:00 UTC));
        let invoices = world.invoices("acme");
        let charges = invoices.iter().flat_map(|invoice| &invoice.lines).filter(|line| line.subscription.is_some());
        let billed: BigDecimal = charges.map(|line| &line.base).sum();
        assert_eq!(billed, decimal("15"), "{why}: 25 used cost 15 in all, prepaid or not");
    }
}

#[test]
fn there_and_back_again_costs_the_time_in_between() {
    let (world, command) = prepaid_april(Prorate);
    change(&world, &command, "30").expect("more");
    world.store.set_now(datetime!(2024-04-21 00:00 UTC));
    change(&world, &command, "15").expect("as before");
    let (_, credit) = books(&world);
    assert_eq!(credit, "5", "15 more units for a third of the month cost 5; the other 5 come back");
    let (full, command) = prepaid_april(Full);
    change(&full, &command, "30").expect("more");
    change(&full, &command, "15").expect("as before");
    assert_eq!(books(&full), (vec!["5".to_owned(), "15".to_owned(), "0".to_owned()], "15".to_owned()), "all of it");
}

#[test]
fn only_prepaid_components_of_running_subscriptions_change() {
    let (world, command) = prepaid_april(Full);
    let not_prepaid = world.catalog(|tx, _| tx.metrics().list()).expect("metrics")[1].id;
    let absent = uuid::Uuid::from_u128(u128::MAX).into();
    let refused = change(&world, &ChangePrepaidUnits { metric: not_prepaid, ..command.clone() }, "20");
    let Err(Error::Fields(errors)) = refused else { panic!("refused") };
    assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("metric_id", FieldCode::Invalid));
    let unknown = change(&world, &ChangePrepaidUnits { metric: absent, ..command.clone() }, "20");
    assert_eq!(unknown, Err(Error::NotFound(Noun::Metric)));
    let Err(Error::Fields(errors)) = change(&world, &command, "-1") else { panic!("refused") };
    assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("units", FieldCode::MinValue));
    world.advance("acme", datetime!(2024-06-01 00:00 UTC));
    assert_eq!(change(&world, &command, "20"), Err(Refusal::AlreadyEnded.into()));
}

#[test]
fn a_cancellation_gives_back_prepaid_units_for_the_time_that_is_left() {
    for (behavior, credit) in [(Prorate, "3.33"), (Full, "0")] {
        let (world, command) = prepaid_april(behavior);
        let cancel = CancelSubscription {
            customer: command.customer,
            subscriptions: vec![command.subscription],
            cancellation: Cancellation::default(),
            invoicing_behavior: InvoicingBehavior::InvoiceNow,
        };
        world.on("acme", |tx, now| cancel_subscription(tx, &cancel, now)).expect("cancelled");
        assert_eq!(books(&world).1, credit, "{behavior:?}: two thirds of 5, unless the charge is full");
    }
}
