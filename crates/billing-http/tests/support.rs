//! A service on an empty database, and a client of it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use billing_domain::id::OrganizationId;
use billing_http::caller::Pepper;
use billing_http::error::codes;
use billing_http::message::render_on;
use billing_http::startup::Opened;
use billing_http::{RunningServer, Server, ServerSettings};
use billing_store::PgStore;
use billing_store::testing::{TestStore, statements_sent};
use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::{HeaderMap, Request};

use crate::seen;

const COPY_CUSTOMERS: &str = "
    SET session_replication_role = replica;
    DO $$
    DECLARE
        name text;
        names text;
    BEGIN
        FOREACH name IN ARRAY ARRAY['customers', 'subscriptions', 'invoices'] LOOP
            SELECT string_agg(column_name, ', ' ORDER BY ordinal_position) INTO names
            FROM information_schema.columns WHERE table_name = name AND is_generated = 'NEVER';
            EXECUTE format(
                'INSERT INTO %1$I (%2$s) OVERRIDING SYSTEM VALUE
                SELECT %3$s FROM %1$I original, generate_series(1, {count}) n, LATERAL jsonb_populate_record(original, jsonb_build_object(
                    ''customer_key'', md5(''c'' || n)::uuid, ''customer_id'', ''copy-'' || n, ''id'', md5(n::text)::uuid,
                    ''position'', 1000 + n, ''list_key'', md5(''l'' || n)::uuid, ''number'', ''copy-'' || n)) copy',
                name, names, 'copy.' || replace(names, ', ', ', copy.')
            );
        END LOOP;
    END
    $$";

/// Moves all customers from their test clocks to real time, where what has become due since waits for somebody to bill it,
/// and what was invoiced and subscribed to under the clock counts.
pub const LEAVE_TEST_CLOCKS: &str = "
    BEGIN;
    INSERT INTO billing_due (customer_key, organization_id, due_at)
    SELECT record.customer_key, record.organization_id, min(next_invoicing_at)
    FROM billing_records record
    JOIN customers customer USING (customer_key)
    WHERE test_clock_id IS NOT NULL AND next_invoicing_at IS NOT NULL
    GROUP BY 1, 2;
    INSERT INTO invoiced_hours AS known (organization_id, hour, currency_code, writer, amount)
    SELECT invoice.organization_id, date_trunc('hour', issued_at, 'UTC'), currency_code, 0, sum(amount)
    FROM invoices invoice
    JOIN customers customer USING (customer_key)
    WHERE test_clock_id IS NOT NULL AND payment_status <> 'voided'
    GROUP BY 1, 2, 3
    ON CONFLICT (organization_id, hour, currency_code, writer) DO UPDATE SET amount = known.amount + excluded.amount;
    INSERT INTO subscription_counts AS known (organization_id, at, plan_version_id, writer, starts, ends)
    SELECT subscription.organization_id, quarter_of_hour_before(end_at - interval '1 microsecond') + interval '15 minutes', plan_version_id, 0, 0, count(*)
    FROM subscriptions subscription
    JOIN customers customer USING (customer_key)
    WHERE test_clock_id IS NOT NULL
    GROUP BY 1, 2, 3
    ON CONFLICT (organization_id, at, plan_version_id, writer) DO UPDATE SET ends = known.ends + excluded.ends;
    UPDATE customers SET test_clock_id = NULL WHERE test_clock_id IS NOT NULL;
    COMMIT;";

/// The store on a database, as another process has it.
pub fn connect(url: &str, connections: u32) -> PgStore {
    // A machine that is at many tests at once is waited for.
    let began = Instant::now();
    let store = loop {
        match PgStore::connect(url, connections) {
            Err(_) if began.elapsed() < Duration::from_secs(30) => {}
            connected => break connected.expect("connected"),
        }
    };
    render_on(&store);
    store
}

/// A running service with one organization.
pub struct World {
    // In the order of dropping: the server before its database.
    pub server: Option<RunningServer>,
    pub opened: Opened,
    pub organization: OrganizationId,
    pub key: String,
    agent: Agent,
    settings: ServerSettings,
    store: TestStore,
}

/// What the service answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// With settings of its own.
    pub fn with(change: impl FnOnce(&mut ServerSettings)) -> Self {
        Self::on(TestStore::new(), change)
    }

    /// On a database of its own kind, with settings of its own.
    pub fn on(store: TestStore, change: impl FnOnce(&mut ServerSettings)) -> Self {
        let opened = Opened { store: store.store(), pepper: Pepper::from_text("pepper"), cluster: None };
        let (organization, key) = opened.create_organization("Acme", None).expect("an organization");
        let addr = "127.0.0.1:0".parse().expect("an address");
        let mut settings = ServerSettings::new(addr, opened.pepper.clone(), 8);
        settings.notice = Duration::ZERO;
        change(&mut settings);
        let server = Server::start(&settings, opened.backend()).expect("a server");
        let agent = Agent::config_builder().http_status_as_error(false).build().into();
        Self { server: Some(server), opened, organization, key: key.reveal().to_owned(), agent, settings, store }
    }

    /// Stops the service and starts it again on the same database.
    pub fn restart(&mut self) {
        self.stop();
        self.start();
    }

    /// Stops the service and its background workers; the database stays.
    pub fn stop(&mut self) {
        self.server.take().expect("it runs").stop().expect("a clean stop");
    }

    /// Stops the service, and moves its customers from their test clocks to real time, where all that has become due since
    /// waits for somebody to bill it.
    pub fn fall_behind(&mut self) {
        self.stop();
        self.sql(LEAVE_TEST_CLOCKS);
    }

    /// Settings for when it is started again.
    pub fn change_settings(&mut self, change: impl FnOnce(&mut ServerSettings)) {
        change(&mut self.settings);
    }

    /// Starts the service on its database again.
    pub fn start(&mut self) {
        self.server = Some(Server::start(&self.settings, self.opened.backend()).expect("a server"));
    }

    /// Where the database is.
    pub fn url(&self) -> &str {
        self.store.url()
    }

    /// Runs SQL behind the service's back: in each lane, where there are several.
    pub fn sql(&self, statements: &str) {
        self.store.in_every_lane(statements);
    }

    /// Runs SQL behind the service's back once, where the catalogue is.
    pub fn sql_at_home(&self, statements: &str) {
        let mut pg = PgConnection::establish(self.url()).expect("a connection");
        pg.batch_execute(statements).expect(statements);
    }

    /// What leads a connection to the tables of each lane.
    pub fn search_paths(&self) -> Vec<String> {
        self.store.search_paths()
    }

    /// A connection of the test's own, to read from.
    pub fn pg(&self) -> PgConnection {
        self.store.connection()
    }

    /// Copies what the one customer owns, so that there are as many more customers with a subscription and an invoice.
    pub fn copy_customers(&self, count: u32) {
        self.sql(&COPY_CUSTOMERS.replace("{count}", &count.to_string()));
    }

    pub fn addr(&self) -> std::net::SocketAddr {
        self.server.as_ref().expect("it runs").addr
    }

    /// Sends anything.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.send_to(self.addr(), method, path, headers, body)
    }

    /// Sends anything to one of several servers.
    pub fn send_to(
        &self,
        addr: std::net::SocketAddr,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(format!("http://{addr}{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.to_vec()).expect("a request");
        let request = self.agent.configure_request(request).allow_non_standard_methods(true).build();
        let mut response = self.agent.run(request).expect("an answer");
        let text = response.body_mut().with_config().limit(64 << 20).read_to_string().expect("text");
        let answer = Answer { status: response.status().as_u16(), headers: response.headers().clone(), text };
        seen::note(method, path, &answer);
        answer
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[("X-API-KEY", &self.key)], b"")
    }

    /// What whoever has this key is shown.
    pub fn get_as(&self, key: &str, path: &str) -> Answer {
        self.send("GET", path, &[("X-API-KEY", key)], b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, &body.to_string())
    }

    pub fn post_text(&self, path: &str, body: &str) -> Answer {
        self.write("POST", path, body.as_bytes())
    }

    pub fn write(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        let headers = [("X-API-KEY", self.key.as_str()), ("Content-Type", "application/json")];
        self.send(method, path, &headers, body)
    }

    /// A second organization on the same service: its key.
    pub fn other_key(&self) -> String {
        self.opened.create_organization("Other", None).expect("an organization").1.reveal().to_owned()
    }

    /// A counter of `api_call` events: its id.
    pub fn metric(&self) -> String {
        self.post("/api/metrics/", &json!({"event_name": "api_call"})).ok(201).id("metric_id")
    }

    /// A monthly plan with a fee of 9 in advance and tiers over `metric`: its id.
    pub fn plan(&self, metric: &str) -> String {
        self.post("/api/plans/", &plan_body("Starter", metric)).ok(201).id("plan_id")
    }

    /// A customer in real time.
    pub fn customer(&self, id: &str) {
        let body = json!({"customer_id": id, "email": format!("{}@acme.io", id.len())});
        self.post("/api/customers/", &body).ok(201);
    }

    /// A test clock at `time`: its id.
    pub fn clock(&self, time: &str) -> String {
        self.post("/api/test_clocks/", &json!({"name": "clock", "frozen_time": time})).ok(201).id("test_clock_id")
    }

    /// A customer under a test clock.
    pub fn customer_at(&self, id: &str, clock: &str) {
        let body = json!({"customer_id": id, "email": format!("{id}@acme.io"), "test_clock_id": clock});
        self.post("/api/customers/", &body).ok(201);
    }

    /// Advances a clock and waits until it is there.
    pub fn advance(&self, clock: &str, time: &str) {
        self.post(&format!("/api/test_clocks/{clock}/advance/"), &json!({"frozen_time": time})).ok(200);
        self.advance_done(clock);
    }

    /// Waits until an advancing clock is there.
    pub fn advance_done(&self, clock: &str) {
        let path = format!("/api/test_clocks/{clock}/");
        let began = Instant::now();
        while self.get(&path).ok(200)["status"] == "advancing" {
            assert!(began.elapsed() < Duration::from_secs(30), "the clock does not arrive");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(self.get(&path).ok(200)["status"], "ready");
    }

    /// Waits until a clock of the organization with this key stands.
    pub fn clock_stands(&self, key: &str, clock: &str) {
        let path = format!("/api/test_clocks/{clock}/");
        let began = Instant::now();
        while self.send("GET", &path, &[("X-API-KEY", key)], b"").ok(200)["status"] == "advancing" {
            assert!(began.elapsed() < Duration::from_secs(30), "the clock does not arrive");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Everything that lists show, to see that nothing was written.
    pub fn snapshot(&self) -> Vec<(String, String)> {
        let lists = [
            "metrics",
            "features",
            "plans",
            "addons",
            "customers",
            "invoices",
            "test_clocks",
            "currencies",
            "api_keys",
            "organization",
            "usage_alerts",
            "webhook_endpoints",
        ];
        let mut shown: Vec<_> =
            lists.iter().map(|list| (list.to_string(), self.get(&format!("/api/{list}/")).text)).collect();
        // When a key was used last changes with every look.
        for (_, text) in shown.iter_mut().filter(|(list, _)| list == "api_keys") {
            let keys = serde_json::from_str::<Vec<Value>>(text).expect("a list").into_iter();
            let without = keys.map(|mut key| {
                key["last_used_at"] = Value::Null;
                key
            });
            *text = Value::Array(without.collect()).to_string();
        }
        for customer in self.get("/api/customers/").ok(200).as_array().expect("a list") {
            let id = customer["customer_id"].as_str().expect("an id").replace('/', "%2F");
            let path = format!("/api/subscriptions/?customer_id={id}&status=active,ended,not_started");
            shown.push((path.clone(), self.get(&path).text));
        }
        shown
    }

    /// How many statements it takes the service to answer: the least of three times, because connections that are made
    /// meanwhile bring statements of their own. Needs `count_statements` before the world was made.
    pub fn statements(&self, ask: impl Fn() -> Answer) -> u64 {
        (0..3).map(|_| self.statements_once(&ask)).min().unwrap_or_default()
    }

    /// The same of one call, and of whatever works in the background meanwhile.
    pub fn statements_once(&self, ask: impl Fn() -> Answer) -> u64 {
        let before = statements_sent(self.url());
        ask();
        statements_sent(self.url()) - before
    }

    /// Speaks to the service byte by byte.
    pub fn raw(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addr()).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        stream
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            let stopped = server.stop();
            if !std::thread::panicking() {
                stopped.expect("a clean stop");
            }
        }
    }
}

impl Answer {
    /// The body, if the status is `status`.
    pub fn ok(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn json(&self) -> Value {
        self.ok(self.status)
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// The path and query at which a list goes on, if it does; the header has the whole address.
    pub fn next(&self, world: &World) -> Option<String> {
        let link = self.headers.get("link")?.to_str().expect("text");
        let target = link.strip_prefix('<').and_then(|rest| rest.strip_suffix(">; rel=\"next\"")).expect(link);
        let base = format!("http://{}", world.addr());
        Some(target.strip_prefix(&base).unwrap_or_else(|| panic!("{target} is not at {base}")).to_owned())
    }

    /// The code of an error; every error has the same shape.
    pub fn error(&self) -> String {
        let body = self.json();
        let fields: Vec<&str> = body.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(fields, ["detail", "request_id", "status", "title", "type", "validation_errors"], "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(body["status"].to_string(), self.status.to_string());
        assert_eq!(body["request_id"], self.header("x-request-id"));
        assert_eq!(body["type"], format!("/docs/errors#{}", body["title"].as_str().expect("a title")));
        let title = body["title"].as_str().expect("a title");
        let documented = codes::table().into_iter().find(|(code, ..)| *code == title);
        assert_eq!(documented.map(|(_, status, _)| status), Some(self.status), "{title} is in the table of codes");
        title.to_owned()
    }

    /// The bad fields of a validation error: path and code.
    pub fn faults(&self) -> Vec<(String, String)> {
        assert_eq!(self.status, 400, "{}", self.text);
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let title = self.error();
        let faults: Vec<_> = self.json()["validation_errors"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|fault| (text(&fault["attr"]), text(&fault["code"])))
            .collect();
        assert_eq!(faults.first().map(|(_, code)| code.clone()), Some(title), "the title is the first fault's code");
        faults
    }
}

/// Reading a field of a body.
pub trait Field {
    fn id(&self, name: &str) -> String;
}

impl Field for Value {
    fn id(&self, name: &str) -> String {
        self[name].as_str().unwrap_or_else(|| panic!("no {name} in {self}")).to_owned()
    }
}

/// A plan with a fee and tiers.
pub fn plan_body(name: &str, metric: &str) -> Value {
    json!({"plan_name": name, "plan_duration": "monthly", "initial_version": version_body(metric)})
}

/// A version with a fee of 9 in advance, ten units free, a cent each up to a thousand.
pub fn version_body(metric: &str) -> Value {
    json!({
        "currency_code": "USD",
        "recurring_charges": [{"name": "base", "amount": 9, "charge_timing": "in_advance"}],
        "components": [{"metric_id": metric, "tiers": [
            {"type": "free", "range_start": 0, "range_end": 10},
            {"type": "per_unit", "range_start": 10, "range_end": 1000, "cost_per_batch": "0.01", "metric_units_per_batch": 1},
        ]}],
    })
}

/// An event of one call.
pub fn event(customer: &str, id: &str, time: &str) -> Value {
    json!({"customer_id": customer, "event_name": "api_call", "idempotency_id": id, "time_created": time})
}

/// This instant, as clients write it.
pub fn now() -> String {
    ago(time::Duration::ZERO)
}

/// An instant as far back from now, in whole seconds.
pub fn ago(length: time::Duration) -> String {
    let instant = (time::OffsetDateTime::now_utc() - length).replace_nanosecond(0).expect("a second");
    instant.format(&time::format_description::well_known::Rfc3339).expect("a time")
}

/// All that the service sends on a raw connection until it closes it.
pub fn read_all(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // A reset after the answer is as good as an end.
    drop(stream.read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text).into_owned();
    seen::note_text(&text);
    text
}

/// Sends text on a raw connection.
pub fn send_raw(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).expect("sent");
}
