//! Payments.

use std::thread;

use bigdecimal::{BigDecimal, Zero};
use time::Duration;

use super::{Harness, Tenant};
use crate::customer::Customer;
use crate::error::{Error, Noun, Refusal};
use crate::id::InvoiceId;
use crate::invoice::{Invoice, PaymentStatus};
use crate::payment::{Payment, PaymentKind, PaymentLedger};
use crate::store::Scope;
use crate::testing::build::{Ids, invoice, line, payment};
use crate::testing::world::decimal;

impl Tenant<'_> {
    /// An invoice of 10.00 that the customer received.
    fn new_debt(&self, customer: &Customer) -> InvoiceId {
        let at = customer.created_at;
        let made = self.build(|ids| invoice(ids, customer, at, vec![line("fee", "10.00", at)]));
        self.customer(customer.key, |tx, _| tx.invoices().issue(made.clone()));
        made.id
    }

    fn pay(&self, customer: &Customer, payment: &Payment) -> Result<(), Error> {
        self.try_customer(customer.key, |tx, _| tx.invoices().add_payment(customer.key, payment))
    }

    /// The reversal of a payment, that takes back what it credited.
    fn reversal(&self, of: &Payment) -> Payment {
        let id = self.build(Ids::next);
        Payment { id, kind: PaymentKind::Reversal, reverses: Some(of.id), reference: None, ..of.clone() }
    }
}

fn paid_of(invoice: &Invoice) -> (String, PaymentStatus, String) {
    let text = |amount| crate::decimal::plain(amount);
    (text(&invoice.amount_paid), invoice.payment_status, text(&invoice.amount_due()))
}

pub(super) fn keeps_every_field(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let credit = tenant.new_credit(&acme, "0.000000000000001", acme.created_at).credit().id;
    let [first, second] = [(); 2].map(|()| tenant.new_debt(&acme));
    let full = Payment {
        amount: decimal("10.000000000000001"),
        credited: decimal("0.000000000000001"),
        credit: Some(credit),
        at: acme.created_at - Duration::days(400),
        method: Some("bank".to_owned()),
        reference: Some("line 7".to_owned()),
        reason: Some("none".to_owned()),
        ..tenant.build(|ids| payment(ids, second, "1", acme.created_at))
    };
    let bare = Payment { reference: None, ..tenant.build(|ids| payment(ids, first, "1", acme.created_at)) };
    let back = Payment { credited: BigDecimal::zero(), ..tenant.reversal(&full) };
    let returned = Payment {
        id: tenant.build(Ids::next),
        kind: PaymentKind::Returned,
        reverses: None,
        amount: full.credited.clone(),
        credited: full.credited.clone(),
        ..back.clone()
    };
    let entries = [full, bare, back, returned];
    for entry in &entries {
        tenant.pay(&acme, entry).expect("noted");
    }
    assert_eq!(tenant.look(|tx, _| tx.invoices().list_payments(acme.key, None)), entries, "in the order of noting");
    let of_second = [entries[0].clone(), entries[2].clone(), entries[3].clone()];
    assert_eq!(tenant.look(|tx, _| tx.invoices().list_payments(acme.key, Some(second))), of_second);
    let other = tenant.new_customer("other");
    assert_eq!(tenant.look(|tx, _| tx.invoices().list_payments(other.key, None)), [], "of another customer");
}

pub(super) fn moves_what_is_paid(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let id = tenant.new_debt(&acme);
    let credit = tenant.new_credit(&acme, "2", acme.created_at).credit().id;
    let part = tenant.build(|ids| payment(ids, id, "4", acme.created_at));
    let rest = Payment {
        credited: decimal("2"),
        credit: Some(credit),
        ..tenant.build(|ids| payment(ids, id, "8", acme.created_at))
    };
    // What the credit has paid for others stays out when its payment is taken back.
    let back = Payment { credited: decimal("0.5"), ..tenant.reversal(&rest) };
    let none = tenant.reversal(&part);
    let returned = Payment {
        id: tenant.build(Ids::next),
        kind: PaymentKind::Returned,
        reverses: None,
        amount: decimal("1.5"),
        credited: decimal("1.5"),
        ..back.clone()
    };
    #[rustfmt::skip]
    let steps = [
        // entry, amount paid, status,                amount due, why
        (&part,   "4",         PaymentStatus::Unpaid, "6",        "a part"),
        (&rest,   "10",        PaymentStatus::Paid,   "0",        "more than the rest"),
        (&back,   "2.5",       PaymentStatus::Unpaid, "7.5",      "the rest comes back, and with it what was spent of the credit"),
        (&none,   "-1.5",      PaymentStatus::Unpaid, "11.5",     "nothing is paid"),
        (&returned, "0",       PaymentStatus::Unpaid, "10",       "what was spent came back"),
    ];
    for (entry, paid, status, due, why) in steps {
        tenant.pay(&acme, entry).expect(why);
        let stored = tenant.look(|tx, _| tx.invoices().get(id));
        assert_eq!(paid_of(&stored), (paid.to_owned(), status, due.to_owned()), "{why}");
        let ledger = PaymentLedger::from(tenant.look(|tx, _| tx.invoices().list_payments(acme.key, Some(id))));
        assert_eq!(ledger.settled(), stored.amount_paid, "{why}");
        let owed = tenant.look(|tx, _| tx.invoices().due_of(&[acme.key]));
        let owed = owed.get(&acme.key).and_then(|by_currency| by_currency.get("USD")).cloned();
        assert_eq!(owed, (status == PaymentStatus::Unpaid).then(|| decimal(due)), "{why}: what the customer owes");
    }
}

pub(super) fn refuses_what_was_noted(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let [id, other] = [(); 2].map(|()| tenant.new_debt(&acme));
    let first =
        Payment { method: Some("bank".to_owned()), ..tenant.build(|ids| payment(ids, id, "3", acme.created_at)) };
    let again = Payment { id: tenant.build(Ids::next), ..first.clone() };
    let [back, twice] = [(); 2].map(|()| tenant.reversal(&first));
    tenant.pay(&acme, &first).expect("noted");
    let is_known = |result: Result<(), Error>| matches!(result, Err(Error::Refused(Refusal::DuplicateResource(_))));
    assert!(is_known(tenant.pay(&acme, &again)), "a bank's file that comes twice counts once");
    let ways = [
        Payment { id: tenant.build(Ids::next), method: None, ..first.clone() },
        Payment { id: tenant.build(Ids::next), method: Some("card".to_owned()), ..first.clone() },
        Payment { id: tenant.build(Ids::next), invoice: other, ..first.clone() },
    ];
    for way in &ways {
        tenant.pay(&acme, way).expect("another method or invoice");
    }
    tenant.pay(&acme, &back).expect("reversed");
    assert_eq!(tenant.pay(&acme, &twice), Err(Refusal::PaymentReversed.into()));
    assert!(is_known(tenant.pay(&acme, &again)), "nor once it was reversed");
    let absent =
        Payment { invoice: tenant.build(Ids::next), ..tenant.build(|ids| payment(ids, id, "1", acme.created_at)) };
    assert_eq!(tenant.pay(&acme, &absent), Err(Error::NotFound(Noun::Invoice)));
    let noted = tenant.look(|tx, _| tx.invoices().list_payments(acme.key, None));
    assert_eq!(noted.len(), 5, "what was refused left nothing");
}

pub(super) fn refuses_a_voided_invoice(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let id = tenant.new_debt(&acme);
    tenant.customer(acme.key, |tx, now| {
        let mut invoice = tx.invoices().get(id)?;
        (invoice.payment_status, invoice.voided_at) = (PaymentStatus::Voided, Some(now));
        tx.invoices().update(&invoice)
    });
    let late = tenant.build(|ids| payment(ids, id, "1", acme.created_at));
    assert_eq!(tenant.pay(&acme, &late), Err(Refusal::InvoiceVoided.into()));
    let stored = tenant.look(|tx, _| tx.invoices().get(id));
    assert_eq!(paid_of(&stored), ("0".to_owned(), PaymentStatus::Voided, "0".to_owned()), "it stays voided");
    assert_eq!(tenant.look(|tx, _| tx.invoices().list_payments(acme.key, None)), []);
}

pub(super) fn is_noted_once(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let id = tenant.new_debt(&acme);
    let (store, scope) = (harness.store, Scope::Customer(tenant.id, acme.key));
    let template = tenant.build(|ids| payment(ids, id, "1", acme.created_at));
    let pay = || {
        store.run_for(&scope, |tx, _| {
            let ledger = PaymentLedger::from(tx.invoices().list_payments(acme.key, Some(id))?);
            if ledger.settled() >= decimal("5") {
                return Ok(0);
            }
            let entry = Payment { id: tx.new_uuid().into(), reference: None, ..template.clone() };
            tx.invoices().add_payment(acme.key, &entry)?;
            Ok(1)
        })
    };
    let noted: u32 = thread::scope(|threads| {
        let runs: Vec<_> = (0..8).map(|_| threads.spawn(|| pay().expect("a transaction"))).collect();
        runs.into_iter().map(|run| run.join().expect("a thread")).sum()
    });
    assert_eq!(noted, 5, "eight payments want to be among the first five");
    assert_eq!(tenant.look(|tx, _| tx.invoices().get(id)).amount_paid, decimal("5"));
}
