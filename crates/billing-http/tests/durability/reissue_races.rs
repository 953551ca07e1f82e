//! An invoice that is issued anew while billing runs by, while it is paid and while it is issued anew already: once, and nothing twice.

use std::cell::Cell;

use bigdecimal::BigDecimal;
use serde_json::{Value, json};

use super::races::{Ring, assert_both, both, number, only_winner, rounds, shot, won};
use super::renewal_races::{
    Racer, all_subscriptions, assert_books_balance, billers, race, set_clock, subscriber, two_stores,
};
use crate::support::Field;

/// What a customer's invoices that stand charge, before credits.
fn standing(ring: &Ring, customer: &str) -> BigDecimal {
    let invoices = ring.list("invoices", customer);
    invoices
        .iter()
        .filter(|invoice| invoice["payment_status"] != "voided")
        .map(|invoice| number(&invoice["amount"]))
        .sum()
}

fn void(invoice: &Value) -> String {
    format!("/api/invoices/{}/void/", invoice.id("invoice_id"))
}

#[test]
fn reissue_against_billing_run() {
    let ring = Ring::new();
    let stores = two_stores(&ring);
    for round in 0..rounds() {
        let customer = format!("c{round}");
        let clock = subscriber(&ring, &customer);
        let first = ring.list("invoices", &customer).pop().expect("the fee of January");
        set_clock(&ring, &clock, "2020-05-20");
        let path = void(&first);
        let reissuers = (0..4).map(|i| -> Racer<'_> {
            let (ring, path) = (&ring, &path);
            Box::new(move || Some(ring.call(i, "POST", path, r#"{"rebill": true}"#)))
        });
        let answers = race(billers(&ring, &stores, &customer).chain(reissuers).collect());
        only_winner(&answers, &[(409, "invalid_state"), (409, "catching_up")]);
        race(billers(&ring, &stores, &customer).collect());
        assert_eq!(all_subscriptions(&ring, &customer).len(), 5, "each month once");
        let invoices = ring.list("invoices", &customer);
        let anew: Vec<&Value> = invoices.iter().filter(|invoice| invoice["replaces"] == first["invoice_id"]).collect();
        assert_eq!(anew.len(), 1, "{invoices:#?}");
        assert_eq!(
            (invoices.len(), standing(&ring, &customer)),
            (6, BigDecimal::new(4505.into(), 2)),
            "five fees, and five calls"
        );
    }
    assert_books_balance(&ring);
}

#[test]
fn reissue_against_payment() {
    let ring = Ring::new();
    let reissued = Cell::new(0_usize);
    ring.rounds(|customer| {
        ring.subscription(customer, &ring.plan);
        let unpaid = ring.list("invoices", customer).pop().expect("an invoice");
        let pay = shot(format!("/api/invoices/{}/payments/", unpaid.id("invoice_id")), json!({"amount": 2}));
        let answers = ring.race(&both(&pay, &shot(void(&unpaid), json!({"rebill": true}))));
        let refused = answers.iter().filter(|answer| !won(answer));
        refused.for_each(|answer| assert_eq!((answer.status, answer.error().as_str()), (409, "invalid_state")));
        let after = ring.list("invoices", customer);
        let is_anew = after.len() == 2;
        assert_eq!(is_anew, after.iter().any(|invoice| invoice["payment_status"] == "voided"), "{after:#?}");
        assert_eq!(standing(&ring, customer), BigDecimal::from(9), "either way one fee is owed");
        reissued.set(reissued.get() + usize::from(is_anew));
        ring.books(customer);
    });
    assert_both(reissued.get());
}
