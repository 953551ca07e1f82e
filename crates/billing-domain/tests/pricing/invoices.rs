use billing_domain::BigDecimal;
use billing_domain::decimal::plain;
use billing_domain::invoice::{AdjustmentKind, Invoice, LineItem, number};
use billing_domain::organization::Organization;
use billing_domain::period::PlanDuration;
use billing_domain::plan::{ChargeBehavior, ChargeTiming, PriceAdjustment, PriceAdjustmentKind};
use billing_domain::testing::world::{World, component, fee, prepaid_component, subscription, tiers, version};
use billing_domain::workflow::{CreateCredit, NewPlanVersion, OrganizationPatch, create_credit};
use serde_json::json;
use time::Duration;
use uuid::Uuid;

use super::{instant, interval, number as parsed, shown_at, table};

const ORDER: &str = "| fees | adjustment | tax | credit | lines | amount | status |";
const MONTH: &str = "| issued | line | billing type | for | amount |";
const NEGATIVE: &str = "| used by week | invoices | credit left |";
const DUE: &str = "| issued | sequence | payment grace days | number | due |";
pub const TABLES: [&str; 4] = [ORDER, MONTH, NEGATIVE, DUE];

const START: &str = "2026-01-01";

fn adjustment(text: &str) -> Option<PriceAdjustment> {
    let (kind, amount) = text.split_once(' ')?;
    let kind = match kind {
        "percentage" => PriceAdjustmentKind::Percentage,
        "fixed" => PriceAdjustmentKind::Fixed,
        "price_override" => PriceAdjustmentKind::PriceOverride,
        other => panic!("{other} is not an adjustment"),
    };
    Some(PriceAdjustment { name: "deal".to_owned(), description: None, kind, amount: parsed(amount) })
}

fn grant(world: &World, amount: &str) {
    if amount.is_empty() {
        return;
    }
    let command = CreateCredit {
        customer: "acme".parse().expect("an id"),
        amount: parsed(amount),
        currency_code: "USD".to_owned(),
        description: None,
        effective_at: None,
        expires_at: None,
        amount_paid: 0.into(),
        amount_paid_currency_code: None,
    };
    world.on("acme", |tx, now| create_credit(tx, &command, now)).expect("a credit");
}

/// `30 - 3 + 5.4`: base, price adjustment and tax, each only when the line has it.
fn sum_of(line: &LineItem) -> String {
    let of = |kind| line.adjustments.iter().find(|adjustment| adjustment.kind() == kind);
    let signed = |amount: &BigDecimal| {
        let text = plain(amount);
        text.strip_prefix('-').map_or_else(|| format!(" + {text}"), |size| format!(" - {size}"))
    };
    let parts = [AdjustmentKind::PlanAdjustment, AdjustmentKind::SalesTax].map(of);
    let parts: String = parts.into_iter().flatten().map(|part| signed(&part.amount)).collect();
    format!("{}{parts}", plain(&line.base))
}

#[test]
fn an_invoice_is_calculated_in_order() {
    for row in table(ORDER) {
        let world = World::at(instant(START));
        let tax_rate = (!row[2].is_empty()).then(|| Some(parsed(&row[2])));
        world.set(&OrganizationPatch { tax_rate, ..OrganizationPatch::default() });
        let fees = row[0].split(", ").enumerate().map(|(i, amount)| {
            let mut fee = fee(amount, ChargeTiming::InAdvance);
            fee.name = format!("fee {i}");
            fee
        });
        let mut priced = version(fees.collect(), Vec::new());
        priced.price_adjustment = adjustment(&row[1]);
        let plan = world.plan(Some(PlanDuration::Monthly), priced);
        world.customer("acme");
        grant(&world, &row[3]);
        world.subscribe(&subscription("acme", plan, instant(START))).expect("subscribed");
        let invoices = world.invoices("acme");
        let [invoice] = &invoices[..] else { panic!("{row:?}: one invoice") };
        let lines: Vec<String> = invoice.lines.iter().map(sum_of).collect();
        assert_eq!(lines.join("; "), row[4], "{row:?}");
        assert_eq!(
            (plain(&invoice.amount), invoice.payment_status.as_str()),
            (row[5].clone(), row[6].as_str()),
            "{row:?}"
        );
    }
}

/// The plan of the example: two fees, calls that are invoiced every two weeks, prepaid seats.
fn pro(world: &World) -> NewPlanVersion {
    let mut support = fee("8", ChargeTiming::InArrears);
    support.name = "support".to_owned();
    let calls = world.metric("call", None).id;
    let mut calls = component(calls, tiers(&[("0", "50", "free"), ("50", "", "0.01")]));
    calls.invoicing_interval = interval("2 week");
    let seats = world.metric("seat", None).id;
    let seats = prepaid_component(seats, tiers(&[("0", "", "2")]), "5", ChargeBehavior::Full);
    version(vec![fee("30", ChargeTiming::InAdvance), support], vec![calls, seats])
}

/// A month of it, with the first lines of the next.
pub fn month_of(world: &World) -> Vec<Invoice> {
    let plan = world.plan(Some(PlanDuration::Monthly), pro(world));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, instant(START))).expect("subscribed");
    world.track_many("acme", "call", instant("2026-01-05"), 200);
    world.track_many("acme", "call", instant("2026-01-20"), 300);
    world.track_many("acme", "seat", instant("2026-01-20"), 6);
    for day in ["2026-01-16", "2026-01-30", "2026-02-02"] {
        world.advance("acme", instant(day));
    }
    world.invoices("acme")
}

/// A fee with ten percent off and a tax of 20 percent.
pub fn adjusted(world: &World) -> Vec<Invoice> {
    world.set(&OrganizationPatch { tax_rate: Some(Some(20.into())), ..OrganizationPatch::default() });
    let mut priced = version(vec![fee("30", ChargeTiming::InAdvance)], Vec::new());
    priced.price_adjustment = adjustment("percentage -10");
    let plan = world.plan(Some(PlanDuration::Monthly), priced);
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, instant(START))).expect("subscribed");
    world.invoices("acme")
}

#[test]
fn a_month_is_billed_invoice_by_invoice() {
    let lines = month_of(&World::at(instant(START))).into_iter().flat_map(|invoice| {
        let of_line = move |line: LineItem| {
            let span = format!("{} to {}", shown_at(line.period.start()), shown_at(line.period.end()));
            let kind = line.billing_type.as_str().to_owned();
            vec![shown_at(invoice.issued_at), line.name, kind, span, plain(&line.amount)]
        };
        invoice.lines.into_iter().map(of_line)
    });
    assert_eq!(lines.collect::<Vec<_>>(), table(MONTH));
}

#[test]
fn a_negative_invoice_becomes_a_credit() {
    for row in table(NEGATIVE) {
        let world = World::at(instant(START));
        let mut weekly = component(world.metric("call", Some("n")).id, tiers(&[("0", "", "1")]));
        weekly.invoicing_interval = interval("1 week");
        let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![weekly]));
        let key = world.customer("acme");
        let mut command = subscription("acme", plan, instant(START));
        command.auto_renew = false;
        world.subscribe(&command).expect("subscribed");
        let mut left = Vec::new();
        for (week, used) in (0..).zip(row[0].split(", ")) {
            let at = instant(START) + Duration::weeks(week);
            let n: serde_json::Value = serde_json::from_str(used).expect("a number");
            world.track("acme", "call", at, &json!({ "n": n }));
            world.advance("acme", at + Duration::weeks(1) + Duration::DAY);
            let credits = world.on("acme", |tx, _| tx.credits().list(key)).expect("credits");
            left.push(plain(&credits.iter().map(|credit| credit.remaining()).sum()));
        }
        let amounts: Vec<String> = world.invoices("acme").iter().map(|invoice| plain(&invoice.amount)).collect();
        assert_eq!((amounts.join(", "), left.join(", ")), (row[1].clone(), row[2].clone()), "{row:?}");
    }
}

#[test]
fn numbers_and_due_dates_follow_from_the_day_of_issue() {
    for row in table(DUE) {
        let issued_at = instant(&row[0]);
        let mut organization = Organization::new(Uuid::from_u128(1).into(), "Acme", issued_at);
        organization.payment_grace_period_days = (!row[2].is_empty()).then(|| row[2].parse().expect("days"));
        let due = organization.due_at(issued_at).map(shown_at).unwrap_or_default();
        let number = number(issued_at, row[1].parse().expect("a number"));
        assert_eq!((number, due), (row[3].clone(), row[4].clone()), "{row:?}");
    }
}
