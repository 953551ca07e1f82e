//! Payments.

use billing_domain::decimal::plain;
use billing_domain::id::InvoiceId;
use billing_domain::invoice::Invoice;
use billing_domain::payment::PaymentLedger;
use billing_domain::period::PlanDuration;
use billing_domain::plan::ChargeTiming;
use billing_domain::testing::world::{World, fee, subscription, version};
use billing_domain::workflow::{
    NotePayment, ReadStatement, ReversePayment, note_payment, read_statement, reverse_payment, void_invoice,
};

use super::{BigDecimal, instant, number, table};

const LEDGER: &str = "| what happens | on | due of 1 | status of 1 | due of 2 | credit left |";
const STATEMENT: &str = "| on | entry | invoice | due +/- | credit +/- | due | credit | balance |";
pub const TABLES: [&str; 2] = [LEDGER, STATEMENT];

fn pay(world: &World, amount: BigDecimal, invoice: InvoiceId) {
    let customer = world.key("acme");
    let command = NotePayment { customer, invoice, amount, at: None, method: None, reference: None };
    world.on("acme", |tx, now| note_payment(tx, &command, now)).expect("noted");
}

/// Reverses the payment of this amount that stands.
fn bounce(world: &World, amount: &BigDecimal, invoice: InvoiceId) {
    let customer = world.key("acme");
    let noted = world.on("acme", |tx, _| tx.invoices().list_payments(customer, Some(invoice))).expect("payments");
    let ledger = PaymentLedger::from(noted);
    let payment = ledger.standing().find(|payment| payment.amount == *amount).expect("a payment").id;
    let command = ReversePayment { customer, invoice, payment, at: None, reason: None };
    world.on("acme", |tx, now| reverse_payment(tx, &command, now)).expect("reversed");
}

fn void(world: &World, invoice: InvoiceId) {
    let customer = world.key("acme");
    world.on("acme", |tx, now| void_invoice(tx, customer, invoice, now)).expect("voided");
}

#[test]
fn what_is_due_follows_from_what_came() {
    let mut rows = table(LEDGER).into_iter().peekable();
    let world = World::at(instant(&rows.peek().expect("a row")[1]));
    world.customer("acme");
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", ChargeTiming::InAdvance)], Vec::new()));
    world.subscribe(&subscription("acme", plan, instant(&rows.peek().expect("a row")[1]))).expect("subscribed");
    for row in rows {
        world.advance("acme", instant(&row[1]));
        let invoices = world.invoices("acme");
        let called = |number: &str| invoices[number.parse::<usize>().expect("a number") - 1].id;
        match row[0].split(' ').collect::<Vec<_>>()[..] {
            [amount, "come", "for", invoice] => pay(&world, number(amount), called(invoice)),
            ["the", amount, "for", invoice, "bounce"] => bounce(&world, &number(amount), called(invoice)),
            [invoice, "is", "voided"] => void(&world, called(invoice)),
            [invoice, "is", "issued"] => assert_eq!(invoices.len().to_string(), invoice, "{row:?}"),
            _ => panic!("{row:?}"),
        }
        let invoices = world.invoices("acme");
        let key = world.key("acme");
        let credits = world.on("acme", |tx, _| tx.credits().list_open(key)).expect("credits");
        let left: BigDecimal = credits.iter().map(billing_domain::credit::CreditLedger::remaining).sum();
        let due = |invoice: Option<&Invoice>| invoice.map_or_else(String::new, |invoice| plain(&invoice.amount_due()));
        let status = invoices[0].payment_status.as_str();
        let is = [due(invoices.first()), status.to_owned(), due(invoices.get(1)), plain(&left)];
        assert_eq!(is.as_slice(), &row[2..], "{row:?}");
    }
}

#[test]
fn a_statement_goes_on_from_entry_to_entry() {
    let world = World::at(instant("2026-01-01"));
    world.customer("acme");
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", ChargeTiming::InAdvance)], Vec::new()));
    world.subscribe(&subscription("acme", plan, instant("2026-01-01"))).expect("subscribed");
    world.advance("acme", instant("2026-01-05"));
    let first = world.invoices("acme")[0].id;
    pay(&world, number("50"), first);
    world.advance("acme", instant("2026-02-03"));
    bounce(&world, &number("50"), first);
    world.advance("acme", instant("2026-02-04"));
    void(&world, world.invoices("acme")[1].id);
    let numbers: Vec<_> = world.invoices("acme").into_iter().map(|invoice| invoice.number).collect();

    let command = ReadStatement { customer: world.key("acme"), from: None, to: None };
    let statement = world.on("acme", |tx, _| read_statement(tx, &command)).expect("a statement");
    let rows = statement.entries.iter().map(|entry| {
        let place = |(_, number): &(InvoiceId, String)| numbers.iter().position(|other| other == number);
        let invoice = entry.invoice.as_ref().and_then(place).map_or_else(String::new, |place| (place + 1).to_string());
        let (change, balance) = (&entry.change, &entry.balance);
        let sums = [&change.due, &change.credit, &balance.due, &balance.credit, &balance.net()].map(plain);
        [vec![entry.at.date().to_string(), entry.kind.as_str().to_owned(), invoice], sums.to_vec()].concat()
    });
    assert_eq!(rows.collect::<Vec<_>>(), table(STATEMENT));
}
