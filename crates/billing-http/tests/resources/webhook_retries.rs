//! What is sent again, and when: by a clock that the tests set.

use std::collections::BTreeMap;
use std::sync::Arc;

use billing_domain::store::LeaseRequest;
use billing_http::Backend;
use billing_http::delivery::Deliverer;
use billing_http::message;
use billing_outbound::{Client, Reach};
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::webhooks::{customer, path_of, register, world};
use crate::receiver::{Receiver, until};
use crate::support::{Field, World};

/// A process that delivers whenever it is told to, beside a service that is stopped.
struct Sender {
    deliverer: Deliverer,
    backend: Arc<dyn Backend>,
}

impl Sender {
    fn new(world: &World) -> Self {
        let deliverer = Deliverer::new(Client::new(Reach::Anywhere), b"pepper");
        deliverer.show_as(message::bodies);
        Self { deliverer, backend: world.opened.backend() }
    }

    /// Sends what is due at an instant, until nothing is.
    fn send_at(&self, now: OffsetDateTime) {
        while self.deliverer.go_round(self.backend.as_ref(), now).expect("sent") > 0 {}
    }
}

/// Waits until the service has tried so often, and answers the attempts, the first first.
fn attempts(world: &World, endpoint: &Value, count: usize) -> Vec<Value> {
    let read = || world.get(&path_of(endpoint, "deliveries/?limit=1000")).ok(200).as_array().expect("a list").clone();
    until("it was tried so often", || read().len() >= count);
    let mut all = read();
    assert_eq!(all.len(), count, "{all:?}");
    all.reverse();
    all
}

fn instant(attempt: &Value) -> OffsetDateTime {
    let format = time::format_description::well_known::Rfc3339;
    OffsetDateTime::parse(&attempt.id("at"), &format).expect("an instant")
}

#[test]
fn what_fails_is_tried_again_until_the_endpoint_is_disabled() {
    let (mut world, receiver) = (world(), Receiver::new());
    receiver.answers("500 No", "out of order");
    let endpoint = register(&world, &receiver, json!({"event_types": ["customer.created"]}));
    let witness = Receiver::new();
    register(&world, &witness, json!({"event_types": ["webhook_endpoint.disabled"]}));
    customer(&world, "acme");
    let first = instant(&attempts(&world, &endpoint, 1)[0]);
    world.stop();
    let sender = Sender::new(&world);
    let hours = Duration::hours;
    // With a tenth of jitter, and a second for the way there.
    let waits = [Duration::seconds(5), Duration::minutes(5), Duration::minutes(30), hours(2), hours(5), hours(10)];
    let mut now = first;
    for (index, wait) in waits.into_iter().chain([hours(24); 4]).enumerate() {
        let tried = index + 1;
        sender.send_at(now + wait * 0.99);
        assert_eq!(receiver.received().len(), tried, "not before {wait}");
        now += wait * 1.1 + Duration::SECOND;
        sender.send_at(now);
        assert_eq!(receiver.received().len(), tried + 1, "after {wait}");
    }
    assert!(now - first >= Duration::days(5));
    sender.send_at(now + Duration::days(30));
    let all = receiver.received();
    assert_eq!(all.len(), 11, "given up");
    assert!(all.iter().all(|message| message.id() == all[0].id() && message.body == all[0].body), "one message");
    assert!(all.iter().all(|message| message.is_signed_with(&endpoint.id("secret"))), "signed anew each time");
    assert_eq!(sender.deliverer.figures().disabled, 1);
    world.start();
    let shown = world.get(&path_of(&endpoint, "")).ok(200);
    assert_eq!(
        (&shown["status"], &shown["disabled_reason"]),
        (&json!("disabled"), &json!("Every attempt has failed for five days."))
    );
    let told = world.get("/api/feed/?types=webhook_endpoint.disabled&wait=20").ok(200)["results"][0].clone();
    assert_eq!(told["data"], shown, "the feed says so");
    assert_eq!(witness.wait_for(1)[0].json(), told, "and those who want to know");
    let tried = attempts(&world, &endpoint, 11);
    assert!(tried.iter().all(|attempt| attempt["status"] == 500 && attempt["answer"] == "out of order"), "{tried:?}");
    assert_eq!(tried.last().map(|attempt| attempt["attempt"].clone()), Some(json!(11)));
    receiver.answers("204 No Content", "");
    world.write("PATCH", &path_of(&endpoint, ""), br#"{"status":"enabled"}"#).ok(200);
    world.post(&path_of(&endpoint, "replay/"), &json!({"message_id": all[0].id()})).ok(200);
    assert_eq!(receiver.wait_for(12)[11].id(), all[0].id(), "it can still be had");
}

#[test]
fn turns_that_are_read_ahead_bring_everything_once_and_in_each_customers_order() {
    const EACH: usize = 60;
    let (world, receiver) = (world(), Receiver::new());
    let names = ["one", "two", "three", "four"];
    names.iter().for_each(|name| customer(&world, name));
    for amount in 1..=EACH {
        for name in names {
            let credit = json!({"customer_id": name, "amount": amount, "currency_code": "USD"});
            world.post("/api/credits/", &credit).ok(201);
        }
    }
    let all = EACH * names.len();
    // What is placed later would be sent besides.
    until("all is placed", || {
        world.get("/api/feed/?types=credit.created&limit=1000").ok(200)["results"]
            .as_array()
            .is_some_and(|told| told.len() == all)
    });
    let endpoint = register(&world, &receiver, json!({"event_types": ["credit.created"]}));
    let replay = || {
        let since = json!({"since": crate::support::ago(Duration::HOUR)});
        world.post(&path_of(&endpoint, "replay/"), &since).ok(200);
    };
    replay();
    let came = receiver.wait_for(all);
    for name in names {
        let of_customer =
            came.iter().map(|message| message.json()).filter(|told| told["data"]["customer"]["customer_id"] == name);
        let amounts: Vec<Option<f64>> = of_customer.map(|told| told["data"]["amount"].as_f64()).collect();
        assert_eq!(
            amounts,
            (1..=EACH).map(|amount| Some(amount as f64)).collect::<Vec<_>>(),
            "{name}, in order, each once"
        );
    }
    assert_eq!(attempts(&world, &endpoint, all).len(), all, "and so it was written down");

    // What fails in the middle is sent again, and nothing behind it is lost.
    receiver.answers("500 No", "out of order");
    replay();
    receiver.wait_for(all + 40);
    receiver.answers("204 No Content", "");
    let taken = || {
        let tried = world.get(&path_of(&endpoint, "deliveries/?limit=1000")).ok(200);
        let mut taken = BTreeMap::<String, usize>::new();
        let took = |one: &&Value| one["status"] == 204;
        tried
            .as_array()
            .expect("a list")
            .iter()
            .filter(took)
            .for_each(|one| *taken.entry(one.id("message_id")).or_default() += 1);
        taken
    };
    until("everything was taken twice", || taken().values().filter(|times| **times == 2).count() == all);
}

#[test]
fn a_replay_sends_again_what_is_on_its_way_just_then() {
    let (world, receiver) = (world(), Receiver::new());
    receiver.hangs(true);
    let endpoint = register(&world, &receiver, json!({}));
    customer(&world, "c1");
    let sent = receiver.wait_for(1)[0].id().to_owned();
    // To where it stands: the turn that began there is not over.
    let since = json!({"since": crate::support::ago(Duration::HOUR)});
    world.post(&path_of(&endpoint, "replay/"), &since).ok(200);
    receiver.hangs(false);
    assert_eq!(receiver.wait_for(2)[1].id(), sent, "whoever lost it asks for it again");
    attempts(&world, &endpoint, 2);
}

#[test]
fn what_was_read_ahead_is_not_sent_to_an_endpoint_that_was_changed_meanwhile() {
    const FIRST_TURN: usize = 32;
    let (world, old, new) = (world(), Receiver::new(), Receiver::new());
    let count = 3 * FIRST_TURN;
    (0..count).for_each(|n| customer(&world, &format!("c{n}")));
    let told = || world.get("/api/feed/?types=customer.created&limit=1000").ok(200)["results"].clone();
    until("all is placed", || told().as_array().is_some_and(|told| told.len() == count));
    old.hangs(true);
    let endpoint = register(&world, &old, json!({"event_types": ["customer.created"]}));
    let since = json!({"since": crate::support::ago(Duration::HOUR)});
    world.post(&path_of(&endpoint, "replay/"), &since).ok(200);
    old.wait_for(1);
    // By then what is behind it has been read.
    std::thread::sleep(std::time::Duration::from_millis(300));
    world.write("PATCH", &path_of(&endpoint, ""), json!({"url": new.url}).to_string().as_bytes()).ok(200);
    old.hangs(false);
    new.wait_for(count - FIRST_TURN);
    let both: Vec<String> = old.received().iter().chain(&new.received()).map(|one| one.id().to_owned()).collect();
    assert_eq!((old.received().len(), new.received().len()), (FIRST_TURN, count - FIRST_TURN));
    assert_eq!(both.iter().collect::<std::collections::BTreeSet<_>>().len(), count, "each once");
}

#[test]
fn an_endpoint_that_is_changed_between_quick_turns_gets_everything_once() {
    let (world, receivers) = (world(), [Receiver::new(), Receiver::new()]);
    let count = 200;
    (0..count).for_each(|n| customer(&world, &format!("c{n}")));
    let told = || world.get("/api/feed/?types=customer.created&limit=1000").ok(200)["results"].clone();
    until("all is placed", || told().as_array().is_some_and(|told| told.len() == count));
    let endpoint = register(&world, &receivers[0], json!({"event_types": ["customer.created"]}));
    for round in 1..=5 {
        let since = json!({"since": crate::support::ago(Duration::HOUR)});
        world.post(&path_of(&endpoint, "replay/"), &since).ok(200);
        let came = || receivers.iter().map(|receiver| receiver.received().len()).sum::<usize>();
        // In the midst of it, now to one and now to the other.
        for next in [1, 0].into_iter().cycle() {
            if came() >= round * count {
                break;
            }
            let url = json!({"url": receivers[next].url}).to_string();
            world.write("PATCH", &path_of(&endpoint, ""), url.as_bytes()).ok(200);
        }
        let mut times = BTreeMap::<String, usize>::new();
        let all: Vec<_> = receivers.iter().flat_map(Receiver::received).collect();
        all.iter().for_each(|one| *times.entry(one.id().to_owned()).or_default() += 1);
        assert!(times.len() == count && times.values().all(|times| *times == round), "each once: {times:?}");
        let written = || world.get(&path_of(&endpoint, "deliveries/?limit=1000")).ok(200);
        let expected = (round * count).min(1000);
        until("it is written down", || written().as_array().is_some_and(|tried| tried.len() == expected));
    }
}

#[test]
fn an_endpoint_is_left_alone_as_long_as_it_asks_for() {
    let hour = OffsetDateTime::now_utc() + Duration::HOUR;
    let date = hour.format(&time::format_description::well_known::Rfc2822).expect("a date").replace("+0000", "GMT");
    for asked in ["3600".to_owned(), date] {
        let (mut world, receiver) = (world(), Receiver::new());
        receiver.answers(&format!("429 Too Many\r\nretry-after: {asked}"), "");
        let endpoint = register(&world, &receiver, json!({}));
        customer(&world, "acme");
        let first = instant(&attempts(&world, &endpoint, 1)[0]);
        world.stop();
        let sender = Sender::new(&world);
        sender.send_at(first + Duration::minutes(58));
        assert_eq!(receiver.received().len(), 1, "not yet: {asked}");
        receiver.answers("200 OK", "");
        sender.send_at(first + Duration::minutes(61));
        assert_eq!(receiver.received().len(), 2, "by then: {asked}");
        sender.send_at(first + Duration::days(1));
        assert_eq!(receiver.received().len(), 2, "it was taken");
    }
}

#[test]
fn one_that_is_gone_is_disabled_at_once() {
    let (world, receiver) = (world(), Receiver::new());
    receiver.answers("410 Gone", "moved away");
    let endpoint = register(&world, &receiver, json!({}));
    customer(&world, "acme");
    receiver.wait_for(1);
    until("it is disabled", || world.get(&path_of(&endpoint, "")).ok(200)["status"] == "disabled");
    let told = world.get("/api/feed/?types=webhook_endpoint.disabled&wait=20").ok(200)["results"][0]["data"].clone();
    assert_eq!((told.id("disabled_reason"), told.get("secret")), ("It answered 410.".to_owned(), None));
    customer(&world, "more");
    let told = || world.get("/api/feed/").ok(200)["results"].as_array().expect("a list").len();
    until("it is told", || told() == 3);
    assert_eq!(receiver.received().len(), 1, "nothing is sent to it any more");
    let page = world.get("/metrics").text;
    assert!(page.contains("billing_webhook_endpoints_disabled_total 1\n"), "{page}");
    assert!(page.contains("billing_webhook_attempts_total{outcome=\"failed\"} 1\n"), "{page}");
}

#[test]
fn one_that_hangs_delays_nobody_else() {
    let (world, hanging) = (world(), Receiver::new());
    hanging.hangs(true);
    let slow = register(&world, &hanging, json!({}));
    let others: Vec<(Receiver, Value)> = (0..5)
        .map(|_| {
            let receiver = Receiver::new();
            let endpoint = register(&world, &receiver, json!({}));
            (receiver, endpoint)
        })
        .collect();
    for name in 0..20 {
        customer(&world, &format!("customer-{name}"));
    }
    hanging.wait_for(1);
    for (receiver, endpoint) in &others {
        let all = receiver.wait_for(20);
        assert!(all.iter().all(|message| message.is_signed_with(&endpoint.id("secret"))));
    }
    assert!(hanging.received().len() <= 4, "no more than so many are on their way to one");
    assert_eq!(world.get(&path_of(&slow, "deliveries/")).ok(200), json!([]), "it still hangs");
    hanging.hangs(false);
    hanging.wait_for(20);
}

/// Sixteen endpoints are half of the lanes for what fails; an organization has a quarter of them, and takes turns in those.
#[test]
fn failing_endpoints_of_an_organization_take_a_quarter_of_the_lanes_for_them() {
    let (world, hanging, others) = (world(), Receiver::new(), Receiver::new());
    hanging.hangs(true);
    for _ in 0..16 {
        register(&world, &hanging, json!({}));
    }
    let other = world.other_key();
    let headers = [("X-API-KEY", other.as_str()), ("Content-Type", "application/json")];
    let post_as_other =
        |path: &str, body: Value| world.send("POST", path, &headers, body.to_string().as_bytes()).ok(201);
    post_as_other("/api/webhook_endpoints/", json!({"url": others.url}));
    world.sql("UPDATE webhook_endpoints SET failing_since = now()");
    customer(&world, "acme");
    hanging.wait_for(8);
    post_as_other("/api/customers/", json!({"customer_id": "theirs", "email": "theirs@acme.io"}));
    others.wait_for(1);
    assert_eq!(hanging.received().len(), 8, "one message each, to as many endpoints as it has lanes");
    hanging.hangs(false);
    hanging.wait_for(16);
}

#[test]
fn what_a_process_takes_with_it_is_sent_again_under_the_same_id() {
    let (mut world, receiver) = (world(), Receiver::new());
    let endpoint = register(&world, &receiver, json!({}));
    world.sql("UPDATE webhook_endpoints SET leased_to = gen_random_uuid(), leased_until = '2999-01-01Z'");
    customer(&world, "acme");
    let backend = world.opened.backend();
    until("it is placed", || backend.last_positions(&[world.organization]) == Ok(vec![1]));
    world.stop();
    let now = OffsetDateTime::now_utc();
    let (sender, dead) = (Sender::new(&world), Uuid::from_u128(7));
    sender.send_at(now);
    assert_eq!(receiver.received().len(), 0, "another process has it");
    // That one dies when it has sent the message and not written that down: its lease runs out.
    world.sql("UPDATE webhook_endpoints SET leased_until = '2000-01-01Z'");
    let (room_of, lease) = (BTreeMap::new(), Duration::MINUTE);
    let wanted = LeaseRequest { owner: dead, limit: 64, most_of_each: 64, room_of, are_failing: false, now, lease };
    assert_eq!(backend.lease_endpoints(&wanted).expect("leased").len(), 1);
    sender.send_at(now + Duration::seconds(59));
    assert_eq!(receiver.received().len(), 0, "it may still live");
    sender.send_at(now + Duration::seconds(60));
    assert_eq!(receiver.received().len(), 1, "it is over");
    world.sql("UPDATE webhook_endpoints SET position = 0; DELETE FROM webhook_attempts");
    sender.send_at(now + Duration::minutes(2));
    let all = receiver.received();
    assert_eq!((all.len(), all[0].id(), &all[0].body), (2, all[1].id(), &all[1].body), "a double has one id");
    world.start();
    let kept = attempts(&world, &endpoint, 1);
    assert_eq!(kept[0].id("message_id"), all[0].id());
}
