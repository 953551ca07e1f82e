//! What is done by pages is done once, however often its form is sent.

use std::thread;

use billing_domain::user::Role;
use serde_json::json;

use super::{Browser, hidden, token, user};
use crate::support::{Field, World, ago};

/// A world with a customer who has a plan and an unpaid invoice, and a user of finance: subscription and invoice.
fn world() -> (World, String, String) {
    let world = World::new();
    let plan = world.plan(&world.metric());
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": ago(time::Duration::days(1))});
    let subscription = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
    let invoice = world.get("/api/invoices/").ok(200)[0].id("invoice_id");
    user(&world, "finance@acme.example", world.organization, Role::Finance);
    (world, subscription, invoice)
}

/// Opens a form and sends it with these fields, twice at once and once more: as double clicks and reloads do. All answers.
fn send_thrice(world: &World, browser: &Browser, path: &str, fields: &[(&str, &str)]) -> Vec<(u16, String)> {
    let page = browser.get(path);
    assert_eq!(page.status, 200, "{}", page.text);
    let (token, once) = (token(&page), hidden(&page, "once"));
    let mut all = vec![("form_token", token.as_str()), ("once", once.as_str())];
    all.extend_from_slice(fields);
    let all = &all;
    let cookies = browser.cookies.borrow().clone();
    let send = || {
        let browser = Browser::new(world);
        browser.cookies.borrow_mut().clone_from(&cookies);
        let answer = browser.post(path, all);
        (answer.status, answer.header("location").to_owned())
    };
    let mut answers: Vec<_> = thread::scope(|scope| {
        let twins: Vec<_> = (0..2).map(|_| scope.spawn(send)).collect();
        twins.into_iter().map(|twin| twin.join().expect("an answer")).collect()
    });
    answers.push(send());
    answers
}

#[test]
fn an_invoice_is_voided_once() {
    let (world, _, invoice) = world();
    let finance = Browser::signed_in(&world, "finance@acme.example");
    let path = format!("/console/invoices/{invoice}/");
    let answers = send_thrice(&world, &finance, &format!("{path}void/"), &[]);
    assert_eq!(answers, vec![(303, path.clone()); 3]);
    let page = finance.get(&path);
    assert!(page.text.contains("voided") && !page.text.contains("/void/\""), "{}", page.text);
    assert_eq!(world.get(&format!("/api/invoices/{invoice}/")).ok(200)["payment_status"], "voided");
    let again = finance.get(&format!("{path}void/"));
    let fields = [("form_token", token(&again)), ("once", hidden(&again, "once"))];
    let refused = finance.post(&format!("{path}void/"), &fields.each_ref().map(|(a, b)| (*a, b.as_str())));
    assert_eq!(refused.status, 409, "another form is another wish, and is refused: {}", refused.text);
}

#[test]
fn a_payment_is_noted_once() {
    let (world, _, invoice) = world();
    let finance = Browser::signed_in(&world, "finance@acme.example");
    let path = format!("/console/invoices/{invoice}/");
    let fields = [("amount", "4.99"), ("method", "bank"), ("reference", "RF 18 <b>")];
    let answers = send_thrice(&world, &finance, &format!("{path}payments/"), &fields);
    assert_eq!(answers, vec![(303, path.clone()); 3]);
    let payments = world.get(&format!("/api/invoices/{invoice}/payments/")).ok(200);
    assert_eq!(payments.as_array().map(Vec::len), Some(1), "{payments}");
    assert_eq!(payments[0]["amount"].to_string(), "4.99");
    let page = finance.get(&path);
    assert!(page.text.contains("4.99") && page.text.contains("RF 18 &lt;b&gt;"), "{}", page.text);
    let form = finance.get(&format!("{path}payments/"));
    for amount in ["", "-1", "x", "1e999999999"] {
        let fields = [("form_token", token(&form)), ("once", hidden(&form, "once")), ("amount", amount.to_owned())];
        let refused = finance.post(&format!("{path}payments/"), &fields.each_ref().map(|(a, b)| (*a, b.as_str())));
        assert_eq!(refused.status, 400, "{amount}: {}", refused.text);
    }
}

#[test]
fn a_subscription_is_cancelled_once() {
    let (world, subscription, _) = world();
    let finance = Browser::signed_in(&world, "finance@acme.example");
    let path = format!("/console/subscriptions/{subscription}/cancel/");
    let fields =
        [("flat_fee_behavior", "refund"), ("usage_behavior", "bill_none"), ("invoicing_behavior", "invoice_now")];
    let page = finance.get(&path);
    assert!(!page.text.contains("name=\"once\""), "it is looked at before it is done: {}", page.text);
    let looked_at =
        format!("{path}?preview=1&flat_fee_behavior=refund&usage_behavior=bill_none&invoicing_behavior=invoice_now");
    let answers = send_thrice(&world, &finance, &looked_at, &fields);
    assert_eq!(answers, vec![(303, "/console/customers/acme/".to_owned()); 3]);
    let active = world.get("/api/subscriptions/?customer_id=acme").ok(200);
    assert_eq!(active.as_array().map(Vec::len), Some(0), "{active}");
}
