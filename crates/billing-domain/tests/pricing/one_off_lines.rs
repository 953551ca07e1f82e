//! One-off lines.

use billing_domain::decimal::plain;
use billing_domain::id::CustomerKey;
use billing_domain::invoice::{Invoice, PaymentStatus};
use billing_domain::one_off_line::OneOffLine;
use billing_domain::period::PlanDuration;
use billing_domain::plan::ChargeTiming;
use billing_domain::subscription::{Cancellation, InvoicingBehavior, SubscriptionStatus, UsageBehavior};
use billing_domain::testing::world::{World, fee, subscription, version};
use billing_domain::workflow::{
    CancelSubscription, CreateOneOffLine, OneOffPrice, OrganizationPatch, cancel_subscription, create_one_off_line,
    reissue_invoice, remove_one_off_line, void_invoice,
};

use super::{instant, number, table};

const LINES: &str = "| what happens | on | lines of the last invoice | waiting |";
pub const TABLES: [&str; 1] = [LINES];

fn charge(world: &World, price: OneOffPrice, is_taxed: bool, invoice_now: bool) {
    let customer = world.key("acme");
    let name = "once".to_owned();
    let command = CreateOneOffLine { customer, name, price, currency_code: None, is_taxed, time: None, invoice_now };
    world.on("acme", |tx, now| create_one_off_line(tx, &command, now)).expect("charged");
}

/// The one subscription, invoiced at once.
fn cancel(world: &World) {
    let now = world.on("acme", |_, now| Ok(now)).expect("now");
    let runs = world.subscriptions("acme").into_iter().find(|held| held.status(now) == SubscriptionStatus::Active);
    let command = CancelSubscription {
        customer: world.key("acme"),
        subscriptions: vec![runs.expect("a subscription").id],
        cancellation: Cancellation { flat_fee_behavior: None, usage_behavior: UsageBehavior::BillFull },
        invoicing_behavior: InvoicingBehavior::InvoiceNow,
    };
    world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
}

fn waiting(world: &World, key: CustomerKey) -> Vec<OneOffLine> {
    world.on("acme", |tx, _| tx.customers().get(key)).expect("a customer").one_off_lines
}

fn shown(invoice: &Invoice) -> String {
    if invoice.payment_status == PaymentStatus::Voided {
        return "voided".to_owned();
    }
    let lines = invoice.lines.iter().map(|line| {
        let tax = &line.amount - &line.base;
        if line.adjustments.is_empty() { plain(&line.base) } else { format!("{} + {}", plain(&line.base), plain(&tax)) }
    });
    lines.collect::<Vec<_>>().join("; ")
}

#[test]
fn what_is_charged_once_is_billed_once() {
    let rows = table(LINES);
    let start = instant(&rows[0][1]);
    let world = World::at(start);
    world.set(&OrganizationPatch { tax_rate: Some(Some(number("20"))), ..OrganizationPatch::default() });
    let key = world.customer("acme");
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", ChargeTiming::InAdvance)], Vec::new()));
    world.subscribe(&subscription("acme", plan, start)).expect("subscribed");
    let amount = |text: &str| OneOffPrice::Amount(number(text));
    for row in rows {
        world.advance("acme", instant(&row[1]));
        let last = world.invoices("acme").pop().expect("an invoice").id;
        match row[0].split(' ').collect::<Vec<_>>()[..] {
            ["it", "is", "cancelled"] => cancel(&world),
            ["it", "begins"] | ["a", "month", "is", "invoiced"] => {}
            [price, "wait"] => charge(&world, amount(price), true, false),
            [quantity, "x", unit_amount, "wait", "untaxed"] => {
                let (quantity, unit_amount) = (number(quantity), number(unit_amount));
                charge(&world, OneOffPrice::ByUnit { quantity, unit_amount }, false, false);
            }
            [price, "at", "once"] => charge(&world, amount(price), true, true),
            ["line", place, "is", "removed"] => {
                let id = waiting(&world, key)[place.parse::<usize>().expect("a number") - 1].id;
                world.on("acme", |tx, now| remove_one_off_line(tx, key, id, now)).expect("removed");
            }
            ["it", "is", "issued", "anew"] => {
                world.on("acme", |tx, now| reissue_invoice(tx, key, last, now)).expect("reissued");
            }
            ["it", "is", "voided"] => drop(world.on("acme", |tx, now| void_invoice(tx, key, last, now)).expect("void")),
            _ => panic!("{row:?}"),
        }
        let last = world.invoices("acme").pop().expect("an invoice");
        assert_eq!([shown(&last), waiting(&world, key).len().to_string()], row[2..], "{row:?}");
    }
}
