//! The auditor: clean on an honest service's books, and blind to no corruption.

use std::slice;

use billing_audit::{AuditError, CHECKS, audit, audit_by, audit_database, audit_organization};
use billing_domain::id::OrganizationId;
use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::receiver::until;
use crate::support::{Field, World, event, plan_body};

/// A version with a fee, calls that start again each week, prepaid seats, and the latest of them that is large, ten
/// percent off.
fn version(fee: u32, [calls, seats, large]: [&str; 3]) -> Value {
    json!({
        "currency_code": "USD",
        "recurring_charges": [{"name": "base", "amount": fee, "charge_timing": "in_advance"}],
        "price_adjustment": {"price_adjustment_name": "rebate", "price_adjustment_type": "percentage", "price_adjustment_amount": -10},
        "components": [
            {"metric_id": calls, "reset_interval_unit": "week", "reset_interval_count": 1,
                "invoicing_interval_unit": "week", "invoicing_interval_count": 1, "tiers": [
                {"type": "free", "range_start": 0, "range_end": 2},
                {"type": "per_unit", "range_start": 2, "cost_per_batch": "0.35", "metric_units_per_batch": 3, "batch_rounding_type": "round_up"}]},
            {"metric_id": seats, "prepaid_charge": {"charge_behavior": "prorate", "units": 4}, "tiers": [
                {"type": "flat", "range_start": 0, "range_end": 5, "cost_per_batch": 2},
                {"type": "per_unit", "range_start": 5, "cost_per_batch": 1, "metric_units_per_batch": 7}]},
            {"metric_id": large, "tiers": [
                {"type": "per_unit", "range_start": 0, "cost_per_batch": 3, "metric_units_per_batch": 1}]},
        ],
    })
}

fn subscribe(world: &World, customer: &str, plan: &str, start: &str) -> String {
    let body = json!({"customer_id": customer, "plan_id": plan, "start_date": start});
    world.post("/api/subscriptions/", &body).ok(200).id("subscription_id")
}

/// Four months of two customers by a clock, with tax, credits, late events, a switch and a cancellation, and one
/// customer in real time.
fn books() -> World {
    let world = World::new();
    world.write("PATCH", "/api/organization/", br#"{"tax_rate": "8.25"}"#).ok(200);
    let calls = world.metric();
    let seats = json!({"metric_name": "seats", "event_name": "seat", "aggregation_type": "sum", "property_name": "n"});
    let seats = world.post("/api/metrics/", &seats).ok(201).id("metric_id");
    let large = json!({"metric_name": "large", "event_name": "seat", "aggregation_type": "latest", "property_name": "n",
        "numeric_filters": [{"property_name": "n", "operator": "gt", "comparison_value": 1}],
        "categorical_filters": [{"property_name": "region", "operator": "isnotin", "comparison_value": ["us"]}]});
    let large = world.post("/api/metrics/", &large).ok(201).id("metric_id");
    let plan = |name: &str, fee| {
        let version = version(fee, [&calls, &seats, &large]);
        let body = json!({"plan_name": name, "plan_duration": "monthly", "initial_version": version});
        world.post("/api/plans/", &body).ok(201).id("plan_id")
    };
    let (small, large) = (plan("Small", 30), plan("Large", 70));
    let alert = json!({"kind": "metric_usage", "metric_id": calls, "threshold": 3});
    world.post("/api/usage_alerts/", &alert).ok(201);
    let clock = world.clock("2024-01-31");
    for customer in ["stays", "leaves"] {
        world.customer_at(customer, &clock);
        let credit = json!({"customer_id": customer, "amount": 12.5, "currency_code": "USD"});
        world.post("/api/credits/", &credit).ok(201);
    }
    let [stays, leaves] = ["stays", "leaves"].map(|customer| subscribe(&world, customer, &small, "2024-01-31"));
    let mut sent = 0;
    let mut track = |customer: &str, count: usize, time: &str| {
        let events = (0..count).flat_map(|_| {
            sent += 2;
            let call = event(customer, &format!("e{sent}"), time);
            let seat = json!({"customer_id": customer, "event_name": "seat", "idempotency_id": format!("e{}", sent + 1),
                "time_created": time, "properties": {"n": "1.5"}});
            [call, seat]
        });
        let answer = world.post("/api/track/", &json!({"batch": events.collect::<Vec<_>>()})).ok(201);
        assert_eq!(answer["success"], "all", "{answer}");
    };
    for (now, earlier) in [("2024-02-20", "2024-02-03"), ("2024-03-10", "2024-02-25"), ("2024-04-05", "2024-03-30")] {
        world.advance(&clock, now);
        for customer in ["stays", "leaves"] {
            track(customer, 5, &format!("{now}T00:00:00Z"));
            track(customer, 6, &format!("{earlier}T13:14:15.000016Z"));
        }
    }
    levels_and_rates(&world, &clock);
    let current = |customer: &str| {
        world.get(&format!("/api/subscriptions/?customer_id={customer}")).ok(200)[0].id("subscription_id")
    };
    assert_ne!((current("stays"), current("leaves")), (stays, leaves), "both were renewed");
    let switch = format!("/api/subscriptions/{}/switch_plan/", current("stays"));
    world.post(&switch, &json!({"switch_plan_id": large})).ok(200);
    let cancel = format!("/api/subscriptions/{}/cancel/", current("leaves"));
    world.post(&cancel, &json!({"flat_fee_behavior": "refund"})).ok(200);
    track("stays", 3, "2024-04-01T00:00:00Z");
    world.advance(&clock, "2024-06-20");
    payments(&world, &clock, "stays");
    disputed(&world, &clock, &small);
    corrected(&world, &clock, &small);
    charged_once(&world, &clock, &small);
    corrected_late(&world, &small);
    in_real_time(&world, &small);
    departed(&world);
    wait_for_alerts(&world);
    world
}

/// A customer in real time, whose subscription counts some of its events.
fn in_real_time(world: &World, plan: &str) {
    world.customer("real");
    let today = &crate::support::now()[..10];
    let filters = json!([{"property_name": "region", "value": "eu"}]);
    let body = json!({"customer_id": "real", "plan_id": plan, "start_date": today, "subscription_filters": filters});
    world.post("/api/subscriptions/", &body).ok(200);
    let regions = [json!("eu"), json!("eu"), json!("us"), json!(7), json!(null)];
    // Of an hour that is over, so that they are in the roll-ups at once.
    let events = regions.iter().enumerate().map(|(n, region)| {
        json!({"customer_id": "real", "event_name": "seat", "idempotency_id": format!("r{n}"),
            "time_created": crate::support::ago(time::Duration::hours(2)), "properties": {"n": n + 1, "region": region}})
    });
    world.post("/api/track/", &json!({"batch": events.collect::<Vec<_>>()})).ok(201);
    let [_, voided] = [12.5, 7.25].map(|amount| {
        let charge = json!({"name": "device", "amount": amount, "invoice_now": true});
        world.post("/api/customers/real/one_off_lines/", &charge).ok(201).id("invoice_id")
    });
    world.post(&format!("/api/invoices/{voided}/void/"), &json!({})).ok(200);
}

/// A customer who was deleted.
fn departed(world: &World) {
    // Nobody bills a customer who was deleted, so nothing of theirs has to be in the queue.
    world.customer("departed");
    let soon = crate::support::ago(-time::Duration::DAY);
    let credit = json!({"customer_id": "departed", "amount": 5, "currency_code": "USD", "expires_at": soon});
    world.post("/api/credits/", &credit).ok(201);
    world.post("/api/customers/departed/delete/", &json!({})).ok(200);
}

/// Waits until both customers by the clock have used so much that they were told of.
fn wait_for_alerts(world: &World) {
    until("an alert fired", || {
        let told = world.get("/api/feed/?types=usage_alert.triggered").ok(200);
        told["results"].as_array().is_some_and(|told| told.len() > 1)
    });
}

/// A part, an overpayment that bounced after its credit had paid for something, one that did before, one that came back from an
/// invoice that was voided, and an invoice that was voided behind its payment.
fn payments(world: &World, clock: &str, customer: &str) {
    let unpaid = || world.get(&format!("/api/invoices/?customer_id={customer}&status=unpaid")).ok(200);
    let open = unpaid();
    let [part, over, voided, whole] = [0, 1, 2, 3].map(|place| open[place].id("invoice_id"));
    let path = |invoice: &str| format!("/api/invoices/{invoice}/payments/");
    let pay = |invoice: &str, body: Value| world.post(&path(invoice), &body).ok(201);
    let reverse = |noted: &Value, invoice: &str| {
        let path = format!("{}{}/reverse/", path(invoice), noted.id("payment_id"));
        world.post(&path, &json!({"reason": "bounced"})).ok(200)
    };
    pay(&part, json!({"amount": "0.01", "method": "bank", "reference": "1"}));
    let bounced = pay(&whole, json!({"amount": 2000}));
    assert_eq!(reverse(&bounced, &whole)["amount_credited"], bounced["amount_credited"], "nothing of it was spent");
    let due = |invoice: &Value| invoice["amount_due"].to_string().parse::<f64>().expect("a number");
    // Enough for a part of the next invoice.
    let noted = pay(&over, json!({"amount": due(&open[1]) + 5.0}));
    assert_eq!((&noted["payment_status"], &noted["amount_credited"]), (&json!("paid"), &json!(5)));
    world.advance(clock, "2024-07-20");
    let back = reverse(&noted, &over);
    assert_eq!(due(&back), due(&open[1]) + 5.0, "what the credit has paid for is due with it");
    let is_drawn = |invoice: &&Value| {
        let lines = invoice["line_items"].as_array().expect("lines");
        lines.iter().any(|line| line["amount"] == -5)
    };
    let after = unpaid();
    let drawn = after.as_array().expect("a list").iter().find(is_drawn).expect("an invoice that drew").id("invoice_id");
    world.post(&format!("/api/invoices/{drawn}/void/"), &json!({})).ok(200);
    let returned = world.get(&path(&over)).ok(200);
    assert_eq!((&returned[2]["kind"], &returned[2]["amount"]), (&json!("returned"), &json!(5)));
    pay(&over, json!({"amount": 900}));
    let mistaken = pay(&voided, json!({"amount": 1}));
    reverse(&mistaken, &voided);
    world.post(&format!("/api/invoices/{voided}/void/"), &json!({})).ok(200);
}

/// A customer of the clock's with credit notes: on what is due, on what was paid, refunded outside, and voided.
fn disputed(world: &World, clock: &str, plan: &str) {
    world.customer_at("disputes", clock);
    subscribe(world, "disputes", plan, "2024-07-20");
    let invoice = world.get("/api/invoices/?customer_id=disputes").ok(200)[0].clone();
    let id = invoice.id("invoice_id");
    let note = |what: Value| {
        let mut body = json!({"invoice_id": id, "reason": "disputed", "settlement": "balance"});
        body.as_object_mut().expect("an object").extend(what.as_object().expect("an object").clone());
        world.post("/api/credit_notes/", &body).ok(201)
    };
    let void = |note: &Value| {
        world.post(&format!("/api/credit_notes/{}/void/", note.id("credit_note_id")), &json!({})).ok(200);
    };
    let payments = format!("/api/invoices/{id}/payments/");
    world.post(&payments, &json!({"amount": 10})).ok(201);
    note(json!({"percent": 20}));
    void(&note(json!({"lines": [{"line_id": invoice["line_items"][0]["line_id"], "amount": 5}]})));
    let due = world.get(&format!("/api/invoices/{id}/")).ok(200)["amount_due"].clone();
    world.post(&payments, &json!({"amount": due})).ok(201);
    note(json!({"amount": 3, "settlement": "outside", "reference": "re_7"}));
    assert_eq!(note(json!({"amount": 4}))["amount_credited"], 4);
    void(&note(json!({"amount": 2})));
}

/// A customer of the clock's whose usage was put right after it was billed, by a credit note and by issuing invoices anew.
fn corrected(world: &World, clock: &str, plan: &str) {
    world.customer_at("corrected", clock);
    subscribe(world, "corrected", plan, "2024-07-20");
    let calls: Vec<Value> =
        (0..12).map(|n| event("corrected", &format!("wrong-{n}"), "2024-07-20T00:00:00Z")).collect();
    world.post("/api/track/", &json!({"batch": calls})).ok(201);
    world.advance(clock, "2024-07-29");
    let invoices = world.get("/api/invoices/?customer_id=corrected").ok(200);
    let [week, first] = [0, 1].map(|place| invoices[place].id("invoice_id"));
    let void_events = |numbers: std::ops::Range<u32>| {
        let ids: Vec<String> = numbers.map(|n| format!("wrong-{n}")).collect();
        let body = json!({"customer_id": "corrected", "idempotency_ids": ids, "reason": "a test run"});
        world.post("/api/events/void/", &body).ok(200);
    };
    void_events(0..4);
    let body = json!({"invoice_id": week, "corrections": true, "reason": "a test run", "settlement": "balance"});
    world.post("/api/credit_notes/", &body).ok(201);
    let moved = json!({"idempotency_id": "wrong-11", "time_created": "2024-07-28T00:00:00Z"});
    world
        .post("/api/events/amend/", &json!({"customer_id": "corrected", "events": [moved], "reason": "a test run"}))
        .ok(200);
    void_events(4..6);
    world.post(&format!("/api/invoices/{first}/void/"), &json!({"rebill": true})).ok(200);
}

/// A customer of a clock of its own whose usage was put right once all of it had been billed for good, and billed once more.
fn corrected_late(world: &World, plan: &str) {
    let clock = world.clock("2024-01-31");
    world.customer_at("late", &clock);
    subscribe(world, "late", plan, "2024-01-31");
    let calls: Vec<Value> = (0..9).map(|n| event("late", &format!("late-{n}"), "2024-01-31T00:00:00Z")).collect();
    world.post("/api/track/", &json!({"batch": calls})).ok(201);
    world.advance(&clock, "2024-05-10");
    let ids = ["late-0", "late-1", "late-2", "late-3"];
    let body = json!({"customer_id": "late", "idempotency_ids": ids, "beyond_window": true, "reason": "a test run"});
    world.post("/api/events/void/", &body).ok(200);
    world.advance(&clock, "2024-07-20");
}

/// A customer of the clock's who is charged once: with an invoice that was issued anew, on one that was voided, and what waits.
fn charged_once(world: &World, clock: &str, plan: &str) {
    world.customer_at("charged", clock);
    let charge = |body: Value| world.post("/api/customers/charged/one_off_lines/", &body).ok(201);
    charge(json!({"name": "set-up", "quantity": 3, "unit_amount": "12.345"}));
    subscribe(world, "charged", plan, "2024-07-29");
    let first = world.get("/api/invoices/?customer_id=charged").ok(200)[0].id("invoice_id");
    world.post(&format!("/api/invoices/{first}/void/"), &json!({"rebill": true})).ok(200);
    let voided = charge(json!({"name": "device", "amount": 50, "invoice_now": true})).id("invoice_id");
    world.post(&format!("/api/invoices/{voided}/void/"), &json!({})).ok(200);
    charge(json!({"name": "hours", "quantity": "1.5", "unit_amount": "99.99", "is_taxed": false}));
}

/// A customer of the clock's with gauges of every sort and a rate, in use since before the subscription.
fn levels_and_rates(world: &World, clock: &str) {
    let metrics = [
        r#"{"metric_name": "peak", "metric_type": "gauge", "event_type": "delta", "granularity": "total", "proration": "total"}"#,
        r#"{"metric_name": "by days", "metric_type": "gauge", "event_type": "total", "granularity": "months", "proration": "days"}"#,
        r#"{"metric_name": "by hours", "metric_type": "gauge", "event_type": "delta", "granularity": "days", "proration": "hours"}"#,
        r#"{"metric_name": "by months", "metric_type": "gauge", "event_type": "total", "granularity": "total", "proration": "months"}"#,
        r#"{"metric_name": "busiest", "metric_type": "rate", "aggregation_type": "sum", "granularity": "days"}"#,
        r#"{"metric_name": "busiest month", "metric_type": "rate", "aggregation_type": "average", "granularity": "months"}"#,
    ];
    let components = metrics.map(|metric| {
        let mut metric: Value = serde_json::from_str(metric).expect("a metric");
        (metric["event_name"], metric["property_name"]) = (json!("level"), json!("n"));
        let id = world.post("/api/metrics/", &metric).ok(201).id("metric_id");
        let mut component = json!({"metric_id": id, "tiers": [
            {"type": "per_unit", "range_start": 0, "cost_per_batch": "1.5", "metric_units_per_batch": 1}]});
        if metric["metric_name"] == "busiest month" {
            (component["reset_interval_unit"], component["reset_interval_count"]) = (json!("month"), json!(1));
        }
        component
    });
    let version = json!({"currency_code": "USD", "components": components});
    let body = json!({"plan_name": "Levels", "plan_duration": "quarterly", "initial_version": version});
    let plan = world.post("/api/plans/", &body).ok(201).id("plan_id");
    world.customer_at("levels", clock);
    #[rustfmt::skip]
    let levels = [
        ("2024-03-20T10:00:00Z", 4), ("2024-04-03T07:00:00.000001Z", 9), ("2024-04-03T07:00:00.000001Z", 2),
        ("2024-04-05T00:00:00Z", -1), ("2024-04-05T21:30:00Z", 7),
    ];
    let events = levels.iter().enumerate().map(|(n, (time, level))| {
        json!({"customer_id": "levels", "event_name": "level", "idempotency_id": format!("l{n}"),
            "time_created": time, "properties": {"n": level}})
    });
    let answer = world.post("/api/track/", &json!({"batch": events.collect::<Vec<_>>()})).ok(201);
    assert_eq!(answer["success"], "all", "{answer}");
    let body = json!({"customer_id": "levels", "plan_id": plan, "start_date": "2024-03-31", "end_date": "2024-05-20"});
    world.post("/api/subscriptions/", &body).ok(200);
}

/// SQL that breaks the books, and the check that must notice.
#[rustfmt::skip]
const CORRUPTIONS: &[(&str, &str)] = &[
    ("UPDATE invoices SET amount = amount + 0.01 WHERE number = (SELECT min(number) FROM invoices)", "invoice_is_the_sum_of_its_lines"),
    ("DELETE FROM invoice_lines WHERE (customer_key, invoice_id, position) = (SELECT customer_key, invoice_id, position FROM invoice_lines WHERE amount > 0 LIMIT 1)", "invoice_is_the_sum_of_its_lines"),
    ("UPDATE invoice_lines SET base = base + 1 WHERE trace ->> 'kind' = 'usage_charge'", "line_is_base_and_adjustments"),
    ("UPDATE invoice_lines SET adjustments = '[]' WHERE adjustments <> '[]'", "line_is_base_and_adjustments"),
    ("UPDATE invoice_lines SET base = base + 0.001, amount = amount + 0.001", "line_is_whole_minor_units"),
    ("UPDATE invoices SET currency_code = 'EUR'", "invoice_is_in_one_currency"),
    ("UPDATE invoice_counters SET last_sequence = last_sequence + 1", "invoice_numbers_have_no_gap"),
    ("DELETE FROM invoices WHERE number LIKE '%-000003'", "invoice_numbers_have_no_gap"),
    ("UPDATE invoices SET number = '240101-000001' WHERE number LIKE '%-000001'", "invoice_number_is_of_its_day"),
    ("DELETE FROM invoice_numbers WHERE number LIKE '%-000004'", "invoice_number_is_of_its_day"),
    ("UPDATE recurring_charges SET amount = amount + 1", "fees_are_priced_right"),
    ("UPDATE invoice_lines SET base = base - 1, amount = amount - 1 WHERE trace ->> 'kind' = 'recurring_charge'", "fees_are_priced_right"),
    ("UPDATE components SET tiers = jsonb_set(tiers, '{1,price,cost_per_batch}', '0.36')", "usage_is_priced_right"),
    ("UPDATE components SET tiers = jsonb_set(tiers, '{1,price,batch_rounding}', '\"round_down\"')", "usage_is_priced_right"),
    ("UPDATE billing_records SET billed_given = billed_given + 1", "record_gave_what_its_lines_show"),
    ("UPDATE invoice_lines SET record_id = NULL WHERE trace ->> 'kind' = 'prepaid_usage_charge'", "record_gave_what_its_lines_show"),
    ("UPDATE billing_records SET billed_exact = billed_exact + 1", "record_gave_what_is_exact_rounded"),
    ("UPDATE invoices SET payment_status = 'voided', voided_at = issued_at, amount_paid = 0 WHERE amount > 0", "nothing_comes_back_unpaid"),
    ("UPDATE invoice_lines SET base = base * 2, amount = amount * 2 WHERE base < 0", "nothing_comes_back_unpaid"),
    ("UPDATE invoice_lines SET adjustments = replace(adjustments::text, '\"rate\": 8.25', '\"rate\": 7')::jsonb WHERE amount < 0", "nothing_comes_back_unpaid"),
    ("UPDATE billing_records SET billed_forgiven = billed_given + 1 WHERE billed_given > 0", "record_gave_what_is_exact_rounded"),
    ("UPDATE subscriptions SET calendar = jsonb_set(calendar, '{day}', '28')", "intervals_follow_the_calendar"),
    ("UPDATE billing_records SET end_at = '2024-04-28' WHERE end_at = '2024-04-30'", "intervals_follow_the_calendar"),
    ("UPDATE subscriptions SET settled_tax = settled_tax + 0.01", "subscription_settled_what_its_lines_show"),
    ("UPDATE subscriptions SET settled_adjustments = 0", "subscription_settled_what_its_lines_show"),
    ("UPDATE invoiced_hours SET amount = amount + 0.01", "invoiced_is_summed_by_hour"),
    ("DELETE FROM invoiced_hours", "invoiced_is_summed_by_hour"),
    ("UPDATE invoices SET payment_status = 'unpaid', voided_at = NULL FROM customers WHERE customers.customer_key = invoices.customer_key AND customer_id = 'real'", "invoiced_is_summed_by_hour"),
    ("UPDATE subscription_counts SET ends = ends + 1", "running_subscriptions_are_counted"),
    ("DELETE FROM subscription_counts", "running_subscriptions_are_counted"),
    ("UPDATE payments SET amount = amount + 1 WHERE kind <> 'returned'", "invoice_is_paid_by_its_payments"),
    ("DELETE FROM payments WHERE kind = 'reversal'", "invoice_is_paid_by_its_payments"),
    ("DELETE FROM payments", "invoice_is_paid_by_its_payments"),
    ("UPDATE payments SET credited = 0, amount = amount - credited WHERE kind IN ('payment', 'reversal')", "invoice_is_paid_by_its_payments"),
    ("UPDATE payments SET credit_id = (SELECT id FROM credits WHERE credits.customer_key = payments.customer_key AND amount = 12.5) WHERE credit_id IS NOT NULL", "invoice_is_paid_by_its_payments"),
    ("UPDATE invoices SET amount_paid = 0, payment_status = 'unpaid' WHERE amount_paid > 0", "invoice_is_paid_by_its_payments"),
    // A reversal that left the credit, and one that said so but did not take it: the due is wrong by as much, or the credit is.
    ("UPDATE invoices SET amount_paid = amount_paid - reversal.credited FROM payments reversal WHERE invoices.customer_key = reversal.customer_key AND invoices.id = reversal.invoice_id AND reversal.kind = 'reversal' AND reversal.credited > 100;
        UPDATE payments SET credited = 0 WHERE kind = 'reversal' AND credited > 100", "invoice_is_paid_by_its_payments"),
    ("UPDATE credits SET voided = 0 FROM payments reversal WHERE credits.customer_key = reversal.customer_key AND credits.id = reversal.credit_id AND reversal.kind = 'reversal' AND reversal.credited > 100;
        DELETE FROM credit_entries USING payments reversal WHERE credit_entries.customer_key = reversal.customer_key AND credit_entries.credit_id = reversal.credit_id AND reversal.kind = 'reversal' AND reversal.credited > 100 AND credit_entries.kind = 'void'", "invoice_is_paid_by_its_payments"),
    // More of the last payment became credit than was too much.
    ("UPDATE credits SET amount = amount + 5 WHERE id = (SELECT credit_id FROM payments WHERE amount = 900);
        UPDATE credit_entries SET amount = amount + 5 WHERE kind = 'grant' AND credit_id = (SELECT credit_id FROM payments WHERE amount = 900);
        UPDATE invoices SET amount_paid = amount_paid - 5, payment_status = 'unpaid' FROM payments WHERE payments.amount = 900 AND invoices.id = payments.invoice_id;
        UPDATE payments SET credited = credited + 5 WHERE amount = 900", "invoice_is_paid_by_its_payments"),
    ("UPDATE invoices SET amount_paid = amount_paid - 5, payment_status = 'unpaid' WHERE id = (SELECT invoice_id FROM payments WHERE kind = 'returned');
        DELETE FROM payments WHERE kind = 'returned'", "invoice_is_paid_by_its_payments"),
    ("UPDATE payments SET credited = 0, credit_id = NULL WHERE kind = 'credit_note'", "credit_notes_are_settled"),
    ("UPDATE credit_notes SET voided_at = NULL", "credit_notes_are_settled"),
    ("UPDATE credit_notes SET voided_at = issued_at WHERE credit_id IS NOT NULL", "credit_notes_are_settled"),
    ("UPDATE credits SET amount = amount + 1 WHERE id IN (SELECT credit_id FROM credit_notes)", "credit_notes_are_settled"),
    ("UPDATE credit_notes SET amount = 1000, credited = 1000 WHERE settlement = 'outside';
        UPDATE payments SET amount = 1000, credited = 1000 FROM credit_notes note WHERE note.settlement = 'outside' AND note.id = payments.credit_note_id", "credit_notes_are_settled"),
    ("DELETE FROM payments WHERE kind = 'credit_note_voided'", "credit_notes_are_settled"),
    ("UPDATE payments SET amount = amount + 1 WHERE kind = 'credit_note'", "invoice_is_paid_by_its_payments"),
    ("UPDATE credit_notes SET amount = amount + 0.01 WHERE settlement = 'outside'", "credit_notes_take_what_their_lines_charged"),
    ("DELETE FROM credit_note_lines", "credit_notes_take_what_their_lines_charged"),
    ("UPDATE credit_note_lines SET amount = amount + 100", "credit_notes_take_what_their_lines_charged"),
    ("UPDATE credit_note_lines SET tax = tax + 50", "credit_notes_take_what_their_lines_charged"),
    ("UPDATE credit_note_lines SET position = position + 50", "credit_notes_take_what_their_lines_charged"),
    ("UPDATE credit_notes SET number = left(number, 10) || '000009' WHERE settlement = 'outside'", "credit_note_numbers_have_no_gap"),
    ("UPDATE credit_notes SET number = 'CN-240101' || right(number, 7)", "credit_note_numbers_have_no_gap"),
    ("UPDATE invoice_counters SET last_credit_note = last_credit_note + 1", "credit_note_numbers_have_no_gap"),
    ("UPDATE credit_note_lines SET base = base - 0.01 WHERE base > 0.01", "waived_is_remembered"),
    ("UPDATE credit_note_lines SET tax = tax - 0.01 WHERE tax > 0.01", "waived_is_remembered"),
    ("UPDATE billing_records SET billed_forgiven = 0 WHERE billed_forgiven > 0", "waived_is_remembered"),
    ("UPDATE subscriptions SET settled_forgiven = jsonb_set(settled_forgiven, '{tax}', '0')", "waived_is_remembered"),
    ("UPDATE credit_notes SET is_correction = false WHERE is_correction", "waived_is_remembered"),
    ("UPDATE credit_notes SET is_correction = true WHERE settlement = 'outside'", "record_gave_what_its_lines_show"),
    ("UPDATE invoices SET replaced_by = NULL WHERE replaced_by IS NOT NULL", "reissues_name_each_other"),
    ("UPDATE invoices SET replaced_by = NULL WHERE replaced_by IS NOT NULL", "record_gave_what_its_lines_show"),
    ("UPDATE invoices SET replaces = NULL WHERE replaces IS NOT NULL", "reissues_name_each_other"),
    ("UPDATE invoice_lines SET trace = jsonb_set(trace, '{unit_amount}', '12') WHERE trace ? 'unit_amount'", "one_off_lines_are_billed_once"),
    ("UPDATE invoice_lines SET trace = jsonb_set(trace, '{one_off_line_id}', '\"one_off_line_00000000000000000000000000000001\"') WHERE trace ->> 'kind' = 'one_off'", "one_off_lines_are_billed_once"),
    ("UPDATE invoice_lines SET trace = jsonb_set(trace, '{is_taxed}', 'false') WHERE trace ->> 'kind' = 'one_off'", "one_off_lines_are_billed_once"),
    ("UPDATE customers SET one_off_lines = jsonb_build_array(jsonb_set(one_off_lines -> 0, '{amount}', '149.98')) WHERE one_off_lines <> '[]'", "one_off_lines_are_billed_once"),
    ("UPDATE customers SET one_off_lines = one_off_lines || one_off_lines", "one_off_lines_are_billed_once"),
    ("UPDATE customers SET one_off_lines = (SELECT jsonb_agg(jsonb_set(one_off_lines -> 0, '{id}', trace -> 'one_off_line_id')) FROM invoice_lines line WHERE line.customer_key = customers.customer_key AND trace ->> 'kind' = 'one_off') WHERE one_off_lines <> '[]'", "one_off_lines_are_billed_once"),
    ("UPDATE customers SET one_off_lines = (SELECT other.one_off_lines FROM customers other WHERE other.one_off_lines <> '[]') WHERE deleted_at IS NOT NULL", "one_off_lines_are_billed_once"),
    ("DELETE FROM messages WHERE message_type = 'one_off_line.created'", "facts_are_told"),
    ("UPDATE invoices SET payment_status = 'unpaid', voided_at = NULL, replaced_by = NULL WHERE replaced_by IS NOT NULL", "reissues_name_each_other"),
    ("DELETE FROM event_corrections", "corrections_belong_to_events"),
    ("UPDATE event_corrections SET idempotency_id = 'nobody'", "corrections_belong_to_events"),
    ("UPDATE events SET correction = 0 WHERE correction = 2", "corrections_belong_to_events"),
    ("UPDATE events SET correction = 2 WHERE correction = 1", "corrections_belong_to_events"),
    ("UPDATE event_corrections SET amended_time = amended_time + interval '1 hour' WHERE amended_time IS NOT NULL", "corrections_belong_to_events"),
    ("DELETE FROM messages WHERE message_type = 'credit_note.created'", "facts_are_told"),
    ("UPDATE messages SET message_type = 'credit_note.voided' WHERE message_type = 'credit_note.created'", "facts_are_told"),
    ("DELETE FROM credit_note_lines; DELETE FROM credit_notes", "facts_are_told"),
    ("INSERT INTO credit_entries SELECT customer_key, credit_id, position + 100, organization_id, id, kind, amount, invoice_id, at FROM credit_entries WHERE kind = 'drawdown'", "credit_is_its_ledger"),
    ("UPDATE credits SET voided = voided + 0.01 WHERE remaining > 1", "credit_is_its_ledger"),
    ("UPDATE credits SET effective_at = '2100-01-01' WHERE expires_at IS NULL", "credit_is_drawn_in_its_time_and_currency"),
    ("DELETE FROM credit_entries WHERE kind = 'drawdown'", "drawdowns_are_on_their_invoice"),
    ("UPDATE invoice_lines SET trace = jsonb_set(trace, '{credit_id}', '\"baladj_00000000000000000000000000000001\"') WHERE trace ->> 'kind' = 'credit_granted'", "granted_credit_exists"),
    ("UPDATE subscriptions SET start_at = start_at - interval '10 days', filters = '{\"a\": \"b\"}' WHERE id = (SELECT id FROM subscriptions WHERE NOT is_new LIMIT 1)", "subscriptions_do_not_overlap"),
    ("UPDATE subscriptions SET start_at = start_at + interval '1 day' WHERE NOT is_new", "renewals_follow_without_a_gap"),
    ("UPDATE subscriptions SET replaced_by = id WHERE replaced_by IS NOT NULL", "switches_have_a_successor"),
    ("UPDATE billing_records SET end_at = end_at + interval '1 day'", "records_tile_their_time"),
    ("UPDATE billing_records SET billed_quantity = billed_quantity + 1", "quantities_add_up"),
    ("DELETE FROM events WHERE time_created < '2024-02-04'", "usage_is_what_events_say"),
    ("UPDATE events SET properties = '{\"n\": 2}' WHERE event_name = 'seat' AND time_created < '2024-02-04'", "usage_is_what_events_say"),
    ("UPDATE usage_rollup SET sum = sum + 1 WHERE bucket_hours = 24 AND sum > 0", "rollups_are_their_events"),
    ("DELETE FROM usage_rollup WHERE bucket_hours = 1", "rollups_are_their_events"),
    ("UPDATE usage_rollup SET latest = latest + 1 WHERE bucket_hours = 24 AND latest IS NOT NULL", "rollups_are_their_events"),
    ("UPDATE usage_rollup SET event_count = event_count + 1 WHERE dimensions <> ''", "rollups_are_their_events"),
    ("DELETE FROM usage_rollup WHERE dimensions <> '' AND bucket_hours = 1", "rollups_are_their_events"),
    ("INSERT INTO hot_buckets SELECT customer_key, organization_id, 'seat', dimensions, bucket, json_build_object(replace(metric_id::text, '-', ''), '[1]'::json) FROM usage_rollup WHERE bucket_hours = 1 LIMIT 1 ON CONFLICT (customer_key, event_name, dimensions) DO UPDATE SET deltas = '{}'", "rollups_are_their_events"),
    ("UPDATE metrics SET filters = jsonb_set(filters, '{numeric_filters,0,comparison_value}', '5') WHERE filters IS NOT NULL", "usage_is_what_events_say"),
    ("UPDATE events SET properties = '{\"n\": 2, \"region\": \"us\"}' WHERE event_name = 'seat' AND idempotency_id LIKE 'e%' AND time_created > '2024-02-20'", "usage_is_what_events_say"),
    ("DELETE FROM events WHERE idempotency_id = 'l0'", "usage_is_what_events_say"),
    ("UPDATE metrics SET event_type = 'total' WHERE name = 'peak'", "usage_is_what_events_say"),
    ("UPDATE metrics SET granularity = 'years' WHERE name = 'by days'", "usage_is_what_events_say"),
    ("UPDATE metrics SET proration = 'days' WHERE name = 'by hours'", "usage_is_what_events_say"),
    ("UPDATE metrics SET proration = 'quarters' WHERE name = 'by months'", "usage_is_what_events_say"),
    ("UPDATE metrics SET granularity = 'months' WHERE name = 'busiest'", "usage_is_what_events_say"),
    ("UPDATE metrics SET aggregation_type = 'max' WHERE name = 'busiest month'", "usage_is_what_events_say"),
    ("UPDATE events SET time_created = time_created - interval '1 day' WHERE idempotency_id = 'l1'", "usage_is_what_events_say"),
    ("UPDATE events SET arrival = arrival + 1000000 WHERE idempotency_id = 'e2'", "usage_is_what_events_say"),
    ("UPDATE events SET arrival = 0", "usage_is_what_events_say"),
    ("UPDATE invoice_lines SET trace = jsonb_set(trace, '{last_arrival}', '0') WHERE trace ->> 'kind' = 'usage_charge'", "usage_is_what_events_say"),
    // Corrections that nobody billed: some events voided, one amended, one moved to another time.
    ("INSERT INTO event_corrections (customer_key, id, organization_id, id_hash, idempotency_id, customer_id, event_name, time_created, properties, arrived, arrival, corrected_at)
            SELECT customer_key, gen_random_uuid(), organization_id, id_hash, idempotency_id, customer_id, event_name, time_created, properties, arrival, 1000000, '2024-07-29' FROM events WHERE idempotency_id IN ('late-5', 'late-6', 'late-7');
        UPDATE events SET correction = 2, arrival = 1000000 WHERE idempotency_id IN ('late-5', 'late-6', 'late-7')", "usage_is_what_events_say"),
    ("INSERT INTO event_corrections (customer_key, id, organization_id, id_hash, idempotency_id, customer_id, event_name, time_created, properties, arrived, arrival, corrected_at, amended_time, amended_properties)
            SELECT customer_key, gen_random_uuid(), organization_id, id_hash, idempotency_id, customer_id, event_name, time_created, properties, arrival, 1000000, '2024-07-29', time_created, '{\"n\": 7}' FROM events WHERE idempotency_id = 'e3';
        UPDATE events SET correction = 1, arrival = 1000000, properties = '{\"n\": 7}' WHERE idempotency_id = 'e3'", "usage_is_what_events_say"),
    ("INSERT INTO event_corrections (customer_key, id, organization_id, id_hash, idempotency_id, customer_id, event_name, time_created, properties, arrived, arrival, corrected_at, amended_time, amended_properties)
            SELECT customer_key, gen_random_uuid(), organization_id, id_hash, idempotency_id, customer_id, event_name, time_created, properties, arrival, 1000000, '2024-07-29', '2024-02-01', properties FROM events WHERE idempotency_id = 'l1';
        UPDATE events SET correction = 1, arrival = 1000000, time_created = '2024-04-02' WHERE idempotency_id = 'l1'", "usage_is_what_events_say"),
    ("UPDATE events SET idempotency_id = 'another' WHERE idempotency_id = 'e2'", "event_ids_are_unique"),
    ("DROP INDEX events_2024_02_id_hash_key", "event_months_have_their_indexes"),
    ("DELETE FROM billing_due", "billing_is_queued"),
    ("UPDATE billing_due SET due_at = due_at + interval '60 days'", "billing_is_queued"),
    ("UPDATE credits SET organization_id = gen_random_uuid()", "everything_is_its_customers"),
    ("UPDATE messages SET organization_id = gen_random_uuid() WHERE message_type = 'customer.created'", "everything_is_its_customers"),
    ("DELETE FROM messages WHERE message_type = 'invoice.created'", "facts_are_told"),
    ("DELETE FROM messages WHERE message_type = 'subscription.renewed'", "facts_are_told"),
    ("DELETE FROM messages WHERE message_type = 'subscription.cancelled'", "facts_are_told"),
    ("DELETE FROM messages WHERE message_type = 'credit.drawn'", "facts_are_told"),
    ("INSERT INTO messages (customer_key, id, organization_id, message_type, at, is_live, invoice_id, data)
        SELECT customer_key, gen_random_uuid(), organization_id, message_type, at, is_live, invoice_id, data FROM messages
        WHERE message_type = 'credit.created'", "facts_are_told"),
    ("UPDATE messages SET message_type = 'invoice.paid' WHERE message_type = 'invoice.created'", "facts_are_told"),
    ("UPDATE messages SET message_type = 'invoice.paid' WHERE message_type = 'invoice.created'
        AND invoice_id = (SELECT invoice_id FROM payments WHERE amount = 0.01)", "facts_are_told"),
    ("DELETE FROM invoice_lines; DELETE FROM invoices", "facts_are_told"),
    ("UPDATE messages SET message_type = 'credit.voided' WHERE message_type = 'credit.created'", "facts_are_told"),
    ("DELETE FROM credit_entries; DELETE FROM credits", "facts_are_told"),
    ("DELETE FROM feed_entries WHERE position = 3", "feeds_have_no_gap"),
    ("UPDATE feed_entries SET position = position + 1000 WHERE position = 3", "feeds_have_no_gap"),
    ("UPDATE message_counters SET last_position = 2", "feeds_have_no_gap"),
    ("DELETE FROM messages WHERE message_type = 'subscription.changed' OR message_type = 'customer.created'", "feeds_show_what_is_told"),
    ("DELETE FROM organization_messages", "feeds_show_what_is_told"),
    ("UPDATE feed_entries SET message_type = 'invoice.voided' WHERE message_type = 'invoice.created'", "feeds_show_what_is_told"),
    ("DELETE FROM feed_entries WHERE position <= 2; UPDATE message_counters SET first_kept = 3", "feeds_show_what_is_told"),
    ("DELETE FROM messages WHERE message_type = 'usage_alert.triggered'", "usage_alerts_are_told_once"),
    ("DELETE FROM usage_alert_firings", "usage_alerts_are_told_once"),
    ("UPDATE usage_alert_firings SET interval_start = interval_start + interval '1 hour'", "usage_alerts_are_told_once"),
];

#[test]
fn the_auditor_finds_every_corruption() {
    let world = books();
    let report = audit_database(world.url(), &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "the service's own books: {report}");

    let [acme, other] = organizations(&world);
    let mut pg = PgConnection::establish(world.url()).expect("a connection");
    let mut found = Vec::new();
    for (corruption, check) in CORRUPTIONS {
        // Without the triggers, as a restored backup or a hand in the database could have it.
        pg.batch_execute("BEGIN; SET LOCAL session_replication_role = replica").expect("a transaction");
        pg.batch_execute(corruption).unwrap_or_else(|error| panic!("{corruption}: {error}"));
        let named = CHECKS.iter().find(|one| one.name == *check).expect(check);
        let mut report = |whose| audit_by(slice::from_ref(named), whose, &mut pg, &mut |_| {}).expect(corruption);
        let of_all = report(None);
        assert!(of_all.broken_checks().contains(check), "{corruption}: not noticed by {check}: {of_all}");
        let (own, of_others) = (report(Some(acme)), report(Some(other)));
        let is_nobodys = OF_THE_SERVER.contains(check) || *check == "everything_is_its_customers";
        assert!(is_nobodys || own.broken_checks().contains(check), "{corruption}: {check}: whose it is: {own}");
        for breach in &of_others.breaches {
            assert!(!own.breaches.contains(breach), "{corruption}: another organization is told of it: {of_others}");
        }
        found.push(*check);
        pg.batch_execute("ROLLBACK").expect("rolled back");
    }
    let blind: Vec<_> = CHECKS.iter().map(|check| check.name).filter(|name| !found.contains(name)).collect();
    assert!(blind.is_empty(), "never seen to find anything: {blind:?}");
    assert!(audit_database(world.url(), &mut |_| {}).expect("an audit").is_clean(), "it wrote nothing");
}

/// Checks of what a server has made of tables, which is no organization's. A row that names another organization than its customer's is not found
/// by looking at one of them either.
const OF_THE_SERVER: &[&str] = &["event_months_have_their_indexes"];

/// The organization of the books, and another one with a customer, a plan, an event and an invoice.
fn organizations(world: &World) -> [Uuid; 2] {
    let other = world.other_key();
    let send = |path: &str, body: &Value| {
        let headers = [("X-API-KEY", other.as_str()), ("Content-Type", "application/json")];
        let answer = world.send("POST", path, &headers, body.to_string().as_bytes());
        assert!(answer.status < 300, "{path}: {}", answer.text);
        serde_json::from_str::<Value>(&answer.text).expect("JSON")
    };
    let metric = send("/api/metrics/", &json!({"event_name": "api_call"})).id("metric_id");
    let plan = send("/api/plans/", &plan_body("Theirs", &metric)).id("plan_id");
    send("/api/customers/", &json!({"customer_id": "theirs", "email": "stays@acme.io"}));
    let start = crate::support::ago(time::Duration::days(1));
    send("/api/subscriptions/", &json!({"customer_id": "theirs", "plan_id": plan, "start_date": start}));
    send("/api/track/", &json!({"batch": [event("theirs", "e1", &start)]}));
    let report = audit_database(world.url(), &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "with the other's: {report}");
    let id = |key: &str| {
        let answer = world.send("GET", "/api/organization/", &[("X-API-KEY", key)], b"").ok(200);
        answer.id("organization_id").parse::<OrganizationId>().expect("an id").uuid()
    };
    let ids = [id(&world.key), id(&other)];
    for id in ids {
        let report = audit_organization(world.url(), id, &mut |_| {}).expect("an audit");
        assert!(report.is_clean(), "each by itself: {report}");
        assert_eq!(report.checks, CHECKS.len() - OF_THE_SERVER.len());
    }
    let nobody = audit_organization(world.url(), Uuid::nil(), &mut |_| {});
    assert!(matches!(nobody, Err(AuditError::NoOrganization)), "{nobody:?}");
    ids
}

/// A word that the auditor does not know is no price of nothing: it says so and goes no further.
#[test]
fn the_auditor_stops_at_what_it_does_not_know() {
    let world = books();
    let mut pg = PgConnection::establish(world.url()).expect("a connection");
    #[rustfmt::skip]
    let cases = [
        // check, corruption, says, why
        ("usage_is_priced_right", "UPDATE components SET tiers = jsonb_set(tiers, '{1,price,type}', '\"stairs\"')",        "a tier of an unknown kind: stairs",   "a kind of tier"),
        ("usage_is_priced_right", "UPDATE components SET tiers = jsonb_set(tiers, '{1,price}', '{}')",                     "a tier of an unknown kind: ",         "no kind at all"),
        ("usage_is_priced_right", "UPDATE components SET tiers = jsonb_set(tiers, '{1,price,batch_rounding}', '\"odd\"')", "an unknown rounding of batches: odd", "a rounding of batches"),
        ("usage_is_what_events_say", "UPDATE metrics SET aggregation_type = 'median' WHERE name = 'seats'",                "an unknown aggregation: median",      "what a counter makes of events"),
        ("usage_is_what_events_say", "UPDATE metrics SET aggregation_type = 'median' WHERE name = 'busiest'",              "an unknown aggregation of a rate: median", "what a rate makes of a window"),
        ("rollups_are_their_events", "UPDATE metrics SET aggregation_type = 'median' WHERE name = 'seats'",                "an unknown aggregation: median",      "what is rolled up"),
    ];
    for (check, corruption, says, why) in cases {
        let corrupt = format!("BEGIN; SET LOCAL session_replication_role = replica; {corruption}");
        pg.batch_execute(&corrupt).expect(&corrupt);
        let named = CHECKS.iter().find(|one| one.name == check).expect(check);
        let said = audit_by(slice::from_ref(named), None, &mut pg, &mut |_| {}).expect_err(why).to_string();
        assert!(said.contains(check) && said.contains(says), "{why}: {said}");
        pg.batch_execute(&format!("ROLLBACK; {corrupt}")).expect(&corrupt);
        audit(&mut pg, &mut |_| {}).expect_err(why);
        pg.batch_execute("ROLLBACK").expect("rolled back");
    }
}

/// A customer in real time with a plan whose usage starts again each day, from 40 days ago: each of the days that are over
/// waits for late events.
fn late_days(world: &World) {
    let calls = world.metric();
    let version = json!({"currency_code": "USD", "components": [
        {"metric_id": calls, "reset_interval_unit": "day", "reset_interval_count": 1,
            "tiers": [{"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1}]}]});
    let body = json!({"plan_name": "Daily", "plan_duration": "monthly", "initial_version": version});
    let plan = world.post("/api/plans/", &body).ok(201).id("plan_id");
    world.customer("acme");
    subscribe(world, "acme", &plan, &crate::support::ago(time::Duration::days(40))[..10]);
}

#[test]
fn the_auditor_knows_how_long_an_invoice_waits() {
    #[rustfmt::skip]
    let cases: [(&[u32], &str); 7] = [
        // minutes, the last of them after the customer was billed; why
        (&[0],       "late events are waited for five minutes at least"),
        (&[4],       "less than those five minutes"),
        (&[5],       "just those"),
        (&[30],      "longer than those"),
        (&[30, 5],   "a shorter wait holds for what is queued already"),
        (&[30, 0],   "also one below the five minutes"),
        (&[0, 30],   "a longer one finds it queued too early, which does no harm"),
    ];
    for (minutes, why) in cases {
        let world = World::new();
        let wait = |minutes: u32| {
            let patch = json!({"invoice_grace_minutes": minutes}).to_string();
            world.write("PATCH", "/api/organization/", patch.as_bytes()).ok(200);
        };
        wait(minutes[0]);
        late_days(&world);
        minutes[1..].iter().for_each(|minutes| wait(*minutes));
        let report = audit_database(world.url(), &mut |_| {}).expect("an audit");
        assert!(report.is_clean(), "{minutes:?}: {why}: {report}");
    }
}
