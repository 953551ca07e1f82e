//! Three years of random customers, lived through HTTP by test clocks: the auditor finds nothing, and it does not
//! matter in which steps the years went by or how many processes billed them.
//!
//! `BILLING_LIVES` says how many subscriptions there are in all; each life is a seed, printed when it fails.

use std::fmt::Write;

use billing_audit::audit_database;
use serde_json::{Value, json};
use time::macros::{date, format_description};
use time::{Date, Duration};

use crate::support::{Field, World};

const FIRST: Date = date!(2023 - 01 - 31);
const DAYS: i64 = 3 * 365;

/// Numbers that look random and are the same for a seed.
struct Dice(u64);

impl Dice {
    /// One of `0..sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

fn shown(day: Date) -> String {
    day.format(format_description!("[year]-[month]-[day]")).expect("a day")
}

fn lives() -> u64 {
    std::env::var("BILLING_LIVES").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// A random version: a fee, calls, perhaps by week or month, and prepaid seats.
fn version(dice: &mut Dice, calls: &str, seats: &str) -> Value {
    let timing = ["in_advance", "in_arrears"][dice.roll(2) as usize];
    let behavior = ["prorate", "full"][dice.roll(2) as usize];
    let mut metered = json!({"metric_id": calls, "tiers": [
        {"type": "free", "range_start": 0, "range_end": dice.roll(5) + 1},
        {"type": "per_unit", "cost_per_batch": format!("0.{}", dice.roll(900) + 37), "metric_units_per_batch": dice.roll(3) + 1}]});
    metered["tiers"][1]["range_start"] = metered["tiers"][0]["range_end"].clone();
    if dice.roll(2) == 0 {
        for name in ["reset_interval", "invoicing_interval"] {
            metered[format!("{name}_unit")] = json!(["week", "month"][dice.roll(2) as usize]);
            metered[format!("{name}_count")] = json!(1);
        }
    }
    let mut version = json!({
        "currency_code": "USD",
        "recurring_charges": [{"name": "base", "amount": format!("{}.99", dice.roll(90)), "charge_timing": timing, "charge_behavior": behavior}],
        "components": [metered, {"metric_id": seats, "prepaid_charge": {"charge_behavior": behavior, "units": dice.roll(5) + 1},
            "tiers": [{"type": "per_unit", "range_start": 0, "cost_per_batch": "1.25", "metric_units_per_batch": 1}]}],
    });
    if dice.roll(3) == 0 {
        let kind = ["percentage", "fixed"][dice.roll(2) as usize];
        version["price_adjustment"] = json!({"price_adjustment_name": "rebate", "price_adjustment_type": kind,
            "price_adjustment_amount": -(dice.roll(9) as i64)});
    }
    version
}

/// What every life of a seed has in common.
struct Setting {
    world: World,
    calls: String,
    seats: String,
    plans: Vec<String>,
}

impl Setting {
    fn new(dice: &mut Dice) -> Self {
        let world = World::new();
        world.write("PATCH", "/api/organization/", br#"{"tax_rate": "7.7", "payment_grace_period": 10}"#).ok(200);
        let calls = world.metric();
        let seats = world.post("/api/metrics/", &json!({"event_name": "seat"})).ok(201).id("metric_id");
        let plans = (0..3).map(|n| {
            let body = json!({"plan_name": format!("Plan {n}"), "plan_duration": "monthly",
                "initial_version": version(dice, &calls, &seats)});
            world.post("/api/plans/", &body).ok(201).id("plan_id")
        });
        let plans = plans.collect();
        Self { world, calls, seats, plans }
    }

    /// Sends calls and seats of a day at most 25 days back.
    fn track(&self, dice: &mut Dice, customer: &str, today: Date, turn: i64) {
        let events = (0..dice.roll(12)).map(|n| {
            let day = (today - Duration::days(dice.roll(25) as i64)).max(FIRST);
            let name = ["api_call", "seat"][dice.roll(2) as usize];
            json!({"customer_id": customer, "event_name": name, "idempotency_id": format!("{customer}-{turn}-{n}"),
                "time_created": format!("{}T0{}:00:00Z", shown(day), dice.roll(10))})
        });
        // A day's first hours may still be to come: nothing is later than the clock and a day.
        let events: Vec<_> = events.collect();
        if !events.is_empty() {
            let answer = self.world.post("/api/track/", &json!({"batch": events}));
            assert_eq!(answer.json()["success"], "all", "{}", answer.text);
        }
    }

    /// Something happens to the customer's subscription, or it is subscribed again.
    fn act(&self, dice: &mut Dice, customer: &str, today: Date) {
        let held = self.world.get(&format!("/api/subscriptions/?customer_id={customer}")).ok(200);
        let plan = &self.plans[dice.roll(3) as usize];
        let invoicing = ["invoice_now", "add_to_next_invoice"][dice.roll(2) as usize];
        let Some(subscription) = held.as_array().and_then(|held| held.first()) else {
            let body = json!({"customer_id": customer, "plan_id": plan, "start_date": shown(today)});
            self.world.post("/api/subscriptions/", &body).ok(200);
            return;
        };
        let id = subscription.id("subscription_id");
        let path = |verb: &str| format!("/api/subscriptions/{id}/{verb}/");
        let answer = match dice.roll(6) {
            0 => {
                let fee = [json!(null), json!("refund"), json!("charge_full")][dice.roll(3) as usize].clone();
                let usage = ["bill_full", "bill_none"][dice.roll(2) as usize];
                let body = json!({"invoicing_behavior": invoicing, "flat_fee_behavior": fee, "usage_behavior": usage});
                self.world.post(&path("cancel"), &body)
            }
            1 => {
                let usage = ["transfer_to_new_subscription", "keep_separate"][dice.roll(2) as usize];
                let body = json!({"switch_plan_id": plan, "invoicing_behavior": invoicing, "usage_behavior": usage});
                self.world.post(&path("switch_plan"), &body)
            }
            2 | 3 => self.world.post(
                &path(&format!("components/{}/change_prepaid_units", self.seats)),
                &json!({"units": dice.roll(9), "invoice_now": dice.roll(2) == 0}),
            ),
            4 => self.world.post(
                "/api/credits/",
                &json!({"customer_id": customer, "amount": dice.roll(40) + 1, "currency_code": "USD"}),
            ),
            _ => self.world.post(&path("update"), &json!({"turn_off_auto_renew": true})),
        };
        // A switch to the plan it has, or one that overlaps what waits, is refused; the service never fails.
        assert!(answer.status < 500, "{}", answer.text);
    }

    /// Everything on the customer's invoices that does not depend on ids.
    fn books(&self, customer: &str) -> String {
        let mut books = String::new();
        let invoices = self.world.get(&format!("/api/invoices/?customer_id={customer}")).ok(200);
        for invoice in invoices.as_array().expect("a list") {
            writeln!(books, "{} {}", invoice["issue_date"], invoice["amount"]).expect("written");
            for line in invoice["line_items"].as_array().expect("lines") {
                writeln!(books, "  {} {} {} {}", line["name"], line["start_date"], line["quantity"], line["amount"])
                    .expect("written");
            }
        }
        books
    }
}

/// One customer's three years, advanced in steps of at most `step` days between what happens; its books.
fn live(setting: &Setting, seed: u64, step: i64, customer: &str) -> String {
    let mut dice = Dice(seed);
    let clock = setting.world.clock(&shown(FIRST));
    setting.world.customer_at(customer, &clock);
    let (mut day, mut turn) = (0, 0);
    setting.act(&mut dice, customer, FIRST);
    while day < DAYS {
        let next = (day + 5 + dice.roll(80) as i64).min(DAYS);
        while day < next {
            day = (day + step).min(next);
            setting.world.advance(&clock, &shown(FIRST + Duration::days(day)));
        }
        let today = FIRST + Duration::days(day);
        setting.track(&mut dice, customer, today, turn);
        setting.act(&mut dice, customer, today);
        turn += 1;
    }
    setting.world.advance(&clock, &shown(FIRST + Duration::days(DAYS + 120)));
    setting.books(customer)
}

#[test]
fn years_of_random_lives_leave_the_books_right() {
    let mut seed = 1;
    while seed <= lives() {
        let setting = Setting::new(&mut Dice(seed));
        for _ in 0..10 {
            if seed > lives() {
                break;
            }
            let at_once = live(&setting, seed, DAYS, &format!("once-{seed}"));
            let in_steps = live(&setting, seed, 11, &format!("steps-{seed}"));
            assert!(at_once.lines().count() > 10, "seed {seed}: something is billed");
            assert_eq!(at_once, in_steps, "seed {seed}: steps change nothing");
            seed += 1;
        }
        let access = format!("/api/metric_access/?customer_id=once-{}&metric_id={}", seed - 1, setting.calls);
        setting.world.get(&access).ok(200);
        let report = audit_database(setting.world.url(), &mut |_| {}).expect("an audit");
        assert!(report.is_clean(), "seeds up to {}: {report}", seed - 1);
    }
}
