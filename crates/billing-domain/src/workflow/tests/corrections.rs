//! Events that were wrong, put right before and after they were billed.

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::decimal::plain;
use crate::error::{Error, FieldCode, Refusal};
use crate::event::EventState::{Amended, Counted, Voided};
use crate::event::{EventState, Properties};
use crate::id::MetricId;
use crate::period::PlanDuration;
use crate::plan::ChargeTiming::InAdvance;
use crate::plan::{PriceAdjustment, PriceAdjustmentKind};
use crate::subscription::Cancellation;
use crate::subscription::InvoicingBehavior::InvoiceNow;
use crate::subscription::UsageBehavior::BillNone;
use crate::testing::build::properties;
use crate::testing::world::{World, component, decimal, fee, subscription, tiers, version};
use crate::workflow::{
    CancelSubscription, CorrectEvents, EventChange, NewPlanVersion, OrganizationPatch, WantedCorrection,
    cancel_subscription, correct_events, void_invoice,
};

const START: OffsetDateTime = datetime!(2024-01-01 00:00 UTC);
const INSIDE: OffsetDateTime = datetime!(2024-01-20 00:00 UTC);
const BILLED: OffsetDateTime = datetime!(2024-02-01 00:30 UTC);
const NEXT: OffsetDateTime = datetime!(2024-03-01 00:30 UTC);
const CLOSED: OffsetDateTime = datetime!(2024-03-02 00:30 UTC);

/// Ten calls in January of a plan of ten cents each, with or without more to it.
fn with_ten_calls(make: impl FnOnce(MetricId) -> NewPlanVersion) -> World {
    let world = World::at(START);
    let calls = world.metric("call", None).id;
    let plan = world.plan(Some(PlanDuration::Monthly), make(calls));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    world.track_many("acme", "call", INSIDE, 10);
    world.advance("acme", INSIDE);
    world
}

fn ten_cents(calls: MetricId) -> NewPlanVersion {
    version(Vec::new(), vec![component(calls, tiers(&[("0", "", "0.1")]))])
}

fn id(number: u32) -> String {
    format!("event-{number}")
}

fn correct(world: &World, changes: Vec<(String, EventChange)>, beyond_window: bool) -> Result<Vec<EventState>, Error> {
    let wanted = |(place, (idempotency_id, change))| {
        let attr = format!("events.{place}");
        WantedCorrection { idempotency_id, change, attr }
    };
    let command = CorrectEvents {
        customer: world.key("acme"),
        corrections: changes.into_iter().enumerate().map(wanted).collect(),
        beyond_window,
        by: Some("abcdefgh".to_owned()),
        reason: None,
    };
    let kept = world.on("acme", |tx, now| correct_events(tx, &command, now))?;
    Ok(kept.into_iter().map(|kept| kept.state).collect())
}

fn void(world: &World, numbers: std::ops::RangeInclusive<u32>) {
    let changes: Vec<_> = numbers.map(|number| (id(number), EventChange::Void)).collect();
    let states = correct(world, changes, false).expect("voided");
    assert!(states.iter().all(|state| *state == Voided));
}

fn moved(time: OffsetDateTime) -> EventChange {
    EventChange::Amend { time_created: Some(time), properties: None }
}

fn amounts(world: &World) -> Vec<String> {
    world.invoices("acme").iter().map(|invoice| plain(&invoice.amount)).collect()
}

#[test]
fn what_is_not_billed_yet_is_right_at_once() {
    let world = with_ten_calls(ten_cents);
    void(&world, 1..=4);
    correct(&world, vec![(id(5), moved(datetime!(2024-02-03 00:00 UTC)))], false).expect_err("more than a day ahead");
    correct(&world, vec![(id(5), moved(START))], false).expect("the same month");
    world.advance("acme", BILLED);
    assert_eq!(amounts(&world), ["0.6"], "six calls");
}

#[test]
fn what_is_billed_is_put_right_by_a_line_of_the_next_invoice() {
    let percent = |amount: &str| {
        let kind = PriceAdjustmentKind::Percentage;
        Some(PriceAdjustment { name: "deal".to_owned(), description: None, kind, amount: decimal(amount) })
    };
    #[rustfmt::skip]
    let cases = [
        // tax,  adjustment, voided, moved to February, the invoice behind, why
        ("",     None,       3,      0,                 "-0.3",  "three calls that never were"),
        ("",     None,       0,      2,                 "0",     "they are owed for another month"),
        ("10",   None,       5,      0,                 "-0.55", "with the tax that they had"),
        ("",     Some("-50"), 4,     0,                 "-0.2",  "and at the price that they had"),
        ("",     None,       10,     0,                 "-1",    "all of it"),
    ];
    for (tax, adjustment, voided, to_february, behind, why) in cases {
        let world = with_ten_calls(|calls| NewPlanVersion {
            price_adjustment: adjustment.and_then(percent),
            ..ten_cents(calls)
        });
        if !tax.is_empty() {
            world.set(&OrganizationPatch { tax_rate: Some(Some(decimal(tax))), ..OrganizationPatch::default() });
        }
        world.advance("acme", BILLED);
        let billed = amounts(&world);
        if voided > 0 {
            void(&world, 1..=voided);
        }
        let moves: Vec<_> = (0..to_february).map(|n| (id(10 - n), moved(BILLED))).collect();
        if !moves.is_empty() {
            assert!(correct(&world, moves, false).expect("amended").iter().all(|state| *state == Amended));
        }
        world.advance("acme", NEXT);
        let lines: Vec<_> = world.invoices("acme").into_iter().skip(1).flat_map(|invoice| invoice.lines).collect();
        // What an invoice comes to below nothing is granted as a credit.
        let charged = lines.iter().filter(|line| line.name != "Granted Credit");
        let sum = charged.map(|line| &line.amount).sum::<bigdecimal::BigDecimal>();
        assert_eq!(plain(&sum), behind, "{why}: {billed:?}");
        assert!(lines.iter().any(|line| line.name.contains("Late Usage")), "{why}: it says what it is");
        world.advance("acme", CLOSED + Duration::days(40));
        let later: Vec<String> = amounts(&world).into_iter().skip(2).filter(|amount| amount != "0").collect();
        assert_eq!(later, [""; 0], "{why}: once");
    }
}

#[test]
fn what_is_closed_is_looked_at_again_where_that_is_asked_for() {
    let world =
        with_ten_calls(|calls| version(vec![fee("5", InAdvance)], vec![component(calls, tiers(&[("0", "", "0.1")]))]));
    let later = datetime!(2024-05-10 00:00 UTC);
    world.advance("acme", later);
    let billed = amounts(&world);
    let change = || vec![(id(1), EventChange::Void), (id(2), EventChange::Void)];
    assert_eq!(correct(&world, change(), false), Err(Refusal::BeyondWindow.into()));
    assert_eq!(amounts(&world), billed);
    correct(&world, change(), true).expect("voided");
    world.advance("acme", datetime!(2024-06-01 00:30 UTC));
    let issued = world.invoices("acme");
    let last: Vec<_> = issued.last().expect("June's").lines.iter().map(|line| plain(&line.amount)).collect();
    let last: Vec<_> = last.into_iter().filter(|amount| amount != "0").collect();
    assert_eq!(last, ["-0.2", "5"], "the two calls come back with June's fee");
    world.advance("acme", datetime!(2024-09-01 00:30 UTC));
    let rest: Vec<String> = amounts(&world).into_iter().skip(issued.len()).collect();
    assert!(rest.iter().all(|amount| amount == "5"), "and nothing else: {rest:?}");
}

#[test]
fn what_was_waived_stays_waived() {
    let world = with_ten_calls(ten_cents);
    world.advance("acme", BILLED);
    let invoice = world.invoices("acme")[0].id;
    world.on("acme", |tx, now| void_invoice(tx, world.key("acme"), invoice, now)).expect("voided");
    void(&world, 1..=3);
    world.advance("acme", CLOSED);
    let standing: Vec<String> = amounts(&world).into_iter().skip(1).collect();
    assert!(standing.iter().all(|amount| amount == "0"), "nobody had paid for them: {standing:?}");

    let world = with_ten_calls(ten_cents);
    let held = world.subscriptions("acme")[0].id;
    let command = CancelSubscription {
        customer: world.key("acme"),
        subscriptions: vec![held],
        cancellation: Cancellation { flat_fee_behavior: None, usage_behavior: BillNone },
        invoicing_behavior: InvoiceNow,
    };
    world.store.set_now(datetime!(2024-01-25 00:00 UTC));
    world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
    void(&world, 1..=3);
    world.advance("acme", CLOSED);
    assert!(amounts(&world).iter().all(|amount| amount == "0"), "what was not billed does not come back");
}

#[test]
fn only_what_is_there_can_be_corrected() {
    let world = with_ten_calls(ten_cents);
    void(&world, 3..=3);
    let other = EventChange::Amend { time_created: None, properties: Some(properties(r#"{"a": 1}"#)) };
    let same = EventChange::Amend { time_created: Some(INSIDE), properties: Some(Properties::new()) };
    let far = EventChange::Amend { time_created: Some(START + Duration::days(400)), properties: None };
    #[rustfmt::skip]
    let cases = [
        // changes,                                                       codes or states,               why
        (vec![("nothing".to_owned(), EventChange::Void)],                 Err(vec![FieldCode::DoesNotExist]), "an unknown id"),
        (vec![(id(1), EventChange::Void), (id(1), EventChange::Void)],    Err(vec![FieldCode::Invalid]), "named twice"),
        (vec![(id(3), other.clone())],                                    Err(vec![FieldCode::Invalid]), "it was voided"),
        (vec![(id(1), far), ("x".to_owned(), EventChange::Void)],         Err(vec![FieldCode::MaxValue, FieldCode::DoesNotExist]), "all faults together"),
        (vec![(id(3), EventChange::Void)],                                Ok(vec![Voided]),              "voided already: nothing to do"),
        (vec![(id(1), same)],                                             Ok(vec![Counted]),             "what it is anyway"),
        (vec![(id(1), other)],                                            Ok(vec![Amended]),             "other properties"),
    ];
    for (changes, expected, why) in cases {
        let outcome = correct(&world, changes, false).map_err(|error| match error {
            Error::Fields(faults) => faults.0.iter().map(|fault| fault.code).collect(),
            other => panic!("{why}: {other:?}"),
        });
        assert_eq!(outcome, expected, "{why}");
    }
    world.advance("acme", BILLED);
    assert_eq!(amounts(&world), ["0.9"], "one was voided, and what was refused changed nothing");
}
