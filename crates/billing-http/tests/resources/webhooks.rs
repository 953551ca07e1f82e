//! Webhook endpoints: what is sent to them, by whom it is signed, and what is shown of it.

use std::thread;

use billing_outbound::Reach;
use serde_json::{Value, json};

use crate::receiver::{Receiver, until};
use crate::support::{Answer, Field, World, ago, now};

pub fn world() -> World {
    World::with(|settings| settings.reach = Reach::Anywhere)
}

/// Has an endpoint made for a receiver, and answers it with its secret.
pub fn register(world: &World, receiver: &Receiver, more: Value) -> Value {
    let mut body = json!({"url": receiver.url});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    world.post("/api/webhook_endpoints/", &body).ok(201)
}

pub fn customer(world: &World, id: &str) {
    world.post("/api/customers/", &json!({"customer_id": id, "email": format!("{id}@acme.io")})).ok(201);
}

pub fn path_of(endpoint: &Value, rest: &str) -> String {
    format!("/api/webhook_endpoints/{}/{rest}", endpoint.id("webhook_endpoint_id"))
}

fn patch(world: &World, endpoint: &Value, body: Value) -> Answer {
    world.write("PATCH", &path_of(endpoint, ""), body.to_string().as_bytes())
}

fn feed(world: &World) -> Vec<Value> {
    world.get("/api/feed/?limit=1000&wait=20").ok(200)["results"].as_array().expect("a list").clone()
}

#[test]
fn every_message_is_sent_as_the_feed_has_it_in_order_and_signed() {
    let (world, receiver) = (world(), Receiver::new());
    customer(&world, "before");
    until("it is placed", || !feed(&world).is_empty());
    let endpoint = register(&world, &receiver, json!({"description": "books"}));
    let plan = world.plan(&world.metric());
    for customer in ["one", "two"] {
        self::customer(&world, customer);
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": ago(time::Duration::DAY)});
        let subscription = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
        world.post(&format!("/api/subscriptions/{subscription}/cancel/"), &json!({})).ok(200);
    }
    let messages = receiver.wait_for(16);
    let mut told = feed(&world);
    assert_eq!(told.remove(0)["data"]["customer_id"], "before", "what was told before it was made is not sent");
    assert_eq!(messages.len(), told.len());
    for told in &told {
        let sent: Vec<_> = messages.iter().filter(|message| message.id() == told.id("id")).collect();
        assert_eq!(sent.len(), 1, "once: {told}");
        assert_eq!(sent[0].json(), *told, "as the feed has it");
    }
    for customer in ["one", "two"] {
        let whose = |message: &Value| {
            let data = &message["data"];
            [&data["customer_id"], &data["customer"]["customer_id"]].iter().any(|id| **id == customer)
        };
        let ids =
            |all: &[Value]| -> Vec<String> { all.iter().filter(|one| whose(one)).map(|one| one.id("id")).collect() };
        let sent: Vec<Value> = messages.iter().map(|message| message.json()).collect();
        assert!(ids(&told).len() >= 3, "{told:?}");
        assert_eq!(ids(&sent), ids(&told), "each customer's in their order");
    }
    let (secret, public_key) = (endpoint.id("secret"), endpoint.id("public_key"));
    for message in &messages {
        assert!(message.is_signed_with(&secret) && message.is_signed_for(&public_key), "{message:?}");
        assert_eq!(message.headers["content-type"], "application/json");
        assert_eq!(message.headers["billing-version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(message.headers["billing-organization"], world.organization.to_string());
        assert!((message.timestamp() - time::OffsetDateTime::now_utc().unix_timestamp()).abs() < 300);
    }
    let mut forged = messages[0].clone();
    forged.body.push(' ');
    assert!(!forged.is_signed_with(&secret) && !forged.is_signed_for(&public_key), "any change is seen");
    let deliveries = path_of(&endpoint, "deliveries/");
    until("all is written down", || world.get(&deliveries).ok(200).as_array().is_some_and(|all| all.len() == 16));
    let first = world.get(&format!("{deliveries}?message_id={}", messages[0].id())).ok(200)[0].clone();
    assert_eq!(
        (first["attempt"].clone(), first["status"].clone(), first["answer"].clone()),
        (json!(1), json!(204), json!(""))
    );
}

#[test]
fn only_what_is_wanted_is_sent_and_nothing_while_disabled() {
    let (world, receiver) = (world(), Receiver::new());
    let endpoint = register(&world, &receiver, json!({"event_types": ["customer.created"]}));
    // What is not wanted comes first: it was passed by when the other one arrives.
    let created = |name: &str| {
        world.post("/api/metrics/", &json!({"event_name": name})).ok(201);
        customer(&world, name);
    };
    created("one");
    assert_eq!(receiver.wait_for(1)[0].json()["type"], "customer.created");
    let changed = patch(&world, &endpoint, json!({"event_types": ["metric.created"], "description": "meters"})).ok(200);
    assert_eq!((&changed["event_types"], &changed["description"]), (&json!(["metric.created"]), &json!("meters")));
    created("two");
    assert_eq!(receiver.wait_for(2)[1].json()["data"]["event_name"], "two");
    assert_eq!(patch(&world, &endpoint, json!({"status": "disabled"})).ok(200)["status"], "disabled");
    created("three");
    until("they are placed", || feed(&world).len() == 6);
    let replay = world.post(&path_of(&endpoint, "replay/"), &json!({"since": ago(time::Duration::HOUR)}));
    assert_eq!(replay.error(), "invalid_state", "nothing is sent to it");
    let enabled = patch(&world, &endpoint, json!({"status": "enabled"})).ok(200);
    assert_eq!((&enabled["status"], &enabled["disabled_reason"]), (&json!("enabled"), &Value::Null));
    created("four");
    let all = receiver.wait_for(3);
    assert_eq!(all[2].json()["data"]["event_name"], "four", "what was told meanwhile is not sent");
    let deleted = world.send("DELETE", &path_of(&endpoint, ""), &[("X-API-KEY", &world.key)], b"");
    assert_eq!(deleted.status, 204);
    created("five");
    until("they are placed", || feed(&world).len() == 10);
    assert_eq!(receiver.received().len(), 3, "nothing is sent to one that is deleted");
    assert_eq!(world.get("/api/webhook_endpoints/").ok(200), json!([]));
}

#[test]
fn endpoints_are_refused_field_by_field() {
    let world = World::new();
    let many: Vec<String> = (0..3_000).map(|_| "a".to_owned()).collect();
    #[rustfmt::skip]
    let cases = [
        (json!({}),                                                                             "url",           "required",      "nothing to call"),
        (json!({"url": "example"}),                                                             "url",           "invalid",       "no URL"),
        (json!({"url": "ftp://example.com"}),                                                   "url",           "invalid",       "another scheme"),
        (json!({"url": "http://example.com/"}),                                                 "url",           "invalid",       "anybody on the way could read it"),
        (json!({"url": "https://127.0.0.1/"}),                                                  "url",           "invalid",       "this machine"),
        (json!({"url": "https://169.254.169.254/latest/"}),                                     "url",           "invalid",       "metadata of a cloud"),
        (json!({"url": "https://[::ffff:10.0.0.1]/"}),                                          "url",           "invalid",       "a mapped address"),
        (json!({"url": "https://user:word@example.com/"}),                                      "url",           "invalid",       "a password in it"),
        (json!({"url": format!("https://example.com/{}", many.concat())}),                      "url",           "invalid",       "too long"),
        (json!({"url": "https://a.invalid/", "event_types": ["invoice.exploded"]}),             "event_types.0", "invalid_choice", "no such type"),
        (json!({"url": "https://a.invalid/", "event_types": "invoice.paid"}),                   "event_types",   "not_a_list",    "no list"),
        (json!({"url": "https://a.invalid/", "event_types": ["invoice.paid", "invoice.paid"]}), "event_types.1", "unique",        "named twice"),
        (json!({"url": "https://a.invalid/", "description": many.concat().repeat(10)}),                    "description",   "max_length",    "too long"),
    ];
    let mut made = Value::Null;
    for number in 0..16 {
        let body = json!({"url": format!("https://{number}.invalid/"), "event_types": ["webhook_endpoint.disabled"]});
        made = world.post("/api/webhook_endpoints/", &body).ok(201);
    }
    let before = world.get("/api/webhook_endpoints/").text;
    let one_more = world.post("/api/webhook_endpoints/", &json!({"url": "https://17.invalid/"}));
    assert_eq!(one_more.faults(), [("url".to_owned(), "list_too_long".to_owned())], "sixteen at most");
    let faults = |answer: &Answer| answer.faults().into_iter().next().expect("a fault");
    for (body, attr, code, why) in cases {
        let answer = world.post("/api/webhook_endpoints/", &body);
        assert_eq!(faults(&answer), (attr.to_owned(), code.to_owned()), "{why}: {}", answer.text);
        if code != "required" {
            let answer = patch(&world, &made, body);
            assert_eq!(faults(&answer), (attr.to_owned(), code.to_owned()), "changed: {why}: {}", answer.text);
        }
    }
    #[rustfmt::skip]
    let cases = [
        (json!({}),                                                                                          "message_id", "required",             "nothing to send"),
        (json!({"message_id": "msg_00000000000000000000000000000001"}),                                  "message_id", "does_not_exist",       "no such message"),
        (json!({"message_id": "msg_00000000000000000000000000000001", "since": now()}),                  "message_id", "not_allowed_together", "both"),
        (json!({"since": "soon"}),                                                                           "since",      "invalid",              "no instant"),
    ];
    for (body, attr, code, why) in cases {
        let answer = world.post(&path_of(&made, "replay/"), &body);
        assert_eq!(faults(&answer), (attr.to_owned(), code.to_owned()), "{why}: {}", answer.text);
    }
    assert_eq!(world.get("/api/webhook_endpoints/").text, before, "nothing of that was done");
}

#[test]
fn two_secrets_sign_while_one_takes_the_others_place() {
    let (world, receiver) = (world(), Receiver::new());
    let endpoint = register(&world, &receiver, json!({}));
    let rotated = world.post(&path_of(&endpoint, "rotate_secret/"), &json!({})).ok(200);
    assert_ne!(rotated.id("secret"), endpoint.id("secret"));
    assert_ne!(rotated.id("public_key"), endpoint.id("public_key"));
    customer(&world, "acme");
    let message = &receiver.wait_for(1)[0];
    for endpoint in [&endpoint, &rotated] {
        assert!(message.is_signed_with(&endpoint.id("secret")) && message.is_signed_for(&endpoint.id("public_key")));
    }
    world.sql("UPDATE webhook_endpoints SET old_secret_until = now() - interval '1 second'");
    customer(&world, "late");
    let message = &receiver.wait_for(2)[1];
    assert!(message.is_signed_with(&rotated.id("secret")) && message.is_signed_for(&rotated.id("public_key")));
    assert!(!message.is_signed_with(&endpoint.id("secret")), "the one before is over");
    assert!(!message.is_signed_for(&endpoint.id("public_key")));
}

#[test]
fn an_endpoint_is_tried_out() {
    let (world, receiver) = (world(), Receiver::new());
    let endpoint = register(&world, &receiver, json!({"event_types": ["invoice.paid"]}));
    receiver.answers("418 I'm a teapot", "short and stout");
    let tried = world.post(&path_of(&endpoint, "test/"), &json!({})).ok(200);
    assert_eq!((&tried["status"], &tried["answer"]), (&json!(418), &json!("short and stout")));
    let message = &receiver.received()[0];
    assert!(message.is_signed_with(&endpoint.id("secret")));
    assert_eq!(
        (message.id(), message.json()["type"].clone()),
        (tried.id("message_id").as_str(), json!("webhook_endpoint.test"))
    );
    assert_eq!(message.json()["data"], world.get(&path_of(&endpoint, "")).ok(200), "it is about itself");
    assert_eq!(world.get(&path_of(&endpoint, "deliveries/")).ok(200), json!([]), "and is no delivery");
    patch(&world, &endpoint, json!({"url": "http://127.0.0.1:1/"})).ok(200);
    let tried = world.post(&path_of(&endpoint, "test/"), &json!({})).ok(200);
    assert_eq!(tried["status"], Value::Null, "nobody is there: {tried}");
}

#[test]
fn an_organization_tries_out_two_endpoints_at_once_and_another_one_need_not_wait() {
    let (world, hanging, quick) = (world(), Receiver::new(), Receiver::new());
    hanging.hangs(true);
    let test = path_of(&register(&world, &hanging, json!({})), "test/");
    let other = world.other_key();
    let headers = [("X-API-KEY", other.as_str()), ("Content-Type", "application/json")];
    let post_as_other = |path: &str, body: Value| world.send("POST", path, &headers, body.to_string().as_bytes());
    let theirs = post_as_other("/api/webhook_endpoints/", json!({"url": quick.url})).ok(201);
    thread::scope(|threads| {
        let tries = [(), ()].map(|()| threads.spawn(|| world.post(&test, &json!({})).ok(200)));
        hanging.wait_for(2);
        assert_eq!(world.post(&test, &json!({})).error(), "too_many_in_flight", "a third one");
        let tried = post_as_other(&path_of(&theirs, "test/"), json!({})).ok(200);
        assert_eq!(tried["status"], json!(204), "another organization tries its own meanwhile");
        assert_eq!(hanging.received().len(), 2, "what was refused was not sent");
        hanging.hangs(false);
        for tried in tries {
            assert_eq!(tried.join().expect("an answer")["status"], json!(204));
        }
    });
    world.post(&test, &json!({})).ok(200);
}

#[test]
fn messages_are_sent_again_under_their_ids() {
    let (world, receiver) = (world(), Receiver::new());
    let endpoint = register(&world, &receiver, json!({}));
    for name in ["one", "two", "three"] {
        customer(&world, name);
    }
    let sent: Vec<String> = receiver.wait_for(3).iter().map(|message| message.id().to_owned()).collect();
    let replay = |body: Value| world.post(&path_of(&endpoint, "replay/"), &body).ok(200);
    replay(json!({"message_id": sent[1]}));
    let again = receiver.wait_for(4);
    assert_eq!((again[3].id(), again[3].body.as_str()), (sent[1].as_str(), again[1].body.as_str()), "the same again");
    until("all is written down", || {
        world.get(&path_of(&endpoint, "deliveries/")).ok(200).as_array().is_some_and(|all| all.len() == 4)
    });
    replay(json!({"since": ago(time::Duration::HOUR)}));
    let all = receiver.wait_for(7);
    let again: Vec<_> = all[4..].iter().map(|message| message.id().to_owned()).collect();
    assert_eq!(again.iter().collect::<std::collections::BTreeSet<_>>(), sent.iter().collect());
    replay(json!({"since": "2199-01-01T00:00:00Z"}));
    customer(&world, "four");
    assert_eq!(receiver.wait_for(8)[7].json()["data"]["customer_id"], "four", "nothing is so young");
}

/// All that the database keeps of endpoints.
fn dump(world: &World) -> String {
    #[derive(diesel::QueryableByName)]
    struct Row {
        #[diesel(sql_type = diesel::sql_types::Text)]
        row: String,
    }
    let query = "SELECT e::text || encode(secret, 'escape') || coalesce(encode(old_secret, 'escape'), '') AS row FROM webhook_endpoints e
        UNION ALL SELECT t::text FROM webhook_attempts t UNION ALL SELECT t::text FROM webhook_pending t
        UNION ALL SELECT t::text FROM organization_messages t UNION ALL SELECT t::text FROM idempotency_keys t";
    let rows: Vec<Row> = diesel::RunQueryDsl::load(diesel::sql_query(query), &mut world.pg()).expect("a dump");
    rows.into_iter().map(|row| row.row).collect()
}

#[test]
fn secrets_are_shown_once_and_kept_sealed() {
    let (world, receiver) = (world(), Receiver::new());
    let endpoint = register(&world, &receiver, json!({}));
    let secret = endpoint.id("secret");
    receiver.answers("500 No", &format!("is it {secret}?"));
    customer(&world, "acme");
    receiver.wait_for(1);
    let deliveries = path_of(&endpoint, "deliveries/");
    until("it is written down", || world.get(&deliveries).ok(200).as_array().is_some_and(|all| all.len() == 1));
    let other = register(&world, &receiver, json!({"event_types": ["webhook_endpoint.disabled"]}));
    receiver.answers("410 Gone", "");
    world.post(&path_of(&endpoint, "replay/"), &json!({"since": ago(time::Duration::HOUR)})).ok(200);
    // It is disabled, which is told.
    receiver.wait_for(3);
    let shown = ["", "deliveries/"].map(|rest| world.get(&path_of(&endpoint, rest)).text);
    let listed = ["/api/webhook_endpoints/", "/api/feed/", "/metrics"].map(|path| world.get(path).text);
    let sent = receiver.received().into_iter().map(|message| message.body);
    let dump = dump(&world);
    assert!(shown[1].contains("is it whsec_***?"), "{}", shown[1]);
    assert!(dump.contains(&endpoint.id("public_key")), "the dump has the endpoint");
    for secret in [secret, other.id("secret")] {
        let bare = secret.trim_start_matches("whsec_");
        for text in shown.iter().chain(&listed).cloned().chain(sent.clone()).chain([dump.clone()]) {
            assert!(!text.contains(bare), "{text}");
        }
    }
}
