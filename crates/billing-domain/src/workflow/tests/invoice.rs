use time::OffsetDateTime;
use time::macros::datetime;

use crate::decimal::plain;
use crate::error::{Error, Refusal};
use crate::id::{CreditId, InvoiceId};
use crate::invoice::{Invoice, PaymentStatus};
use crate::period::PlanDuration;
use crate::plan::ChargeTiming::InAdvance;
use crate::testing::world::{World, decimal, fee, subscription, version};
use crate::workflow::{CreateCredit, UpdateInvoice, create_credit, update_invoice, void_invoice};

const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);

fn credit(world: &World, amount: &str, paid: &str, expires_at: Option<OffsetDateTime>) -> CreditId {
    let command = CreateCredit {
        customer: "acme".parse().expect("an id"),
        amount: decimal(amount),
        currency_code: "USD".to_owned(),
        description: None,
        effective_at: None,
        expires_at,
        amount_paid: decimal(paid),
        amount_paid_currency_code: Some("USD".to_owned()),
    };
    world.on("acme", |tx, now| create_credit(tx, &command, now)).expect("a credit").credit().id
}

fn subscribe(world: &World) -> Invoice {
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], Vec::new()));
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    world.invoices("acme").pop().expect("an invoice")
}

fn void(world: &World, id: InvoiceId) -> Result<Invoice, Error> {
    let key = world.key("acme");
    world.on("acme", |tx, now| void_invoice(tx, key, id, now))
}

/// Drawn, restored, voided, expired and remaining.
fn balance(world: &World, id: CreditId) -> [String; 5] {
    let key = world.key("acme");
    let ledger = world.on("acme", |tx, _| tx.credits().get(key, id)).expect("a credit");
    let balance = ledger.balance().clone();
    [&balance.drawn, &balance.restored, &balance.voided, &balance.expired, &ledger.remaining()].map(plain)
}

fn world() -> World {
    let world = World::at(START);
    world.customer("acme");
    world
}

#[test]
fn what_credits_paid_of_a_voided_invoice_goes_back_to_them() {
    let world = world();
    let given = credit(&world, "12", "0", None);
    let short = credit(&world, "5", "0", Some(datetime!(2024-04-02 0:00 UTC)));
    let invoice = subscribe(&world);
    assert_eq!(
        (plain(&invoice.amount), balance(&world, given)),
        ("13".to_owned(), ["12", "0", "0", "0", "0"].map(Into::into))
    );
    world.store.set_now(datetime!(2024-04-03 0:00 UTC));
    assert_eq!(void(&world, invoice.id).expect("voided").payment_status, PaymentStatus::Voided);
    assert_eq!(balance(&world, given), ["12", "12", "0", "0", "12"]);
    assert_eq!(balance(&world, short), ["5", "5", "0", "5", "0"], "it expired meanwhile");
    assert_eq!(void(&world, invoice.id), Err(Refusal::InvoiceNotUnpaid.into()));
    assert_eq!(balance(&world, given), ["12", "12", "0", "0", "12"], "once");
    world.advance("acme", datetime!(2024-05-01 00:30 UTC));
    let amounts: Vec<_> = world.invoices("acme").iter().map(|invoice| plain(&invoice.amount)).collect();
    assert_eq!(amounts, ["13", "18"], "what it charged is not charged again, and the credit pays the next one");
}

#[test]
fn a_credit_that_was_bought_goes_with_its_invoice_unless_it_was_drawn() {
    let world = world();
    let bought = credit(&world, "50", "40", None);
    let purchase = world.invoices("acme").pop().expect("an invoice");
    void(&world, purchase.id).expect("voided");
    assert_eq!(balance(&world, bought), ["0", "0", "50", "0", "0"]);

    let drawn = credit(&world, "50", "40", None);
    let purchase = world.invoices("acme").into_iter().find(|invoice| invoice.payment_status == PaymentStatus::Unpaid);
    let purchase = purchase.expect("an invoice");
    subscribe(&world);
    assert_eq!(void(&world, purchase.id), Err(Refusal::CreditDrawn.into()));
    assert_eq!(balance(&world, drawn), ["30", "0", "0", "0", "20"], "nothing has happened to it");
}

#[test]
fn what_is_paid_is_not_noted_again() {
    let world = world();
    let invoice = subscribe(&world);
    let set = |is_paid| {
        let command = UpdateInvoice { customer: world.key("acme"), invoice: invoice.id, is_paid };
        world.on("acme", |tx, now| update_invoice(tx, &command, now)).map(|invoice| invoice.payment_status)
    };
    assert_eq!(set(false), Ok(PaymentStatus::Unpaid), "nothing changes");
    assert_eq!(set(true), Ok(PaymentStatus::Paid));
    assert_eq!((set(false), set(true)), (Err(Refusal::InvoiceFinal.into()), Err(Refusal::InvoiceFinal.into())));
    assert_eq!(void(&world, invoice.id), Err(Refusal::InvoiceHasPayments.into()));
}
