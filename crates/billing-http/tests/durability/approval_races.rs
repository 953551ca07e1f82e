//! An approved call that races for the books it changes: it is done as it was approved, or not at all, and whoever asks is told which.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::thread;

use bigdecimal::{BigDecimal, Zero};
use billing_domain::user::Role;
use serde_json::{Value, json};

use super::races::{Balance, Ring, assert_both, number, won};
use super::renewal_races::{Racer, assert_books_balance, race};
use crate::console::{Browser, token, user};
use crate::support::{Answer, Field};

const BOB: &str = "bob@acme.example";

/// Approves as somebody in whose browser these cookies are, and who has the form open.
fn approve(ring: &Ring, cookies: &BTreeMap<String, String>, token: &str, approval: &str) -> Answer {
    let browser = Browser::new(&ring.world);
    browser.cookies.replace(cookies.clone());
    browser.post(&format!("/console/approvals/{approval}/"), &[("form_token", token), ("once", "1")])
}

fn look(ring: &Ring, approval: &str) -> Value {
    ring.world.get(&format!("/api/approvals/{approval}/")).ok(200)
}

#[test]
fn approved_void_against_payment() {
    let ring = Ring::new();
    ring.world.write("PATCH", "/api/organization/", br#"{"approval_limit": 1}"#).ok(200);
    user(&ring.world, BOB, ring.world.organization, Role::Finance);
    let bob = Browser::signed_in(&ring.world, BOB);
    let form = token(&bob.get("/console/"));
    let cookies = bob.cookies.take();
    let (voided, balance) = (Cell::new(0_usize), Balance::new());
    ring.rounds(|customer| {
        ring.subscription(customer, &ring.plan);
        let unpaid = ring.list("invoices", customer).pop().expect("the fee").id("invoice_id");
        let void = ring.call(0, "POST", &format!("/api/invoices/{unpaid}/void/"), "{}");
        let approval = void.ok(202).id("approval_id");
        let (approval_waits, payment_waits) = balance.pauses();
        let racers = (0..4_usize).map(|i| -> Racer<'_> {
            let (ring, cookies, form, approval, unpaid) = (&ring, &cookies, &form, &approval, &unpaid);
            let approves = i < 2;
            Box::new(move || {
                thread::sleep(if approves { approval_waits } else { payment_waits });
                if approves {
                    let status = approve(ring, cookies, form, approval).status;
                    assert!([303, 409].contains(&status), "{status}");
                    return None;
                }
                Some(ring.call(
                    i,
                    "POST",
                    &format!("/api/invoices/{unpaid}/payments/"),
                    &json!({"amount": 2}).to_string(),
                ))
            })
        });
        let payments = race(racers.collect());
        // A busy machine may have said to try again.
        while look(&ring, &approval)["state"] == "approved" {
            approve(&ring, &cookies, &form, &approval);
        }
        let noted = payments.iter().filter(|answer| won(answer)).count();
        let refused = payments.iter().filter(|answer| !won(answer));
        refused.for_each(|answer| assert_eq!((answer.status, answer.error().as_str()), (409, "invalid_state")));
        let (decided, after) = (look(&ring, &approval), ring.list("invoices", customer).pop().expect("an invoice"));
        let is_voided = after["payment_status"] == "voided";
        let expected = if is_voided { (json!("done"), Value::Null) } else { (json!("failed"), json!("invalid_state")) };
        assert_eq!((&decided["state"], &decided["outcome_code"]), (&expected.0, &expected.1), "{decided}");
        assert_eq!(is_voided, noted == 0, "either, and never both: {payments:#?}");
        let due = if is_voided { BigDecimal::zero() } else { BigDecimal::from(9 - 2 * noted as i64) };
        assert_eq!(number(&after["amount_due"]), due);
        balance.note(is_voided);
        voided.set(voided.get() + usize::from(is_voided));
        ring.books(customer);
    });
    assert_both(voided.get());
    assert_books_balance(&ring);
}
