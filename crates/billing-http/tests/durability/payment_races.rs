//! Payments that race: each counts once or not at all, and what came is in the books.

use std::cell::Cell;

use bigdecimal::{BigDecimal, Zero};
use serde_json::{Value, json};

use super::races::{Ring, Shot, assert_both, both, handicap, number, only_winner, shot, won};
use crate::support::{Answer, Field};

/// The customer's only invoice, of 9.
fn invoice(ring: &Ring, customer: &str) -> Value {
    let invoices = ring.list("invoices", customer);
    assert_eq!(invoices.len(), 1, "{invoices:#?}");
    invoices[0].clone()
}

fn pay(invoice: &Value, body: Value) -> Shot {
    shot(format!("/api/invoices/{}/payments/", invoice.id("invoice_id")), body)
}

fn payments(ring: &Ring, invoice: &Value) -> Vec<Value> {
    let path = format!("/api/invoices/{}/payments/", invoice.id("invoice_id"));
    ring.world.get(&path).ok(200).as_array().expect("a list").clone()
}

/// The answers to the one and to the other of [`both`].
fn apart(answers: Vec<Answer>) -> [Vec<Answer>; 2] {
    let (one, other): (Vec<_>, Vec<_>) = answers.into_iter().enumerate().partition(|(i, _)| i % 2 == 0);
    [one, other].map(|side| side.into_iter().map(|(_, answer)| answer).collect())
}

fn assert_told(answers: &[Answer], status: u16, code: &str) {
    for answer in answers.iter().filter(|answer| !won(answer)) {
        assert_eq!((answer.status, answer.error().as_str()), (status, code), "{}", answer.text);
    }
}

#[test]
fn payment_against_void() {
    let ring = Ring::new();
    let voids_won = Cell::new(0);
    ring.rounds(|customer| {
        ring.subscription(customer, &ring.plan);
        let unpaid = invoice(&ring, customer);
        let void = shot(format!("/api/invoices/{}/void/", unpaid.id("invoice_id")), json!({}));
        let [paid, voids] = apart(ring.race(&both(&pay(&unpaid, json!({"amount": 2})), &void)));
        assert_told(&paid, 409, "invalid_state");
        assert_told(&voids, 409, "invalid_state");
        let (noted, voided) = [&paid, &voids].map(|side| side.iter().filter(|answer| won(answer)).count()).into();
        let after = invoice(&ring, customer);
        let due = if voided == 1 { BigDecimal::zero() } else { BigDecimal::from(9 - 2 * noted as i64) };
        assert_eq!((voided, noted > 0), (usize::from(noted == 0), voided == 0), "either, and never both");
        voids_won.set(voids_won.get() + voided);
        assert_eq!((number(&after["amount_due"]), payments(&ring, &unpaid).len()), (due, noted));
        assert_eq!(after["payment_status"], if voided == 1 { "voided" } else { "unpaid" });
        ring.books(customer);
    });
    assert_both(voids_won.get());
}

#[test]
fn payment_against_payment() {
    let ring = Ring::new();
    ring.rounds(|customer| {
        ring.subscription(customer, &ring.plan);
        let unpaid = invoice(&ring, customer);
        let [fives, sevens] = [5, 7].map(|amount| pay(&unpaid, json!({"amount": amount})));
        let answers = ring.race(&both(&fives, &sevens));
        assert!(answers.iter().all(won), "each counts: {answers:#?}");
        let credits: BigDecimal = ring.books(customer).credits.iter().map(|credit| number(&credit["amount"])).sum();
        assert_eq!(
            credits,
            BigDecimal::from(4 * 5 + 4 * 7 - 9),
            "all that was too much is a credit, whatever the order"
        );
        assert_eq!(invoice(&ring, customer)["payment_status"], "paid");
    });
}

#[test]
fn a_bank_line_against_itself() {
    let ring = Ring::new();
    ring.rounds(|customer| {
        ring.subscription(customer, &ring.plan);
        let unpaid = invoice(&ring, customer);
        let body = json!({"amount": 4, "method": "bank", "reference": "line 1"});
        let mut by_number = body.clone();
        by_number["invoice_number"] = unpaid["invoice_number"].clone();
        let answers = ring.race(&both(&pay(&unpaid, body), &shot("/api/payments/", by_number)));
        only_winner(&answers, &[(400, "duplicate_resource")]);
        assert_eq!(number(&invoice(&ring, customer)["amount_due"]), BigDecimal::from(5), "it counts once");
    });
}

#[test]
fn reversal_against_drawdown() {
    let ring = Ring::new();
    let drawn = Cell::new(0);
    ring.rounds(|customer| {
        ring.subscription(customer, &ring.plan);
        let unpaid = invoice(&ring, customer);
        let noted = ring.world.post(&pay(&unpaid, json!({})).path, &json!({"amount": 14})).ok(201);
        let reverse = format!("{}{}/reverse/", pay(&unpaid, json!({})).path, noted.id("payment_id"));
        let body =
            json!({"customer_id": customer, "plan_id": ring.other_plan, "start_date": &crate::support::now()[..10]});
        // A reversal looks for its invoice first.
        let round: u32 = customer.trim_start_matches('c').parse().expect("the number of a round");
        let shots = both(&shot(reverse, json!({})), &shot("/api/subscriptions/", body));
        let [reversals, created] = apart(ring.race_handicapped(&shots, handicap(round)));
        only_winner(&reversals, &[(409, "invalid_state")]);
        only_winner(&created, &[(409, "overlapping_plans")]);
        // Whether the credit of 5 has paid for the second invoice or was taken back before: 18 are owed.
        let owed: BigDecimal =
            ring.list("invoices", customer).iter().map(|invoice| number(&invoice["amount_due"])).sum();
        assert_eq!(owed, BigDecimal::from(18));
        let credit = &ring.books(customer).credits[0];
        let changes = credit["drawdowns"].as_array().expect("a list");
        drawn.set(drawn.get() + usize::from(changes[0]["description"] == "Applied to an invoice"));
    });
    assert_both(drawn.get());
}
