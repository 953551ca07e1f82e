//! The law of corrections where processes die: whatever is late, voided, amended, credited, withdrawn, issued anew, renewed, switched or
//! cancelled, and however often the server is killed over it, all documents together come to the price of the true events, less what
//! was waived. Each call is repeated under its `Idempotency-Key` until it is answered.
//!
//! `BILLING_CORRECTION_LIVES` says how many lives are lived and `BILLING_FIRST_LIFE` which is the first; each is a seed.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use billing_audit::audit_database;
use diesel::sql_types::Text;
use diesel::{Connection, PgConnection, RunQueryDsl, sql_query};
use postgres_local::Cluster;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::macros::datetime;
use time::{Duration as Days, OffsetDateTime};
use ureq::Agent;

use super::acknowledged::{KEY, Process};
use super::lives::{Dice, number};
use crate::support::Field;

const START: OffsetDateTime = datetime!(2024-01-31 0:00 UTC);
/// Acts in a life.
const ACTS: u32 = 60;
/// The server is killed within so many milliseconds of its start.
const KILLED_WITHIN_MS: u64 = 900;

/// The usage of all records that are settled, by what their documents say and by what its events cost: where those differ.
const BREACHES: &str = "
    SELECT concat_ws(' ', customer.customer_id, record.id, record.start_at, 'billed', told.billed, 'price', price.amount, 'waived', record.billed_forgiven) AS breach
    FROM billing_records record
    JOIN subscriptions subscription ON subscription.customer_key = record.customer_key AND subscription.id = record.subscription_id
    JOIN customers customer ON customer.customer_key = record.customer_key
    JOIN components component ON component.id = record.component_id
    CROSS JOIN LATERAL (
        SELECT count(*) AS calls FROM events
        WHERE events.customer_key = record.customer_key AND events.correction < 2
            AND events.time_created >= record.start_at AND events.time_created < record.end_at
    ) true_events
    CROSS JOIN LATERAL (
        SELECT round(CASE jsonb_array_length(component.tiers)
            WHEN 1 THEN true_events.calls * 0.5
            ELSE greatest(true_events.calls - 3, 0) * 0.333
        END, 2) AS amount
    ) price
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(line.base - coalesce((
            SELECT sum(part.base) FROM credit_note_lines part
            JOIN credit_notes note ON note.customer_key = part.customer_key AND note.id = part.credit_note_id
            WHERE note.voided_at IS NULL AND part.customer_key = line.customer_key
                AND part.invoice_id = line.invoice_id AND part.position = line.position
        ), 0)), 0) AS billed
        FROM invoice_lines line
        JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
        WHERE line.customer_key = record.customer_key AND line.record_id = record.id AND invoice.payment_status <> 'voided'
    ) told
    WHERE record.usage_billing = 'here' AND record.next_invoicing_at IS NULL AND record.late_until IS NULL
        AND told.billed <> greatest(price.amount - record.billed_forgiven, 0)";

#[derive(diesel::QueryableByName)]
struct Breach {
    #[diesel(sql_type = Text)]
    breach: String,
}

/// A server that is killed again and again, and who calls it.
struct Stage<'s> {
    url: String,
    folder: &'s Path,
    server: Option<Process>,
    killer: Option<thread::JoinHandle<()>>,
    agent: Agent,
    dice: Dice,
    calls: u32,
    kills: u32,
}

impl Stage<'_> {
    /// Starts a server and, unless it is to live, whoever kills it in a while.
    fn start(&mut self, is_killed: bool) {
        let server = Process::start(&self.url, &self.folder.join("server"));
        if is_killed {
            let (pid, patience) = (server.child.id(), Duration::from_millis(self.dice.roll(KILLED_WITHIN_MS)));
            self.killer = Some(thread::spawn(move || {
                thread::sleep(patience);
                // Not reaped before the thread is joined: the number is nobody else's.
                Command::new("kill").args(["-9", &pid.to_string()]).status().expect("killed");
            }));
            self.kills += 1;
        }
        self.server = Some(server);
    }

    /// Waits for the killer, and begins again with the next server.
    fn start_again(&mut self, is_killed: bool) {
        if let Some(killer) = self.killer.take() {
            killer.join().expect("no panic");
        }
        drop(self.server.take());
        self.start(is_killed);
    }

    /// Calls until there is an answer; `None` where the call is refused.
    fn call(&mut self, method: &str, path: &str, body: &Value) -> Option<Value> {
        self.calls += 1;
        let key = format!("call-{}", self.calls);
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < Duration::from_secs(120), "{method} {path} is never answered");
            let url = format!("http://{}{path}", self.server.as_ref().expect("it was started").addr());
            let answered = match method {
                "GET" => self.agent.get(url).header("X-API-KEY", KEY).call(),
                "DELETE" => self.agent.delete(url).header("X-API-KEY", KEY).call(),
                _ => {
                    let call = self.agent.post(url).header("X-API-KEY", KEY).header("Idempotency-Key", &key);
                    call.send_json(body)
                }
            };
            let Ok(mut answer) = answered else {
                self.start_again(true);
                continue;
            };
            let status = answer.status().as_u16();
            let Ok(text) = answer.body_mut().read_to_string() else {
                self.start_again(true);
                continue;
            };
            assert_ne!(status, 500, "{method} {path}: {text}");
            // What is not there for a moment, or still at work for one who died.
            if status == 503 || text.contains("idempotency_key_in_use") {
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            let answer = serde_json::from_str(&text).unwrap_or(Value::Null);
            return (status < 300).then_some(answer);
        }
    }

    fn post(&mut self, path: &str, body: &Value) -> Option<Value> {
        self.call("POST", path, body)
    }

    fn list(&mut self, path: &str) -> Vec<Value> {
        let listed = self.call("GET", path, &Value::Null).expect("a list");
        listed.as_array().expect("a list").clone()
    }

    /// One of a list; `None` where it is empty.
    fn one_of(&mut self, path: &str) -> Option<Value> {
        let listed = self.list(path);
        let place = self.dice.roll(listed.len().max(1) as u64) as usize;
        listed.get(place).cloned()
    }
}

/// A customer on a clock of its own, with two plans to go between.
struct Life<'l, 's> {
    stage: &'l mut Stage<'s>,
    customer: String,
    clock: String,
    plans: [String; 2],
    now: OffsetDateTime,
    sent: u64,
}

impl Life<'_, '_> {
    fn ago(&mut self, days_max: u64) -> String {
        let at = self.now - Days::days(self.stage.dice.roll(days_max) as i64) - Days::HOUR;
        at.max(START).format(&Rfc3339).expect("a time")
    }

    fn wait(&mut self, days: u64) {
        self.now += Days::days(days as i64);
        let to = json!({"frozen_time": self.now.format(&Rfc3339).expect("a time")});
        let path = format!("/api/test_clocks/{}/", self.clock);
        self.stage.post(&format!("{path}advance/"), &to).expect("advanced");
        let began = Instant::now();
        while self.stage.call("GET", &path, &Value::Null).expect("a clock")["status"] == "advancing" {
            assert!(began.elapsed() < Duration::from_secs(120), "the clock does not arrive");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn event(&mut self) -> String {
        format!("{}-{}", self.customer, self.stage.dice.roll(self.sent.max(1)))
    }

    fn invoice(&mut self) -> Option<Value> {
        self.stage.one_of(&format!("/api/invoices/?customer_id={}", self.customer))
    }

    fn subscribe(&mut self) {
        let plan = &self.plans[self.stage.dice.roll(2) as usize];
        let start = self.now.format(&Rfc3339).expect("a time");
        let body = json!({"customer_id": self.customer, "plan_id": plan, "start_date": start});
        self.stage.post("/api/subscriptions/", &body);
    }

    fn track(&mut self) {
        let (count, time) = (1 + self.stage.dice.roll(5), self.ago(20));
        let batch: Vec<Value> = (self.sent..self.sent + count)
            .map(|n| {
                let id = format!("{}-{n}", self.customer);
                json!({"customer_id": self.customer, "event_name": "call", "idempotency_id": id, "time_created": time})
            })
            .collect();
        self.sent += count;
        let answer = self.stage.post("/api/track/", &json!({"batch": batch})).expect("tracked");
        assert_eq!(answer["success"], "all", "{answer}");
    }

    fn correct(&mut self) {
        let (id, time) = (self.event(), self.ago(50));
        let mut body = json!({"customer_id": self.customer, "beyond_window": true, "reason": "law"});
        let path = if self.stage.dice.roll(3) == 0 {
            body["events"] = json!([{"idempotency_id": id, "time_created": time}]);
            "/api/events/amend/"
        } else {
            body["idempotency_ids"] = json!([id]);
            "/api/events/void/"
        };
        self.stage.post(path, &body);
    }

    fn credit(&mut self) {
        let Some(invoice) = self.invoice() else { return };
        let mut body = json!({"invoice_id": invoice["invoice_id"], "reason": "law", "settlement": "balance"});
        match self.stage.dice.roll(3) {
            0 => body["amount"] = json!(1 + self.stage.dice.roll(9)),
            _ => body["corrections"] = json!(true),
        }
        self.stage.post("/api/credit_notes/", &body);
    }

    /// Does something with a document that there is.
    fn change_document(&mut self) {
        let Some(invoice) = self.invoice() else { return };
        let path = format!("/api/invoices/{}", invoice.id("invoice_id"));
        match self.stage.dice.roll(8) {
            0 => drop(self.stage.post(&format!("{path}/void/"), &json!({}))),
            1..=4 => drop(self.stage.post(&format!("{path}/void/"), &json!({"rebill": true}))),
            5 => drop(self.stage.post(&format!("{path}/payments/"), &json!({"amount": 7}))),
            _ => {
                let notes = format!("/api/credit_notes/?customer_id={}", self.customer);
                let Some(note) = self.stage.one_of(&notes) else { return };
                let path = format!("/api/credit_notes/{}/void/", note.id("credit_note_id"));
                self.stage.post(&path, &json!({}));
            }
        }
    }

    fn change_subscription(&mut self) {
        let running = self.stage.one_of(&format!("/api/subscriptions/?customer_id={}", self.customer));
        let Some(running) = running else { return self.subscribe() };
        let path = format!("/api/subscriptions/{}", running.id("subscription_id"));
        if self.stage.dice.roll(3) == 0 {
            let usage_behavior = self.stage.dice.pick(&["bill_full", "bill_none"]);
            self.stage.post(&format!("{path}/cancel/"), &json!({"usage_behavior": usage_behavior}));
        } else {
            let plan = &self.plans[self.stage.dice.roll(2) as usize];
            let invoicing = self.stage.dice.pick(&["invoice_now", "add_to_next_invoice"]);
            let body = json!({"switch_plan_id": plan, "invoicing_behavior": invoicing,
                "usage_behavior": "transfer_to_new_subscription"});
            self.stage.post(&format!("{path}/switch_plan/"), &body);
        }
    }

    fn charge_once(&mut self) {
        let path = format!("/api/customers/{}/one_off_lines/", self.customer);
        if self.stage.dice.roll(4) == 0 {
            let Some(line) = self.stage.one_of(&path) else { return };
            self.stage.call("DELETE", &format!("{path}{}/", line.id("one_off_line_id")), &Value::Null);
        } else {
            let (amount, now) = (1 + self.stage.dice.roll(40), self.stage.dice.roll(2) == 0);
            self.stage.post(&path, &json!({"name": "once", "amount": amount, "invoice_now": now}));
        }
    }

    fn act(&mut self) {
        match self.stage.dice.roll(16) {
            0..=2 => {
                let days = 3 + self.stage.dice.roll(35);
                self.wait(days);
            }
            3..=6 => self.track(),
            7..=9 => self.correct(),
            10..=11 => self.credit(),
            12..=13 => self.change_document(),
            14 => self.change_subscription(),
            _ => self.charge_once(),
        }
    }
}

fn plan(stage: &mut Stage<'_>, name: &str, fee: u32, metric: &str, tiers: &Value) -> String {
    let fee = json!({"name": "base", "amount": fee, "charge_timing": "in_advance"});
    let version = json!({"currency_code": "USD", "recurring_charges": [fee],
        "components": [{"metric_id": metric, "tiers": tiers}]});
    let body = json!({"plan_name": name, "plan_duration": "monthly", "initial_version": version});
    stage.post("/api/plans/", &body).expect("a plan").id("plan_id")
}

#[test]
fn documents_come_to_the_price_of_the_true_events_however_often_the_server_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::persistent(&folder.path().join("postgres")).expect("a durable cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let agent = Agent::config_builder().timeout_global(Some(Duration::from_secs(20))).http_status_as_error(false);
    let first = number("BILLING_FIRST_LIFE", 1);
    let mut stage = Stage {
        url: cluster.url("billing"),
        folder: folder.path(),
        server: None,
        killer: None,
        agent: agent.build().into(),
        dice: Dice(first),
        calls: 0,
        kills: 0,
    };
    stage.start(true);
    let metric = stage.post("/api/metrics/", &json!({"event_name": "call"})).expect("a metric").id("metric_id");
    let unit = |price: &str, from: u32| json!({"type": "per_unit", "range_start": from, "cost_per_batch": price, "metric_units_per_batch": 1});
    let free = json!([{"type": "free", "range_start": 0, "range_end": 3}, unit("0.333", 3)]);
    let plans =
        [plan(&mut stage, "Free", 30, &metric, &free), plan(&mut stage, "Flat", 50, &metric, &json!([unit("0.5", 0)]))];
    let lives = number("BILLING_CORRECTION_LIVES", 1);
    for seed in first..first + lives {
        stage.dice = Dice(seed);
        let start = START.format(&Rfc3339).expect("a time");
        let clock = json!({"name": format!("of {seed}"), "frozen_time": start});
        let clock = stage.post("/api/test_clocks/", &clock).expect("a clock").id("test_clock_id");
        let customer = format!("c{seed}");
        let body = json!({"customer_id": customer, "email": format!("{customer}@acme.io"), "test_clock_id": clock});
        stage.post("/api/customers/", &body).expect("a customer");
        let mut life = Life { stage: &mut stage, customer, clock, plans: plans.clone(), now: START, sent: 0 };
        life.subscribe();
        for _ in 0..ACTS {
            life.act();
        }
        // By then everything was looked at for the last time.
        life.wait(80);
        life.wait(80);
    }
    stage.start_again(false);
    let mut pg = PgConnection::establish(&stage.url).expect("a connection");
    let breaches: Vec<Breach> = sql_query(BREACHES).load(&mut pg).expect("the law");
    assert!(breaches.is_empty(), "{:#?}", breaches.iter().map(|one| &one.breach).collect::<Vec<_>>());
    let settled = sql_query("SELECT count(*)::text AS breach FROM billing_records WHERE billed_quantity > 0");
    let settled: Breach = settled.get_result(&mut pg).expect("a number");
    let settled: u64 = settled.breach.parse().expect("a number");
    assert!(settled >= lives, "{settled} periods with usage in {lives} lives");
    assert!(u64::from(stage.kills) >= lives, "{} kills in {lives} lives", stage.kills);
    let report = audit_database(&stage.url, &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "{report}");
}
