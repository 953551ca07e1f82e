use time::OffsetDateTime;
use time::macros::datetime;

use crate::decimal::plain;
use crate::error::{Error, Refusal};
use crate::id::SubscriptionId;
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::plan::ChargeBehavior::{Full, Prorate};
use crate::plan::ChargeTiming::{InAdvance, InArrears};
use crate::plan::{ChargeBehavior, ChargeTiming};
use crate::subscription::FlatFeeBehavior::{ChargeFull, ChargeProrated, Refund};
use crate::subscription::InvoicingBehavior::{AddToNextInvoice, InvoiceNow};
use crate::subscription::UsageBehavior::{BillFull, BillNone};
use crate::subscription::{Cancellation, FlatFeeBehavior, InvoicingBehavior, UsageBehavior};
use crate::testing::world::{World, component, fee, prepaid_component, subscription, tiers, version};
use crate::workflow::{CancelSubscription, cancel_subscription};

/// A month of 30 days, and a day after its first third.
const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
const CANCELLED: OffsetDateTime = datetime!(2024-04-11 00:00 UTC);
const NEXT_INVOICE: OffsetDateTime = datetime!(2024-05-01 00:30 UTC);

struct Options {
    flat_fee: Option<FlatFeeBehavior>,
    usage: UsageBehavior,
    invoicing: InvoicingBehavior,
}

fn cancel(world: &World, id: SubscriptionId, options: &Options) -> Result<(), Error> {
    let command = CancelSubscription {
        customer: world.key("acme"),
        subscriptions: vec![id],
        cancellation: Cancellation { flat_fee_behavior: options.flat_fee, usage_behavior: options.usage },
        invoicing_behavior: options.invoicing,
    };
    world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).map(drop)
}

/// A fee of 30 and 100 calls at 0.1, all before the cancellation; the id.
fn subscribed(timing: ChargeTiming, behavior: ChargeBehavior) -> (World, SubscriptionId) {
    let world = World::at(START);
    let metric = world.metric("call", None).id;
    let mut base = fee("30", timing);
    base.behavior = behavior;
    let plan = world
        .plan(Some(PlanDuration::Monthly), version(vec![base], vec![component(metric, tiers(&[("0", "", "0.1")]))]));
    world.customer("acme");
    let id = world.subscribe(&subscription("acme", plan, START)).expect("subscribed").id;
    world.track_many("acme", "call", START, 100);
    (world, id)
}

/// What was invoiced in all, and what is left on credits.
fn books(world: &World) -> (String, String) {
    let invoiced: bigdecimal::BigDecimal = world.invoices("acme").iter().map(|invoice| &invoice.amount).sum();
    let key = world.key("acme");
    let ledgers = world.on("acme", |tx, _| tx.credits().list(key)).expect("credits");
    (plain(&invoiced), plain(&ledgers.iter().map(|ledger| ledger.remaining()).sum()))
}

#[test]
fn every_combination_comes_to_what_it_should() {
    #[rustfmt::skip]
    let cases = [
        // timing,  behaviour, flat fee,              usage,    invoiced, credit, why
        (InAdvance, Prorate,   None,                  BillFull, "30",     "10",   "20 back, 10 of it for the usage"),
        (InAdvance, Prorate,   Some(ChargeProrated),  BillFull, "30",     "10",   "the same, said aloud"),
        (InAdvance, Prorate,   Some(Refund),          BillFull, "30",     "20",   "all 30 back, 10 of it for the usage"),
        (InAdvance, Prorate,   Some(ChargeFull),      BillFull, "40",     "0",    "nothing back, 10 for the usage"),
        (InAdvance, Prorate,   None,                  BillNone, "30",     "20",   "20 back, the usage is dropped"),
        (InAdvance, Prorate,   Some(Refund),          BillNone, "30",     "30",   "all back"),
        (InAdvance, Prorate,   Some(ChargeFull),      BillNone, "30",     "0",    "as if nothing had happened"),
        (InAdvance, Full,      None,                  BillFull, "40",     "0",    "a full fee is not cut"),
        (InAdvance, Full,      Some(ChargeProrated),  BillFull, "30",     "10",   "unless the cancellation says so"),
        (InAdvance, Full,      Some(Refund),          BillNone, "30",     "30",   "or that it comes back"),
        (InArrears, Prorate,   None,                  BillFull, "20",     "0",    "a third of 30, and the usage"),
        (InArrears, Prorate,   Some(Refund),          BillFull, "10",     "0",    "the usage alone"),
        (InArrears, Prorate,   Some(ChargeFull),      BillNone, "30",     "0",    "the whole fee alone"),
        (InArrears, Full,      None,                  BillNone, "30",     "0",    "a full fee is not cut"),
    ];
    for (timing, behavior, flat_fee, usage, invoiced, credit, why) in cases {
        for invoicing in [InvoiceNow, AddToNextInvoice] {
            let (world, id) = subscribed(timing, behavior);
            world.store.set_now(CANCELLED);
            let before = world.invoices("acme").len();
            cancel(&world, id, &Options { flat_fee, usage, invoicing }).expect("cancelled");
            if invoicing == AddToNextInvoice {
                assert_eq!(world.invoices("acme").len(), before, "{why}: nothing now");
                world.advance("acme", NEXT_INVOICE);
            }
            assert_eq!(books(&world), (invoiced.to_owned(), credit.to_owned()), "{why}, {invoicing:?}");
            world.advance("acme", datetime!(2024-08-01 00:00 UTC));
            assert_eq!(books(&world).0, invoiced, "{why}, {invoicing:?}: nothing more ever comes");
            assert_eq!(world.subscriptions("acme").len(), 1, "{why}: it does not renew");
        }
    }
}

#[test]
fn events_after_the_cancellation_are_not_billed() {
    let (world, id) = subscribed(InArrears, Prorate);
    world.store.set_now(CANCELLED);
    world.track_many("acme", "call", CANCELLED, 50);
    cancel(&world, id, &Options { flat_fee: None, usage: BillFull, invoicing: AddToNextInvoice }).expect("cancelled");
    world.advance("acme", NEXT_INVOICE);
    assert_eq!(books(&world).0, "20", "an event of the very instant comes too late");
}

#[test]
fn a_subscription_is_cancelled_once() {
    let (world, id) = subscribed(InAdvance, Prorate);
    world.store.set_now(CANCELLED);
    let options = Options { flat_fee: None, usage: BillFull, invoicing: InvoiceNow };
    cancel(&world, id, &options).expect("cancelled");
    let invoices = world.invoices("acme").len();
    assert_eq!(cancel(&world, id, &options), Err(Refusal::AlreadyEnded.into()));
    assert_eq!(world.invoices("acme").len(), invoices);
    let ended = world.subscription("acme", id);
    assert_eq!((ended.period.end(), ended.auto_renew), (CANCELLED, false));
}

#[test]
fn before_its_start_a_subscription_leaves_nothing_but_a_full_fee() {
    for (flat_fee, invoiced) in
        [(None, "0"), (Some(Refund), "0"), (Some(ChargeProrated), "0"), (Some(ChargeFull), "30")]
    {
        let world = World::at(CANCELLED);
        let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], Vec::new()));
        world.customer("acme");
        let id = world.subscribe(&subscription("acme", plan, NEXT_INVOICE)).expect("subscribed").id;
        cancel(&world, id, &Options { flat_fee, usage: BillFull, invoicing: InvoiceNow }).expect("cancelled");
        let cancelled = world.subscription("acme", id);
        assert!(cancelled.period.is_empty() && cancelled.period.start() == NEXT_INVOICE, "{flat_fee:?}");
        assert_eq!(books(&world).0, invoiced, "{flat_fee:?}");
    }
}

/// A full fee of 30, and prepaid seats for 50, paid at the very instant of what comes next.
fn just_subscribed() -> (World, SubscriptionId) {
    let world = World::at(START);
    let mut base = fee("30", InAdvance);
    base.behavior = Full;
    let seats = prepaid_component(world.metric("seat", None).id, tiers(&[("0", "", "5")]), "10", Full);
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![base], vec![seats]));
    world.customer("acme");
    let id = world.subscribe(&subscription("acme", plan, START)).expect("subscribed").id;
    assert_eq!(books(&world), ("80".to_owned(), "0".to_owned()));
    (world, id)
}

#[test]
fn what_was_paid_comes_back_when_it_ends_as_it_starts() {
    #[rustfmt::skip]
    let cases = [
        // flat fee,        usage,    credit, why
        (None,              BillFull, "80", "not an instant of it was used, however full the charges are"),
        (Some(Refund),      BillNone, "80", "prepaid units of what never began come back with dropped usage too"),
        (Some(ChargeFull),  BillFull, "50", "the fee is kept on purpose"),
    ];
    for (flat_fee, usage, credit, why) in cases {
        for invoicing in [InvoiceNow, AddToNextInvoice] {
            let (world, id) = just_subscribed();
            cancel(&world, id, &Options { flat_fee, usage, invoicing }).expect("cancelled");
            world.advance("acme", NEXT_INVOICE);
            assert_eq!(books(&world), ("80".to_owned(), credit.to_owned()), "{why}, {invoicing:?}");
        }
    }
}

#[test]
fn of_short_intervals_only_those_that_began_are_billed_unless_all_are_charged_in_full() {
    #[rustfmt::skip]
    let cases = [
        // flat fee,            charged, why
        (None,                  "105",   "ten days and half of the one that had begun"),
        (Some(ChargeProrated),  "105",   "the same"),
        (Some(Refund),          "0",     "nothing of the period's fees stays"),
        (Some(ChargeFull),      "300",   "what they would have come to without the cancellation"),
    ];
    for (flat_fee, charged, why) in cases {
        let world = World::at(START);
        let mut daily = fee("10", InArrears);
        daily.reset_interval = Some(Interval::new(IntervalUnit::Day, 1).expect("an interval"));
        let plan = world.plan(Some(PlanDuration::Monthly), version(vec![daily], Vec::new()));
        world.customer("acme");
        let id = world.subscribe(&subscription("acme", plan, START)).expect("subscribed").id;
        world.store.set_now(CANCELLED + time::Duration::hours(12));
        cancel(&world, id, &Options { flat_fee, usage: BillFull, invoicing: InvoiceNow }).expect("cancelled");
        assert_eq!(books(&world).0, charged, "{why}");
    }
}

#[test]
fn an_id_whose_renewal_is_due_stands_for_what_it_renews_to() {
    let renewed = |is_run_first: bool| {
        let world = World::at(START);
        let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], Vec::new()));
        world.customer("acme");
        let first = world.subscribe(&subscription("acme", plan, START)).expect("subscribed").id;
        let end = world.subscription("acme", first).period.end();
        world.store.set_now(end + time::Duration::hours(1));
        if is_run_first {
            world.advance("acme", end + time::Duration::hours(1));
        }
        let options = Options { flat_fee: None, usage: BillFull, invoicing: InvoiceNow };
        let outcome = cancel(&world, first, &options);
        let running = world.subscriptions("acme").pop().expect("renewed");
        world.advance("acme", end + time::Duration::days(60));
        (outcome, running.id, running.cancellation.is_some(), world.subscriptions("acme").len())
    };
    let (outcome, _, is_cancelled, subscriptions) = renewed(false);
    assert_eq!((outcome, is_cancelled, subscriptions), (Ok(()), true, 2), "it ends the period that has begun");
    let (outcome, running, is_cancelled, _) = renewed(true);
    assert_eq!(outcome, Err(Refusal::AlreadyRenewed(running).into()), "it names what goes on in its place");
    assert!(!is_cancelled);
}

#[test]
fn an_id_stands_for_its_own_renewal_beside_others_of_the_same_instant() {
    for which in [0, 1] {
        let world = World::at(START);
        let plans = [30, 60].map(|amount| {
            let priced = version(vec![fee(&amount.to_string(), InAdvance)], Vec::new());
            world.plan(Some(PlanDuration::Monthly), priced)
        });
        world.customer("acme");
        let ids = plans.map(|plan| world.subscribe(&subscription("acme", plan, START)).expect("subscribed").id);
        world.store.set_now(world.subscription("acme", ids[0]).period.end());
        let options = Options { flat_fee: None, usage: BillFull, invoicing: InvoiceNow };
        cancel(&world, ids[which], &options).expect("cancelled");
        let cancelled =
            world.subscriptions("acme").into_iter().filter(|subscription| subscription.cancellation.is_some());
        assert_eq!(cancelled.map(|subscription| subscription.plan).collect::<Vec<_>>(), [plans[which]]);
    }
}
