//! Laws of payments: whatever is paid, overpaid, reversed and voided while invoices go on, the books say what came.

use bigdecimal::{BigDecimal, Signed, Zero};
use billing_domain::Refusal;
use billing_domain::credit::CreditLedger;
use billing_domain::error::Error;
use billing_domain::invoice::{Invoice, PaymentStatus, Trace};
use billing_domain::payment::{Payment, PaymentKind, PaymentLedger};
use billing_domain::period::PlanDuration;
use billing_domain::plan::ChargeTiming;
use billing_domain::testing::world::{World, decimal, fee, subscription, version};
use billing_domain::workflow::{
    NotePayment, ReversePayment, UpdateInvoice, note_payment, reverse_payment, update_invoice, void_invoice,
};
use proptest::prelude::*;
use time::Duration;

use crate::fewer_laws;
use crate::life::START;

/// What somebody does, to which of the invoices or payments.
#[derive(Clone, Debug)]
enum Act {
    /// Cents.
    Pay(usize, i64),
    PayRest(usize),
    Reverse(usize),
    Void(usize),
    /// Days.
    Wait(i64),
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..6_usize, 1..12_000_i64).prop_map(|(invoice, cents)| Act::Pay(invoice, cents)),
        1 => (0..6_usize).prop_map(Act::PayRest),
        3 => (0..8_usize).prop_map(Act::Reverse),
        2 => (0..6_usize).prop_map(Act::Void),
        3 => (1..40_i64).prop_map(Act::Wait),
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
            let signed = |payment: &Payment| match payment.kind {
                PaymentKind::Payment => payment.credited.clone(),
                PaymentKind::Reversal => -&payment.credited,
            };
            let credited: BigDecimal = ledger.entries().iter().map(signed).sum();
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

    /// What came and stands is what was charged and not voided, less what is due of it, and the credit that is left.
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
        assert_eq!(came, charged - due + left);
    }
}

fn act(world: &World, act: &Act) {
    let customer = world.key("acme");
    let Books { invoices, payments, .. } = Books::read(world);
    let chosen = |place: usize| invoices.get(place).map(|invoice| invoice.id);
    let done: Result<(), Error> = match act {
        Act::Wait(days) => {
            let now = world.on("acme", |_, now| Ok(now)).expect("now");
            world.advance("acme", now + Duration::days(*days));
            Ok(())
        }
        Act::Pay(place, cents) => {
            let Some(invoice) = chosen(*place) else { return };
            let amount = BigDecimal::new((*cents).into(), 2);
            let command = NotePayment { customer, invoice, amount, at: None, method: None, reference: None };
            world.on("acme", |tx, now| note_payment(tx, &command, now)).map(drop)
        }
        Act::PayRest(place) => {
            let Some(invoice) = chosen(*place) else { return };
            let command = UpdateInvoice { customer, invoice, is_paid: true };
            world.on("acme", |tx, now| update_invoice(tx, &command, now)).map(drop)
        }
        Act::Reverse(place) => {
            let Some(payment) = payments.get(*place) else { return };
            let (invoice, payment) = (payment.invoice, payment.id);
            let command = ReversePayment { customer, invoice, payment, at: None, reason: None };
            world.on("acme", |tx, now| reverse_payment(tx, &command, now)).map(drop)
        }
        Act::Void(place) => {
            let Some(invoice) = chosen(*place) else { return };
            world.on("acme", |tx, now| void_invoice(tx, customer, invoice, now)).map(drop)
        }
    };
    match done {
        Ok(()) | Err(Error::NotFound(_)) => {}
        Err(Error::Refused(
            Refusal::InvoiceVoided
            | Refusal::InvoiceFinal
            | Refusal::InvoiceNotUnpaid
            | Refusal::InvoiceHasPayments
            | Refusal::PaymentReversed,
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
        }
    }
}
