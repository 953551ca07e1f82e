use bigdecimal::BigDecimal;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::billing_run::INVOICES_PER_DAY_MAX;
use crate::charge::Billed;
use crate::error::{Error, StoreError};
use crate::invoice::{AdjustmentKind, BillingType, Invoice, PaymentStatus, Trace};
use crate::period::{Interval, IntervalUnit, MICROSECOND, PlanDuration};
use crate::plan::ChargeTiming::{InAdvance, InArrears};
use crate::testing::world::{World, component, decimal, fee, subscription, tiers, version};
use crate::workflow::{DraftInvoice, OrganizationPatch, bill_customer, draft_invoice};

const START: OffsetDateTime = datetime!(2024-01-01 00:00 UTC);
const END: OffsetDateTime = datetime!(2024-02-01 00:00 UTC);
const GRACE: Duration = Duration::minutes(30);

fn graduated() -> crate::tier::TierSchedule {
    tiers(&[("0", "50", "free"), ("50", "", "0.01")])
}

fn amounts(invoices: &[Invoice]) -> Vec<String> {
    invoices.iter().map(|invoice| invoice.amount.to_plain_string()).collect()
}

#[test]
fn bills_the_fee_at_the_start_and_usage_at_the_end() {
    let world = World::at(START);
    let calls = world.metric("call", None);
    let plan = world
        .plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], vec![component(calls.id, graduated())]));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");

    let [first] = &world.invoices("acme")[..] else { panic!("one invoice at the start") };
    assert_eq!((first.number.as_str(), first.issued_at), ("240101-000001", START));
    assert_eq!((&first.amount, first.payment_status), (&decimal("30"), PaymentStatus::Unpaid));
    let [line] = &first.lines[..] else { panic!("one line") };
    assert_eq!((line.name.as_str(), line.billing_type), ("Pro Flat Fee", BillingType::InAdvance));
    assert_eq!((line.period.start(), line.period.end()), (START, END));

    world.track_many("acme", "call", END - MICROSECOND, 351);
    world.track_many("acme", "call", END, 7);
    world.advance("acme", END + GRACE - MICROSECOND);
    assert_eq!(world.invoices("acme").len(), 1, "the invoice waits for late events");
    world.advance("acme", END + GRACE);

    let invoices = world.invoices("acme");
    let second = &invoices[1];
    assert_eq!((second.number.as_str(), second.issued_at), ("240201-000002", END + GRACE));
    let lines: Vec<_> = second.lines.iter().map(|line| (line.name.as_str(), line.amount.to_plain_string())).collect();
    assert_eq!(lines, [("count of call", "3.01".to_owned()), ("Pro Flat Fee", "30.00".to_owned())]);
    assert_eq!(second.amount, decimal("33.01"), "usage of January and the fee of February");
    let Trace::UsageCharge { event_count, quantity, rating, rounding, .. } = &second.lines[0].trace else {
        panic!("a usage line explains itself as one")
    };
    assert_eq!((*event_count, quantity), (351, &decimal("351")), "an event at the end belongs to the next period");
    assert_eq!((&rating.amount, &rounding.amount), (&decimal("3.01"), &decimal("3.01")));
    assert_eq!(rating.walk.len(), 2, "the free tier and the priced one");
}

#[test]
fn renews_at_the_boundary_before_the_invoice_is_cut() {
    let world = World::at(START);
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], Vec::new()));
    world.customer("acme");
    let first = world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    world.advance("acme", END);

    let [old, new] = &world.subscriptions("acme")[..] else { panic!("two subscriptions") };
    assert_eq!(old.id, first.id);
    assert!(old.is_renewed && old.is_new && !new.is_new && new.id != old.id);
    assert_eq!((new.period.start(), new.period.end()), (END, datetime!(2024-03-01 00:00 UTC)));
    assert_eq!(world.invoices("acme").len(), 1, "only the invoice waits");
}

#[test]
fn months_from_the_31st_do_not_drift() {
    let start = datetime!(2024-01-31 00:00 UTC);
    let world = World::at(start);
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], Vec::new()));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, start)).expect("subscribed");
    world.advance("acme", datetime!(2024-06-15 00:00 UTC));
    let starts: Vec<_> =
        world.subscriptions("acme").iter().map(|subscription| subscription.period.start().date().to_string()).collect();
    assert_eq!(starts, ["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30", "2024-05-31"]);
    assert_eq!(amounts(&world.invoices("acme")), ["30.00"; 5], "every period is a full one");
}

#[test]
fn advancing_in_steps_is_advancing_at_once() {
    let run = |steps: &[OffsetDateTime]| {
        let world = World::at(START);
        let calls = world.metric("call", None);
        let weekly = Interval::new(IntervalUnit::Week, 1).expect("an interval");
        let mut calls = component(calls.id, graduated());
        calls.invoicing_interval = Some(weekly);
        let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], vec![calls]));
        world.customer("acme");
        world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
        for day in 0..90 {
            world.track_many("acme", "call", START + Duration::days(day) + Duration::hours(5), 13);
        }
        for step in steps {
            world.advance("acme", *step);
        }
        let invoices = world.invoices("acme").into_iter();
        let facts = invoices.map(|invoice| (invoice.number, invoice.issued_at, invoice.amount, invoice.lines.len()));
        (facts.collect::<Vec<_>>(), world.subscriptions("acme").len())
    };
    let last = datetime!(2024-04-10 12:00 UTC);
    let at_once = run(&[last]);
    assert!(at_once.0.len() > 12, "weekly invoices over three months");
    let daily: Vec<_> = (1..=100).map(|day| START + Duration::days(day)).chain([last]).collect();
    assert_eq!(run(&daily), at_once);
    assert_eq!(run(&[END, END + GRACE - MICROSECOND, END + GRACE, last, last]), at_once);
}

#[test]
fn intermediate_invoices_bill_only_what_is_new() {
    let world = World::at(START);
    let calls = world.metric("call", None);
    let mut weekly = component(calls.id, graduated());
    weekly.invoicing_interval = Some(Interval::new(IntervalUnit::Week, 1).expect("an interval"));
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("31", InArrears)], vec![weekly]));
    world.customer("acme");
    let mut command = subscription("acme", plan, START);
    command.auto_renew = false;
    world.subscribe(&command).expect("subscribed");
    for week in 0..4 {
        world.track_many("acme", "call", START + Duration::weeks(week), 100);
    }
    world.advance("acme", datetime!(2024-03-01 00:00 UTC));
    let invoices = world.invoices("acme");
    assert_eq!(amounts(&invoices), ["0.50", "1.00", "1.00", "1.00", "31.00"]);
    let usage: Vec<_> = invoices.iter().map(|invoice| invoice.lines.last().map(|line| line.billing_type)).collect();
    assert_eq!(usage[..4], [Some(BillingType::Intermediate); 4]);
    let last = &invoices[4];
    assert_eq!(last.lines.len(), 2, "the fee, and the usage of the last days even though it is nothing");
    assert!(last.lines.iter().all(|line| line.billing_type == BillingType::InArrears));
}

#[test]
fn prorates_by_the_microsecond_and_never_loses_a_cent() {
    #[rustfmt::skip]
    let cases = [
        // end given,                         price,   why
        (None,                                "30.00", "a whole month"),
        (Some(datetime!(2024-01-16 12:00 UTC)), "15.00", "15.5 of 31 days"),
        (Some(datetime!(2024-01-11 00:00 UTC)), "9.68",  "10 of 31 days: 9.677 rounded"),
        (Some(datetime!(2024-03-01 00:00 UTC)), "58.06", "60 days of 31-day months: 58.0645"),
    ];
    for (end, price, why) in cases {
        let world = World::at(START);
        let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], Vec::new()));
        world.customer("acme");
        let mut command = subscription("acme", plan, START);
        command.end = end;
        world.subscribe(&command).expect("subscribed");
        assert_eq!(amounts(&world.invoices("acme")), [price], "{why}");
    }
}

#[test]
fn tax_is_rounded_over_the_lines_of_a_subscription_together() {
    let world = World::at(START);
    world.set(&OrganizationPatch { tax_rate: Some(Some(decimal("10"))), ..OrganizationPatch::default() });
    let charges = ["a", "b", "c"].map(|name| {
        let mut charge = fee("10.05", InAdvance);
        charge.name = name.to_owned();
        charge
    });
    let plan = world.plan(Some(PlanDuration::Monthly), version(charges.to_vec(), Vec::new()));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    let [invoice] = &world.invoices("acme")[..] else { panic!("one invoice") };
    let taxes: Vec<_> = invoice.lines.iter().map(|line| line.adjustments[0].amount.to_plain_string()).collect();
    assert_eq!(taxes, ["1.01", "1.00", "1.01"], "1.005, 2.01 and 3.015 so far");
    assert!(invoice.lines.iter().all(|line| line.adjustments[0].kind() == AdjustmentKind::SalesTax));
    assert_eq!(invoice.amount, decimal("33.17"));
    let sum: BigDecimal = invoice.lines.iter().map(|line| &line.amount).sum();
    assert_eq!(sum, invoice.amount);
}

#[test]
fn one_invoice_for_each_currency_and_billing_instant() {
    let world = World::at(START);
    let calls = world.metric("call", None);
    let dollars = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], Vec::new()));
    let mut yen = version(vec![fee("100.5", InAdvance)], vec![component(calls.id, graduated())]);
    yen.currency_code = "JPY".to_owned();
    let yen = world.plan(Some(PlanDuration::Monthly), yen);
    world.customer("acme");
    for plan in [dollars, yen] {
        world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    }
    world.advance("acme", END + GRACE);
    let invoices = world.invoices("acme");
    let facts: Vec<_> = invoices
        .iter()
        .map(|invoice| {
            (&*invoice.number, &*invoice.currency.code, invoice.amount.to_plain_string(), invoice.lines.len())
        })
        .collect();
    #[rustfmt::skip]
    assert_eq!(facts, [
        ("240101-000001", "USD", "30.00".to_owned(), 1),
        ("240101-000002", "JPY", "101".to_owned(),   1),
        ("240201-000003", "JPY", "101".to_owned(),   2),
        ("240201-000004", "USD", "30.00".to_owned(), 1),
    ]);
}

#[test]
fn a_start_in_the_past_is_caught_up_with() {
    let world = World::at(datetime!(2024-03-10 00:00 UTC));
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], Vec::new()));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    let issued: Vec<_> = world.invoices("acme").iter().map(|invoice| invoice.issued_at).collect();
    let now = datetime!(2024-03-10 00:00 UTC);
    assert_eq!(issued, [now; 3], "an invoice for each past period, none dated before the call");
    assert_eq!(world.subscriptions("acme").len(), 3);
}

#[test]
fn a_draft_is_the_invoice_to_come_and_leaves_no_trace() {
    let world = World::at(START);
    let calls = world.metric("call", None);
    let plan = world
        .plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], vec![component(calls.id, graduated())]));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    world.track_many("acme", "call", START + Duration::days(3), 150);
    world.store.set_now(START + Duration::days(4));

    let draft = |include_next_period| {
        let command = DraftInvoice { customer: "acme".parse().expect("an id"), include_next_period };
        world.catalog(|tx, now| draft_invoice(tx, &command, now)).expect("a draft").invoices
    };
    let lines = |include| {
        let lines = draft(include).into_iter().flat_map(|invoice| invoice.lines);
        lines.map(|line| (line.name, line.amount.to_plain_string())).collect::<Vec<_>>()
    };
    let usage = ("count of call".to_owned(), "1.00".to_owned());
    assert_eq!(lines(false), std::slice::from_ref(&usage));
    assert_eq!(lines(true), [usage, ("Pro Flat Fee - Next Period".to_owned(), "30.00".to_owned())]);
    world.advance("acme", END + GRACE);
    assert_eq!(amounts(&world.invoices("acme")), ["30.00", "31.00"], "the drafts billed nothing");
}

#[test]
fn an_invoice_of_nothing_is_paid() {
    let world = World::at(START);
    let calls = world.metric("call", None);
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![component(calls.id, graduated())]));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    assert!(world.invoices("acme").is_empty(), "nothing is due at the start");
    world.advance("acme", END + GRACE);
    let [invoice] = &world.invoices("acme")[..] else { panic!("one invoice") };
    assert_eq!((&invoice.amount, invoice.payment_status), (&decimal("0"), PaymentStatus::Paid));
    assert_eq!(invoice.lines.len(), 1, "usage of nothing is shown");
}

#[test]
fn due_dates_count_from_the_day_of_issue() {
    let world = World::at(START);
    world.set(&OrganizationPatch { payment_grace_period_days: Some(Some(14)), ..OrganizationPatch::default() });
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], Vec::new()));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    assert_eq!(world.invoices("acme")[0].due_at, Some(START + Duration::days(14)));
}

#[test]
fn billing_that_goes_on_for_ever_is_stopped_though_each_run_makes_one_invoice() {
    let world = World::at(START);
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InArrears)], Vec::new()));
    world.customer("acme");
    let id = world.subscribe(&subscription("acme", plan, START)).expect("subscribed").id;
    let key = world.key("acme");
    // A mistake: what was billed is forgotten, so that every run finds it due.
    let forget = |world: &World| {
        world.on("acme", |tx, _| {
            let mut record = tx.billing_records().list(key, id)?.remove(0);
            (record.billed, record.invoicing_instants) = (Billed::default(), vec![END]);
            tx.billing_records().update(key, &record)
        })
    };
    for run in 1..=INVOICES_PER_DAY_MAX {
        world.advance("acme", END + GRACE);
        assert_eq!(world.invoices("acme").len(), run as usize);
        forget(&world).expect("forgotten");
    }
    let stopped = world.on("acme", |tx, now| bill_customer(tx, key, now));
    assert!(matches!(stopped, Err(Error::Store(StoreError::SafetyBound(_)))), "{stopped:?}");
    assert_eq!(world.invoices("acme").len(), INVOICES_PER_DAY_MAX as usize, "nothing of the last run is kept");
}
