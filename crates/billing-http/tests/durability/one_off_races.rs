//! What is charged once is billed or taken away, and never both.

use std::thread;
use std::time::Duration;

use serde_json::json;

use super::races::{Ring, assert_both, handicap};
use super::renewal_races::{Racer, assert_books_balance, race};
use crate::support::{Answer, Field, event, now};

#[test]
fn removal_against_bill() {
    let ring = Ring::new();
    let (turn, removed) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    ring.rounds(|customer| {
        let subscription = ring.subscription(customer, &ring.plan);
        let calls: Vec<_> = (0..15).map(|n| event(customer, &format!("{customer} {n}"), &now())).collect();
        assert_eq!(ring.world.post("/api/track/", &json!({"batch": calls})).ok(201)["success"], "all");
        let lines = format!("/api/customers/{customer}/one_off_lines/");
        let line = ring.world.post(&lines, &json!({"name": "set-up", "amount": 7})).ok(201).id("one_off_line_id");
        // The invoice of what was used until now takes what waits.
        let cancel = format!("/api/subscriptions/{subscription}/cancel/");
        let cancel_body = json!({"usage_behavior": "bill_full", "invoicing_behavior": "invoice_now"}).to_string();
        let remove = format!("{lines}{line}/");
        // Of the two sides now the one and now the other begins.
        turn.set(turn.get() + 1);
        let handicap = handicap(turn.get());
        let racers = (0..8).map(|i: usize| -> Racer<'_> {
            let ring = &ring;
            let (cancel, cancel_body, remove) = (&cancel, &cancel_body, &remove);
            let (cancels, waits) = (i < 4, (i < 4) == (turn.get() % 2 == 0));
            Box::new(move || {
                thread::sleep(if waits { handicap } else { Duration::ZERO });
                Some(match cancels {
                    true => ring.call(i, "POST", cancel, cancel_body),
                    false => ring.call(i, "DELETE", remove, ""),
                })
            })
        });
        let answers = race(racers.collect());
        let wins_of = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
        let (cancelled, taken_away) = (wins_of(200), wins_of(204));
        let refused: Vec<&Answer> = answers.iter().filter(|answer| answer.status >= 300).collect();
        for refused in &refused {
            let known = [(404, "not_found"), (409, "one_off_line_billed"), (409, "invalid_state")];
            assert!(known.contains(&(refused.status, refused.error().as_str())), "{refused:#?}");
        }
        let all = ring.books(customer).invoices;
        let named = all.iter().flat_map(|invoice| invoice["line_items"].as_array().expect("lines"));
        let billed = named.filter(|line| line["name"] == "set-up").count();
        assert_eq!((cancelled, taken_away + billed), (1, 1), "taken away or billed, once: {answers:#?} {all:#?}");
        removed.set(removed.get() + taken_away);
    });
    assert_both(removed.get());
    assert_books_balance(&ring);
}
