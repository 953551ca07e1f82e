//! An organization's own tax provider, over HTTP: asked, believed, waited for and done without.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use billing_http::billing_run::{Asking, BillingRun, run_to_the_end};
use billing_http::taxes::Taxes;
use billing_outbound::{Client, Reach, Secret, SignedHeaders};
use serde_json::{Value, json};

use crate::support::{Field, World, ago};

/// What was asked: the headers and the body.
type Asked = Arc<Mutex<Vec<(SignedHeaders, Value)>>>;

/// A provider on this machine. What it answers can be changed.
pub(crate) struct Provider {
    pub(crate) url: String,
    answer: Arc<Mutex<String>>,
    asked: Asked,
    pause: Arc<Mutex<Duration>>,
}

impl Provider {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let url = format!("http://{}/tax", listener.local_addr().expect("its address"));
        let (answer, asked) = (Arc::new(Mutex::new(rate("20"))), Asked::default());
        let pause = Arc::<Mutex<Duration>>::default();
        let provider = Self { url, answer: Arc::clone(&answer), asked: Arc::clone(&asked), pause: Arc::clone(&pause) };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, asked, pause) = (Arc::clone(&answer), Arc::clone(&asked), Arc::clone(&pause));
                thread::spawn(move || serve(stream.expect("a connection"), (&answer, &pause), &asked));
            }
        });
        provider
    }

    pub(crate) fn answers(&self, text: String) {
        *self.answer.lock().expect("the answer") = text;
    }

    /// How long it thinks about each answer.
    pub(crate) fn takes(&self, pause: Duration) {
        *self.pause.lock().expect("the pause") = pause;
    }

    pub(crate) fn asked(&self) -> Vec<(SignedHeaders, Value)> {
        self.asked.lock().expect("the questions").clone()
    }

    /// Whose rates were asked for, and as of which days.
    fn days(&self) -> Vec<(String, String)> {
        let data = |body: &Value| (body["data"].id("customer_id"), body["data"].id("issue_date")[..10].to_owned());
        self.asked().iter().map(|(_, body)| data(body)).collect()
    }
}

fn serve(
    mut stream: TcpStream,
    (answer, pause): (&Mutex<String>, &Mutex<Duration>),
    asked: &Mutex<Vec<(SignedHeaders, Value)>>,
) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).expect("a line") > 0 {}
    let header = |name: &str| {
        let of = |line: &str| {
            line.split_once(": ")
                .filter(|(found, _)| found.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.to_owned())
        };
        head.lines().find_map(of).unwrap_or_default()
    };
    let mut body = vec![0; header("content-length").parse().expect("a length")];
    reader.read_exact(&mut body).expect("a body");
    let headers = SignedHeaders {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp"),
        signature: header("webhook-signature"),
    };
    asked.lock().expect("the questions").push((headers, serde_json::from_slice(&body).expect("JSON")));
    let pause = *pause.lock().expect("the pause");
    thread::sleep(pause);
    let text = answer.lock().expect("the answer").clone();
    // Whoever asked may have given up.
    stream.write_all(text.as_bytes()).unwrap_or_default();
}

fn reply(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

pub(crate) fn rate(percent: &str) -> String {
    reply("200 OK", &json!({"tax_rate": percent}).to_string())
}

fn world() -> World {
    World::with(|settings| settings.reach = Reach::Anywhere)
}

/// Has the organization ask `provider`, and answers its settings.
fn ask(world: &World, provider: &Provider, settings: Value) -> Value {
    let mut body = json!({"tax_providers": ["http"], "tax_provider_url": provider.url});
    body.as_object_mut().expect("an object").extend(settings.as_object().expect("an object").clone());
    world.write("PATCH", "/api/organization/", body.to_string().as_bytes()).ok(200)
}

/// A monthly plan with a fee of 100 in advance.
fn monthly(world: &World) -> String {
    let charges = json!([{"name": "base", "amount": 100, "charge_timing": "in_advance"}]);
    let version = json!({"currency_code": "USD", "recurring_charges": charges});
    let body = json!({"plan_name": "Pro", "plan_duration": "monthly", "initial_version": version});
    world.post("/api/plans/", &body).ok(201).id("plan_id")
}

fn subscribe(world: &World, customer: &str, plan: &str, start: &str) -> crate::support::Answer {
    world.post("/api/subscriptions/", &json!({"customer_id": customer, "plan_id": plan, "start_date": start}))
}

/// The amounts of a customer's invoices, oldest first.
fn amounts(world: &World, customer: &str) -> Vec<String> {
    let invoices = world.get(&format!("/api/invoices/?customer_id={customer}")).ok(200);
    let mut amounts: Vec<_> = invoices
        .as_array()
        .expect("a list")
        .iter()
        .map(|invoice| (invoice.id("invoice_number"), invoice["amount"].to_string()))
        .collect();
    amounts.sort();
    amounts.into_iter().map(|(_, amount)| amount).collect()
}

#[test]
fn a_provider_is_asked_once_for_each_invoice_and_its_rate_is_explained() {
    let (world, provider) = (world(), Provider::new());
    let settings = ask(&world, &provider, json!({}));
    let secret = Secret::parse(&settings.id("tax_provider_secret")).expect("a secret");
    let (plan, clock) = (monthly(&world), world.clock("2026-01-31"));
    world.customer_at("acme", &clock);
    world.customer_at("other", &clock);
    let home = json!({"city": "Bern", "country": "CH", "line1": "1 Street", "postal_code": "3000"});
    world.write("PATCH", "/api/customers/acme/", json!({"shipping_address": home}).to_string().as_bytes()).ok(200);
    subscribe(&world, "acme", &plan, "2026-01-31").ok(200);
    let (headers, body) = provider.asked()[0].clone();
    let now = time::OffsetDateTime::now_utc().unix_timestamp();
    assert!(secret.verify(&headers, body.to_string().as_bytes(), now).is_ok(), "{headers:?}");
    assert_eq!(
        (&body["type"], &body["data"]["shipping_address"]["city"]),
        (&json!("tax_rate.requested"), &json!("Bern"))
    );

    provider.answers(rate("8.1"));
    subscribe(&world, "other", &plan, "2026-01-31").ok(200);
    // Renewals at month ends, two customers, and an answer that is good for longer.
    world.advance(&clock, "2026-03-01");
    provider.answers(reply("200 OK", r#"{"tax_rate": 7, "valid_until": "2027-01-01"}"#));
    world.advance(&clock, "2026-07-01");
    assert_eq!(amounts(&world, "acme"), ["120", "108.1", "107", "107", "107", "107"]);
    assert_eq!(amounts(&world, "other"), ["108.1", "108.1", "107", "107", "107", "107"]);
    let mut days = provider.days();
    days.sort();
    let asked = |customer: &str| {
        days.iter().filter(|(asked, _)| asked == customer).map(|(_, day)| day.clone()).collect::<Vec<_>>()
    };
    for customer in ["acme", "other"] {
        assert_eq!(
            asked(customer),
            ["2026-01-31", "2026-02-28", "2026-03-31"],
            "{customer}: no more than once for each"
        );
    }

    let invoice = world.get("/api/invoices/?customer_id=acme").ok(200)[0].id("invoice_id");
    let explained = world.get(&format!("/api/invoices/{invoice}/explain/")).ok(200);
    let trace = &explained["line_items"][0]["adjustments"][0]["trace"];
    assert_eq!((&trace["provider"], trace["rate"].to_string()), (&json!("http"), "7".to_owned()), "{trace}");
    // What is cancelled comes back at the rate it was billed with, whatever the provider says today.
    provider.answers(rate("99"));
    let id = world.get("/api/subscriptions/?customer_id=acme").ok(200)[0].id("subscription_id");
    let body = json!({"flat_fee_behavior": "refund", "invoicing_behavior": "invoice_now"});
    world.post(&format!("/api/subscriptions/{id}/cancel/"), &body).ok(200);
    let credit = &world.get("/api/credits/?customer_id=acme").ok(200)[0];
    assert_eq!(credit["amount"].to_string(), "107");
}

#[test]
fn without_an_answer_an_invoice_waits_falls_back_or_goes_untaxed() {
    #[rustfmt::skip]
    let cases = [
        // answer,                           settings,                                                              amounts or the reason, why
        (reply("500 Broken", ""),            json!({}),                                                             Err("it answered with status 500"), "it failed: the call is refused"),
        (reply("200 OK", "<html>"),          json!({}),                                                             Err("its answer is not"),  "garbage is no answer"),
        (reply("302 Found", ""),             json!({}),                                                             Err("it answered with status 302"), "nor is another address"),
        (reply("200 OK", r#"{"tax_rate": -1}"#), json!({}),                                                         Err("its tax_rate is none"), "nor a rate that is none"),
        (reply("500 Broken", ""),            json!({"on_tax_failure": "bill_untaxed"}),                             Ok("100"),    "the organization wants it untaxed then"),
        (reply("500 Broken", ""),            json!({"tax_providers": ["http", "flat_rate"], "tax_rate": 5}),        Ok("105"),    "the next provider knows one"),
        (reply("204 No Content", ""),        json!({"tax_providers": ["http", "flat_rate"], "tax_rate": 5}),        Ok("105"),    "it passes on"),
        (reply("204 No Content", ""),        json!({}),                                                             Ok("100"),    "nobody knows any: no tax"),
        (rate("20"),                         json!({"tax_providers": ["flat_rate", "http"], "tax_rate": 5}),        Ok("105"),    "an earlier one knows"),
    ];
    for (answer, settings, expected, why) in cases {
        let (world, provider) = (world(), Provider::new());
        ask(&world, &provider, settings);
        let plan = monthly(&world);
        world.customer("acme");
        provider.answers(answer);
        let (before, asked) = (world.snapshot(), provider.asked().len());
        let answered = subscribe(&world, "acme", &plan, &ago(time::Duration::ZERO));
        assert_eq!(amounts(&world, "acme"), expected.iter().copied().collect::<Vec<_>>(), "{why}");
        if let Err(reason) = expected {
            assert_eq!(
                (answered.error(), answered.header("retry-after")),
                ("tax_rate_unavailable".to_owned(), "1"),
                "{why}"
            );
            let shown = world.get("/api/customers/acme/").ok(200);
            let failure = shown["tax_failure"].as_str().expect(why);
            assert!(failure.starts_with(reason), "{why}: {failure}");
            assert_eq!(provider.asked().len() - asked, 1, "{why}: one question for one call");
            assert_ne!(world.snapshot(), before, "but that is all that was noted");
            assert_eq!(world.get("/api/subscriptions/?customer_id=acme").ok(200), json!([]));
        } else {
            answered.ok(200);
            assert_eq!(world.get("/api/customers/acme/").ok(200)["tax_failure"], Value::Null, "{why}: forgotten");
        }
    }
}

#[test]
fn a_run_fails_nobody_whose_provider_was_not_asked() {
    let (mut world, provider) = (world(), Provider::new());
    let plan = monthly(&world);
    let clock = world.clock("2026-01-01");
    ask(&world, &provider, json!({}));
    for customer in ["one", "two", "three"] {
        world.customer_at(customer, &clock);
        subscribe(&world, customer, &plan, "2026-01-01").ok(200);
    }
    // Nobody listens there any more: whoever finds that out has it left alone for a while.
    world.write("PATCH", "/api/organization/", br#"{"tax_provider_url": "http://127.0.0.1:9/"}"#).ok(200);
    world.fall_behind();
    let taxes = Taxes::new(Client::new(Reach::Anywhere));
    let failed = run_to_the_end(&world.opened.store, Asking::Now(&taxes), None).expect_err("three wait").to_string();
    // The first one's attempt got as far as it goes without a rate; when it comes up again, the provider rests for it, too.
    assert!(failed.contains("0 customers billed, 0 failed"), "{failed}");
    assert!(failed.contains("3 wait for a tax provider that was not asked"), "{failed}");
    world.sql("DO $$ BEGIN ASSERT (SELECT count(*) FROM billing_due WHERE failures > 0) = 0; END $$");
}

#[test]
fn the_billing_run_waits_for_one_organizations_provider_and_bills_the_others() {
    let (mut world, provider) = (world(), Provider::new());
    let plan = monthly(&world);
    let clock = world.clock("2026-01-01");
    for customer in ["one", "two"] {
        world.customer_at(customer, &clock);
        subscribe(&world, customer, &plan, "2026-01-01").ok(200);
    }
    ask(&world, &provider, json!({}));
    provider.answers(reply("500 Broken", ""));
    // Another organization, without a provider.
    let key = world.key.clone();
    world.key = world.other_key();
    let others = monthly(&world);
    let other_clock = world.clock("2026-01-01");
    world.customer_at("acme", &other_clock);
    subscribe(&world, "acme", &others, "2026-01-01").ok(200);
    let other_key = std::mem::replace(&mut world.key, key);
    world.fall_behind();

    let taxes = Taxes::new(Client::new(Reach::Anywhere));
    let failed = run_to_the_end(&world.opened.store, Asking::Now(&taxes), None).expect_err("two wait").to_string();
    assert!(failed.contains("2 failed"), "{failed}");
    world.start();
    assert_eq!(amounts(&world, "one"), ["100"], "nothing was issued without its tax");
    world.key = other_key;
    assert!(amounts(&world, "acme").len() > 1, "nobody else waited");
    world.stop();
    // The provider is back; what failed is tried again when its wait is over.
    provider.answers(rate("20"));
    world.sql("UPDATE billing_due SET claimed_until = now() - interval '1 hour'");
    let taxes = Taxes::new(Client::new(Reach::Anywhere));
    run_to_the_end(&world.opened.store, Asking::Now(&taxes), None).expect("all of them");
    world.start();
    world.key = world.opened.create_key(world.organization, "again", None).expect("a key").reveal().to_owned();
    for customer in ["one", "two"] {
        let billed = amounts(&world, customer);
        assert!(billed.len() > 1 && billed[1..].iter().all(|amount| amount == "120"), "{customer}: {billed:?}");
    }
}

#[test]
fn customers_who_need_no_provider_do_not_wait_for_those_who_do() {
    let (mut world, provider) = (world(), Provider::new());
    let start = ago(time::Duration::days(35));
    let (plan, clock) = (monthly(&world), world.clock(&start));
    // More of them than can wait, and all are due before the one who goes by a rate of its own.
    const MANY: usize = 130;
    let many: Vec<String> = (0..MANY).map(|number| format!("{number}")).collect();
    for customer in &many {
        world.customer_at(customer, &clock);
        subscribe(&world, customer, &plan, &start).ok(200);
    }
    world.customer_at("exempt", &clock);
    subscribe(&world, "exempt", &plan, &start).ok(200);
    ask(&world, &provider, json!({"tax_providers": ["http"]}));
    let own = json!({"tax_providers": ["flat_rate"], "tax_rate": 7});
    world.write("PATCH", "/api/customers/exempt/", own.to_string().as_bytes()).ok(200);
    world.fall_behind();
    world.sql(
        "UPDATE billing_due SET due_at = due_at + interval '1 hour'
        WHERE customer_key = (SELECT customer_key FROM customers WHERE customer_id = 'exempt')",
    );

    // Nobody asks the provider: its questions wait, as those of one that is down do.
    let store = &world.opened.store;
    let taxes = Taxes::new(Client::new(Reach::Anywhere));
    let mut run = BillingRun::default();
    let mut rounds = 0;
    while run.take_some(store, Asking::Later(&taxes), None).expect("a round") {
        rounds += 1;
        assert!(rounds < 100, "those who wait are leased again and again");
    }
    assert_eq!((run.billed, run.failed), (1, 0), "the one who needs no provider");
    world.sql("DO $$ BEGIN ASSERT (SELECT count(*) FROM billing_due WHERE failures > 0) = 0; END $$");

    // Once they can be asked for, nobody was forgotten.
    world.sql("UPDATE billing_due SET claimed_until = NULL WHERE claimed_until IS NOT NULL");
    let taxes = Taxes::new(Client::new(Reach::Anywhere));
    let rest = run_to_the_end(&world.opened.store, Asking::Now(&taxes), None).expect("all of them");
    assert_eq!(rest.billed, MANY as u64);
    world.start();
    world.key = world.opened.create_key(world.organization, "again", None).expect("a key").reveal().to_owned();
    for (customer, renewed) in [("exempt", "107"), ("0", "120"), ("129", "120")] {
        let billed = amounts(&world, customer);
        assert!(billed.len() > 1 && billed[1..].iter().all(|amount| amount == renewed), "{customer}: {billed:?}");
    }
}

#[test]
fn the_service_asks_in_the_background_while_it_serves() {
    let (world, provider) = (world(), Provider::new());
    ask(&world, &provider, json!({}));
    let plan = monthly(&world);
    world.customer("acme");
    subscribe(&world, "acme", &plan, &ago(time::Duration::ZERO)).ok(200);
    // As if a month had gone by: the running service finds the renewal due, asks and bills.
    world.sql(
        "UPDATE subscriptions SET start_at = start_at - interval '40 days', end_at = end_at - interval '40 days',
            full_start_at = full_start_at - interval '40 days', full_end_at = full_end_at - interval '40 days',
            anchor_at = anchor_at - interval '40 days';
        UPDATE customers SET tax_quotes = '[]';
        UPDATE billing_due SET due_at = now() - interval '1 minute', claimed_until = NULL;",
    );
    let began = Instant::now();
    while amounts(&world, "acme").len() < 2 {
        assert!(began.elapsed() < Duration::from_secs(30), "nobody asks");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(amounts(&world, "acme")[1], "120");
}

#[test]
fn an_address_is_checked_when_it_is_set() {
    let world = World::new();
    #[rustfmt::skip]
    let cases = [
        // body,                                                             where,                   why
        (json!({"tax_provider_url": "http://tax.example.com/"}),             "tax_provider_url",      "not HTTPS"),
        (json!({"tax_provider_url": "https://127.0.0.1/"}),                  "tax_provider_url",      "this machine"),
        (json!({"tax_provider_url": "https://a:b@tax.example.com/"}),        "tax_provider_url",      "a password"),
        (json!({"tax_provider_url": "tax"}),                                 "tax_provider_url",      "no URL"),
        (json!({"tax_provider_secret": "secret"}),                           "tax_provider_secret",   "no secret"),
        (json!({"tax_provider_secret": format!("whsec_{}", "A".repeat(32))}), "tax_provider_secret", "nothing to sign"),
        (json!({"tax_providers": ["http"]}),                                 "tax_providers.0",       "nowhere to ask"),
        (json!({"tax_providers": ["taxjar"]}),                               "tax_providers.0",       "nobody we know"),
        (json!({"on_tax_failure": "shrug"}),                                 "on_tax_failure",        "no such way"),
    ];
    for (body, attr, why) in cases {
        let faults = world.write("PATCH", "/api/organization/", body.to_string().as_bytes()).faults();
        assert_eq!(faults[0].0, attr, "{why}: {faults:?}");
    }
    let set = json!({"tax_provider_url": "https://tax.example.com/", "tax_providers": ["http"]});
    let settings = world.write("PATCH", "/api/organization/", set.to_string().as_bytes()).ok(200);
    Secret::parse(&settings.id("tax_provider_secret")).expect("made, and shown this once");
    assert_eq!(world.get("/api/organization/").ok(200)["tax_provider_secret"], Value::Null, "and never again");
    let moved = json!({"tax_provider_url": "https://tax.example.com/v2"});
    let moved = world.write("PATCH", "/api/organization/", moved.to_string().as_bytes()).ok(200);
    assert_eq!(moved["tax_provider_secret"], Value::Null, "the secret stays");
    let given = format!("whsec_{}", "A".repeat(32));
    let changed = json!({"tax_provider_secret": given});
    let changed = world.write("PATCH", "/api/organization/", changed.to_string().as_bytes()).ok(200);
    assert_eq!(changed["tax_provider_secret"], given.as_str(), "another one");
    let gone = json!({"tax_provider_url": null});
    let faults = world.write("PATCH", "/api/organization/", gone.to_string().as_bytes()).faults();
    assert_eq!(faults[0].0, "tax_providers.0", "somebody still asks it: {faults:?}");
    let gone = json!({"tax_provider_url": null, "tax_providers": ["flat_rate"]});
    let gone = world.write("PATCH", "/api/organization/", gone.to_string().as_bytes()).ok(200);
    assert_eq!((&gone["tax_provider_url"], &gone["tax_provider_secret"]), (&Value::Null, &Value::Null));
}

#[test]
fn an_organization_may_leave_a_provider_that_customers_still_name() {
    let (world, provider) = (world(), Provider::new());
    ask(&world, &provider, json!({}));
    let plan = monthly(&world);
    world.customer("acme");
    let patch = |body: Value| world.write("PATCH", "/api/customers/acme/", body.to_string().as_bytes());
    patch(json!({"tax_providers": ["http"]})).ok(200);
    let gone = json!({"tax_provider_url": null, "tax_providers": ["flat_rate"], "tax_rate": 5});
    world.write("PATCH", "/api/organization/", gone.to_string().as_bytes()).ok(200);
    subscribe(&world, "acme", &plan, &ago(time::Duration::ZERO)).ok(200);
    assert_eq!(amounts(&world, "acme"), ["105"], "the organization's own list goes on");
    world.write("PATCH", "/api/organization/", json!({"tax_providers": []}).to_string().as_bytes()).ok(200);
    patch(json!({"customer_name": "Acme"})).ok(200);
    assert_eq!(patch(json!({"tax_providers": ["flat_rate", "http"]})).faults()[0].0, "tax_providers.1");
    let answered = world.post(
        "/api/plans/",
        &json!({"plan_name": "Other", "plan_duration": "yearly", "initial_version": {
        "currency_code": "USD", "recurring_charges": [{"name": "base", "amount": 7, "charge_timing": "in_advance"}]}}),
    );
    let other = answered.ok(201).id("plan_id");
    let filters = json!([{"property_name": "place", "value": "1"}]);
    let body = json!({"customer_id": "acme", "plan_id": other, "start_date": ago(time::Duration::ZERO),
        "subscription_filters": filters});
    let waits = world.post("/api/subscriptions/", &body);
    assert_eq!(waits.error(), "tax_rate_unavailable", "nobody said that there is no tax");
    world
        .write("PATCH", "/api/organization/", json!({"on_tax_failure": "bill_untaxed"}).to_string().as_bytes())
        .ok(200);
    world.post("/api/subscriptions/", &body).ok(200);
    assert_eq!(amounts(&world, "acme"), ["105", "7"]);
    assert_eq!(provider.asked().len(), 0, "there was nobody to ask");
}

/// An address at which nobody answers.
fn nowhere() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    format!("http://{}/tax", listener.local_addr().expect("its address"))
}

#[test]
fn a_busy_provider_is_waited_for_and_nothing_goes_untaxed() {
    let (world, provider) = (world(), Provider::new());
    ask(&world, &provider, json!({"on_tax_failure": "bill_untaxed"}));
    let plan = monthly(&world);
    let customers: Vec<String> = (1..=12).map(|length| "c".repeat(length)).collect();
    for customer in &customers {
        world.customer(customer);
    }
    provider.takes(Duration::from_millis(200));
    let start = ago(time::Duration::ZERO);
    thread::scope(|scope| {
        for customer in &customers {
            scope.spawn(|| subscribe(&world, customer, &plan, &start).ok(200));
        }
    });
    for customer in &customers {
        assert_eq!(amounts(&world, customer), ["120"], "{customer}: many ask at once, which is no failure");
    }
    assert_eq!(provider.asked().len(), customers.len(), "one question for each");
}

#[test]
fn a_provider_that_rests_has_not_failed() {
    for settings in
        [json!({"on_tax_failure": "bill_untaxed"}), json!({"tax_providers": ["http", "flat_rate"], "tax_rate": 0})]
    {
        let (mut world, provider) = (world(), Provider::new());
        ask(&world, &provider, settings.clone());
        let move_to = |world: &World, url: &str| {
            let body = json!({"tax_provider_url": url}).to_string();
            world.write("PATCH", "/api/organization/", body.as_bytes()).ok(200)
        };
        move_to(&world, &nowhere());
        let plan = monthly(&world);
        for customer in ["one", "zero", "three", "eleven"] {
            world.customer(customer);
        }
        let now = ago(time::Duration::ZERO);
        subscribe(&world, "one", &plan, &now).ok(200);
        assert_eq!(amounts(&world, "one"), ["100"], "{settings}: it was asked, and could not be reached");
        let before = world.snapshot();
        let rests = subscribe(&world, "zero", &plan, &now);
        assert_eq!(
            (rests.error(), rests.header("retry-after")),
            ("tax_rate_unavailable".to_owned(), "1"),
            "{settings}"
        );
        assert_eq!(world.snapshot(), before, "{settings}: it was not asked, and nothing was done");
        let key = world.other_key();
        let key = std::mem::replace(&mut world.key, key);
        ask(&world, &provider, json!({}));
        let others = monthly(&world);
        world.customer("zero");
        subscribe(&world, "zero", &others, &now).ok(200);
        assert_eq!(amounts(&world, "zero"), ["120"], "{settings}: another organization's provider does not rest");
        world.key = key;
        move_to(&world, &provider.url);
        subscribe(&world, "zero", &plan, &now).ok(200);
        assert_eq!(amounts(&world, "zero"), ["120"], "{settings}: another address is not left alone");
        // One that answers something else is asked for the next customer, who may be another matter.
        provider.answers(reply("422 Unprocessable", ""));
        subscribe(&world, "three", &plan, &now).ok(200);
        provider.answers(rate("20"));
        subscribe(&world, "eleven", &plan, &now).ok(200);
        assert_eq!(
            (amounts(&world, "three"), amounts(&world, "eleven")),
            (vec!["100".to_owned()], vec!["120".to_owned()])
        );
    }
}

#[test]
fn a_failure_counts_for_the_invoice_that_goes_without_and_no_longer() {
    let (mut world, provider) = (world(), Provider::new());
    ask(&world, &provider, json!({"on_tax_failure": "bill_untaxed"}));
    let (plan, clock) = (monthly(&world), world.clock("2026-01-31"));
    world.customer_at("acme", &clock);
    subscribe(&world, "acme", &plan, "2026-01-31").ok(200);
    provider.answers(reply("500 Broken", ""));
    world.advance(&clock, "2026-03-01");
    assert_eq!(amounts(&world, "acme"), ["120", "100"], "a renewal at the end of a month");
    assert_eq!(world.get("/api/customers/acme/").ok(200)["tax_failure"], Value::Null, "which nobody goes by any more");
    // On a clock that stands nothing expires: what failed for one call is asked again for the next.
    let other = |name: &str, amount: u32| {
        let charges = json!([{"name": "base", "amount": amount, "charge_timing": "in_advance"}]);
        let version = json!({"currency_code": "USD", "recurring_charges": charges});
        let body = json!({"plan_name": name, "plan_duration": "yearly", "initial_version": version});
        world.post("/api/plans/", &body).ok(201).id("plan_id")
    };
    let (first, second) = (other("First", 7), other("Second", 9));
    subscribe(&world, "acme", &first, "2026-03-01").ok(200);
    provider.answers(rate("10"));
    subscribe(&world, "acme", &second, "2026-03-01").ok(200);
    assert_eq!(amounts(&world, "acme")[2..], ["7", "9.9"], "the provider is back");
    // In real time, many months late: the billing run asks for each of them.
    provider.answers(reply("500 Broken", ""));
    world.fall_behind();
    let taxes = Taxes::new(Client::new(Reach::Anywhere));
    run_to_the_end(&world.opened.store, Asking::Now(&taxes), None).expect("nobody waits");
    world.start();
    let late = amounts(&world, "acme").split_off(4);
    assert!(late.len() > 5 && late.iter().all(|amount| amount == "100"), "{late:?}");
    assert_eq!(world.get("/api/customers/acme/").ok(200)["tax_failure"], Value::Null);
}
