//! Events as they come in: what a stream shows, to whom, and what ends it.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use billing_console::asset;
use billing_domain::store::Users;
use billing_domain::user::Role;
use billing_http::caller::Pepper;
use billing_http::{Server, ServerSettings};
use serde_json::{Value, json};

use super::{Browser, token, user};
use crate::support::{Field, World, connect, event, now, send_raw};

const ADA: &str = "ada@acme.example";
const STREAM: &str = "/console/events/stream/";
/// Streams of one organization at once.
const STREAMS_MAX: usize = 16;
/// A machine that is at many tests at once is waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// What ends a session.
type Ending<'e> = &'e dyn Fn(&Browser);

/// An open stream.
struct Stream {
    socket: TcpStream,
    bytes: Vec<u8>,
    has_closed: bool,
}

impl Stream {
    fn open(world: &World, browser: &Browser, query: &str) -> Self {
        Self::open_at(world.addr(), browser, query, "")
    }

    fn open_at(addr: SocketAddr, browser: &Browser, query: &str, headers: &str) -> Self {
        let mut socket = TcpStream::connect(addr).expect("a connection");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        let cookies = browser.cookies.borrow();
        let cookies: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies = cookies.join("; ");
        send_raw(
            &mut socket,
            &format!("GET {STREAM}{query} HTTP/1.1\r\nHost: x\r\nCookie: {cookies}\r\n{headers}\r\n"),
        );
        let mut stream = Self { socket, bytes: Vec::new(), has_closed: false };
        stream.reads_until("an answer", |stream| stream.has("\r\n\r\n"));
        stream
    }

    /// One that is open: its first line has come.
    fn opened(world: &World, browser: &Browser, query: &str) -> Self {
        let mut stream = Self::open(world, browser, query);
        assert_eq!(stream.status(), 200, "{}", stream.text());
        stream.waits_for(": still there");
        stream
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    fn status(&self) -> u16 {
        self.text().get(9..12).and_then(|status| status.parse().ok()).expect("a status")
    }

    fn read_some(&mut self) {
        let mut some = [0; 65_536];
        match self.socket.read(&mut some) {
            Ok(0) => self.has_closed = true,
            Ok(read) => self.bytes.extend(&some[..read]),
            // Nothing has come for a moment.
            Err(_) => {}
        }
    }

    fn has(&self, what: &str) -> bool {
        self.bytes.windows(what.len()).any(|part| part == what.as_bytes())
    }

    /// Reads until it is so.
    fn reads_until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(!self.has_closed && began.elapsed() < PATIENCE, "not yet {what}: {}", self.text());
            self.read_some();
        }
    }

    /// Waits until a part has come with this text, to the part's end.
    fn waits_for(&mut self, what: &str) {
        let has_come = |stream: &Self| stream.text().split_once(what).is_some_and(|(_, rest)| rest.contains("\n\n"));
        self.reads_until(what, has_come);
    }

    fn is_over(&self) -> bool {
        self.has_closed || self.bytes.ends_with(b"\r\n0\r\n\r\n")
    }

    /// Waits until the service has ended it.
    fn ends(&mut self, why: &str) {
        self.reads_until(why, Self::is_over);
    }

    /// What it has shown: the rows of each part, and how many events that were.
    fn parts(&self) -> Vec<(String, u64)> {
        let text = self.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let parts = data.map(|data| serde_json::from_str::<Value>(data).expect("JSON"));
        parts.map(|part| (part.id("rows"), part["count"].as_u64().expect("a number"))).collect()
    }
}

fn world() -> World {
    let world = World::new();
    world.customer("acme");
    user(&world, ADA, world.organization, Role::Reader);
    world
}

fn track(world: &World, events: &[Value]) {
    world.post("/api/track/", &json!({"batch": events})).ok(201);
}

#[test]
fn what_comes_in_is_shown_to_its_organization_alone() {
    let world = world();
    let metric = world.metric();
    let (second, key) = world.opened.create_organization("Second", None).expect("made");
    user(&world, "eve@second.example", second, Role::Owner);
    let (ada, eve) = (Browser::signed_in(&world, ADA), Browser::signed_in(&world, "eve@second.example"));
    let mut all = Stream::opened(&world, &ada, "");
    let mut of_acme = Stream::opened(&world, &ada, "?customer_id=acme");
    let mut of_other = Stream::opened(&world, &ada, "?customer_id=other");
    let mut of_metric = Stream::opened(&world, &ada, &format!("?metric_id={metric}"));
    let mut of_eve = Stream::opened(&world, &eve, "");
    let head = all.text().to_lowercase();
    for header in ["content-type: text/event-stream", "cache-control: no-store", "x-accel-buffering: no"] {
        assert!(head.contains(header), "{header}: {head}");
    }
    track(&world, &[event("acme", "first", &now()), event("acme", "first", &now())]);
    all.waits_for("first");
    of_acme.waits_for("first");
    of_metric.waits_for("first");
    // What is nobody's counts for nothing, and is shown all the same.
    track(&world, &[event("other", "second", &now())]);
    all.waits_for("second");
    of_other.waits_for("second");
    let headers = [("X-API-KEY", key.reveal()), ("Content-Type", "application/json")];
    world.send("POST", "/api/track/", &headers, event("acme", "third", &now()).to_string().as_bytes()).ok(201);
    of_eve.waits_for("third");
    track(&world, &[event("acme", "fourth", &now())]);
    for stream in [&mut all, &mut of_acme, &mut of_metric] {
        stream.waits_for("fourth");
        assert!(!stream.has("third"), "of another organization: {}", stream.text());
        let counts: u64 = stream.parts().iter().map(|(_, count)| count).sum();
        assert!((2..=3).contains(&counts), "what is sent twice came in once: {}", stream.text());
    }
    assert!(!of_acme.has("second") && !of_metric.has("second"), "another customer's, who is not there");
    assert!(!of_other.has("first") && !of_other.has("fourth"), "{}", of_other.text());
    assert!(!["first", "second", "fourth"].iter().any(|id| of_eve.has(id)), "{}", of_eve.text());
}

#[test]
fn a_metric_shows_what_counts_for_it_and_as_how_much() {
    let world = world();
    let filter = json!([{"property_name": "region", "operator": "isin", "comparison_value": ["eu"]}]);
    let sum =
        json!({"event_name": "tokens", "aggregation_type": "sum", "property_name": "n", "categorical_filters": filter});
    let metric = world.post("/api/metrics/", &sum).ok(201).id("metric_id");
    let sql = "SELECT count(*) AS usage_qty FROM events";
    let custom = json!({"metric_type": "custom", "metric_name": "By query", "custom_sql": sql});
    let custom = world.post("/api/metrics/", &custom).ok(201).id("metric_id");
    let ada = Browser::signed_in(&world, ADA);
    let mut stream = Stream::opened(&world, &ada, &format!("?metric_id={metric}"));
    let sent = |id: &str, name: &str, properties: &str| -> Value {
        let text = format!(
            "{{\"customer_id\": \"acme\", \"event_name\": \"{name}\", \"idempotency_id\": \"{id}\", \"time_created\": \"{}\", \"properties\": {properties}}}",
            now()
        );
        serde_json::from_str(&text).expect("JSON")
    };
    track(
        &world,
        &[
            sent("counts", "tokens", r#"{"region": "eu", "n": 12.50}"#),
            sent("elsewhere", "tokens", r#"{"region": "us", "n": 7}"#),
            sent("unusable", "tokens", r#"{"region": "eu", "n": "many"}"#),
            sent("another-name", "calls", r#"{"region": "eu", "n": 7}"#),
        ],
    );
    track(&world, &[sent("last", "tokens", r#"{"region": "eu", "n": "1e2"}"#)]);
    stream.waits_for("last");
    let rows: String = stream.parts().into_iter().map(|(rows, _)| rows).collect();
    assert!(rows.contains(">12.5") && rows.contains(">100<"), "{rows}");
    for id in ["elsewhere", "unusable", "another-name"] {
        assert!(!rows.contains(id), "{id}: {rows}");
    }
    let page = ada.get(&format!("/console/metrics/{metric}/")).text;
    assert!(page.contains("Adds up <code>n</code> of the events named <code>tokens</code>."), "{page}");
    assert!(page.contains("<code>region</code> is one of <code>eu</code>"), "{page}");
    assert!(page.contains(&format!("data-stream=\"{STREAM}?metric_id={metric}\"")), "{page}");
    assert!(ada.get("/console/metrics/").text.contains(&format!("href=\"/console/metrics/{metric}/\"")), "it is found");
    let page = ada.get(&format!("/console/metrics/{custom}/")).text;
    assert!(page.contains(sql) && !page.contains("data-stream"), "{page}");
    let unknown = "metric_00000000000000000000000000000001".to_owned();
    for (id, why) in [(custom, "a query"), (unknown, "nobody's"), ("x".to_owned(), "no id")] {
        assert_eq!(Stream::open(&world, &ada, &format!("?metric_id={id}")).status(), 404, "{why}");
    }
}

#[test]
fn what_is_too_much_is_counted_and_names_stay_text() {
    let world = world();
    let ada = Browser::signed_in(&world, ADA);
    let mut stream = Stream::opened(&world, &ada, "");
    let events: Vec<Value> = (0..1_434)
        .map(|n| {
            let mut event = event("acme", &format!("<b>{n}"), &now());
            (event["event_name"], event["properties"]) = (json!("<img src=x>&"), json!({"<i>": "</script>"}));
            event
        })
        .collect();
    track(&world, &events);
    stream.waits_for("1,234 more");
    let parts = stream.parts();
    assert_eq!(parts.iter().map(|(_, count)| count).sum::<u64>(), 1_434);
    let rows: String = parts.into_iter().map(|(rows, _)| rows).collect();
    assert_eq!(rows.matches("event/?idempotency_id=").count(), 200, "{rows}");
    for never in ["<img", "<b>", "<i>", "</script"] {
        assert!(!rows.contains(never), "{never}: {rows}");
    }
    assert!(rows.contains("&lt;img src=x&gt;"), "{rows}");
}

#[test]
fn a_stream_ends_with_its_session() {
    let world = world();
    let second = world.opened.create_organization("Second", None).expect("made").0;
    user(&world, ADA, second, Role::Reader);
    let of_ada = "user_id = (SELECT id FROM users WHERE email = 'ada@acme.example')";
    let sign_out = |ada: &Browser| {
        ada.post("/console/sign-out/", &[("form_token", &token(&ada.get("/console/")))]);
    };
    let switch = |ada: &Browser| {
        let fields = [("form_token", token(&ada.get("/console/"))), ("organization_id", second.to_string())];
        ada.post("/console/organizations/", &fields.each_ref().map(|(name, value)| (*name, value.as_str())));
    };
    let end_from_elsewhere = |ada: &Browser| {
        let prefix = ada.cookies.borrow()["session"][..8].to_owned();
        let phone = Browser::signed_in(&world, ADA);
        let token = token(&phone.get("/console/sessions/"));
        phone.post(&format!("/console/sessions/{prefix}/"), &[("form_token", &token)]);
    };
    let sql = |statement: String| move |world: &World| world.sql(&statement);
    let rest = sql("UPDATE user_sessions SET seen_at = now() - interval '121 minutes'".to_owned());
    let age = sql("UPDATE user_sessions SET created_at = now() - interval '721 minutes'".to_owned());
    let change_role = sql(format!("UPDATE memberships SET role = 'owner' WHERE {of_ada}"));
    let remove = |_: &Browser| {
        assert!(world.opened.store.remove_member(world.organization, ADA).expect("removed"));
    };
    #[rustfmt::skip]
    let cases: [(Ending<'_>, &str); 7] = [
        (&sign_out,                "signed out"),
        (&end_from_elsewhere,      "ended by another browser of hers"),
        (&switch,                  "gone to another organization"),
        (&|_| rest(&world),        "it has rested for too long"),
        (&|_| age(&world),         "it is too old"),
        (&|_| change_role(&world), "another role"),
        (&remove,                  "not in the organization any more"),
    ];
    for (end, why) in cases {
        let ada = Browser::signed_in(&world, ADA);
        let mut stream = Stream::opened(&world, &ada, "");
        end(&ada);
        stream.ends(why);
        assert!(stream.has("data: {\"over\":true}"), "{why}: it is told: {}", stream.text());
    }
    let nobody = Browser::new(&world);
    assert_eq!(Stream::open(&world, &nobody, "").status(), 401);
}

#[test]
fn an_open_stream_keeps_no_session_alive() {
    let world = world();
    let ada = Browser::signed_in(&world, ADA);
    world.sql("UPDATE user_sessions SET seen_at = now() - interval '119 minutes'");
    let mut stream = Stream::opened(&world, &ada, "");
    // Its session has been looked at again, and could have been noted as used.
    stream.reads_until("a second look", |stream| stream.text().matches(": still there").count() >= 2);
    assert!(!stream.is_over(), "{}", stream.text());
    world.sql("UPDATE user_sessions SET seen_at = seen_at - interval '2 minutes'");
    stream.ends("it has rested for more than two hours");
    assert_eq!(ada.get("/console/").status, 303);
}

#[test]
fn so_many_streams_are_open_and_no_more() {
    let world = world();
    let second = world.opened.create_organization("Second", None).expect("made").0;
    user(&world, "eve@second.example", second, Role::Owner);
    let (ada, eve) = (Browser::signed_in(&world, ADA), Browser::signed_in(&world, "eve@second.example"));
    let mut open: Vec<Stream> = (0..STREAMS_MAX).map(|_| Stream::opened(&world, &ada, "")).collect();
    let refused = Stream::open(&world, &ada, "?customer_id=acme");
    assert_eq!(refused.status(), 429, "{}", refused.text());
    Stream::opened(&world, &eve, "");
    assert_eq!(ada.get("/console/events/").status, 200, "pages are as always");
    drop(open.pop());
    let began = Instant::now();
    while Stream::open(&world, &ada, "").status() != 200 {
        assert!(began.elapsed() < PATIENCE, "the place of one that has gone stays taken");
    }
    // Longer than a connection may wait for a request.
    while began.elapsed() < Duration::from_secs(12) {
        open.iter_mut().for_each(Stream::read_some);
    }
    track(&world, &[event("acme", "to-all", &now())]);
    for stream in &mut open {
        stream.waits_for("to-all");
    }
    let foreign = Stream::open_at(world.addr(), &eve, "", "Sec-Fetch-Site: cross-site\r\n");
    assert_eq!(foreign.status(), 403, "a page of another site");
    assert_eq!(Stream::open_at(world.addr(), &eve, "", "Sec-Fetch-Site: same-origin\r\n").status(), 200);
}

/// Streams to clients that take nothing leave their places: what the system takes for them is some megabytes.
#[test]
fn whoever_does_not_read_is_dropped() {
    let world = World::new();
    user(&world, ADA, world.organization, Role::Reader);
    let ada = Browser::signed_in(&world, ADA);
    let long = |end: &str| format!("{}{end}", "\u{1F600}".repeat(240));
    let customer = long("");
    let of_customer = format!("?customer_id={}", billing_console::visit::escaped(&customer));
    let _slow = Stream::opened(&world, &ada, &of_customer);
    let others: Vec<Stream> =
        (1..STREAMS_MAX).map(|_| Stream::opened(&world, &ada, "?customer_id=somebody-else")).collect();
    let began = Instant::now();
    let mut sent = 0;
    while Stream::open(&world, &ada, "?customer_id=somebody-else").status() == 429 {
        assert!(began.elapsed() < Duration::from_secs(60), "it keeps its place after {sent} batches");
        let events: Vec<Value> = (0..200).map(|n| event(&customer, &long(&format!("{sent} {n}")), &now())).collect();
        track(&world, &events);
        sent += 1;
        std::thread::sleep(Duration::from_millis(900));
    }
    assert!(sent > 1 && others.iter().all(|stream| !stream.is_over()), "only the one that is slow: {sent}");
}

#[test]
fn a_stop_waits_for_no_stream() {
    let mut world = world();
    let ada = Browser::signed_in(&world, ADA);
    let mut streams: Vec<Stream> = (0..3).map(|_| Stream::opened(&world, &ada, "")).collect();
    drop(ada);
    let began = Instant::now();
    world.stop();
    assert!(began.elapsed() < PATIENCE, "it took {:?}", began.elapsed());
    for stream in &mut streams {
        stream.ends("the service has stopped");
        assert!(!stream.has("over"), "the page tries again: {}", stream.text());
    }
}

#[test]
fn what_another_process_takes_in_is_shown_too() {
    let world = world();
    let metric = world.metric();
    let store = connect(world.url(), 10);
    let mut settings = ServerSettings::new("127.0.0.1:0".parse().expect("an address"), Pepper::from_text("pepper"), 8);
    settings.notice = Duration::ZERO;
    let other = Server::start(&settings, Arc::new(store)).expect("a second server");
    let ada = Browser::signed_in(&world, ADA);
    let mut all = Stream::opened(&world, &ada, "");
    let mut of_metric = Stream::opened(&world, &ada, &format!("?metric_id={metric}"));
    let headers = [("X-API-KEY", world.key.as_str()), ("Content-Type", "application/json")];
    let began = Instant::now();
    let mut sent = 0;
    // The other one learns within a second or two what is watched here.
    while !all.has("there-") || !of_metric.has("there-") {
        assert!(began.elapsed() < PATIENCE, "{} {}", all.text(), of_metric.text());
        let body = json!({"batch": [event("acme", &format!("there-{sent}"), &now())]}).to_string();
        world.send_to(other.addr, "POST", "/api/track/", &headers, body.as_bytes()).ok(201);
        sent += 1;
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            all.read_some();
            of_metric.read_some();
        }
    }
    let body = event("acme", "the-last", &now()).to_string();
    world.send_to(other.addr, "POST", "/api/track/", &headers, body.as_bytes()).ok(201);
    for stream in [&mut all, &mut of_metric] {
        stream.waits_for("the-last");
        let rows: String = stream.parts().into_iter().map(|(rows, _)| rows).collect();
        assert_eq!(rows.matches("=the-last&amp;").count(), 1, "once: {rows}");
    }
    other.stop().expect("a clean stop");
}

#[test]
fn without_javascript_there_is_a_link() {
    let world = world();
    let ada = Browser::signed_in(&world, ADA);
    for path in ["/console/events/", "/console/customers/acme/events/"] {
        let page = ada.get(path);
        assert_eq!(page.status, 200, "{}", page.text);
        assert!(
            page.text.contains("Without JavaScript this page does not move.") && page.text.contains(">Refresh</a>"),
            "{}",
            page.text
        );
        // In its place from the first moment on, and not there at all without a script.
        assert!(page.text.contains("<div class=\"scroll scripted\" tabindex=\"0\">"), "{}", page.text);
        assert!(page.text.contains("<noscript><span>"), "{}", page.text);
        let (_, _, style) = asset::ALL.iter().find(|(path, ..)| *path == asset::STYLE_PATH).expect("a style sheet");
        assert!(style.contains("@media (scripting: none) { .scripted { display: none; } }"));
    }
    let filtered = ada.get("/console/customers/acme/events/?event_name=x");
    assert!(!filtered.text.contains("data-stream"), "what is kept to something does not move: {}", filtered.text);
}
