//! Three years of random customers, lived through HTTP by test clocks: the auditor finds nothing, and it does not
//! matter in which steps the years went by, how many processes billed them, or whether Postgres kept them at all.
//!
//! `BILLING_LIVES` says how many subscriptions there are in all and `BILLING_FIRST_LIFE` which is the first; each life is
//! a seed, printed when it fails.

use std::cell::Cell;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration as Time, Instant};

use billing_audit::audit_database;
use billing_domain::api_key::{ApiKey, KeyKind, KeyScopes};
use billing_domain::memory::MemoryStore;
use billing_domain::store::{Scope, Store};
use billing_domain::workflow::{CreateOrganization, create_organization};
use billing_http::caller::KeyText;
use billing_http::{Backend, RunningServer, Server, ServerSettings};
use serde_json::{Value, json};
use time::macros::{date, format_description};
use time::{Date, Duration, OffsetDateTime};

use crate::support::{Answer, Field, World, connect};

mod catalog;

use catalog::Catalog;

const FIRST: Date = date!(2023 - 01 - 31);
const DAYS: i64 = 3 * 365;
/// Lives that share one database.
const LIVES_PER_WORLD: u64 = 10;

/// Numbers that look random and are the same for a seed.
pub struct Dice(pub u64);

impl Dice {
    /// One of `0..sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    /// One of them.
    pub fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.roll(of.len() as u64) as usize]
    }
}

fn shown(day: Date) -> String {
    day.format(format_description!("[year]-[month]-[day]")).expect("a day")
}

pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// Where lives are lived: one process, or several on one database that are spoken to in turns.
pub struct Stage<'w> {
    world: &'w World,
    addrs: Vec<SocketAddr>,
    key: String,
    sent: Cell<usize>,
}

impl<'w> Stage<'w> {
    fn new(world: &'w World, addrs: &[SocketAddr], key: &str) -> Self {
        Self { world, addrs: addrs.to_vec(), key: key.to_owned(), sent: Cell::new(0) }
    }

    fn send(&self, addr: SocketAddr, method: &str, path: &str, body: &str) -> Answer {
        let headers = [("X-API-KEY", self.key.as_str()), ("Content-Type", "application/json")];
        self.world.send_to(addr, method, path, &headers, body.as_bytes())
    }

    fn next_addr(&self) -> SocketAddr {
        self.sent.set(self.sent.get() + 1);
        self.addrs[self.sent.get() % self.addrs.len()]
    }

    /// Asks one of the processes.
    pub fn get(&self, path: &str) -> Value {
        self.send(self.next_addr(), "GET", path, "").ok(200)
    }

    /// Tells one of the processes.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.next_addr(), "POST", path, &body.to_string())
    }

    fn clock(&self) -> String {
        self.post("/api/test_clocks/", &json!({"name": "clock", "frozen_time": shown(FIRST)}))
            .ok(201)
            .id("test_clock_id")
    }

    /// Advances the first of `clocks`, with all processes at it: each is told about a clock, and looks for all that are
    /// on their way.
    fn advance(&self, clocks: &[String], day: i64) {
        let time = json!({"frozen_time": shown(FIRST + Duration::days(day))}).to_string();
        for (clock, addr) in clocks.iter().zip(&self.addrs) {
            self.send(*addr, "POST", &format!("/api/test_clocks/{clock}/advance/"), &time).ok(200);
        }
        for clock in clocks {
            let began = Instant::now();
            let path = format!("/api/test_clocks/{clock}/");
            loop {
                let status = self.get(&path).id("status");
                if status == "ready" {
                    break;
                }
                assert!(status == "advancing" && began.elapsed() < Time::from_secs(60), "the clock is {status}");
                thread::sleep(Time::from_millis(3));
            }
        }
    }
}

/// One customer's life on a stage.
struct Life<'s> {
    stage: &'s Stage<'s>,
    catalog: &'s Catalog,
    dice: Dice,
    customer: String,
    /// What it has held so far, to tell events by.
    turn: i64,
}

impl Life<'_> {
    /// Three years, advanced in steps of at most `step` days between what happens; the books they leave.
    fn live(mut self, step: &mut dyn FnMut() -> i64) -> String {
        let clocks: Vec<_> = self.stage.addrs.iter().map(|_| self.stage.clock()).collect();
        let body = json!({"customer_id": self.customer, "email": format!("{}@acme.io", self.customer), "test_clock_id": clocks[0]});
        self.stage.post("/api/customers/", &body).ok(201);
        let mut day = 0;
        self.act(FIRST);
        while day < DAYS {
            let next = (day + 5 + self.dice.roll(80) as i64).min(DAYS);
            while day < next {
                day = (day + step()).min(next);
                self.stage.advance(&clocks, day);
            }
            let today = FIRST + Duration::days(day);
            self.track(today);
            self.act(today);
            self.turn += 1;
        }
        self.stage.advance(&clocks, DAYS + 120);
        self.books()
    }

    /// Sends events of at most 25 days back.
    fn track(&mut self, today: Date) {
        let events: Vec<_> = (0..self.dice.roll(12))
            .map(|n| {
                let day = (today - Duration::days(self.dice.roll(25) as i64)).max(FIRST);
                // A day's first hours may still be to come: nothing is later than the clock and a day.
                json!({"customer_id": self.customer, "event_name": self.dice.pick(&["call", "call", "seat", "level", "extra"]),
                    "idempotency_id": format!("{}-{}-{n}", self.customer, self.turn),
                    "time_created": format!("{}T0{}:00:00Z", shown(day), self.dice.roll(10)),
                    "properties": {"n": self.dice.roll(9), "user": self.dice.pick(&["ada", "bob", "eve"]),
                        "region": self.dice.pick(&["eu", "us"])}})
            })
            .collect();
        if !events.is_empty() {
            let answer = self.stage.post("/api/track/", &json!({"batch": events}));
            assert_eq!(answer.json()["success"], "all", "{}", answer.text);
        }
    }

    /// Something happens to the customer's subscription, or it is subscribed again.
    fn act(&mut self, today: Date) {
        let held = self.stage.get(&format!("/api/subscriptions/?customer_id={}", self.customer));
        let plan = &self.catalog.plans[self.dice.roll(3) as usize];
        let invoicing = self.dice.pick(&["invoice_now", "add_to_next_invoice"]);
        let Some(subscription) = held.as_array().and_then(|held| held.first()) else {
            let mut body = json!({"customer_id": self.customer, "plan_id": plan, "start_date": shown(today)});
            if self.dice.roll(3) == 0 {
                body["subscription_filters"] = json!([{"property_name": "region", "value": "eu"}]);
            }
            self.stage.post("/api/subscriptions/", &body).ok(200);
            return;
        };
        match self.dice.roll(8) {
            0 => return self.void(),
            1 => return self.tax(),
            _ => {}
        }
        let (verb, body) = self.change(plan, invoicing, today);
        let path = match verb.strip_prefix('/') {
            Some(path) => format!("/api/{path}/"),
            None => format!("/api/subscriptions/{}/{verb}/", subscription.id("subscription_id")),
        };
        let answer = self.stage.post(&path, &body);
        // A switch to the plan it has, or an add-on that is not attached, is refused; the service never fails.
        assert!(answer.status < 500, "{path} {body}: {}", answer.text);
    }

    /// Voids one of the latest unpaid invoices, where that can be.
    fn void(&mut self) {
        let back = self.dice.roll(3) as usize;
        let unpaid = self.list(&format!("invoices/?customer_id={}&status=unpaid", self.customer));
        let Some(invoice) = unpaid.get(back) else { return };
        let answer = self.stage.post(&format!("/api/invoices/{}/void/", invoice.id("invoice_id")), &json!({}));
        assert!([200, 409].contains(&answer.status), "{}", answer.text);
    }

    /// Gives the customer another tax rate.
    fn tax(&mut self) {
        let rate = self.dice.pick(&["0", "5.5", "19", "20"]);
        let path = format!("/api/customers/{}/", self.customer);
        let addr = self.stage.next_addr();
        self.stage.send(addr, "PATCH", &path, &json!({ "tax_rate": rate }).to_string()).ok(200);
    }

    /// A call about the subscription, or, with a slash, about something else.
    fn change(&mut self, plan: &str, invoicing: &str, today: Date) -> (String, Value) {
        let dice = &mut self.dice;
        let fee = [json!(null), json!("refund"), json!("charge_full"), json!("charge_prorated")][dice.roll(4) as usize]
            .clone();
        let usage = dice.pick(&["bill_full", "bill_none"]);
        let cancellation = json!({"invoicing_behavior": invoicing, "flat_fee_behavior": fee, "usage_behavior": usage});
        let addon = &self.catalog.addons[dice.roll(3) as usize];
        match dice.roll(12) {
            0 => ("cancel".to_owned(), cancellation),
            1 | 2 => {
                let usage = dice.pick(&["transfer_to_new_subscription", "keep_separate"]);
                let body = json!({"switch_plan_id": plan, "invoicing_behavior": invoicing, "usage_behavior": usage});
                ("switch_plan".to_owned(), body)
            }
            3..=5 => {
                let path = format!("components/{}/change_prepaid_units", self.catalog.seats);
                (path, json!({"units": dice.roll(9), "invoice_now": dice.roll(2) == 0}))
            }
            6 => {
                let mut body =
                    json!({"customer_id": self.customer, "amount": dice.roll(40) + 1, "currency_code": "USD"});
                if dice.roll(2) == 0 {
                    body["expires_at"] = json!(shown(today + Duration::days(40)));
                }
                ("/credits".to_owned(), body)
            }
            7 => ("update".to_owned(), json!({"end_date": shown(today + Duration::days(dice.roll(60) as i64))})),
            8..=9 => ("addons/attach".to_owned(), json!({"addon_id": addon, "quantity": dice.roll(2) + 1})),
            10 => (format!("addons/{addon}/cancel"), cancellation),
            _ => ("update".to_owned(), json!({"turn_off_auto_renew": true})),
        }
    }

    /// Everything of the customer's that does not depend on ids.
    fn books(&self) -> String {
        let mut books = String::new();
        let mut write = |line: std::fmt::Arguments<'_>| writeln!(books, "{line}").expect("written");
        let customer = &self.customer;
        for subscription in self.list(&format!("subscriptions/?customer_id={customer}&status=active,ended,not_started"))
        {
            write(format_args!(
                "{} to {} {} {}",
                subscription["start_date"],
                subscription["end_date"],
                subscription["is_new"],
                subscription["fully_billed"]
            ));
        }
        for invoice in self.list(&format!("invoices/?customer_id={customer}")) {
            write(format_args!("{} due {}: {}", invoice["issue_date"], invoice["due_date"], invoice["amount"]));
            for line in invoice["line_items"].as_array().expect("lines") {
                write(format_args!(
                    "  {} {} {} {}",
                    line["name"], line["start_date"], line["quantity"], line["amount"]
                ));
            }
        }
        for credit in self.list(&format!("credits/?customer_id={customer}")) {
            write(format_args!("{} of {} {}", credit["amount_remaining"], credit["amount"], credit["status"]));
        }
        books
    }

    fn list(&self, path: &str) -> Vec<Value> {
        self.stage.get(&format!("/api/{path}")).as_array().expect("a list").clone()
    }
}

fn settings(world: &World) -> ServerSettings {
    let mut settings = ServerSettings::new("127.0.0.1:0".parse().expect("an address"), world.opened.pepper.clone(), 8);
    settings.notice = Time::ZERO;
    settings
}

/// The service over a store in memory, with an organization; its key.
fn in_memory(world: &World) -> (RunningServer, String) {
    let store = MemoryStore::at(OffsetDateTime::now_utc());
    let organization = store.new_organization();
    let key = KeyText::generate().expect("randomness");
    let command = CreateOrganization { name: "Acme".to_owned() };
    let made = (&store as &dyn Store).run_for(&Scope::Catalog(organization), |tx, now| {
        create_organization(tx, &command, now)?;
        tx.api_keys().insert(&ApiKey {
            kind: KeyKind::ApiKey,
            prefix: key.prefix().to_owned(),
            organization,
            name: "first".to_owned(),
            digest: world.opened.pepper.digest(&key),
            created_at: now,
            expires_at: None,
            scopes: KeyScopes::default(),
            last_used_at: None,
        })
    });
    made.expect("an organization");
    let backend: Arc<dyn Backend> = Arc::new(store);
    (Server::start(&settings(world), backend).expect("a server"), key.reveal().to_owned())
}

/// Taxes, and days until payment is due.
fn set_up(stage: &Stage<'_>, seed: u64) -> Catalog {
    let body = json!({"tax_rate": "7.7", "payment_grace_period": 10}).to_string();
    stage.send(stage.addrs[0], "PATCH", "/api/organization/", &body).ok(200);
    Catalog::new(&mut Dice(seed), stage)
}

/// Lives every seed on every stage and compares the books.
fn live_all(seeds: std::ops::RangeInclusive<u64>) {
    let world = World::new();
    let store = connect(world.url(), 10);
    let second = Server::start(&settings(&world), Arc::new(store)).expect("a second server");
    let one = Stage::new(&world, &[world.addr()], &world.key);
    let two = Stage::new(&world, &[world.addr(), second.addr], &world.key);
    let catalog = set_up(&one, *seeds.start());
    for seed in seeds.clone() {
        // A memory of its own for each life, since it copies all of it with every call.
        let (memory_server, memory_key) = in_memory(&world);
        let memory = Stage::new(&world, &[memory_server.addr], &memory_key);
        let memory_catalog = set_up(&memory, *seeds.start());
        let live = |stage, catalog, how: &str, step: &mut dyn FnMut() -> i64| {
            let customer = format!("{how}-{seed}");
            Life { stage, catalog, dice: Dice(seed), customer, turn: 0 }.live(step)
        };
        let mut steps = Dice(!seed);
        let mut random = || steps.roll(30) as i64 + 1;
        let at_once = live(&one, &catalog, "once", &mut || DAYS);
        assert!(at_once.lines().count() > 10, "seed {seed}: something is billed");
        assert_eq!(at_once, live(&one, &catalog, "steps", &mut random), "seed {seed}: steps change nothing");
        assert_eq!(at_once, live(&two, &catalog, "two", &mut random), "seed {seed}: nor do two processes");
        assert_eq!(at_once, live(&memory, &memory_catalog, "memory", &mut || DAYS), "seed {seed}: nor does the store");
        memory_server.stop().expect("a clean stop");
    }
    second.stop().expect("a clean stop");
    let report = audit_database(world.url(), &mut |_| {}).expect("an audit");
    assert!(report.is_clean(), "seeds {seeds:?}: {report}");
}

#[test]
#[expect(clippy::print_stdout, reason = "hundreds of lives take long, and whoever waits wants to see how far they are")]
fn years_of_random_lives_leave_the_books_right() {
    let (mut seed, end) = (number("BILLING_FIRST_LIFE", 1), number("BILLING_LIVES", 1));
    while seed <= end {
        let last = end.min(seed + LIVES_PER_WORLD - 1);
        let began = Instant::now();
        live_all(seed..=last);
        println!("lives {seed} to {last} in {:.0?}", began.elapsed());
        seed = last + 1;
    }
}
