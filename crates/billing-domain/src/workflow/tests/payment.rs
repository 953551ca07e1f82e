//! Payments: in parts, too much of them, taken back, and what they meet.

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::credit::CreditLedger;
use crate::decimal::plain;
use crate::error::{Error, FieldCode, Noun, Refusal};
use crate::id::{InvoiceId, PaymentId};
use crate::invoice::{Invoice, PaymentStatus};
use crate::message::MessageType;
use crate::payment::{Payment, PaymentKind};
use crate::period::PlanDuration;
use crate::plan::ChargeTiming::InAdvance;
use crate::store::{FeedRequest, Scope, Store, Transaction};
use crate::testing::world::{World, decimal, fee, subscription, version};
use crate::workflow::{
    NotePayment, OrganizationPatch, ReversePayment, UpdateCredit, UpdateInvoice, delete_customer, note_payment,
    reverse_payment, update_credit, update_invoice, void_credit, void_invoice,
};

const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);

/// A customer with a monthly fee of 30 in advance, and its first invoice.
fn world() -> (World, Invoice) {
    let world = World::at(START);
    world.customer("acme");
    let plan = world.plan(Some(PlanDuration::Monthly), version(vec![fee("30", InAdvance)], Vec::new()));
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    let invoice = world.invoices("acme").pop().expect("an invoice");
    (world, invoice)
}

fn payment(world: &World, invoice: InvoiceId, amount: &str) -> NotePayment {
    let customer = world.key("acme");
    NotePayment { customer, invoice, amount: decimal(amount), at: None, method: None, reference: None }
}

fn note(world: &World, command: &NotePayment) -> Result<(Invoice, Payment), Error> {
    world.on("acme", |tx, now| note_payment(tx, command, now))
}

fn pay(world: &World, invoice: InvoiceId, amount: &str) -> Payment {
    note(world, &payment(world, invoice, amount)).expect("noted").1
}

fn reverse(world: &World, invoice: InvoiceId, payment: PaymentId) -> Result<(Invoice, Payment), Error> {
    let command = ReversePayment { customer: world.key("acme"), invoice, payment, at: None, reason: None };
    world.on("acme", |tx, now| reverse_payment(tx, &command, now))
}

fn void(world: &World, id: InvoiceId) -> Result<Invoice, Error> {
    let key = world.key("acme");
    world.on("acme", |tx, now| void_invoice(tx, key, id, now))
}

/// Due, and where its payment stands.
fn state(world: &World, id: InvoiceId) -> (String, PaymentStatus) {
    let stored = world.on("acme", |tx, _| tx.invoices().get(id)).expect("an invoice");
    (plain(&stored.amount_due()), stored.payment_status)
}

fn credit_of(world: &World, payment: &Payment) -> CreditLedger {
    let key = world.key("acme");
    let read = |tx: &mut dyn Transaction, _| tx.credits().get(key, payment.credit.expect("a credit"));
    world.on("acme", read).expect("a credit")
}

#[test]
fn an_invoice_is_paid_in_parts_and_is_paid_when_nothing_is_due() {
    let (world, invoice) = world();
    #[rustfmt::skip]
    let steps = [
        // amount, due,     status,                why
        ("10",     "20",    PaymentStatus::Unpaid, "a part"),
        ("19.99",  "0.01",  PaymentStatus::Unpaid, "all but a cent"),
        ("0.01",   "0",     PaymentStatus::Paid,   "all of it"),
    ];
    for (amount, due, status, why) in steps {
        pay(&world, invoice.id, amount);
        assert_eq!(state(&world, invoice.id), (due.to_owned(), status), "{why}");
    }
}

#[test]
fn what_is_paid_beyond_what_is_due_pays_the_next_invoice() {
    let (world, invoice) = world();
    pay(&world, invoice.id, "20");
    let over = pay(&world, invoice.id, "22.50");
    assert_eq!(
        (plain(&over.credited), state(&world, invoice.id)),
        ("12.5".to_owned(), ("0".to_owned(), PaymentStatus::Paid))
    );
    let credit = credit_of(&world, &over);
    assert_eq!((plain(&credit.remaining()), &*credit.credit().currency_code), ("12.5".to_owned(), "USD"));
    let twice = pay(&world, invoice.id, "30");
    assert_eq!(plain(&twice.credited), "30", "of a paid invoice all of it is too much");
    world.advance("acme", datetime!(2024-05-01 01:00 UTC));
    let next = world.invoices("acme").pop().expect("an invoice");
    assert_eq!(
        (plain(&next.amount), next.payment_status),
        ("0".to_owned(), PaymentStatus::Paid),
        "30 less 12.50 and 17.50"
    );
    assert_eq!(plain(&credit_of(&world, &twice).remaining()), "12.5");
}

#[test]
fn a_reversal_takes_back_what_is_left_of_the_credit_and_the_rest_is_due() {
    #[rustfmt::skip]
    let cases = [
        // paid,  months, due behind it, credit left, why
        ("30",    0,      "30",          None,        "nothing was too much"),
        ("50",    0,      "30",          Some("0"),   "all of the credit is there still"),
        ("50",    1,      "50",          Some("0"),   "the credit of 20 has paid for the next invoice"),
        ("75",    1,      "60",          Some("0"),   "30 of the credit of 45 have"),
        ("75",    2,      "75",          Some("0"),   "all 45 have, for two invoices"),
    ];
    for (paid, months, due, left, why) in cases {
        let (world, invoice) = world();
        let payment = pay(&world, invoice.id, paid);
        if months > 0 {
            world.advance("acme", START + Duration::days(31 * months));
        }
        let (reversed, _) = reverse(&world, invoice.id, payment.id).expect(why);
        assert_eq!(
            (plain(&reversed.amount_due()), reversed.payment_status),
            (due.to_owned(), PaymentStatus::Unpaid),
            "{why}"
        );
        assert_eq!(state(&world, invoice.id).0, due, "{why}: kept");
        let rest = payment.credit.map(|_| plain(&credit_of(&world, &payment).remaining()));
        assert_eq!(rest.as_deref(), left, "{why}");
        assert_eq!(reverse(&world, invoice.id, payment.id), Err(Refusal::PaymentReversed.into()), "{why}: once");
        let owed = world.on("acme", |tx, _| tx.invoices().due_of(&[world.key("acme")])).expect("due");
        let unpaid =
            world.invoices("acme").into_iter().filter(|invoice| invoice.payment_status == PaymentStatus::Unpaid);
        let sum: bigdecimal::BigDecimal = unpaid.map(|invoice| invoice.amount_due()).sum();
        assert_eq!(owed[&world.key("acme")]["USD"], sum, "{why}: what the customer owes");
    }
}

#[test]
fn what_expired_of_a_credit_is_not_owed_again() {
    let (world, invoice) = world();
    let payment = pay(&world, invoice.id, "50");
    let command = UpdateCredit {
        customer: world.key("acme"),
        credit: payment.credit.expect("a credit"),
        description: None,
        expires_at: Some(Some(datetime!(2024-04-10 00:00 UTC))),
    };
    world.on("acme", |tx, now| update_credit(tx, &command, now)).expect("it expires");
    world.advance("acme", datetime!(2024-04-11 00:00 UTC));
    assert_eq!(plain(&credit_of(&world, &payment).balance().expired), "20");
    reverse(&world, invoice.id, payment.id).expect("reversed");
    assert_eq!(state(&world, invoice.id).0, "30", "the 20 were forfeited, and did not come");
}

#[test]
fn an_invoice_is_voided_when_its_payments_are_reversed() {
    let (world, invoice) = world();
    let part = pay(&world, invoice.id, "10");
    let rest = pay(&world, invoice.id, "20");
    assert_eq!(void(&world, invoice.id), Err(Refusal::InvoiceHasPayments.into()), "it is paid");
    reverse(&world, invoice.id, rest.id).expect("reversed");
    assert_eq!(void(&world, invoice.id), Err(Refusal::InvoiceHasPayments.into()), "a part is");
    reverse(&world, invoice.id, part.id).expect("reversed");
    let voided = void(&world, invoice.id).expect("voided");
    assert_eq!((voided.voided_at, plain(&voided.amount_due())), (Some(START), "0".to_owned()));
    assert_eq!(note(&world, &payment(&world, invoice.id, "30")), Err(Refusal::InvoiceVoided.into()), "nothing is due");
    assert_eq!(reverse(&world, invoice.id, part.id), Err(Refusal::PaymentReversed.into()));
}

#[test]
fn what_an_overpayment_paid_for_keeps_its_invoice_from_being_voided() {
    let (world, invoice) = world();
    let payment = pay(&world, invoice.id, "50");
    world.advance("acme", datetime!(2024-05-02 00:00 UTC));
    reverse(&world, invoice.id, payment.id).expect("reversed");
    assert_eq!(state(&world, invoice.id).0, "50");
    assert_eq!(void(&world, invoice.id), Err(Refusal::InvoiceHasPayments.into()), "20 of it are not its own");
    let next = world.invoices("acme").pop().expect("an invoice");
    void(&world, next.id).expect("voided");
    void(&world, invoice.id).expect("the 20 came back, and nothing of it is others'");
}

/// What somebody does with the payments of the first invoice and with those that its credit has paid for.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Void(usize),
    Bounce(usize),
    Pay(&'static str),
    /// The credit of the first payment expires, and what was left of it is gone.
    Expire,
}

#[test]
fn a_credit_without_money_comes_back_to_its_invoice_in_any_order() {
    use Deed::{Bounce, Expire, Pay, Void};
    #[rustfmt::skip]
    let cases = [
        // paid, then,                                                                    due of 1, credit, why
        ("50", vec![Bounce(0), Void(1)],                                                  "30",     "0",    "20 were owed for the second, which nobody owes"),
        ("50", vec![Void(1), Bounce(0)],                                                  "30",     "0",    "the other way round"),
        ("50", vec![Bounce(0), Pay("50"), Void(1)],                                       "0",      "20",   "the 20 were paid for meanwhile"),
        ("50", vec![Void(1), Bounce(0), Pay("50")],                                       "0",      "20",   "the other way round"),
        ("50", vec![Bounce(0), Pay("40"), Void(1)],                                       "0",      "10",   "10 of them were"),
        ("50", vec![Void(1), Bounce(0), Pay("40")],                                       "0",      "10",   "the other way round"),
        ("50", vec![Bounce(0), Pay("50"), Void(1), Bounce(1)],                            "30",     "0",    "what had paid for them bounced, too"),
        ("50", vec![Bounce(0), Pay("50"), Bounce(1), Void(1)],                            "30",     "0",    "before the void"),
        ("75", vec![Bounce(0), Void(2)],                                                  "60",     "0",    "30 are still out"),
        ("75", vec![Bounce(0), Pay("75"), Void(2), Bounce(1)],                            "60",     "0",    "also when the 15 were paid for meanwhile"),
        ("50", vec![Bounce(0), Pay("50"), Void(1), Expire, Bounce(1)],                    "30",     "0",    "what was forfeited had been paid for by what bounced"),
    ];
    for (paid, deeds, due, left, why) in cases {
        let (world, invoice) = world();
        let key = world.key("acme");
        let mut payments = vec![pay(&world, invoice.id, paid)];
        world.advance("acme", datetime!(2024-06-02 00:00 UTC));
        let mut invoices = world.invoices("acme");
        invoices.sort_by_key(|invoice| invoice.issued_at);
        for deed in deeds {
            match deed {
                Void(place) => drop(void(&world, invoices[place].id).expect(why)),
                Bounce(place) => drop(reverse(&world, invoice.id, payments[place].id).expect(why)),
                Pay(amount) => payments.push(pay(&world, invoice.id, amount)),
                Expire => {
                    let credit = payments[0].credit.expect("a credit");
                    world.on("acme", |tx, now| void_credit(tx, key, credit, now)).expect(why);
                }
            }
        }
        assert_eq!(state(&world, invoice.id).0, due, "{paid}: {why}");
        let credits = world.on("acme", |tx, _| tx.credits().list(key)).expect("credits");
        let sum: bigdecimal::BigDecimal = credits.iter().map(CreditLedger::remaining).sum();
        assert_eq!(plain(&sum), left, "{paid}: {why}");
    }
}

/// Nobody bills a deleted customer any more, so what has expired of a credit is still in its ledger when its payment bounces.
#[test]
fn a_deleted_customers_payment_takes_its_credit_along_although_that_has_expired() {
    let (world, invoice) = world();
    let payment = pay(&world, invoice.id, "50");
    let (key, credit) = (world.key("acme"), payment.credit.expect("a credit"));
    let expires_at = Some(Some(datetime!(2024-04-20 00:00 UTC)));
    let change = UpdateCredit { customer: key, credit, description: None, expires_at };
    world.on("acme", |tx, now| update_credit(tx, &change, now)).expect("changed");
    world.on("acme", |tx, now| delete_customer(tx, key, now)).expect("deleted");
    world.store.set_now(datetime!(2024-05-02 00:00 UTC));
    assert_eq!(plain(&credit_of(&world, &payment).remaining()), "20", "nobody has looked");
    let (reversed, reversal) = reverse(&world, invoice.id, payment.id).expect("reversed");
    assert_eq!((plain(&reversed.amount_due()), plain(&reversal.credited)), ("30".to_owned(), "20".to_owned()));
    assert_eq!(plain(&credit_of(&world, &payment).remaining()), "0", "no credit without money");
}

#[test]
fn what_came_back_can_make_an_invoice_paid() {
    let (world, invoice) = world();
    let payment = pay(&world, invoice.id, "50");
    world.advance("acme", datetime!(2024-05-02 00:00 UTC));
    reverse(&world, invoice.id, payment.id).expect("reversed");
    pay(&world, invoice.id, "30");
    assert_eq!(state(&world, invoice.id), ("20".to_owned(), PaymentStatus::Unpaid));
    void(&world, world.invoices("acme").pop().expect("an invoice").id).expect("voided");
    assert_eq!(state(&world, invoice.id), ("0".to_owned(), PaymentStatus::Paid));
    let key = world.key("acme");
    let noted = world.on("acme", |tx, _| tx.invoices().list_payments(key, Some(invoice.id))).expect("payments");
    let back = noted.last().expect("an entry");
    assert_eq!((back.kind, plain(&back.amount), back.credit), (PaymentKind::Returned, "20".to_owned(), payment.credit));
    assert_eq!(reverse(&world, invoice.id, back.id), Err(Error::NotFound(Noun::Payment)), "no payment came");
}

#[test]
fn the_whole_rest_is_noted_as_a_payment() {
    let (world, invoice) = world();
    pay(&world, invoice.id, "12.34");
    let command = UpdateInvoice { customer: world.key("acme"), invoice: invoice.id, is_paid: true };
    let paid = world.on("acme", |tx, now| update_invoice(tx, &command, now)).expect("paid");
    assert_eq!(paid.payment_status, PaymentStatus::Paid);
    let key = world.key("acme");
    let noted = world.on("acme", |tx, _| tx.invoices().list_payments(key, Some(invoice.id))).expect("payments");
    assert_eq!(noted.iter().map(|payment| plain(&payment.amount)).collect::<Vec<_>>(), ["12.34", "17.66"]);
    reverse(&world, invoice.id, noted[1].id).expect("reversed");
    assert_eq!(state(&world, invoice.id), ("17.66".to_owned(), PaymentStatus::Unpaid));
}

#[test]
fn what_cannot_be_a_payment_is_refused() {
    let (world, invoice) = world();
    let good = payment(&world, invoice.id, "1");
    let later = Some(START + Duration::microseconds(1));
    #[rustfmt::skip]
    let cases = [
        // command,                                                          field,       code,                         why
        (NotePayment { amount: decimal("0"), ..good.clone() },               "amount",    FieldCode::MinValue,          "nothing"),
        (NotePayment { amount: decimal("-1"), ..good.clone() },              "amount",    FieldCode::MinValue,          "less than nothing"),
        (NotePayment { amount: decimal("0.001"), ..good.clone() },           "amount",    FieldCode::MaxDecimalPlaces,  "no coin is that small"),
        (NotePayment { at: later, ..good.clone() },                          "at",        FieldCode::MaxValue,          "it has not come yet"),
        (NotePayment { method: Some(String::new()), ..good.clone() },        "method",    FieldCode::Blank,             "no method"),
        (NotePayment { reference: Some("x".repeat(256)), ..good.clone() },   "reference", FieldCode::MaxLength,         "too long"),
    ];
    for (command, field, code, why) in cases {
        let Err(Error::Fields(faults)) = note(&world, &command) else { panic!("{why}") };
        assert_eq!(
            faults.0.iter().map(|fault| (&*fault.attr, fault.code)).collect::<Vec<_>>(),
            [(field, code)],
            "{why}"
        );
    }
    let known = NotePayment { method: Some("bank".to_owned()), reference: Some("7".to_owned()), ..good };
    note(&world, &known).expect("noted");
    assert!(
        matches!(note(&world, &known), Err(Error::Refused(Refusal::DuplicateResource(_)))),
        "the same line of a bank"
    );
    assert_eq!(state(&world, invoice.id).0, "29", "it counts once");
    let absent = reverse(&world, invoice.id, PaymentId::from(uuid::Uuid::nil()));
    assert_eq!(absent, Err(Error::NotFound(Noun::Payment)));
}

#[test]
fn no_payment_went_before_it_came() {
    let (world, invoice) = world();
    let came = START - Duration::days(1);
    let command = NotePayment { at: Some(came), ..payment(&world, invoice.id, "1") };
    let noted = note(&world, &command).expect("noted").1;
    let reverse_at = |at| {
        let (customer, invoice, payment) = (world.key("acme"), invoice.id, noted.id);
        let command = ReversePayment { customer, invoice, payment, at: Some(at), reason: None };
        world.on("acme", |tx, now| reverse_payment(tx, &command, now))
    };
    let Err(Error::Fields(faults)) = reverse_at(came - Duration::microseconds(1)) else { panic!("it went before") };
    assert_eq!((&*faults.0[0].attr, faults.0[0].code), ("at", FieldCode::MinValue));
    assert_eq!(reverse_at(came).expect("at once").1.at, came);
}

/// What was paid on its date fell due when the payment came back, not before.
#[test]
fn what_is_unpaid_again_falls_due_then() {
    #[rustfmt::skip]
    let cases = [
        // first, days until reversed, told at day, why
        (None,       2,  Some(10), "unpaid again before its date"),
        (None,       15, Some(15), "paid on its date"),
        (Some("30"), 2,  None,     "another payment came before its date"),
    ];
    for (again, days, told, why) in cases {
        let world = World::at(START);
        let patch = OrganizationPatch { payment_grace_period_days: Some(Some(10)), ..OrganizationPatch::default() };
        world.set(&patch);
        world.customer("acme");
        let plan = world.plan(Some(PlanDuration::Yearly), version(vec![fee("30", InAdvance)], Vec::new()));
        world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
        let invoice = world.invoices("acme").pop().expect("an invoice");
        let paid = pay(&world, invoice.id, "30");
        world.advance("acme", START + Duration::days(days));
        reverse(&world, invoice.id, paid.id).expect(why);
        if let Some(amount) = again {
            pay(&world, invoice.id, amount);
        }
        world.advance("acme", START + Duration::days(40));
        let wanted = FeedRequest { after: 0, types: vec![MessageType::InvoicePastDue], limit: 10 };
        let store: &dyn Store = &world.store;
        let page = store.run_for(&Scope::Organization(world.organization), |tx, _| tx.messages().list(&wanted));
        let days: Vec<_> =
            page.expect("a feed").messages.iter().map(|(_, told)| (told.at - START).whole_days()).collect();
        assert_eq!(days, told.into_iter().collect::<Vec<_>>(), "{why}");
    }
}
