use serde_json::json;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::credit::{Credit, CreditLedger, EntryKind};
use crate::decimal::plain;
use crate::invoice::{Invoice, PaymentStatus};
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::plan::ChargeTiming::InAdvance;
use crate::plan::{PriceAdjustment, PriceAdjustmentKind};
use crate::testing::world::{World, component, decimal, fee, subscription, tiers, version};
use crate::workflow::OrganizationPatch;

const START: OffsetDateTime = datetime!(2024-01-01 00:00 UTC);
const LATER: OffsetDateTime = datetime!(2024-02-10 00:00 UTC);

fn amounts(invoices: &[Invoice]) -> Vec<String> {
    invoices.iter().map(|invoice| plain(&invoice.amount)).collect()
}

#[test]
fn charges_and_adjustments_of_a_period_come_to_the_price_the_plan_wants() {
    use PriceAdjustmentKind::{Fixed, Percentage, PriceOverride};
    #[rustfmt::skip]
    let cases = [
        // kind,        amount, calls, invoices,            why
        (Percentage,    "-10",  100,   vec!["27", "9"],     "ten percent off the fee and off the usage"),
        (Percentage,    "5",    1,     vec!["31.5", "0.11"], "of 0.10, five percent is half a cent, rounded with the rest"),
        (Fixed,         "-20",  100,   vec!["10", "10"],    "the whole discount fits the first invoice"),
        (Fixed,         "-35",  100,   vec!["0", "5"],      "30 of it on the first, 5 on the second: never below 0"),
        (Fixed,         "-35",  10,    vec!["0", "0"],      "31 in all: the period stops at 0"),
        (PriceOverride, "20",   100,   vec!["20", "0"],     "the fee is above the price, so the usage adds nothing"),
        (PriceOverride, "50",   100,   vec!["30", "20"],    "what is missing comes with the last invoice"),
        (PriceOverride, "50",   0,     vec!["30", "20"],    "without usage too"),
    ];
    for (kind, amount, calls, expected, why) in cases {
        let world = World::at(START);
        let metric = world.metric("call", None).id;
        let mut priced = version(vec![fee("30", InAdvance)], vec![component(metric, tiers(&[("0", "", "0.1")]))]);
        priced.price_adjustment =
            Some(PriceAdjustment { name: "deal".to_owned(), description: None, kind, amount: decimal(amount) });
        let plan = world.plan(Some(PlanDuration::Monthly), priced);
        world.customer("acme");
        let mut command = subscription("acme", plan, START);
        command.auto_renew = false;
        world.subscribe(&command).expect("subscribed");
        world.track_many("acme", "call", START, calls);
        world.advance("acme", LATER);
        let invoices = world.invoices("acme");
        assert_eq!(amounts(&invoices), expected, "{why}");
        for line in invoices.iter().flat_map(|invoice| &invoice.lines) {
            let parts = &line.base
                + line.adjustments.iter().map(|adjustment| &adjustment.amount).sum::<bigdecimal::BigDecimal>();
            assert_eq!(parts, line.amount, "{why}");
        }
    }
}

#[test]
fn an_override_without_any_charge_has_a_line_of_its_own() {
    let world = World::at(START);
    let mut priced = version(vec![fee("0", InAdvance)], Vec::new());
    priced.price_adjustment = Some(PriceAdjustment {
        name: "minimum".to_owned(),
        description: None,
        kind: PriceAdjustmentKind::PriceOverride,
        amount: decimal("12"),
    });
    let plan = world.plan(Some(PlanDuration::Monthly), priced);
    world.set(&OrganizationPatch { tax_rate: Some(Some(decimal("10"))), ..OrganizationPatch::default() });
    world.customer("acme");
    let mut command = subscription("acme", plan, START);
    command.auto_renew = false;
    world.subscribe(&command).expect("subscribed");
    world.advance("acme", LATER);
    let [invoice] = &world.invoices("acme")[..] else { panic!("one invoice, at the end") };
    assert_eq!(invoice.lines[0].name, "Pro minimum");
    assert_eq!(plain(&invoice.amount), "13.2", "tax is on the adjusted price");
}

fn credit(world: &World, id: u128, amount: &str, expires_at: Option<OffsetDateTime>) {
    let key = world.key("acme");
    let credit = Credit {
        id: uuid::Uuid::from_u128(id).into(),
        currency_code: "USD".to_owned(),
        amount: decimal(amount),
        amount_paid: decimal("0"),
        amount_paid_currency_code: None,
        description: None,
        effective_at: START,
        expires_at,
        created_at: START,
    };
    let entry = uuid::Uuid::from_u128(id + 1).into();
    let ledger = CreditLedger::grant(credit, entry).expect("a credit");
    world.on("acme", |tx, _| tx.credits().insert(key, &ledger)).expect("kept");
}

#[test]
fn credits_pay_invoices_and_expire_at_their_time() {
    let world = World::at(START);
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], Vec::new()));
    let key = world.customer("acme");
    credit(&world, 1000, "40", None);
    credit(&world, 2000, "50", Some(datetime!(2024-02-01 00:29 UTC)));
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    world.advance("acme", LATER);
    let invoices = world.invoices("acme");
    assert_eq!(amounts(&invoices), ["0", "0"], "the first from the credit that expires, the second from the other");
    assert!(invoices.iter().all(|invoice| invoice.payment_status == PaymentStatus::Paid));
    let kinds = |ledger: &CreditLedger| ledger.entries().iter().map(|entry| entry.kind).collect::<Vec<_>>();
    let ledgers = world.on("acme", |tx, _| tx.credits().list(key)).expect("credits");
    let of = |id: u128| ledgers.iter().find(|ledger| ledger.credit().id.uuid().as_u128() == id).expect("the credit");
    assert_eq!(kinds(of(2000)), [EntryKind::Grant, EntryKind::Drawdown, EntryKind::Expiry]);
    assert_eq!((plain(&of(2000).remaining()), plain(&of(2000).balance().expired)), ("0".to_owned(), "20".to_owned()));
    assert_eq!((kinds(of(1000)).len(), plain(&of(1000).remaining())), (2, "10".to_owned()));
}

#[test]
fn an_invoice_below_nothing_becomes_a_credit() {
    let world = World::at(START);
    let metric = world.metric("call", Some("n")).id;
    let mut weekly = component(metric, tiers(&[("0", "", "1")]));
    weekly.invoicing_interval = Some(Interval::new(IntervalUnit::Week, 1).expect("an interval"));
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![weekly]));
    world.customer("acme");
    let mut command = subscription("acme", plan, START);
    command.auto_renew = false;
    world.subscribe(&command).expect("subscribed");
    world.track("acme", "call", START, &json!({"n": 10}));
    world.track("acme", "call", datetime!(2024-01-10 00:00 UTC), &json!({"n": -4}));
    world.track("acme", "call", datetime!(2024-01-17 00:00 UTC), &json!({"n": 9}));
    world.advance("acme", LATER);
    let invoices = world.invoices("acme");
    assert_eq!(amounts(&invoices), ["10", "0", "5", "0", "0"], "4 too much in the second week pay for the third");
    let names: Vec<_> = invoices[1].lines.iter().map(|line| (line.name.as_str(), plain(&line.amount))).collect();
    assert_eq!(names, [("sum of n of call", "-4".to_owned()), ("Granted Credit", "4".to_owned())]);
    let names: Vec<_> = invoices[2].lines.iter().map(|line| (line.name.as_str(), plain(&line.amount))).collect();
    assert_eq!(names, [("sum of n of call", "9".to_owned()), ("Applied Credit", "-4".to_owned())]);
    assert_eq!(invoices[2].summary().end_date.to_string(), "2024-01-31", "a credit line is for no time");
}
