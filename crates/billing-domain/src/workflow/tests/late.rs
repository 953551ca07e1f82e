//! Events that arrive when their time has been billed.

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::addon::AddonTerms;
use crate::addon::BillingFrequency::{OneTime, Recurring};
use crate::addon::InvoiceWhen::InvoiceOnAttach;
use crate::decimal::plain;
use crate::id::{MetricId, SubscriptionId};
use crate::invoice::{BillingType, Trace};
use crate::metric::{Aggregation, MetricFilters};
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::plan::ChargeBehavior::Full;
use crate::plan::ChargeTiming::InAdvance;
use crate::plan::{PriceAdjustment, PriceAdjustmentKind};
use crate::subscription::InvoicingBehavior::InvoiceNow;
use crate::subscription::SwitchUsageBehavior::{KeepSeparate, TransferToNewSubscription};
use crate::subscription::UsageBehavior::{BillFull, BillNone};
use crate::subscription::{Cancellation, SwitchUsageBehavior, UsageBehavior};
use crate::testing::world::{World, component, decimal, fee, prepaid_component, subscription, tiers, version};
use crate::workflow::{
    CancelSubscription, CreateMetric, DraftInvoice, NewPlanVersion, OrganizationPatch, SwitchPlan, VersionChoice,
    cancel_subscription, create_metric, draft_invoice, switch_plan,
};

const START: OffsetDateTime = datetime!(2024-01-01 00:00 UTC);
const END: OffsetDateTime = datetime!(2024-02-01 00:00 UTC);
const GRACE: Duration = Duration::minutes(30);
/// January's events are accepted for 30 days: until shortly after February's invoice, which comes after 29.
const NEXT: OffsetDateTime = datetime!(2024-03-01 00:30 UTC);
const CLOSED: OffsetDateTime = datetime!(2024-03-02 00:30 UTC);
const INSIDE: OffsetDateTime = datetime!(2024-01-20 00:00 UTC);

/// Amount and lines of each invoice.
fn invoices(world: &World) -> Vec<(String, Vec<String>)> {
    let line = |line: &crate::invoice::LineItem| format!("{} {}", line.name, plain(&line.amount));
    let invoices = world.invoices("acme").into_iter();
    invoices.map(|invoice| (plain(&invoice.amount), invoice.lines.iter().map(line).collect())).collect()
}

fn amounts(world: &World) -> Vec<String> {
    invoices(world).into_iter().map(|(amount, _)| amount).collect()
}

/// A subscription to what `make` makes of a metric of calls.
fn subscribed(auto_renew: bool, make: impl FnOnce(MetricId) -> NewPlanVersion) -> (World, SubscriptionId) {
    let world = World::at(START);
    let calls = world.metric("call", None).id;
    let plan = world.plan(Some(PlanDuration::Monthly), make(calls));
    world.customer("acme");
    let mut command = subscription("acme", plan, START);
    command.auto_renew = auto_renew;
    let id = world.subscribe(&command).expect("subscribed").id;
    (world, id)
}

fn by_ten_cents(calls: MetricId) -> NewPlanVersion {
    version(Vec::new(), vec![component(calls, tiers(&[("0", "", "0.1")]))])
}

#[test]
fn late_usage_is_one_line_of_the_next_invoice() {
    let graduated = |calls| {
        let calls = component(calls, tiers(&[("0", "10", "free"), ("10", "20", "1"), ("20", "", "0.5")]));
        version(vec![fee("30", InAdvance)], vec![calls])
    };
    let (world, _) = subscribed(true, graduated);
    world.track_many("acme", "call", INSIDE, 15);
    world.advance("acme", END + GRACE);
    let issued = world.invoices("acme");
    assert_eq!(plain(&issued[1].amount), "35", "five calls at 1, and the fee");

    world.track_many("acme", "call", INSIDE, 9);
    world.track_many("acme", "call", END, 11);
    world.advance("acme", NEXT);
    let expected = ["count of call - Late Usage 7", "count of call 1", "Pro Flat Fee 30"];
    assert_eq!(invoices(&world)[2], ("38".to_owned(), expected.map(str::to_owned).into()));
    let late = &world.invoices("acme")[2].lines[0];
    assert_eq!((late.period.start(), late.period.end(), late.billing_type), (START, END, BillingType::InArrears));
    assert_eq!(late.quantity, Some(decimal("9")));
    let Trace::UsageCharge { event_count, quantity, billed_before, rating, rounding, .. } = &late.trace else {
        panic!("it explains itself as usage")
    };
    assert_eq!((*event_count, quantity, billed_before.as_ref()), (24, &decimal("24"), Some(&decimal("15"))));
    assert_eq!((&rating.amount, &rounding.given_before), (&decimal("12"), &decimal("5")), "priced as a whole");
    assert_eq!(world.invoices("acme")[..2], issued, "what was issued stays as it is");

    world.advance("acme", CLOSED);
    assert_eq!(world.invoices("acme").len(), 3, "and it is billed once");
}

#[test]
fn late_usage_has_an_invoice_of_its_own_when_none_comes_in_time() {
    let (world, _) = subscribed(false, by_ten_cents);
    world.track_many("acme", "call", INSIDE, 10);
    world.advance("acme", END + GRACE);
    world.track_many("acme", "call", INSIDE, 5);
    world.advance("acme", CLOSED - Duration::microseconds(1));
    assert_eq!(amounts(&world), ["1"], "more may come");
    world.track_many("acme", "call", INSIDE, 2);
    world.advance("acme", CLOSED);
    assert_eq!(amounts(&world), ["1", "0.7"]);
    let invoice = &world.invoices("acme")[1];
    assert_eq!((invoice.issued_at, invoice.lines.len()), (CLOSED, 1));
    world.track_many("acme", "call", INSIDE, 100);
    world.advance("acme", datetime!(2025-01-01 00:00 UTC));
    assert_eq!(amounts(&world), ["1", "0.7"], "nobody waits for ever");
}

#[test]
fn what_changes_no_price_makes_no_line() {
    #[rustfmt::skip]
    let cases = [
        // first, late, invoices,            why
        (5,       4,    vec!["0"],           "all of it is free"),
        (5,       6,    vec!["0", "0.1"],    "one is beyond what is free"),
        (12,      0,    vec!["0.2"],         "nothing came"),
    ];
    for (first, late, expected, why) in cases {
        let (world, _) = subscribed(false, |calls| {
            version(Vec::new(), vec![component(calls, tiers(&[("0", "10", "free"), ("10", "", "0.1")]))])
        });
        world.track_many("acme", "call", INSIDE, first);
        world.advance("acme", END + GRACE);
        world.track_many("acme", "call", INSIDE, late);
        world.advance("acme", CLOSED);
        assert_eq!(amounts(&world), expected, "{why}");
    }
}

#[test]
fn late_usage_may_lower_the_price() {
    let world = World::at(START);
    let least = CreateMetric {
        name: Some("least".to_owned()),
        event_name: "gauge".to_owned(),
        measure: Aggregation::Min { property_name: "n".to_owned() }.into(),
        filters: MetricFilters::default(),
        is_cost_metric: false,
    };
    let least = world.catalog(|tx, now| create_metric(tx, &least, now)).expect("a metric").id;
    let part = component(least, tiers(&[("0", "", "1")]));
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![part]));
    world.customer("acme");
    let mut command = subscription("acme", plan, START);
    command.auto_renew = false;
    world.subscribe(&command).expect("subscribed");
    world.track("acme", "gauge", INSIDE, &serde_json::json!({"n": 8}));
    world.advance("acme", END + GRACE);
    world.track("acme", "gauge", INSIDE, &serde_json::json!({"n": 3}));
    world.advance("acme", CLOSED);
    let lines = ["least - Late Usage -5", "Granted Credit 5"].map(str::to_owned).to_vec();
    assert_eq!(invoices(&world)[1], ("0".to_owned(), lines), "less than nothing becomes a credit");
}

#[test]
fn late_usage_has_the_tax_rate_and_the_adjustment_of_its_time() {
    let tax = |rate: &str| OrganizationPatch { tax_rate: Some(Some(decimal(rate))), ..OrganizationPatch::default() };
    let (world, _) = subscribed(true, |calls| NewPlanVersion {
        price_adjustment: Some(PriceAdjustment {
            name: "rebate".to_owned(),
            description: None,
            kind: PriceAdjustmentKind::Percentage,
            amount: decimal("-50"),
        }),
        ..by_ten_cents(calls)
    });
    world.set(&tax("10"));
    world.track_many("acme", "call", INSIDE, 100);
    world.advance("acme", END + GRACE);
    world.set(&tax("20"));
    world.track_many("acme", "call", INSIDE, 40);
    world.track_many("acme", "call", END, 10);
    world.advance("acme", NEXT);
    let issued = invoices(&world);
    assert_eq!(issued[0].0, "5.5", "10, half of it, ten percent more");
    let lines = ["count of call - Late Usage 2.2", "count of call 0.6"].map(str::to_owned).to_vec();
    assert_eq!(issued[1], ("2.8".to_owned(), lines), "the old rate for what is late, the new one for what is new");
}

#[test]
fn what_is_taken_back_has_the_tax_rate_of_what_was_paid() {
    let tax =
        |rate: Option<&str>| OrganizationPatch { tax_rate: Some(rate.map(decimal)), ..OrganizationPatch::default() };
    #[rustfmt::skip]
    let cases = [
        // at first,  then,       credit, why
        (Some("10"),  Some("20"), "22",   "two thirds of 33"),
        (None,        Some("20"), "20",   "what was not taxed is not taxed back"),
        (Some("10"),  None,       "22",   "what was taxed is"),
    ];
    for (first, then, credit, why) in cases {
        let world = World::at(datetime!(2024-04-01 00:00 UTC));
        world.set(&tax(first));
        let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], Vec::new()));
        world.customer("acme");
        let start = datetime!(2024-04-01 00:00 UTC);
        let id = world.subscribe(&subscription("acme", plan, start)).expect("subscribed").id;
        world.set(&tax(then));
        world.store.set_now(datetime!(2024-04-11 00:00 UTC));
        cancel(&world, id, BillFull);
        let key = world.key("acme");
        let ledgers = world.on("acme", |tx, _| tx.credits().list(key)).expect("credits");
        assert_eq!(plain(&ledgers[0].remaining()), credit, "{why}");
    }
}

fn cancel(world: &World, id: SubscriptionId, usage_behavior: UsageBehavior) {
    let command = CancelSubscription {
        customer: world.key("acme"),
        subscriptions: vec![id],
        cancellation: Cancellation { flat_fee_behavior: None, usage_behavior },
        invoicing_behavior: InvoiceNow,
    };
    world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
}

#[test]
fn a_cancelled_subscription_waits_for_late_usage_too() {
    let at = datetime!(2024-01-21 00:00 UTC);
    let closed = at + Duration::days(30) + GRACE;
    #[rustfmt::skip]
    let cases = [
        // behavior, invoices,                 why
        (BillFull,   vec!["1", "2", "0.5"],    "what came late of each time"),
        (BillNone,   vec!["1"],                "what is not billed yet is dropped, late or not"),
    ];
    for (behavior, expected, why) in cases {
        let (world, id) = subscribed(true, |calls| {
            let mut calls = component(calls, tiers(&[("0", "", "0.1")]));
            calls.invoicing_interval = Some(Interval::new(IntervalUnit::Week, 2).expect("an interval"));
            calls.reset_interval = calls.invoicing_interval;
            version(Vec::new(), vec![calls])
        });
        let week = START + Duration::days(3);
        world.track_many("acme", "call", week, 10);
        world.advance("acme", START + Duration::days(14) + GRACE);
        world.track_many("acme", "call", INSIDE, 20);
        world.store.set_now(at);
        cancel(&world, id, behavior);
        world.track_many("acme", "call", week, 3);
        world.track_many("acme", "call", INSIDE, 2);
        world.track_many("acme", "call", at, 50);
        world.advance("acme", closed);
        let mut issued = amounts(&world);
        if behavior == BillFull {
            let closed = issued.split_off(2);
            assert_eq!(closed, ["0.3", "0.2"], "each time closes by itself");
            issued.push("0.5".to_owned());
        }
        assert_eq!(issued, expected, "{why}");
    }
}

/// From calls at 0.1 to calls at 0.2 after ten days of April.
fn switched(usage: SwitchUsageBehavior) -> World {
    let start = datetime!(2024-04-01 00:00 UTC);
    let world = World::at(start);
    let calls = world.metric("call", None).id;
    let plan = |price| {
        let part = component(calls, tiers(&[("0", "", price)]));
        world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![part]))
    };
    let (from, to) = (plan("0.1"), plan("0.2"));
    world.customer("acme");
    let mut command = subscription("acme", from, start);
    command.auto_renew = false;
    let old = world.subscribe(&command).expect("subscribed").id;
    world.track_many("acme", "call", start, 100);
    world.store.set_now(datetime!(2024-04-11 00:00 UTC));
    let command = SwitchPlan {
        customer: world.key("acme"),
        subscription: old,
        version: VersionChoice::Plan(to),
        invoicing_behavior: InvoiceNow,
        usage_behavior: usage,
        prepaid_units: Vec::new(),
    };
    world.on("acme", |tx, now| switch_plan(tx, &command, now)).expect("switched");
    world
}

#[test]
fn late_usage_follows_a_switch() {
    #[rustfmt::skip]
    let cases = [
        // usage,                   invoices,               why
        (TransferToNewSubscription, vec!["20", "2.2"],      "all 111 calls at the new price"),
        (KeepSeparate,              vec!["10", "1.2"],      "the old time at the old price, the new time at the new one"),
    ];
    for (usage, expected, why) in cases {
        let world = switched(usage);
        world.advance("acme", datetime!(2024-05-01 00:30 UTC));
        world.track_many("acme", "call", datetime!(2024-04-02 00:00 UTC), 10);
        world.track_many("acme", "call", datetime!(2024-04-20 00:00 UTC), 1);
        world.advance("acme", datetime!(2024-06-15 00:00 UTC));
        let mut issued = amounts(&world);
        if usage == KeepSeparate {
            assert_eq!(issued.split_off(1), ["1", "0.2"], "each closes with its own time");
            issued.push("1.2".to_owned());
        }
        assert_eq!(issued, expected, "{why}");
    }
}

#[test]
fn late_usage_within_the_prepaid_units_costs_nothing() {
    let (world, _) = subscribed(false, |calls| {
        version(Vec::new(), vec![prepaid_component(calls, tiers(&[("0", "", "0.1")]), "20", Full)])
    });
    world.track_many("acme", "call", INSIDE, 15);
    world.advance("acme", END + GRACE);
    world.track_many("acme", "call", INSIDE, 5);
    world.advance("acme", NEXT);
    assert_eq!(amounts(&world), ["2", "0"], "20 were paid for");
    world.track_many("acme", "call", INSIDE, 4);
    world.advance("acme", CLOSED);
    assert_eq!(amounts(&world), ["2", "0", "0.4"], "24 were used");
}

#[test]
fn a_draft_shows_late_usage() {
    let (world, _) = subscribed(true, by_ten_cents);
    world.track_many("acme", "call", INSIDE, 10);
    world.advance("acme", END + GRACE);
    world.track_many("acme", "call", INSIDE, 3);
    let command = DraftInvoice { customer: "acme".parse().expect("an id"), include_next_period: false };
    let drafts = world.catalog(|tx, now| draft_invoice(tx, &command, now)).expect("a draft").invoices;
    let lines: Vec<_> = drafts[0].lines.iter().map(|line| format!("{} {}", line.name, plain(&line.amount))).collect();
    assert_eq!(lines, ["count of call - Late Usage 0.3", "count of call 0"]);
    world.advance("acme", NEXT);
    assert_eq!(amounts(&world), ["1", "0.3"], "the draft billed nothing");
}

#[test]
fn advancing_in_steps_bills_late_usage_as_at_once() {
    let run = |steps: &[i64]| {
        let (world, _) = subscribed(true, by_ten_cents);
        world.track_many("acme", "call", INSIDE, 10);
        world.advance("acme", END + GRACE);
        world.track_many("acme", "call", INSIDE, 7);
        for hours in steps {
            world.advance("acme", END + Duration::hours(*hours));
        }
        world
            .invoices("acme")
            .into_iter()
            .map(|invoice| (invoice.number, invoice.issued_at, invoice.amount))
            .collect::<Vec<_>>()
    };
    let at_once = run(&[2_000]);
    assert_eq!(run(&[1, 600, 690, 697, 719, 720, 721, 1_500, 2_000]), at_once);
    assert_eq!(run(&(1..=2_000).step_by(7).chain([2_000]).collect::<Vec<_>>()), at_once);
}

#[test]
fn a_cancelled_prepaid_subscription_waits_too() {
    let (world, id) = subscribed(true, |calls| {
        version(Vec::new(), vec![prepaid_component(calls, tiers(&[("0", "", "0.1")]), "20", Full)])
    });
    world.track_many("acme", "call", START, 15);
    world.store.set_now(INSIDE);
    cancel(&world, id, BillFull);
    world.track_many("acme", "call", START, 25);
    world.advance("acme", CLOSED);
    assert_eq!(amounts(&world), ["2", "0", "2"], "40 were used, 20 of them prepaid");
}

#[test]
fn an_event_that_was_accepted_in_the_last_moment_is_billed_however_short_the_grace() {
    let accepted_until = END + Duration::days(30);
    let just_after = accepted_until + Duration::SECOND;
    #[rustfmt::skip]
    let cases = [
        // another invoice meanwhile, amounts,                why
        (false,                       vec!["1", "0.3"],       "the last look waits until what was accepted is stored"),
        (true,                        vec!["1", "9", "0.3"],  "and an invoice that a call makes does not take its place"),
    ];
    for (subscribes_again, expected, why) in cases {
        let (world, _) = subscribed(false, by_ten_cents);
        world.set(&OrganizationPatch { invoice_grace_minutes: Some(0), ..OrganizationPatch::default() });
        world.track_many("acme", "call", INSIDE, 10);
        world.advance("acme", END);
        world.advance("acme", just_after);
        if subscribes_again {
            let plan = world.plan(None, version(vec![fee("9", InAdvance)], Vec::new()));
            let mut once = subscription("acme", plan, just_after);
            once.end = Some(just_after + Duration::days(1));
            world.subscribe(&once).expect("subscribed");
        }
        // It was accepted before, and is stored now.
        world.track_many("acme", "call", INSIDE, 3);
        world.advance("acme", just_after + Duration::minutes(10));
        assert_eq!(amounts(&world), expected, "{why}");
    }
}

#[test]
fn usage_of_an_addon_that_comes_late_is_billed_with_its_own_terms() {
    #[rustfmt::skip]
    let cases = [
        // frequency, lines,                                                  why
        (Recurring,   vec!["count of mail - Late Usage 1.2", "count of mail 0.8"], "on the next invoice, beside what the next period has used"),
        (OneTime,     vec!["count of mail - Late Usage 1.2"],                      "though the add-on has ended"),
    ];
    for (billing_frequency, expected, why) in cases {
        let (world, id) = subscribed(true, |_| version(vec![fee("30", InAdvance)], Vec::new()));
        let mails = world.metric("mail", None).id;
        let terms = AddonTerms { billing_frequency, invoice_when: InvoiceOnAttach };
        let addon = world
            .addon(terms, version(Vec::new(), vec![component(mails, tiers(&[("0", "5", "free"), ("5", "", "0.4")]))]));
        world.attach("acme", id, addon.id, 1).expect("attached");
        world.track_many("acme", "mail", INSIDE, 6);
        world.advance("acme", END + GRACE);
        assert!(invoices(&world)[1].1.contains(&"count of mail 0.4".to_owned()), "{why}: {:?}", invoices(&world));
        world.track_many("acme", "mail", INSIDE, 3);
        world.track_many("acme", "mail", END, 7);
        world.advance("acme", NEXT);
        let lines = &invoices(&world)[2].1;
        let of_mails: Vec<_> = lines.iter().filter(|line| line.contains("mail")).map(String::as_str).collect();
        assert_eq!(of_mails, expected, "{why}");
        world.advance("acme", CLOSED);
        assert_eq!(world.invoices("acme").len(), 3, "{why}: and once");
    }
}
