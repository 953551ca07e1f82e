//! A customer's statement over HTTP: whatever meets in it, it goes on from entry to entry and ends at what is due.

use std::collections::BTreeMap;
use std::str::FromStr;

use bigdecimal::{BigDecimal, Zero};
use serde_json::{Value, json};

use crate::support::{Field, World};

const PATH: &str = "/api/customers/acme/statement/";

fn number(value: &Value) -> BigDecimal {
    BigDecimal::from_str(&value.to_string()).expect("a number")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// Two months with tax: an overpayment that pays for a part of a switch, and bounces; a credit in another currency, and two voids.
fn acme(world: &World) -> String {
    world.write("PATCH", "/api/organization/", br#"{"tax_rate": "8.25"}"#).ok(200);
    let metric = world.metric();
    let (plan, other_plan) = (world.plan(&metric), world.plan(&metric));
    let clock = world.clock("2024-04-01");
    world.customer_at("acme", &clock);
    let euros = json!({"customer_id": "acme", "amount": "5.01", "currency_code": "EUR"});
    world.post("/api/credits/", &euros).ok(201);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-04-01"});
    let subscription = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
    world.advance(&clock, "2024-04-05");
    let first = world.get("/api/invoices/?customer_id=acme").ok(200)[0].id("invoice_id");
    let payments = format!("/api/invoices/{first}/payments/");
    let over = world.post(&payments, &json!({"amount": 12})).ok(201).id("payment_id");
    world.advance(&clock, "2024-04-16");
    let switch = json!({"switch_plan_id": other_plan});
    world.post(&format!("/api/subscriptions/{subscription}/switch_plan/"), &switch).ok(200);
    world.advance(&clock, "2024-05-03");
    world.post(&format!("{payments}{over}/reverse/"), &json!({"reason": "bounced"})).ok(200);
    world.advance(&clock, "2024-05-04");
    for invoice in list(&world.get("/api/invoices/?customer_id=acme&status=unpaid").ok(200)) {
        let id = invoice.id("invoice_id");
        if id != first {
            world.post(&format!("/api/invoices/{id}/void/"), &json!({})).ok(200);
        }
    }
    clock
}

#[test]
fn a_statement_ends_at_what_is_due_and_what_is_left() {
    let world = World::new();
    acme(&world);
    let statement = world.get(PATH).ok(200);
    let mut sums: BTreeMap<String, [BigDecimal; 2]> = BTreeMap::new();
    for entry in list(&statement["entries"]) {
        let [due, credit] = sums.entry(entry.id("currency_code")).or_default();
        *due += number(&entry["due_change"]);
        *credit += number(&entry["credit_change"]);
        assert_eq!([&number(&entry["due"]), &number(&entry["credit"])], [&*due, &*credit], "{entry}");
        assert_eq!(number(&entry["balance"]), &*due - &*credit, "{entry}");
    }
    let times: Vec<_> = list(&statement["entries"]).iter().map(|entry| entry.id("at")).collect();
    assert!(times.is_sorted(), "{times:?}");
    let kinds: Vec<_> = list(&statement["entries"]).iter().map(|entry| entry.id("kind")).collect();
    for kind in
        ["invoice", "void", "payment", "reversal", "credit_granted", "credit_drawn", "credit_restored", "returned"]
    {
        assert!(kinds.contains(&kind.to_owned()), "{kind} is one of {kinds:?}");
    }
    let total = |path: &str, field: &str, code: &str| -> BigDecimal {
        let all = world.get(path).ok(200);
        let of_code = |item: &&Value| item["currency"]["code"] == code;
        list(&all).iter().filter(of_code).map(|item| number(&item[field])).sum()
    };
    let balances = list(&statement["balances"]);
    assert_eq!(balances.iter().map(|balance| balance["currency"].id("code")).collect::<Vec<_>>(), ["EUR", "USD"]);
    for balance in balances {
        let code = balance["currency"].id("code");
        assert_eq!(number(&balance["closing_due"]), total("/api/invoices/?customer_id=acme", "amount_due", &code));
        assert_eq!(
            number(&balance["closing_credit"]),
            total("/api/credits/?customer_id=acme", "amount_remaining", &code)
        );
        assert_eq!(number(&balance["closing_balance"]), &sums[&code][0] - &sums[&code][1], "{code}");
        assert_eq!((&balance["opening_due"], &balance["opening_credit"]), (&json!(0), &json!(0)), "{code}");
    }
    assert_eq!(balances[0]["closing_balance"], json!(-5.01), "one currency does not pay for another");
}

#[test]
fn a_statement_of_a_time_opens_as_the_one_before_closed() {
    let world = World::new();
    acme(&world);
    let whole = world.get(PATH).ok(200);
    for (last, next) in [("2024-03-31", "2024-04-01"), ("2024-04-05", "2024-04-06"), ("2024-05-03", "2024-05-04")] {
        let before = world.get(&format!("{PATH}?to={last}")).ok(200);
        let behind = world.get(&format!("{PATH}?from={next}")).ok(200);
        let both = [list(&before["entries"]), list(&behind["entries"])].concat();
        assert_eq!(json!(both), whole["entries"], "{last}: a date ends with its day");
        let of = |statement: &Value, code: &str, field: &str| {
            let balances = list(&statement["balances"]).iter();
            let found = balances.clone().find(|balance| balance["currency"]["code"] == code);
            found.map_or_else(BigDecimal::zero, |balance| number(&balance[field]))
        };
        for (code, sum) in [("EUR", "due"), ("EUR", "credit"), ("USD", "due"), ("USD", "credit")] {
            let (opening, closing) = (format!("opening_{sum}"), format!("closing_{sum}"));
            assert_eq!(of(&before, code, &closing), of(&behind, code, &opening), "{last}: {sum} in {code}");
            assert_eq!(of(&behind, code, &closing), of(&whole, code, &closing), "{last}: {sum} in {code}");
        }
    }
    let exact = world.get(&format!("{PATH}?from=2024-04-05T00:00:00Z&to=2024-04-05T00:00:00.000001Z")).ok(200);
    let kinds: Vec<_> = list(&exact["entries"]).iter().map(|entry| entry.id("kind")).collect();
    assert_eq!(kinds, ["credit_granted", "payment"], "the overpayment of that instant");
}

#[test]
fn nobody_reads_another_tenants_statement() {
    let world = World::new();
    acme(&world);
    let theirs = world.other_key();
    let answer = world.send("GET", PATH, &[("X-API-KEY", theirs.as_str())], b"");
    assert_eq!((answer.status, answer.error()), (404, "not_found".to_owned()));
    let absent = world.get("/api/customers/nobody/statement/");
    assert_eq!((absent.status, absent.error()), (404, "not_found".to_owned()));
    #[rustfmt::skip]
    let cases = [
        // query,                         field,  code,        why
        ("from=2024-04-02&to=2024-03-31", "to",   "min_value", "the other way round"),
        ("from=april",                    "from", "invalid",   "no date"),
    ];
    for (query, field, code, why) in cases {
        assert_eq!(world.get(&format!("{PATH}?{query}")).faults(), [(field.to_owned(), code.to_owned())], "{why}");
    }
}
