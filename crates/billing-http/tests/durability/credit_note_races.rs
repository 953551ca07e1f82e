//! Credit notes that race: never more than a line charged, and never beside a void.

use std::cell::Cell;

use bigdecimal::BigDecimal;
use serde_json::{Value, json};

use super::races::{Ring, Shot, assert_both, both, number, only_winner, rounds, shot, won};
use crate::support::{Answer, Field};

/// The customer's only invoice, of 9.
fn invoice(ring: &Ring, customer: &str) -> Value {
    ring.list("invoices", customer).pop().expect("an invoice")
}

fn note(invoice: &Value, amount: u32) -> Shot {
    let line = json!({"line_id": invoice["line_items"][0]["line_id"], "amount": amount});
    let body = json!({"invoice_id": invoice["invoice_id"], "lines": [line], "reason": "down", "settlement": "balance"});
    shot("/api/credit_notes/", body)
}

#[test]
fn two_notes_on_one_line() {
    let ring = Ring::new();
    ring.rounds(|customer| {
        ring.subscription(customer, &ring.plan);
        let unpaid = invoice(&ring, customer);
        // Any two of them are more than the line.
        let answers = ring.race(&both(&note(&unpaid, 5), &note(&unpaid, 6)));
        only_winner(&answers, &[(400, "max_value")]);
        let after = invoice(&ring, customer);
        let taken = &after["credit_notes"];
        assert_eq!(taken.as_array().map(Vec::len), Some(1), "{after}");
        assert_eq!(number(&after["amount_due"]), BigDecimal::from(9) - number(&taken[0]["amount"]));
        ring.books(customer);
    });
    let listed = ring.world.get("/api/credit_notes/").ok(200);
    let mut numbers: Vec<u32> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|note| note.id("credit_note_number")[10..].parse().expect("a sequence"))
        .collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(1..=rounds()), "no gap, whoever lost");
}

#[test]
fn credit_note_against_void() {
    let ring = Ring::new();
    let voids_won = Cell::new(0_usize);
    ring.rounds(|customer| {
        ring.subscription(customer, &ring.plan);
        let unpaid = invoice(&ring, customer);
        let void = shot(format!("/api/invoices/{}/void/", unpaid.id("invoice_id")), json!({}));
        let answers = ring.race(&both(&note(&unpaid, 2), &void));
        let refused: Vec<&Answer> = answers.iter().filter(|answer| !won(answer)).collect();
        assert!(refused.iter().all(|answer| answer.status == 409 && answer.error() == "invalid_state"), "{refused:?}");
        let after = invoice(&ring, customer);
        let notes = after["credit_notes"].as_array().expect("a list").len();
        let is_voided = after["payment_status"] == "voided";
        assert_eq!(is_voided, notes == 0, "either, and never both: {after}");
        let due = if is_voided { 0 } else { 9 - 2 * notes };
        assert_eq!(number(&after["amount_due"]), BigDecimal::from(due as u64));
        voids_won.set(voids_won.get() + usize::from(is_voided));
        ring.books(customer);
    });
    assert_both(voids_won.get());
}
