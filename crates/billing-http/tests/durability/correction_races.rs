//! Corrections of events that race with what is made of the events: whoever comes first, the sum is the price of the true events.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bigdecimal::BigDecimal;
use serde_json::{Value, json};

use super::races::{Ring, assert_both, both, handicap, number, only_winner, shot, won};
use crate::support::{Answer, Field, event, now};

const CALLS: u64 = 10;
const VOIDED: u64 = 4;

/// A plan of a dollar a call: its metric and itself.
fn dollar_a_call(ring: &Ring) -> (String, String) {
    let metric = ring.world.get("/api/metrics/").ok(200)[0].id("metric_id");
    let tier = json!({"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1});
    let version = json!({"currency_code": "USD", "components": [{"metric_id": metric, "tiers": [tier]}]});
    let plan = json!({"plan_name": "Dollar", "plan_duration": "monthly", "initial_version": version});
    (metric, ring.world.post("/api/plans/", &plan).ok(201).id("plan_id"))
}

/// Ten calls of a customer, one after the other: their ids.
fn send_calls(ring: &Ring, customer: &str) -> Vec<String> {
    let ids: Vec<String> = (0..CALLS).map(|n| format!("{customer} {n}")).collect();
    let time = now();
    let batch: Vec<Value> = ids.iter().map(|id| event(customer, id, &time)).collect();
    assert_eq!(ring.world.post("/api/track/", &json!({"batch": batch})).ok(201)["success"], "all");
    ids
}

fn sum(documents: &[Value]) -> BigDecimal {
    documents.iter().map(|document| number(&document["amount"])).sum()
}

#[test]
fn amendment_against_bill() {
    let ring = Ring::new();
    let (_, plan) = dollar_a_call(&ring);
    let (bills_won, turn) = (Cell::new(0), Cell::new(0));
    ring.rounds(|customer| {
        let subscription = ring.subscription(customer, &plan);
        let ids = send_calls(&ring, customer);
        let cancel = shot(format!("/api/subscriptions/{subscription}/cancel/"), json!({"usage_behavior": "bill_full"}));
        let void = json!({"customer_id": customer, "idempotency_ids": &ids[..VOIDED as usize]});
        let void = shot("/api/events/void/", void);
        // Of the two sides now the one and now the other begins.
        turn.set(turn.get() + 1);
        let (shots, cancels_at) = match turn.get() % 2 {
            0 => (both(&cancel, &void), 0),
            _ => (both(&void, &cancel), 1),
        };
        let answers = ring.race_handicapped(&shots, handicap(turn.get()));
        let of_side = |side: usize| answers.iter().enumerate().filter(move |(i, _)| i % 2 == side);
        let cancels: Vec<Answer> = of_side(cancels_at).map(|(_, answer)| copy(answer)).collect();
        only_winner(&cancels, &[(409, "invalid_state")]);
        assert!(of_side(1 - cancels_at).all(|(_, answer)| won(answer)), "{answers:#?}");
        let books = ring.books(customer);
        let billed = sum(&books.invoices);
        let draft = ring.world.get(&format!("/api/customers/{customer}/draft_invoice/")).ok(200);
        let to_come = sum(draft["invoices"].as_array().expect("a list"));
        assert_eq!(&billed + &to_come, BigDecimal::from(CALLS - VOIDED), "{:#?} {draft:#}", books.invoices);
        let is_billed_first = billed == CALLS;
        assert!(is_billed_first || billed == CALLS - VOIDED, "all of them or none: {billed}");
        bills_won.set(bills_won.get() + usize::from(is_billed_first));
        let line = books.invoices[0]["line_items"][0].id("line_id");
        let listed = ring.world.get(&format!("/api/events/?line={line}")).ok(200);
        let listed = listed.as_array().map(Vec::len).unwrap_or_default();
        assert_eq!(BigDecimal::from(listed as u64), billed, "the line lists what it was counted of");
    });
    assert_both(bills_won.get());
}

fn copy(answer: &Answer) -> Answer {
    Answer { status: answer.status, headers: answer.headers.clone(), text: answer.text.clone() }
}

#[test]
fn void_against_access_check() {
    let ring = Ring::new();
    let (metric, plan) = dollar_a_call(&ring);
    ring.rounds(|customer| {
        ring.subscription(customer, &plan);
        let ids = send_calls(&ring, customer);
        let path = format!("/api/metric_access/?customer_id={customer}&metric_id={metric}");
        let (begun, done) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for turn in 0..2 {
                let (ring, begun, done, path) = (&ring, &begun, &done, &path);
                scope.spawn(move || {
                    while done.load(Ordering::SeqCst) < VOIDED {
                        let most = CALLS - done.load(Ordering::SeqCst);
                        let answer = ring.call(turn, "GET", path, "").ok(200);
                        let least = CALLS - begun.load(Ordering::SeqCst);
                        let used = answer["access_per_subscription"][0]["metric_usage"].as_u64().expect("a number");
                        assert!((least..=most).contains(&used), "{used} is not within {least} and {most}");
                    }
                });
            }
            for (n, id) in ids[..VOIDED as usize].iter().enumerate() {
                begun.fetch_add(1, Ordering::SeqCst);
                let body = json!({"customer_id": customer, "idempotency_ids": [id]}).to_string();
                let answer = ring.call(n, "POST", "/api/events/void/", &body);
                if !won(&answer) {
                    // Whoever reads comes to an end.
                    done.store(VOIDED, Ordering::SeqCst);
                }
                answer.ok(200);
                done.fetch_add(1, Ordering::SeqCst);
            }
        });
    });
}
