//! Lives of customers with amounts computed by hand, lived twice: by the service on a store in memory, and on Postgres.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use billing_domain::api_key::{ApiKey, KeyKind, KeyScopes};
use billing_domain::memory::MemoryStore;
use billing_domain::store::{Scope, Store};
use billing_domain::workflow::{CreateOrganization, create_organization};
use billing_http::caller::KeyText;
use billing_http::{Server, ServerSettings};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::support::{Answer, Field, World};

/// A service to live on, whatever it keeps things in.
struct Site<'w> {
    world: &'w World,
    addr: SocketAddr,
    key: String,
    metric: String,
    lives: Cell<u32>,
}

impl<'w> Site<'w> {
    fn new(world: &'w World, addr: SocketAddr, key: &str) -> Self {
        let mut site = Self { world, addr, key: key.to_owned(), metric: String::new(), lives: Cell::new(0) };
        site.metric = site.post("/api/metrics/", &json!({"event_name": "call"})).ok(201).id("metric_id");
        site
    }

    fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        let headers = [("X-API-KEY", self.key.as_str()), ("Content-Type", "application/json")];
        self.world.send_to(self.addr, method, path, &headers, body.as_bytes())
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, &body.to_string())
    }

    fn list(&self, path: &str) -> Vec<Value> {
        self.send("GET", path, "").ok(200).as_array().expect("a list").clone()
    }
}

/// One customer under a test clock that stands at the first of April 2024, a month of thirty days.
struct Life<'s> {
    site: &'s Site<'s>,
    customer: String,
    clock: String,
}

impl<'s> Life<'s> {
    fn new(site: &'s Site<'s>) -> Self {
        Self::with(site, json!({}))
    }

    fn with(site: &'s Site<'s>, fields: Value) -> Self {
        site.lives.set(site.lives.get() + 1);
        let customer = format!("c{}", site.lives.get());
        let clock = json!({"name": customer, "frozen_time": "2024-04-01"});
        let clock = site.post("/api/test_clocks/", &clock).ok(201).id("test_clock_id");
        let body = json!({"customer_id": customer, "email": format!("{customer}@acme.io"), "test_clock_id": clock});
        site.post("/api/customers/", &joined(body, fields)).ok(201);
        Self { site, customer, clock }
    }

    /// A plan of this life's own: its id.
    fn plan(&self, version: Value) -> String {
        let body = json!({"plan_name": "Plan", "plan_duration": "monthly", "initial_version": version});
        self.site.post("/api/plans/", &body).ok(201).id("plan_id")
    }

    /// A subscription to a plan of this life's own: its id.
    fn subscribe(&self, version: Value) -> String {
        let plan = self.plan(version);
        let body = json!({"customer_id": self.customer, "plan_id": plan, "start_date": "2024-04-01"});
        self.site.post("/api/subscriptions/", &body).ok(200).id("subscription_id")
    }

    /// So many calls at once.
    fn track(&self, time: &str, calls: usize) {
        let event = |n: usize| {
            json!({"customer_id": self.customer, "event_name": "call", "idempotency_id": format!("{time} {n}"),
                "time_created": time})
        };
        let batch: Vec<Value> = (0..calls).map(event).collect();
        assert_eq!(self.site.post("/api/track/", &json!({"batch": batch})).ok(201)["success"], "all");
    }

    fn advance(&self, time: &str) {
        let path = format!("/api/test_clocks/{}/", self.clock);
        self.site.post(&format!("{path}advance/"), &json!({"frozen_time": time})).ok(200);
        for _ in 0..1_500 {
            match self.site.send("GET", &path, "").ok(200).id("status").as_str() {
                "advancing" => std::thread::sleep(Duration::from_millis(20)),
                status => return assert_eq!(status, "ready"),
            }
        }
        panic!("the clock does not arrive");
    }

    fn act(&self, subscription: &str, act: &str, body: &Value) {
        self.site.post(&format!("/api/subscriptions/{subscription}/{act}/"), body).ok(200);
    }

    /// The amounts of all invoices, oldest first, and then what is left on credits.
    fn books(&self) -> String {
        let mut amounts: Vec<String> = self
            .site
            .list(&format!("/api/invoices/?customer_id={}", self.customer))
            .iter()
            .map(|invoice| invoice["amount"].to_string())
            .collect();
        amounts.reverse();
        let credits = self.site.list(&format!("/api/credits/?customer_id={}", self.customer));
        let left: Vec<String> = credits.iter().map(|credit| credit["amount_remaining"].to_string()).collect();
        format!("{} | {}", amounts.join(" "), left.join(" ")).trim().to_owned()
    }
}

fn joined(mut body: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// A fee of 30 in advance, and calls at `price` beyond ten free ones.
fn standard(site: &Site<'_>, fee: &str, price: &str) -> Value {
    json!({
        "currency_code": "USD",
        "recurring_charges": [{"name": "base", "amount": fee, "charge_timing": "in_advance"}],
        "components": [{"metric_id": site.metric, "tiers": [
            {"type": "free", "range_start": 0, "range_end": 10},
            {"type": "per_unit", "range_start": 10, "cost_per_batch": price, "metric_units_per_batch": 1},
        ]}],
    })
}

type Scenario = (&'static str, &'static str, fn(&Site<'_>) -> String);

/// A month with 25 calls, and the renewal behind it.
fn month(site: &Site<'_>, customer: Value, version: Value) -> String {
    let life = Life::with(site, customer);
    life.subscribe(joined(standard(site, "30", "1"), version));
    life.track("2024-04-01T12:00:00Z", 25);
    life.advance("2024-05-02");
    life.books()
}

fn adjusted(site: &Site<'_>, kind: &str, amount: &str) -> String {
    let adjustment =
        json!({"price_adjustment_name": "deal", "price_adjustment_type": kind, "price_adjustment_amount": amount});
    month(site, json!({}), json!({"price_adjustment": adjustment}))
}

/// A month with 45 calls that is cancelled in its middle.
fn cancelled(site: &Site<'_>, fee: Value, usage: &str, invoicing: &str) -> String {
    let life = Life::new(site);
    let subscription = life.subscribe(standard(site, "30", "1"));
    life.track("2024-04-01T12:00:00Z", 45);
    life.advance("2024-04-16");
    let body = json!({"flat_fee_behavior": fee, "usage_behavior": usage, "invoicing_behavior": invoicing});
    life.act(&subscription, "cancel", &body);
    life.advance("2024-05-03");
    life.books()
}

/// A month with 45 calls that is switched in its middle to a plan of twice the price.
fn switched(site: &Site<'_>, usage: &str, invoicing: &str) -> String {
    let life = Life::new(site);
    let subscription = life.subscribe(standard(site, "30", "1"));
    let dearer = life.plan(standard(site, "60", "2"));
    life.track("2024-04-01T12:00:00Z", 45);
    life.advance("2024-04-16");
    let body = json!({"switch_plan_id": dearer, "usage_behavior": usage, "invoicing_behavior": invoicing});
    life.act(&subscription, "switch_plan", &body);
    life.advance("2024-05-02");
    life.books()
}

/// A month of 25 calls at 1 each of which 20 are prepaid, and then `units`.
fn prepaid(site: &Site<'_>, units: u32, invoice_now: bool) -> String {
    let life = Life::new(site);
    let subscription = life.subscribe(json!({"currency_code": "USD", "components": [{
        "metric_id": site.metric, "prepaid_charge": {"units": 20, "charge_behavior": "full"},
        "tiers": [{"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1}],
    }]}));
    life.track("2024-04-01T12:00:00Z", 25);
    life.advance("2024-04-16");
    let act = format!("components/{}/change_prepaid_units", site.metric);
    life.act(&subscription, &act, &json!({"units": units, "invoice_now": invoice_now}));
    life.advance("2024-05-02");
    life.books()
}

/// A fee of 10 in advance, twice, attached in the middle of a month.
fn attached(site: &Site<'_>, frequency: &str, when: &str) -> String {
    let life = Life::new(site);
    let addon = json!({"addon_name": format!("{frequency} {when}"), "currency_code": "USD", "billing_frequency": frequency,
        "invoice_when": when, "recurring_charges": [{"name": "fee", "amount": 10, "charge_timing": "in_advance"}]});
    let addon = site.post("/api/addons/", &addon).ok(201).id("addon_id");
    let subscription = life.subscribe(standard(site, "30", "1"));
    life.advance("2024-04-16");
    life.act(&subscription, "addons/attach", &json!({"addon_id": addon, "quantity": 2}));
    life.advance("2024-05-02");
    life.books()
}

fn late(site: &Site<'_>) -> String {
    let life = Life::new(site);
    life.subscribe(standard(site, "30", "1"));
    life.track("2024-04-01T12:00:00Z", 25);
    life.advance("2024-05-05");
    life.track("2024-04-20T00:00:00Z", 3);
    life.advance("2024-06-02");
    life.books()
}

fn with_credit(site: &Site<'_>) -> String {
    let life = Life::new(site);
    let credit = json!({"customer_id": life.customer, "amount": 40, "currency_code": "USD"});
    site.post("/api/credits/", &credit).ok(201);
    life.subscribe(standard(site, "30", "1"));
    life.track("2024-04-01T12:00:00Z", 25);
    life.advance("2024-05-02");
    life.books()
}

fn weekly(site: &Site<'_>) -> String {
    let life = Life::new(site);
    let mut version = standard(site, "30", "1");
    version["components"][0]["invoicing_interval_unit"] = json!("week");
    life.subscribe(version);
    for (day, calls) in [("02", 5), ("09", 10), ("16", 10), ("30", 2)] {
        life.advance(&format!("2024-04-{day}T12:00:00Z"));
        life.track(&format!("2024-04-{day}T12:00:00Z"), calls);
    }
    life.advance("2024-05-02");
    life.books()
}

fn cut(site: &Site<'_>) -> String {
    let life = Life::new(site);
    let plan = life.plan(standard(site, "10", "1"));
    let body = json!({"customer_id": life.customer, "plan_id": plan, "start_date": "2024-04-01", "end_date": "2024-04-10",
        "auto_renew": false});
    site.post("/api/subscriptions/", &body).ok(200);
    life.advance("2024-04-12");
    life.books()
}

/// What each comes to: amounts of its invoices, then what is left on each of its credits.
#[rustfmt::skip]
const SCENARIOS: &[Scenario] = &[
    ("fee, then renewal and 15 calls",        "30 45 |",         |site| month(site, json!({}), json!({}))),
    ("a tax of 10 %",                         "33 49.5 |",       |site| month(site, json!({"tax_rate": 10}), json!({}))),
    ("ten percent off",                       "27 40.5 |",       |site| adjusted(site, "percentage", "-10")),
    ("5 off each period: 40 of 45, 25 given", "25 40 |",         |site| adjusted(site, "fixed", "-5")),
    ("20 a period whatever happens",          "20 20 |",         |site| adjusted(site, "price_override", "20")),
    ("a credit of 40 pays 30, then 10",       "0 35 | 0",        with_credit),
    ("late calls: the wait ends on 31 May",   "30 45 3 30 |",    late),
    ("5, 15, 25, 25, 27 calls by the week",   "30 0 5 10 0 32 |", weekly),
    ("ten of thirty days, with an end",       "3.33 0 |",        cut),
    ("yen have no cents: 45.5 is 46",         "31 46 |",         |site| month(site, json!({}), json!({"currency_code": "JPY", "recurring_charges": [{"name": "b", "amount": "30.5", "charge_timing": "in_advance"}]}))),

    ("cancel: as charged, now",               "30 20 |",         |site| cancelled(site, json!(null), "bill_full", "invoice_now")),
    ("cancel: as charged, later",             "30 20 |",         |site| cancelled(site, json!(null), "bill_full", "add_to_next_invoice")),
    ("cancel: prorated, now",                 "30 20 |",         |site| cancelled(site, json!("charge_prorated"), "bill_full", "invoice_now")),
    ("cancel: prorated, later",               "30 20 |",         |site| cancelled(site, json!("charge_prorated"), "bill_full", "add_to_next_invoice")),
    ("cancel: refund, now",                   "30 5 |",          |site| cancelled(site, json!("refund"), "bill_full", "invoice_now")),
    ("cancel: refund, later",                 "30 5 |",          |site| cancelled(site, json!("refund"), "bill_full", "add_to_next_invoice")),
    ("cancel: full, now",                     "30 35 |",         |site| cancelled(site, json!("charge_full"), "bill_full", "invoice_now")),
    ("cancel: full, later",                   "30 35 |",         |site| cancelled(site, json!("charge_full"), "bill_full", "add_to_next_invoice")),
    ("cancel: no usage, now",                 "30 0 | 15",       |site| cancelled(site, json!(null), "bill_none", "invoice_now")),
    ("cancel: no usage, later",               "30 0 | 15",       |site| cancelled(site, json!(null), "bill_none", "add_to_next_invoice")),
    ("cancel: nothing at all, now",           "30 0 | 30",       |site| cancelled(site, json!("refund"), "bill_none", "invoice_now")),
    ("cancel: nothing at all, later",         "30 0 | 30",       |site| cancelled(site, json!("refund"), "bill_none", "add_to_next_invoice")),
    ("cancel: the fee alone, now",            "30 |",            |site| cancelled(site, json!("charge_full"), "bill_none", "invoice_now")),
    ("cancel: the fee alone, later",          "30 |",            |site| cancelled(site, json!("charge_full"), "bill_none", "add_to_next_invoice")),

    ("switch: 35 calls at 2, -15 + 30 now",   "30 15 130 |",     |site| switched(site, "transfer_to_new_subscription", "invoice_now")),
    ("switch: 35 calls at 1, -15 + 30 now",   "30 15 95 |",      |site| switched(site, "keep_separate", "invoice_now")),
    ("switch: all at the end, at 2",          "30 145 |",        |site| switched(site, "transfer_to_new_subscription", "add_to_next_invoice")),
    ("switch: all at the end, at 1",          "30 110 |",        |site| switched(site, "keep_separate", "add_to_next_invoice")),

    ("prepaid: ten more now",                 "20 10 30 |",      |site| prepaid(site, 30, true)),
    ("prepaid: ten more later",               "20 40 |",         |site| prepaid(site, 30, false)),
    ("prepaid: five fewer, 10 calls beyond",  "20 0 20 | 0",     |site| prepaid(site, 15, true)),

    ("an add-on that recurs",                 "30 10 50 |",      |site| attached(site, "recurring", "invoice_on_attach")),
    ("an add-on for once",                    "30 20 30 |",      |site| attached(site, "one_time", "invoice_on_attach")),
    ("an add-on for once, at the end",        "30 50 |",         |site| attached(site, "one_time", "invoice_on_subscription_end")),
];

/// The key of a new organization in memory.
fn key_in(store: &MemoryStore, world: &World) -> String {
    let key = KeyText::generate().expect("randomness");
    let organization = store.new_organization();
    let row = ApiKey {
        kind: KeyKind::ApiKey,
        prefix: key.prefix().to_owned(),
        organization,
        name: "first".to_owned(),
        digest: world.opened.pepper.digest(&key),
        created_at: OffsetDateTime::now_utc(),
        expires_at: None,
        scopes: KeyScopes::default(),
        last_used_at: None,
    };
    let store: &dyn Store = store;
    let command = CreateOrganization { name: "Acme".to_owned() };
    store
        .run_for(&Scope::Catalog(organization), |tx, now| {
            create_organization(tx, &command, now)?;
            tx.api_keys().insert(&row)
        })
        .expect("an organization");
    key.reveal().to_owned()
}

#[test]
fn every_life_comes_to_the_same_in_memory_and_on_postgres() {
    let world = World::new();
    let store = MemoryStore::at(OffsetDateTime::now_utc());
    let key = key_in(&store, &world);
    let mut settings = ServerSettings::new("127.0.0.1:0".parse().expect("an address"), world.opened.pepper.clone(), 4);
    settings.notice = Duration::ZERO;
    let in_memory = Server::start(&settings, Arc::new(store)).expect("a server");
    let sites = [
        ("memory", Site::new(&world, in_memory.addr, &key)),
        ("Postgres", Site::new(&world, world.addr(), &world.key)),
    ];
    let mut wrong = Vec::new();
    for (name, expected, live) in SCENARIOS {
        for (place, site) in &sites {
            let found = live(site);
            if found != *expected {
                wrong.push(format!("{name}, in {place}: {found}, not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    drop(sites);
    in_memory.stop().expect("a clean stop");
}
