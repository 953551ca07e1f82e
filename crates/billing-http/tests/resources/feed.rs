//! The feed: what became true, as the calls have answered it, in one order.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::rules::poison::fits;
use crate::support::{Field, World, plan_body, version_body};

/// Reads along, waiting for what comes.
struct Follower<'w> {
    world: &'w World,
    next: String,
}

impl<'w> Follower<'w> {
    /// From what has been told so far on: the last of it is about `about`.
    fn behind(world: &'w World, about: &str) -> Self {
        let mut follower = Self { world, next: String::new() };
        while follower.one()["type"] != about {}
        follower
    }

    fn one(&mut self) -> Value {
        let path = format!("/api/feed/?limit=1&wait=20&after={}", self.next);
        let page = self.world.get(&path).ok(200);
        self.next = page.id("next");
        page["results"][0].clone()
    }

    /// The data of the next messages, which are of these types.
    fn data<const N: usize>(&mut self, types: [&str; N]) -> [Value; N] {
        types.map(|expected| {
            let message = self.one();
            assert_eq!(message["type"], expected, "{message}");
            message["data"].clone()
        })
    }
}

#[test]
fn messages_say_what_the_calls_answered() {
    let world = World::new();
    let metric = world.post("/api/metrics/", &json!({"event_name": "api_call"})).ok(201);
    let mut feed = Follower { world: &world, next: String::new() };
    let [told] = feed.data(["metric.created"]);
    assert_eq!(told, metric);
    let metric = metric.id("metric_id");
    let plan = world.post("/api/plans/", &plan_body("Starter", &metric)).ok(201);
    let [told] = feed.data(["plan.version_published"]);
    assert_eq!(told, plan["versions"][0]);
    let plan = plan.id("plan_id");
    let version = world.post(&format!("/api/plans/{plan}/versions/"), &version_body(&metric)).ok(201);
    let [told] = feed.data(["plan.version_published"]);
    assert_eq!(told, version);

    let body = json!({"customer_id": "acme", "email": "a@acme.io", "customer_name": "Acme", "tax_rate": 7.5});
    let customer = world.post("/api/customers/", &body).ok(201);
    let [told] = feed.data(["customer.created"]);
    assert_eq!(told, customer);
    let body = json!({"customer_id": "acme", "amount": 5.25, "currency_code": "USD", "amount_paid": 3,
        "amount_paid_currency_code": "USD"});
    let credit = world.post("/api/credits/", &body).ok(201);
    let invoice = world.get("/api/invoices/?customer_id=acme").ok(200)[0].clone();
    let [told, bought] = feed.data(["credit.created", "invoice.created"]);
    assert_eq!((told, bought), (credit, invoice));

    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": crate::support::ago(time::Duration::DAY),
        "metadata": {"b": 1.50, "a": [1]}});
    let subscription = world.post("/api/subscriptions/", &body).ok(200);
    let invoice = world.get("/api/invoices/?customer_id=acme").ok(200)[0].clone();
    let [created, drawn, issued] = feed.data(["subscription.created", "credit.drawn", "invoice.created"]);
    assert_eq!((&created, &issued), (&subscription, &invoice));
    assert_eq!(drawn, world.get("/api/credits/?customer_id=acme").ok(200)[0]);
    let id = subscription.id("subscription_id");

    let paid =
        world.write("PATCH", &format!("/api/invoices/{}/", invoice.id("invoice_id")), br#"{"payment_status":"paid"}"#);
    let [told] = feed.data(["invoice.paid"]);
    assert_eq!(told, paid.ok(200));
    let again = world.get("/api/feed/?types=invoice.created&limit=1000").ok(200);
    assert_eq!(again["results"][1]["data"], issued, "what was told stays what it was");

    let addon = json!({"addon_name": "Support", "invoice_when": "invoice_on_attach", "billing_frequency": "one_time",
        "currency_code": "USD", "recurring_charges": [{"name": "support", "amount": 4, "charge_timing": "in_advance"}]});
    let addon = world.post("/api/addons/", &addon).ok(201).id("addon_id");
    let attached = world.post(&format!("/api/subscriptions/{id}/addons/attach/"), &json!({"addon_id": addon})).ok(200);
    let [told, _] = feed.data(["addon.attached", "invoice.created"]);
    assert_eq!(told, attached);

    let changed =
        world.post(&format!("/api/subscriptions/{id}/update/"), &json!({"turn_off_auto_renew": true})).ok(200);
    let [told] = feed.data(["subscription.changed"]);
    assert_eq!(told, changed);
    let cancelled = world.post(&format!("/api/subscriptions/{id}/cancel/"), &json!({})).ok(200);
    let [told] = feed.data(["subscription.cancelled"]);
    assert_eq!(told, cancelled);
    assert_described(&world);
}

/// All that was told is as the document describes the messages that webhook endpoints get.
fn assert_described(world: &World) {
    let document = world.get("/openapi.json").ok(200);
    let told = world.get("/api/feed/?limit=1000").ok(200);
    for message in told["results"].as_array().expect("messages") {
        let described = &document["webhooks"][message["type"].as_str().expect("a type")]["post"];
        let [all, own] =
            [0, 1].map(|part| &described["requestBody"]["content"]["application/json"]["schema"]["allOf"][part]);
        assert_eq!(fits(message, all, &document), Ok(()));
        assert_eq!(own["properties"]["type"]["const"], message["type"]);
        assert_eq!(fits(&message["data"], &own["properties"]["data"], &document), Ok(()), "{message}");
    }
}

#[test]
fn an_invoice_that_is_withdrawn_says_what_that_means() {
    let world = World::new();
    let plan = world.plan(&world.metric());
    world.customer("acme");
    world
        .post(
            "/api/subscriptions/",
            &json!({"customer_id": "acme", "plan_id": plan, "start_date": crate::support::now()}),
        )
        .ok(200);
    let mut feed = Follower::behind(&world, "invoice.created");
    let invoice = world.get("/api/invoices/").ok(200)[0].id("invoice_id");
    let voided = world.post(&format!("/api/invoices/{invoice}/void/"), &json!({})).ok(200);
    let [told] = feed.data(["invoice.voided"]);
    assert_eq!(told, voided);
    assert!(!told["forgiven"].as_array().expect("a list").is_empty());
    assert_described(&world);
}

#[test]
fn customers_under_a_clock_tell_at_their_own_time() {
    let world = World::new();
    let plan = world.plan(&world.metric());
    world.write("PATCH", "/api/organization/", br#"{"payment_grace_period": 10}"#);
    let clock = world.clock("2024-01-31");
    world.customer_at("acme", &clock);
    world
        .post("/api/subscriptions/", &json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-31"}))
        .ok(200);
    world.advance(&clock, "2024-03-01");
    let types = "&types=invoice.created,invoice.past_due&types=subscription.renewed";
    let mut feed = Follower { world: &world, next: types.to_owned() };
    let all: [Value; 4] = std::array::from_fn(|_| {
        let message = feed.one();
        feed.next.push_str(types);
        message
    });
    let told: Vec<_> = all
        .iter()
        .map(|message| format!("{} {} {}", message.id("timestamp"), message.id("type"), message["livemode"]))
        .collect();
    let expected = [
        "2024-01-31T00:00:00Z invoice.created false",
        "2024-02-10T00:00:00Z invoice.past_due false",
        "2024-02-29T00:00:00Z subscription.renewed false",
        "2024-02-29T00:30:00Z invoice.created false",
    ];
    assert_eq!(told, expected);
    let live = world.get("/api/feed/?types=metric.created").ok(200);
    assert_eq!(live["results"][0]["livemode"], true);
}

#[test]
fn whoever_asks_wrongly_is_told() {
    let world = World::new();
    #[rustfmt::skip]
    let cases = [
        // query,                     field,   code,             why
        ("types=invoice.cretaed",     "types", "invalid_choice", "no such type"),
        ("after=xyz",                 "after", "invalid",        "no cursor"),
        ("limit=0",                   "limit", "min_value",      "nothing"),
        ("limit=1001",                "limit", "max_value",      "too much"),
        ("wait=31",                   "wait",  "max_value",      "too long"),
        ("wait=-1",                   "wait",  "min_value",      "no time"),
    ];
    for (query, field, code, why) in cases {
        let faults = world.get(&format!("/api/feed/?{query}")).faults();
        assert_eq!(faults, [(field.to_owned(), code.to_owned())], "{query}: {why}");
    }
    let nobody = world.send("GET", "/api/feed/?wait=20", &[("X-API-KEY", "no key")], b"");
    assert_eq!(nobody.status, 401);
}

#[test]
fn a_feed_is_its_organizations_and_goes_on_behind_a_cursor() {
    let world = World::new();
    world.metric();
    let mut feed = Follower { world: &world, next: String::new() };
    feed.one();
    let other = world.other_key();
    let of_others = |path: &str| world.send("GET", path, &[("X-API-KEY", &other)], b"");
    let theirs = of_others("/api/feed/").ok(200);
    assert_eq!(theirs["results"], json!([]));
    let behind_nothing = format!("/api/feed/?after={}", theirs.id("next"));
    assert_eq!(of_others(&behind_nothing).ok(200), theirs, "nothing has come since");
    let beyond = of_others(&format!("/api/feed/?wait=20&after={}", feed.next));
    assert_eq!(beyond.faults(), [("after".to_owned(), "invalid".to_owned())], "their feed does not go so far");
    let path = format!("/api/feed/?after={}", feed.next);
    assert_eq!(world.get(&path).ok(200), json!({"results": [], "next": feed.next}), "nothing, and where it goes on");
    world.sql("UPDATE message_counters SET first_kept = 5, last_position = 9; DELETE FROM feed_entries");
    assert_eq!(world.get(&path).faults(), [("after".to_owned(), "invalid".to_owned())], "what followed was dropped");
    let late = world.get(&behind_nothing);
    assert_eq!(late.faults(), [("after".to_owned(), "invalid".to_owned())], "who began before the first, too");
    assert_eq!(world.get("/api/feed/").ok(200)["results"], json!([]), "from what is kept");
}

/// More wait than there are connections, and others go on.
#[test]
fn whoever_waits_holds_nothing() {
    let mut world = World::new();
    let waiting = {
        let world = &world;
        thread::scope(|threads| {
            let (sender, receiver) = mpsc::channel();
            let waiters: Vec<_> = (0..17)
                .map(|_| {
                    let sender = sender.clone();
                    threads.spawn(move || {
                        let answer = world.get("/api/feed/?wait=30");
                        sender.send(answer.status).expect("somebody listens");
                        answer
                    })
                })
                .collect();
            assert_eq!(receiver.recv_timeout(Duration::from_secs(25)), Ok(429), "sixteen of an organization, no more");
            world.metric();
            waiters.into_iter().map(|waiter| waiter.join().expect("an answer")).collect::<Vec<_>>()
        })
    };
    let heard: Vec<_> = waiting.iter().filter(|answer| answer.status == 200).collect();
    assert_eq!(heard.len(), 16);
    assert!(heard.iter().all(|answer| answer.json()["results"][0]["type"] == "metric.created"), "all were woken");
    // A server that goes lets nobody wait: it would wait for them.
    let (key, addr) = (world.key.clone(), world.addr());
    let last = world.get("/api/feed/").json().id("next");
    thread::scope(|threads| {
        let waiter = threads.spawn(move || {
            let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
            let path = format!("http://{addr}/api/feed/?wait=30&after={last}");
            agent.get(path).header("X-API-KEY", key).call().map(|answer| answer.status().as_u16())
        });
        thread::sleep(Duration::from_millis(300));
        world.stop();
        assert!(matches!(waiter.join().expect("a thread"), Ok(200 | 503) | Err(_)));
    });
}

/// What the feed has of a customer, read from its end.
#[test]
fn a_customers_messages_are_those_of_the_feed_newest_first() {
    let world = World::new();
    let plan = world.plan(&world.metric());
    for customer in ["acme", "other"] {
        world.customer(customer);
        let body =
            json!({"customer_id": customer, "plan_id": plan, "start_date": crate::support::ago(time::Duration::DAY)});
        world.post("/api/subscriptions/", &body).ok(200);
    }
    let mut feed = Follower { world: &world, next: String::new() };
    let mut told = Vec::new();
    for _ in 0.. {
        let message = feed.one();
        let (data, kind) = (&message["data"], message["type"].as_str().expect("a type"));
        let is_last = kind == "invoice.created" && data["customer"]["customer_id"] == "other";
        if data["customer"]["customer_id"] == "acme" || data["customer_id"] == "acme" {
            told.push(message);
        }
        if is_last {
            break;
        }
    }
    told.reverse();
    let path = "/api/customers/acme/messages/";
    assert_eq!(world.get(path).ok(200), json!(told));
    assert!(told.len() >= 3, "{told:?}");
    let first = world.get(&format!("{path}?limit=2"));
    let link = first.header("link").to_owned();
    let next = link
        .split(['<', '>'])
        .nth(1)
        .and_then(|url| url.find("/api/").map(|at| url[at..].to_owned()))
        .expect("a page to follow");
    let rest = world.get(&next).ok(200);
    assert_eq!((first.ok(200), rest), (json!(told[..2]), json!(told[2..4.min(told.len())])));
    let refused = world.get(&format!("{path}?cursor=x")).faults();
    assert_eq!(refused, [("cursor".to_owned(), "invalid".to_owned())]);
    let other = world.other_key();
    assert_eq!(world.send("GET", path, &[("X-API-KEY", &other)], b"").status, 404, "nobody else's");
    assert_eq!(world.get("/api/customers/nobody/messages/").status, 404);
}
