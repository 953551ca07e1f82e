//! Calls that race for one customer: one winner, clear losers, balanced books. Two servers on one database, so that no
//! lock inside a process can help.
//!
//! `BILLING_RACE_ROUNDS=1000 cargo test -p billing-http --test main races` runs as many rounds of each pair.

use std::cell::Cell;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use bigdecimal::{BigDecimal, Zero};
use billing_domain::id::{CustomerKey, SubscriptionId};
use billing_domain::store::{Scope, Store};
use billing_http::{RunningServer, Server, ServerSettings};
use serde_json::{Value, json};

use crate::support::{Answer, Field, World, connect, now, plan_body};

/// Rounds of each pair, where the environment does not ask for another number, as `cargo xtask races` does.
const ROUNDS: u32 = 8;
/// So many rounds never all end alike by chance.
const MANY_ROUNDS: usize = 20;
/// Calls of each side; both sides have as many.
const CALLS: usize = 4;

/// One call of a race.
#[derive(Clone)]
pub struct Shot {
    pub path: String,
    pub body: Value,
}

pub fn shot(path: impl Into<String>, body: Value) -> Shot {
    Shot { path: path.into(), body }
}

/// Two servers on one database, with what races are about.
pub struct Ring {
    // Stopped before the database goes.
    second: Option<RunningServer>,
    pub world: World,
    metric: String,
    /// A fee of 9 in advance.
    pub plan: String,
    /// The same, to switch to.
    pub other_plan: String,
    /// A fee of 9 and ten prepaid units of 1 each.
    prepaid_plan: String,
}

impl Drop for Ring {
    fn drop(&mut self) {
        drop(self.second.take().map(RunningServer::stop));
    }
}

impl Ring {
    pub fn new() -> Self {
        let world = World::new();
        let mut settings =
            ServerSettings::new("127.0.0.1:0".parse().expect("an address"), world.opened.pepper.clone(), 8);
        settings.notice = Duration::ZERO;
        let store = connect(world.url(), 10);
        let second = Server::start(&settings, std::sync::Arc::new(store)).expect("a server");
        let metric = world.metric();
        let (plan, other_plan) = (world.plan(&metric), world.plan(&metric));
        let mut prepaid = plan_body("Prepaid", &metric);
        prepaid["initial_version"]["components"][0] = json!({
            "metric_id": metric,
            "tiers": [{"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1}],
            "prepaid_charge": {"units": 10, "charge_behavior": "full"},
        });
        let prepaid_plan = world.post("/api/plans/", &prepaid).ok(201).id("plan_id");
        Self { second: Some(second), world, metric, plan, other_plan, prepaid_plan }
    }

    /// Sends all at once, to the two servers in turns.
    pub fn race(&self, shots: &[Shot]) -> Vec<Answer> {
        self.race_handicapped(shots, Duration::ZERO)
    }

    /// [`Ring::race`] in which every second shot comes a little later: of two sides that do not take the same time to come to what
    /// they race for, the slower one would always lose.
    pub fn race_handicapped(&self, shots: &[Shot], handicap: Duration) -> Vec<Answer> {
        let barrier = Barrier::new(shots.len());
        thread::scope(|scope| {
            let racers: Vec<_> = shots
                .iter()
                .enumerate()
                .map(|(i, shot)| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        let body = shot.body.to_string();
                        barrier.wait();
                        thread::sleep(if i % 2 == 0 { Duration::ZERO } else { handicap });
                        self.call(i, "POST", &shot.path, &body)
                    })
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().expect("an answer")).collect()
        })
    }

    /// What the racer of this turn calls, at one of the two servers, patiently. Without a body where that is empty.
    pub fn call(&self, turn: usize, method: &str, path: &str, body: &str) -> Answer {
        let headers = [("X-API-KEY", self.world.key.as_str()), ("Content-Type", "application/json")];
        let headers = if body.is_empty() { &headers[..1] } else { &headers };
        patiently(|| self.world.send_to(self.addrs()[turn % 2], method, path, headers, body.as_bytes()))
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        patiently(|| self.world.post(path, body))
    }

    fn customer(&self, id: &str) {
        self.post("/api/customers/", &json!({"customer_id": id, "email": format!("{id}@acme.io")})).ok(201);
    }

    pub fn subscription(&self, customer: &str, plan: &str) -> String {
        self.post("/api/subscriptions/", &subscribe(customer, plan)).ok(200).id("subscription_id")
    }

    fn credit(&self, customer: &str) -> String {
        let body = json!({"customer_id": customer, "amount": 5, "currency_code": "USD"});
        self.post("/api/credits/", &body).ok(201).id("credit_id")
    }

    pub fn list(&self, what: &str, customer: &str) -> Vec<Value> {
        patiently(|| self.world.get(&format!("/api/{what}/?customer_id={customer}")))
            .ok(200)
            .as_array()
            .expect("a list")
            .clone()
    }

    /// Invoices and credits of a customer, once it is seen that each adds up.
    pub fn books(&self, customer: &str) -> Books {
        let (invoices, credits) = (self.list("invoices", customer), self.list("credits", customer));
        for invoice in &invoices {
            let lines = invoice["line_items"].as_array().expect("lines");
            let total: BigDecimal = lines.iter().map(|line| number(&line["amount"])).sum();
            assert_eq!(total, number(&invoice["amount"]), "an invoice is the sum of its lines: {invoice}");
        }
        for credit in &credits {
            let changes = credit["drawdowns"].as_array().expect("a list");
            let changed: BigDecimal = changes.iter().map(|change| number(&change["amount"])).sum();
            let left = number(&credit["amount_remaining"]);
            assert_eq!(number(&credit["amount"]) + changed, left, "a credit adds up: {credit}");
            assert!(left >= BigDecimal::zero(), "{credit}");
        }
        Books { invoices, credits }
    }

    /// Where the two servers are.
    pub fn addrs(&self) -> [SocketAddr; 2] {
        [self.world.addr(), self.second.as_ref().expect("it runs").addr]
    }

    /// Runs rounds of a race, each with a customer of its own.
    pub fn rounds(&self, round: impl Fn(&str)) {
        for number in 0..rounds() {
            let customer = format!("c{number}");
            self.customer(&customer);
            round(&customer);
        }
    }
}

/// The answer of a machine that may be so busy that somebody waits for two seconds for the customer, or for one second for a
/// connection: nothing was done then, and it may be tried again.
fn patiently(ask: impl Fn() -> Answer) -> Answer {
    loop {
        let answer = ask();
        let may_try_again = ["conflict_retry", "db_pool_exhausted"];
        if answer.status < 400 || !may_try_again.contains(&answer.error().as_str()) {
            return answer;
        }
    }
}

/// Invoices and credits of one customer.
pub struct Books {
    pub invoices: Vec<Value>,
    pub credits: Vec<Value>,
}

impl Books {
    /// How many there are of each.
    pub fn count(&self) -> (usize, usize) {
        (self.invoices.len(), self.credits.len())
    }

    /// What the customer has been asked for, less what is there to pay with.
    pub fn net(&self) -> BigDecimal {
        let asked: BigDecimal = self.invoices.iter().map(|invoice| number(&invoice["amount"])).sum();
        let left: BigDecimal = self.credits.iter().map(|credit| number(&credit["amount_remaining"])).sum();
        asked - left
    }
}

/// How long one side waits in a round: from 1 to 64 ms, so that, however slow the machine is, some rounds turn who is first.
pub fn handicap(round: u32) -> Duration {
    Duration::from_millis(1 << (round % 7))
}

/// Who of two sides waits in a round, and for how long: whoever was first in the last one, for twice as long as long as that changes nothing. So
/// the two stay about as fast as each other, however slow the machine is and whichever has more to do.
pub struct Balance {
    one_waits: Cell<bool>,
    pause: Cell<Duration>,
}

impl Balance {
    /// The shortest and the longest time that anybody waits.
    const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(4));

    /// Before the first round.
    pub fn new() -> Self {
        Self { one_waits: Cell::new(false), pause: Cell::new(Self::PAUSES.0) }
    }

    /// How long the one side waits, and the other.
    pub fn pauses(&self) -> (Duration, Duration) {
        let pause = self.pause.get();
        if self.one_waits.get() { (pause, Duration::ZERO) } else { (Duration::ZERO, pause) }
    }

    /// A round is over.
    pub fn note(&self, one_was_first: bool) {
        let waited_in_vain = self.one_waits.replace(one_was_first) == one_was_first;
        let pause = if waited_in_vain { self.pause.get() * 2 } else { self.pause.get() / 2 };
        self.pause.set(pause.clamp(Self::PAUSES.0, Self::PAUSES.1));
    }
}

/// How many rounds of each pair are run.
pub fn rounds() -> u32 {
    std::env::var("BILLING_RACE_ROUNDS").ok().map_or(ROUNDS, |text| text.parse().expect("a number"))
}

/// Of many rounds some ended in the one way, and some in the other: otherwise nothing raced. Of few all may end alike by chance.
pub fn assert_both(one_way: usize) {
    let rounds = rounds() as usize;
    let least = usize::from(rounds >= MANY_ROUNDS);
    assert!((least..=rounds - least).contains(&one_way), "{one_way} of {rounds} rounds");
}

pub fn number(value: &Value) -> BigDecimal {
    BigDecimal::from_str(&value.to_string()).expect("a number")
}

fn subscribe(customer: &str, plan: &str) -> Value {
    json!({"customer_id": customer, "plan_id": plan, "start_date": &now()[..10]})
}

fn change(subscription: &str, verb: &str, body: Value) -> Shot {
    shot(format!("/api/subscriptions/{subscription}/{verb}/"), body)
}

/// As many of one as of the other, in turns.
pub fn both(one: &Shot, other: &Shot) -> Vec<Shot> {
    (0..CALLS).flat_map(|_| [one.clone(), other.clone()]).collect()
}

pub fn won(answer: &Answer) -> bool {
    matches!(answer.status, 200 | 201)
}

/// Where the one winner stands. Everybody else was told one of `codes`.
pub fn only_winner(answers: &[Answer], codes: &[(u16, &str)]) -> usize {
    let winners: Vec<usize> = (0..answers.len()).filter(|i| won(&answers[*i])).collect();
    for answer in answers.iter().filter(|answer| !won(answer)) {
        assert!(codes.contains(&(answer.status, answer.error().as_str())), "{}", answer.text);
    }
    assert_eq!(winners.len(), 1, "one winner: {answers:#?}");
    winners[0]
}

#[test]
fn create_against_create() {
    let ring = Ring::new();
    ring.rounds(|customer| {
        let create = shot("/api/subscriptions/", subscribe(customer, &ring.plan));
        only_winner(&ring.race(&both(&create, &create)), &[(409, "overlapping_plans")]);
        assert_eq!(ring.list("subscriptions", customer).len(), 1);
        assert_eq!((ring.books(customer).count(), ring.books(customer).net()), ((1, 0), BigDecimal::from(9)));
    });
}

#[test]
fn cancel_against_cancel() {
    let ring = Ring::new();
    ring.customer("alone");
    let cancel = |id: &str| change(id, "cancel", json!({"flat_fee_behavior": "refund"}));
    let undisturbed = cancel(&ring.subscription("alone", &ring.plan));
    ring.post(&undisturbed.path, &undisturbed.body).ok(200);
    let expected = (ring.books("alone").count(), ring.books("alone").net());
    ring.rounds(|customer| {
        let cancel = cancel(&ring.subscription(customer, &ring.plan));
        only_winner(&ring.race(&both(&cancel, &cancel)), &[(409, "invalid_state")]);
        assert_eq!((ring.books(customer).count(), ring.books(customer).net()), expected);
    });
}

#[test]
fn cancel_against_switch() {
    let ring = Ring::new();
    ring.rounds(|customer| {
        let id = ring.subscription(customer, &ring.plan);
        let cancel = change(&id, "cancel", json!({}));
        let switch = change(&id, "switch_plan", json!({"switch_plan_id": ring.other_plan}));
        let answers = ring.race(&both(&cancel, &switch));
        let winner = only_winner(&answers, &[(409, "invalid_state"), (404, "resource_not_found")]);
        let has_switched = winner % 2 == 1;
        let lost = if has_switched { "resource_not_found" } else { "invalid_state" };
        assert!(answers.iter().filter(|answer| !won(answer)).all(|answer| answer.error() == lost), "{answers:#?}");
        let current = ring.list("subscriptions", customer);
        assert_eq!(current.len(), usize::from(has_switched), "either it has ended, or there is one new one");
        if has_switched {
            assert_eq!(current[0]["billing_plan"]["plan_id"], ring.other_plan.as_str());
            let old = patiently(|| ring.world.get(&format!("/api/subscriptions/{id}/")));
            assert_eq!(old.error(), "resource_not_found");
        }
        ring.books(customer);
    });
}

#[test]
fn switch_against_switch() {
    let ring = Ring::new();
    ring.rounds(|customer| {
        let id = ring.subscription(customer, &ring.plan);
        let switch = change(&id, "switch_plan", json!({"switch_plan_id": ring.other_plan}));
        only_winner(&ring.race(&both(&switch, &switch)), &[(404, "resource_not_found")]);
        let current = ring.list("subscriptions", customer);
        assert_eq!(current.len(), 1);
        assert_eq!(current[0]["billing_plan"]["plan_id"], ring.other_plan.as_str());
        ring.books(customer);
    });
}

/// Prepaid units as they are kept.
fn units(ring: &Ring, customer: &str, subscription: &str) -> BigDecimal {
    let store: &dyn Store = &ring.world.opened.store;
    let key = CustomerKey::derive(ring.world.organization, &customer.parse().expect("an id"));
    let id: SubscriptionId = subscription.parse().expect("an id");
    let found = store.run_for(&Scope::Organization(ring.world.organization), |tx, _| tx.subscriptions().get(key, id));
    found.expect("a subscription").prepaid_units.values().next().cloned().expect("units")
}

#[test]
fn prepaid_against_prepaid() {
    let ring = Ring::new();
    ring.rounds(|customer| {
        let id = ring.subscription(customer, &ring.prepaid_plan);
        let path = format!("/api/subscriptions/{id}/components/{}/change_prepaid_units/", ring.metric);
        let shots: Vec<Shot> =
            [3, 25, 7, 31, 1, 12, 50, 18].iter().map(|units| shot(path.clone(), json!({"units": units}))).collect();
        let answers = ring.race(&shots);
        assert!(answers.iter().all(won), "each is done, one after the other: {answers:#?}");
        // Whatever the order: nine for the fee, one for each unit there is in the end.
        assert_eq!(ring.books(customer).net(), units(&ring, customer, &id) + BigDecimal::from(9));
    });
}

#[test]
fn prepaid_against_cancel() {
    let ring = Ring::new();
    ring.rounds(|customer| {
        let id = ring.subscription(customer, &ring.prepaid_plan);
        let path = format!("/api/subscriptions/{id}/components/{}/change_prepaid_units/", ring.metric);
        let cancel = change(&id, "cancel", json!({}));
        let answers = ring.race(&both(&shot(path, json!({"units": 20})), &cancel));
        let (changes, cancels): (Vec<_>, Vec<_>) = answers.into_iter().enumerate().partition(|(i, _)| i % 2 == 0);
        let cancels: Vec<Answer> = cancels.into_iter().map(|(_, answer)| answer).collect();
        only_winner(&cancels, &[(409, "invalid_state")]);
        for (_, answer) in changes.iter().filter(|(_, answer)| !won(answer)) {
            assert_eq!((answer.status, answer.error().as_str()), (409, "invalid_state"), "it has ended");
        }
        assert_eq!(ring.list("subscriptions", customer).len(), 0);
        ring.books(customer);
    });
}

/// The one entry that took all of the customer's only credit.
fn end_of_credit(ring: &Ring, customer: &str) -> String {
    let books = ring.books(customer);
    let credit = &books.credits[0];
    let changes = credit["drawdowns"].as_array().expect("a list");
    assert_eq!((changes.len(), number(&credit["amount_remaining"])), (1, BigDecimal::zero()), "taken once: {credit}");
    changes[0].id("description")
}

#[test]
fn void_against_void() {
    let ring = Ring::new();
    ring.rounds(|customer| {
        let void = shot(format!("/api/credits/{}/void/", ring.credit(customer)), json!({}));
        let answers = ring.race(&both(&void, &void));
        assert!(answers.iter().all(|answer| answer.ok(200)["status"] == "inactive"), "a second void is nothing more");
        assert_eq!(end_of_credit(&ring, customer), "Voided");
    });
}

#[test]
fn void_against_drawdown() {
    let ring = Ring::new();
    ring.rounds(|customer| {
        let void = shot(format!("/api/credits/{}/void/", ring.credit(customer)), json!({}));
        let create = shot("/api/subscriptions/", subscribe(customer, &ring.plan));
        let answers = ring.race(&both(&void, &create));
        let (voids, creates): (Vec<_>, Vec<_>) = answers.into_iter().enumerate().partition(|(i, _)| i % 2 == 0);
        assert!(voids.iter().all(|(_, answer)| won(answer)), "{voids:#?}");
        let creates: Vec<Answer> = creates.into_iter().map(|(_, answer)| answer).collect();
        only_winner(&creates, &[(409, "overlapping_plans")]);
        let amount = match end_of_credit(&ring, customer).as_str() {
            "Voided" => 9,
            _ => 4,
        };
        assert_eq!(ring.books(customer).net(), BigDecimal::from(amount), "it was voided or it has paid, not both");
    });
}

#[test]
fn credit_update_against_void() {
    let ring = Ring::new();
    ring.rounds(|customer| {
        let credit = ring.credit(customer);
        let update = shot(format!("/api/credits/{credit}/update/"), json!({"description": "new"}));
        let void = shot(format!("/api/credits/{credit}/void/"), json!({}));
        let answers = ring.race(&both(&update, &void));
        let (updates, voids): (Vec<_>, Vec<_>) = answers.iter().enumerate().partition(|(i, _)| i % 2 == 0);
        assert!(voids.iter().all(|(_, answer)| won(answer)), "{voids:#?}");
        for (_, answer) in updates.iter().filter(|(_, answer)| !won(answer)) {
            assert_eq!((answer.status, answer.error().as_str()), (400, "credit_not_active"));
        }
        let is_updated = updates.iter().any(|(_, answer)| won(answer));
        let expected = if is_updated { json!("new") } else { Value::Null };
        assert_eq!(ring.list("credits", customer)[0]["description"], expected, "what was answered is what is kept");
        assert_eq!(end_of_credit(&ring, customer), "Voided");
    });
}

#[test]
fn addon_attachment_against_cancel() {
    let ring = Ring::new();
    let body = json!({"addon_name": "support", "currency_code": "USD", "billing_frequency": "one_time",
        "recurring_charges": [{"name": "fee", "amount": 3, "charge_timing": "in_advance"}]});
    let addon = ring.world.post("/api/addons/", &body).ok(201).id("addon_id");
    ring.rounds(|customer| {
        let id = ring.subscription(customer, &ring.plan);
        let attach = change(&id, "addons/attach", json!({"addon_id": addon}));
        let cancel = change(&id, "cancel", json!({}));
        let answers = ring.race(&both(&attach, &cancel));
        let (attached, cancels): (Vec<_>, Vec<_>) = answers.into_iter().enumerate().partition(|(i, _)| i % 2 == 0);
        let cancels: Vec<Answer> = cancels.into_iter().map(|(_, answer)| answer).collect();
        only_winner(&cancels, &[(409, "invalid_state")]);
        for (_, answer) in attached.iter().filter(|(_, answer)| !won(answer)) {
            assert_eq!(
                (answer.status, answer.error().as_str()),
                (409, "invalid_state"),
                "there is nothing to attach to"
            );
        }
        assert_eq!(ring.list("subscriptions", customer).len(), 0);
        ring.books(customer);
    });
}
