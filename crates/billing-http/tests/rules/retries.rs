//! Requests that are sent twice and take effect once.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use billing_domain::StoreError;
use billing_domain::idempotency::Claim;
use billing_domain::store::{Scope, Store};
use billing_http::{Server, ServerSettings};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::receiver::until;
use crate::support::{Answer, Field, World, connect, now};

/// Requests with one key that come at once.
const TWINS: usize = 8;

impl World {
    fn post_once(&self, idempotency_key: &str, path: &str, body: &Value) -> Answer {
        let key = self.key.clone();
        self.post_once_as(&key, idempotency_key, path, &body.to_string())
    }

    fn post_once_as(&self, key: &str, idempotency_key: &str, path: &str, body: &str) -> Answer {
        let headers = [("X-API-KEY", key), ("Content-Type", "application/json"), ("Idempotency-Key", idempotency_key)];
        self.send("POST", path, &headers, body.as_bytes())
    }

    fn customers(&self) -> usize {
        self.get("/api/customers/").ok(200).as_array().expect("a list").len()
    }
}

fn customer(id: &str) -> Value {
    json!({"customer_id": id, "email": format!("{id}@acme.io")})
}

fn assert_replayed(first: &Answer, again: &Answer) {
    assert_eq!((first.status, &first.text), (again.status, &again.text), "the same answer, to the byte");
    assert_eq!(first.header("content-type"), again.header("content-type"));
    assert_eq!((first.header("idempotency-replayed"), again.header("idempotency-replayed")), ("", "true"));
    assert_ne!(first.header("x-request-id"), again.header("x-request-id"), "each request has a log line of its own");
}

#[test]
fn a_request_sent_again_is_answered_again_and_done_once() {
    let mut world = World::new();
    let first = world.post_once("k1", "/api/customers/", &customer("acme"));
    assert_eq!(first.status, 201, "{}", first.text);
    assert_replayed(&first, &world.post_once("k1", "/api/customers/", &customer("acme")));
    world.restart();
    assert_replayed(&first, &world.post_once("k1", "/api/customers/", &customer("acme")));
    assert_replayed(&first, &world.post_once("k1", "/api/customers", &customer("acme")));
    let respelled = r#"{ "email":"acme@acme.io", "customer_id" : "acme" }"#;
    assert_replayed(&first, &world.post_once_as(&world.key, "k1", "/api/customers/", respelled));
    assert_eq!(world.customers(), 1);
}

#[test]
fn the_answer_of_a_switch_is_found_though_the_old_id_is_gone() {
    let world = World::new();
    let metric = world.metric();
    let (old, new) = (world.plan(&metric), world.plan(&metric));
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": old, "start_date": &now()[..10]});
    let path = format!(
        "/api/subscriptions/{}/switch_plan/",
        world.post("/api/subscriptions/", &body).ok(200).id("subscription_id")
    );
    let switch = json!({"switch_plan_id": new});
    let first = world.post_once("switch", &path, &switch);
    assert_eq!(first.status, 200, "{}", first.text);
    let before = world.snapshot();
    assert_replayed(&first, &world.post_once("switch", &path, &switch));
    assert_eq!(world.snapshot(), before);
    assert_eq!(world.post(&path, &switch).error(), "resource_not_found", "without the key it is another request");
}

#[test]
fn what_a_rule_refuses_stays_refused_and_what_was_malformed_does_not() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let subscribe = json!({"customer_id": "acme", "plan_id": plan, "start_date": &now()[..10]});
    // A field names what does not exist: the same request is good once it does.
    let early = world.post_once("s", "/api/subscriptions/", &subscribe);
    assert_eq!(early.faults(), [("customer_id".to_owned(), "does_not_exist".to_owned())]);
    world.customer("acme");
    world.post_once("s", "/api/subscriptions/", &subscribe).ok(200);

    let overlap = world.post_once("again", "/api/subscriptions/", &subscribe);
    assert_eq!((overlap.status, overlap.error().as_str()), (409, "overlapping_plans"));
    world.post("/api/subscriptions/cancel/?customer_id=acme", &json!({})).ok(200);
    assert_replayed(&overlap, &world.post_once("again", "/api/subscriptions/", &subscribe));

    // Refused before any transaction.
    let path = format!("/api/credits/baladj_{}/void/", "0".repeat(32));
    let absent = world.post_once("void", &path, &json!({}));
    assert_eq!(absent.error(), "not_found");
    assert_replayed(&absent, &world.post_once("void", &path, &json!({})));

    let unreadable = world.post_once_as(&world.key, "bad", "/api/customers/", "{");
    assert_eq!(unreadable.error(), "parse_error");
    assert_eq!(world.post_once_as(&world.key, "bad", "/api/customers/", "{").header("idempotency-replayed"), "");
    world.post_once("bad", "/api/customers/", &customer("x")).ok(201);
}

#[test]
fn a_key_stands_for_one_request_only() {
    let world = World::new();
    world.post_once("k", "/api/customers/", &customer("acme")).ok(201);
    #[rustfmt::skip]
    let cases = [
        // path,                     body,                             why
        ("/api/customers/",          customer("other"),                "another body"),
        ("/api/customers/?limit=1",  customer("acme"),                 "another query"),
        ("/api/features/",           customer("acme"),                 "another path"),
        ("/api/customers/",          json!({"customer_id": "acme"}),   "a body that would be refused"),
    ];
    for (path, body, why) in cases {
        let answer = world.post_once("k", path, &body);
        assert_eq!((answer.status, answer.error().as_str()), (422, "idempotency_key_reused"), "{why}");
    }
    let other = world.other_key();
    let theirs = world.post_once_as(&other, "k", "/api/customers/", &customer("theirs").to_string());
    assert_eq!((theirs.status, theirs.header("idempotency-replayed")), (201, ""), "another organization's own key");
    assert_eq!(world.customers(), 1);
    // A GET has no use for a key, and the calls about events have ids of their own.
    let headers = [("X-API-KEY", world.key.as_str()), ("Idempotency-Key", "k")];
    assert_eq!(world.send("GET", "/api/features/", &headers, b"").status, 200);
    let verify = world.post_once("k", "/api/verify_idems_received/", &json!({"idempotency_ids": ["a"]}));
    assert_eq!((verify.status, verify.header("idempotency-replayed")), (200, ""));
}

#[test]
fn a_key_has_a_shape() {
    let world = World::new();
    let long = "k".repeat(256);
    let (ok, key) = ("k".repeat(255), world.key.clone());
    let json = ("Content-Type", "application/json");
    #[rustfmt::skip]
    let cases = [
        // keys,             status, why
        (vec![ok.as_str()],  201,    "255 characters"),
        (vec![""],           400,    "none"),
        (vec![&long],        400,    "256 characters"),
        (vec!["a\tb"],       400,    "a tab"),
        (vec!["kéy"],        400,    "not ASCII"),
        (vec!["a", "b"],     400,    "two keys"),
    ];
    for (keys, status, why) in cases {
        let mut headers = vec![("X-API-KEY", key.as_str()), json];
        headers.extend(keys.iter().map(|key| ("Idempotency-Key", *key)));
        let answer = world.send("POST", "/api/customers/", &headers, customer("acme").to_string().as_bytes());
        assert_eq!(answer.status, status, "{why}: {}", answer.text);
        if status == 400 {
            assert_eq!(answer.error(), "idempotency_key_invalid", "{why}");
        }
    }
}

#[test]
fn a_secret_is_not_kept() {
    let world = World::new();
    let first = world.post_once("k", "/api/api_keys/", &json!({"name": "ci"})).ok(201);
    let secret = first.id("key");
    let again = world.post_once("k", "/api/api_keys/", &json!({"name": "ci"}));
    let mut expected = first;
    expected.as_object_mut().expect("an object").remove("key");
    assert_eq!((again.ok(201), again.header("idempotency-replayed")), (expected, "true"));
    assert!(!again.text.contains(&secret[9..]));
    assert_eq!(world.get("/api/api_keys/").ok(200).as_array().expect("a list").len(), 2);
}

#[test]
fn of_twins_one_is_done_and_all_are_answered_alike() {
    let world = World::new();
    world.customer("acme");
    let grant = json!({"customer_id": "acme", "amount": 5, "currency_code": "USD"});
    for round in 0..10 {
        let (key, barrier) = (format!("twins {round}"), Barrier::new(TWINS));
        let answers: Vec<Answer> = thread::scope(|scope| {
            let twins: Vec<_> = (0..TWINS)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        world.post_once(&key, "/api/credits/", &grant)
                    })
                })
                .collect();
            twins.into_iter().map(|twin| twin.join().expect("an answer")).collect()
        });
        assert!(answers.iter().all(|answer| (answer.status, &answer.text) == (201, &answers[0].text)), "{answers:#?}");
        let firsts = answers.iter().filter(|answer| answer.header("idempotency-replayed").is_empty()).count();
        assert_eq!(firsts, 1, "one of them was done");
        let credits = world.get("/api/credits/?customer_id=acme").ok(200).as_array().expect("a list").len();
        assert_eq!(credits, round + 1);
    }
}

/// What happens to the next COMMIT on a [`Wire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// It never reaches the database.
    Command,
    /// The database carries it out, and nobody hears of it.
    Answer,
}

/// A wire to the database that can be cut at the COMMIT of one request: that with the Idempotency-Key which is next.
/// Workers commit beside it.
struct Wire {
    url: String,
    next: Arc<Mutex<Option<(Cut, String)>>>,
    _folder: TempDir,
}

impl Wire {
    /// A socket of its own in front of the one that `url` names.
    fn before(url: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let (front, rest) = url.split_once("host=").expect("a socket folder");
        let (host, rest) = rest.split_once('&').expect("more");
        let port = rest.split('&').find_map(|part| part.strip_prefix("port=")).expect("a port");
        let socket = |folder: &str| format!("{folder}/.s.PGSQL.{port}");
        let path = folder.path().to_str().expect("text");
        let listener = UnixListener::bind(socket(path)).expect("a socket");
        let (url, target) = (format!("{front}host={path}&{rest}"), socket(host));
        let next = Arc::new(Mutex::new(None::<(Cut, String)>));
        let planned = next.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = UnixStream::connect(&target).expect("the database");
                let (from_server, to_client) =
                    (server.try_clone().expect("a clone"), client.try_clone().expect("a clone"));
                thread::spawn(move || forward(from_server, to_client, &mut |_| None));
                let (planned, mut is_wanted) = (planned.clone(), false);
                let mut decide = move |bytes: &[u8]| {
                    let mut planned = planned.lock().expect("no panic");
                    let has = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
                    is_wanted |= planned.as_ref().is_some_and(|(_, key)| has(key.as_bytes()));
                    let is_cut = is_wanted && has(b"COMMIT\0");
                    is_cut.then(|| planned.take()).flatten().map(|(cut, _)| cut)
                };
                thread::spawn(move || forward(client, server, &mut decide));
            }
        });
        Self { url, next, _folder: folder }
    }
}

/// Passes bytes on until one side ends, or until `decide` has the wire cut.
fn forward(mut from: UnixStream, mut to: UnixStream, decide: &mut dyn FnMut(&[u8]) -> Option<Cut>) {
    let mut buffer = [0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let cut = decide(&buffer[..count]);
        if cut.is_some() {
            // The client hears nothing more, whatever the database says.
            from.shutdown(Shutdown::Both).expect("cut");
        }
        if cut == Some(Cut::Command) || to.write_all(&buffer[..count]).is_err() {
            break;
        }
        if cut == Some(Cut::Answer) {
            // Time for the database to commit before it hears that the client is gone.
            thread::sleep(Duration::from_millis(200));
            break;
        }
    }
    for side in [from, to] {
        drop(side.shutdown(Shutdown::Both));
    }
}

#[test]
fn a_request_whose_commit_was_cut_off_can_be_sent_again() {
    let mut world = World::new();
    world.customer("acme");
    let wire = Wire::before(world.url());
    world.server.take().expect("it runs").stop().expect("a clean stop");
    let store = connect(&wire.url, 4);
    let mut settings = ServerSettings::new("127.0.0.1:0".parse().expect("an address"), world.opened.pepper.clone(), 4);
    settings.notice = Duration::ZERO;
    world.server = Some(Server::start(&settings, Arc::new(store)).expect("a server"));
    let grant = json!({"customer_id": "acme", "amount": 5, "currency_code": "USD"});
    let credits = |world: &World| world.get("/api/credits/?customer_id=acme").ok(200).as_array().expect("a list").len();
    for round in 0..6 {
        let cut = if round % 2 == 0 { Cut::Command } else { Cut::Answer };
        let key = format!("round {round}");
        *wire.next.lock().expect("no panic") = Some((cut, key.clone()));
        let unknown = world.post_once(&key, "/api/credits/", &grant);
        assert_eq!(*wire.next.lock().expect("no panic"), None, "round {round}: the commit was cut off");
        assert_eq!(unknown.status, 503, "round {round}, {cut:?}: {}", unknown.text);
        assert_eq!(unknown.error(), "db_unavailable");
        // A busy database commits later than whoever was cut off asks.
        let kept = round + usize::from(cut == Cut::Answer);
        until(&format!("round {round}, {cut:?}: {kept} credits"), || credits(&world) == kept);
        let again = world.post_once(&key, "/api/credits/", &grant);
        assert_eq!(
            (again.status, again.header("idempotency-replayed") == "true"),
            (201, cut == Cut::Answer),
            "{cut:?}"
        );
        assert_eq!(world.post_once(&key, "/api/credits/", &grant).text, again.text);
        assert_eq!(credits(&world), round + 1, "once");
    }
}

#[test]
fn a_twin_of_a_request_that_hangs_is_told_to_come_again() {
    let world = World::new();
    let key = Claim { key: "k".to_owned(), fingerprint: vec![0; 32] };
    let store: &dyn Store = &world.opened.store;
    let answer = store.run_once(&Scope::Catalog(world.organization), &key, &mut |_, _| {
        let began = Instant::now();
        let twin = world.post_once("k", "/api/customers/", &customer("acme"));
        assert_eq!((twin.status, twin.error().as_str()), (409, "idempotency_key_in_use"));
        assert_eq!(twin.header("retry-after"), "1");
        assert!((1_500..4_000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        Err(StoreError::DeadlineExceeded.into())
    });
    assert_eq!(answer, Err(StoreError::DeadlineExceeded.into()));
    world.post_once("k", "/api/customers/", &customer("acme")).ok(201);
}
