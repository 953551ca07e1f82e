//! Laws of payments: whatever is paid, overpaid, reversed and voided while invoices go on, the books say what came.

use bigdecimal::{BigDecimal, Signed, Zero};
use billing_domain::Refusal;
use billing_domain::credit::CreditLedger;
use billing_domain::error::Error;
use billing_domain::invoice::{Invoice, PaymentStatus, Trace};
use billing_domain::payment::{Payment, PaymentKind, PaymentLedger};
use billing_domain::period::PlanDuration;
use billing_domain::plan::ChargeTiming;
use billing_domain::statement::{Statement, StatementBalance};
use billing_domain::store::Transaction;
use billing_domain::testing::world::{World, decimal, fee, subscription, version};
use billing_domain::workflow::{
    NotePayment, ReversePayment, UpdateCredit, UpdateInvoice, note_payment, reverse_payment, update_credit,
    update_invoice, void_credit, void_invoice,
};
use proptest::prelude::*;
use time::Duration;

use crate::fewer_laws;
use crate::life::START;

/// What somebody does, to which of the invoices, payments or credits: counted around, so that there is one.
#[derive(Clone, Debug)]
enum Act {
    /// Cents.
    Pay(usize, i64),
    PayRest(usize),
    Reverse(usize),
    Void(usize),
    VoidCredit(usize),
    /// A credit, and the days after which it expires.
    Expire(usize, i64),
    /// Days.
    Wait(i64),
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..6_usize, 1..6_000_i64).prop_map(|(invoice, cents)| Act::Pay(invoice, cents)),
        1 => (0..6_usize).prop_map(Act::PayRest),
        3 => (0..8_usize).prop_map(Act::Reverse),
        2 => (0..6_usize).prop_map(Act::Void),
        1 => (0..3_usize).prop_map(Act::VoidCredit),
        1 => (0..3_usize, 1..60_i64).prop_map(|(credit, days)| Act::Expire(credit, days)),
        3 => (10..40_i64).prop_map(Act::Wait),
    ]
}

/// What a customer owes, paid and has.
struct Books {
    invoices: Vec<Invoice>,
    payments: Vec<Payment>,
    credits: Vec<CreditLedger>,
}

impl Books {
    fn read(world: &World) -> Self {
        let key = world.key("acme");
        Self {
            invoices: world.invoices("acme"),
            payments: world.on("acme", |tx, _| tx.invoices().list_payments(key, None)).expect("payments"),
            credits: world.on("acme", |tx, _| tx.credits().list(key)).expect("credits"),
        }
    }

    fn ledger(&self, invoice: &Invoice) -> PaymentLedger {
        let of_invoice = self.payments.iter().filter(|payment| payment.invoice == invoice.id);
        of_invoice.cloned().collect::<Vec<_>>().into()
    }

    /// amount = amount due + payments that stand - what of them became credit and was not taken back.
    fn each_invoice_adds_up(&self) {
        for invoice in &self.invoices {
            let ledger = self.ledger(invoice);
            let standing: BigDecimal = ledger.standing().map(|payment| &payment.amount).sum();
            let credited: BigDecimal = ledger.entries().iter().map(Payment::credits).sum();
            if invoice.payment_status == PaymentStatus::Voided {
                assert!(standing.is_zero() && credited.is_zero() && ledger.settled().is_zero(), "{}", invoice.number);
                continue;
            }
            assert_eq!(invoice.amount, invoice.amount_due() + standing - credited, "{}", invoice.number);
            assert_eq!(invoice.amount_paid, ledger.settled(), "{}", invoice.number);
            let is_paid = invoice.payment_status == PaymentStatus::Paid;
            assert_eq!(is_paid, invoice.amount_due().is_zero(), "{}: paid only when full", invoice.number);
            assert!(!invoice.amount_due().is_negative(), "{}: nobody owes less than nothing", invoice.number);
        }
    }

    /// What came and stands is what was charged and not voided, less what is due of it, the credit that is left, and what of
    /// credit was forfeited.
    fn no_money_is_lost(&self) {
        let came: BigDecimal = self
            .invoices
            .iter()
            .map(|invoice| self.ledger(invoice).standing().map(|payment| &payment.amount).sum::<BigDecimal>())
            .sum();
        let standing = || self.invoices.iter().filter(|invoice| invoice.payment_status != PaymentStatus::Voided);
        let charged: BigDecimal = standing()
            .flat_map(|invoice| &invoice.lines)
            .filter(|line| !matches!(line.trace, Trace::CreditApplied { .. }))
            .map(|line| &line.amount)
            .sum();
        let due: BigDecimal = standing().map(Invoice::amount_due).sum();
        let left: BigDecimal = self.credits.iter().map(CreditLedger::remaining).sum();
        let gone: BigDecimal =
            self.credits.iter().map(|credit| &credit.balance().voided + &credit.balance().expired).sum();
        let is_payment = |payment: &&Payment| payment.kind == PaymentKind::Payment;
        let taken_back: BigDecimal =
            self.payments.iter().filter(|payment| !is_payment(payment)).map(|payment| &payment.credited).sum();
        assert_eq!(came, charged - due + left + gone - taken_back);
    }

    /// The statement comes to what is due and what is left, wherever it is divided.
    fn the_statement_goes_on(&self) {
        let invoices: Vec<_> = self.invoices.iter().map(Invoice::summary).collect();
        let read = |span| Statement::new(&invoices, &self.credits, &self.payments, span);
        let whole = read((None, None));
        let due: BigDecimal = self.invoices.iter().map(Invoice::amount_due).sum();
        let credit: BigDecimal = self.credits.iter().map(CreditLedger::remaining).sum();
        assert_eq!(whole.closing["USD"], StatementBalance { due, credit });
        for entry in &whole.entries {
            let (before, behind) = (read((None, Some(entry.at))), read((Some(entry.at), None)));
            let opening = |code: &str| behind.opening.get(code).cloned().unwrap_or_default();
            assert_eq!(before.closing.get("USD").cloned().unwrap_or_default(), opening("USD"));
            assert_eq!([before.entries, behind.entries.clone()].concat(), whole.entries);
            assert_eq!(behind.closing, whole.closing);
        }
    }

    /// Nobody has credit of a payment that did not come, or is asked for what it does not pay for, while its invoice waits for money.
    fn no_credit_is_without_money(&self) {
        for invoice in &self.invoices {
            for (id, owed) in self.ledger(invoice).owed_credits() {
                let credit = self.credits.iter().find(|credit| credit.credit().id == id).expect("a credit");
                let is_out = &credit.balance().drawn - &credit.balance().restored;
                assert!(owed >= is_out, "{}: what {id} has paid for is owed", invoice.number);
                if !invoice.amount_due().is_zero() {
                    assert_eq!(owed, is_out, "{}: what came back to {id} is not owed", invoice.number);
                    assert_eq!(credit.remaining(), BigDecimal::zero(), "{}: nobody paid for {id}", invoice.number);
                }
            }
        }
    }
}

fn act(world: &World, act: &Act) {
    let customer = world.key("acme");
    let Books { invoices, payments, credits } = Books::read(world);
    let chosen = |place: usize| invoices[place % invoices.len()].id;
    let done: Result<(), Error> = match act {
        Act::Wait(days) => {
            let now = world.on("acme", |_, now| Ok(now)).expect("now");
            world.advance("acme", now + Duration::days(*days));
            Ok(())
        }
        Act::Pay(place, cents) => {
            let invoice = chosen(*place);
            let amount = BigDecimal::new((*cents).into(), 2);
            let command = NotePayment { customer, invoice, amount, at: None, method: None, reference: None };
            world.on("acme", |tx, now| note_payment(tx, &command, now)).map(drop)
        }
        Act::PayRest(place) => {
            let invoice = chosen(*place);
            let command = UpdateInvoice { customer, invoice, is_paid: true };
            world.on("acme", |tx, now| update_invoice(tx, &command, now)).map(drop)
        }
        Act::Reverse(place) => {
            let Some(payment) = payments.get(place % payments.len().max(1)) else { return };
            let (invoice, payment) = (payment.invoice, payment.id);
            let command = ReversePayment { customer, invoice, payment, at: None, reason: None };
            world.on("acme", |tx, now| reverse_payment(tx, &command, now)).map(drop)
        }
        Act::Void(place) => {
            let invoice = chosen(*place);
            world.on("acme", |tx, now| void_invoice(tx, customer, invoice, now)).map(drop)
        }
        Act::VoidCredit(place) => {
            let Some(credit) = credits.get(place % credits.len().max(1)).map(|credit| credit.credit().id) else {
                return;
            };
            world.on("acme", |tx, now| void_credit(tx, customer, credit, now)).map(drop)
        }
        Act::Expire(place, days) => {
            let Some(credit) = credits.get(place % credits.len().max(1)).map(|credit| credit.credit().id) else {
                return;
            };
            let expire = |tx: &mut dyn Transaction, now| {
                let expires_at = Some(Some(now + Duration::days(*days)));
                update_credit(tx, &UpdateCredit { customer, credit, description: None, expires_at }, now)
            };
            world.on("acme", expire).map(drop)
        }
    };
    match done {
        Ok(()) | Err(Error::NotFound(_)) => {}
        Err(Error::Refused(
            Refusal::InvoiceVoided
            | Refusal::InvoiceFinal
            | Refusal::InvoiceNotUnpaid
            | Refusal::InvoiceHasPayments
            | Refusal::PaymentReversed
            | Refusal::CreditNotActive,
        )) => {}
        Err(error) => panic!("{act:?}: {error:?}"),
    }
}

proptest! {
    #![proptest_config(fewer_laws())]

    #[test]
    fn payments_add_up_whatever_is_done(acts in prop::collection::vec(any_act(), 1..30)) {
        let world = World::at(START);
        world.customer("acme");
        let fees = vec![fee("30", ChargeTiming::InAdvance)];
        let plan = world.plan(Some(PlanDuration::Monthly), version(fees, Vec::new()));
        world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
        assert_eq!(world.invoices("acme")[0].amount, decimal("30"));
        for each in &acts {
            act(&world, each);
            let books = Books::read(&world);
            books.each_invoice_adds_up();
            books.no_money_is_lost();
            books.no_credit_is_without_money();
            books.the_statement_goes_on();
        }
    }
}
