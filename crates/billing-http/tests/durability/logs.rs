//! What the log says of the books, and that it says nothing else.

use std::collections::BTreeSet;
use std::io::Read;

use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection};
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Request;

use super::commands::{KEY, Service, data_dir, program, text};
use crate::console::openid_provider::{CLIENT_ID, CLIENT_SECRET, Person, Provider};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
/// What callers send, and nobody may read in a log.
const SECRETS: [&str; 4] = ["ada@canary.example", "canary-street", "canary-property", "canary-token"];

/// A service whose log is JSON, and what it has written so far.
struct Logged {
    service: Service,
    log: tempfile::NamedTempFile,
    agent: Agent,
}

impl Logged {
    fn start(folder: &std::path::Path) -> Self {
        let log = tempfile::NamedTempFile::new().expect("a file");
        let mut command = program(folder);
        command.env("BILLING_LOG", "json").env("BILLING_KEY_PEPPER", "canary-pepper");
        // All that the service says of itself, at any level.
        let levels = "info,billing_http=trace,billing_store=trace,billing_domain=trace,billing_outbound=trace";
        command.env("RUST_LOG", levels);
        let service = Service::run(command, log.reopen().expect("a file").into());
        Self { service, log, agent: Agent::config_builder().http_status_as_error(false).build().into() }
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, Value, Vec<String>) {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.service.url));
        for (name, value) in [("X-API-KEY", KEY), ("Content-Type", "application/json")].iter().chain(headers) {
            request = request.header(*name, *value);
        }
        let mut answer = self.agent.run(request.body(body.to_string()).expect("a request")).expect("an answer");
        let text = answer.body_mut().read_to_string().expect("text");
        let told = ["x-request-id", "traceresponse"]
            .map(|name| answer.headers().get(name).map(|value| value.to_str().expect("text").to_owned()));
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        (answer.status().as_u16(), body, told.into_iter().map(Option::unwrap_or_default).collect())
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Value {
        let (status, answer, _) = self.send("POST", path, headers, body);
        assert!(status < 300, "{path}: {status} {answer}");
        answer
    }

    /// Stops the service, and reads its log: every line of it is a JSON object of the same shape.
    fn read(mut self) -> (String, Vec<Value>) {
        self.service.stop();
        let mut text = String::new();
        self.log.reopen().expect("a file").read_to_string(&mut text).expect("text");
        let line = |line: &str| {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let names: Vec<_> = value.as_object().expect("an object").keys().map(String::as_str).collect();
            assert_eq!(names, ["fields", "level", "message", "target", "ts"], "{line}");
            value
        };
        let lines = text.lines().map(line).collect();
        (text, lines)
    }
}

/// The fields of the lines with this message.
fn of<'l>(lines: &'l [Value], message: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["message"] == message).map(|line| &line["fields"]).collect()
}

/// An invoice that is written, and cannot be committed in the end.
fn fail_to_commit(logged: &Logged, folder: &tempfile::TempDir, subscribe: &Value) {
    let mut pg = PgConnection::establish(&text(&program(folder.path()).arg("database-url").output().expect("it runs")))
        .expect("a connection");
    pg.batch_execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'on purpose'; END $$;
        CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON invoices DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    .expect("a trigger");
    logged.post("/api/customers/", &[], &json!({"customer_id": "lost", "email": "lost@acme.io"}));
    let (status, failed, _) = logged.send("POST", "/api/subscriptions/", &[("X-Request-Id", "lost")], subscribe);
    assert_eq!(status, 500, "{failed}");
    pg.batch_execute("DROP TRIGGER refuse ON invoices").expect("dropped");
}

#[test]
fn the_books_are_told_once_they_are_committed_and_secrets_never() {
    let folder = data_dir();
    let logged = Logged::start(folder.path());
    let fee = json!({"name": "fee", "amount": "9.90", "charge_timing": "in_advance"});
    let plan = json!({"plan_name": "Pro", "plan_duration": "monthly", "initial_version": {"currency_code": "USD", "recurring_charges": [fee]}});
    let plan = logged.post("/api/plans/", &[], &plan)["plan_id"].clone();
    let address = json!({"city": "B", "country": "DE", "line1": SECRETS[1], "postal_code": "1"});
    for (name, email) in [("acme", SECRETS[0]), ("late", "l@acme.io")] {
        logged.post("/api/customers/", &[], &json!({"customer_id": name, "email": email, "billing_address": address}));
    }
    let today = time::OffsetDateTime::now_utc().date();
    let subscribe = |customer: &str, start: time::Date| json!({"customer_id": customer, "plan_id": plan, "start_date": start.to_string()});
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let named =
        [("X-Request-Id", "order-1"), ("traceparent", parent.as_str()), ("Authorization", "Token canary-token")];
    let (status, _, _) = logged.send("POST", "/api/subscriptions/", &named, &subscribe("acme", today));
    assert_eq!(status, 401, "a token that is none");
    let (status, made, headers) = logged.send("POST", "/api/subscriptions/", &named[..2], &subscribe("acme", today));
    assert_eq!((status, headers[0].as_str()), (200, "order-1"));
    assert!(headers[1].starts_with(&format!("00-{TRACE}-")) && !headers[1].contains("00f067aa0ba902b7"), "{headers:?}");
    let event = json!({"customer_id": "acme", "event_name": "e", "idempotency_id": "1", "time_created": today.to_string(),
        "properties": {"secret": SECRETS[2]}});
    logged.post("/api/track/", &[], &event);

    // Refused by a rule, and done with the same key again: neither is anything that happened.
    let (status, refused, _) =
        logged.send("POST", "/api/subscriptions/", &[("X-Request-Id", "refused")], &subscribe("acme", today));
    assert_eq!((status, &refused["title"]), (409, &json!("overlapping_plans")));
    let once = [("Idempotency-Key", "once"), ("X-Request-Id", "once")];
    let late = subscribe("late", today.previous_day().and_then(time::Date::previous_day).expect("a day"));
    assert_eq!(logged.post("/api/subscriptions/", &once, &late), logged.post("/api/subscriptions/", &once, &late));

    let hook = logged.post("/api/webhook_endpoints/", &[], &json!({"url": "https://hooks.invalid/canary-path"}));
    let hook_path = format!("/api/webhook_endpoints/{}", hook["webhook_endpoint_id"].as_str().expect("an id"));
    let rotated = logged.post(&format!("{hook_path}/rotate_secret/"), &[], &json!({}));
    logged.post(&format!("{hook_path}/test/"), &[], &json!({}));
    let hook_secrets = [hook, rotated].map(|made| made["secret"].as_str().expect("a secret").to_owned());
    fail_to_commit(&logged, &folder, &subscribe("lost", today));
    let counted = logged
        .agent
        .get(format!("{}/metrics", logged.service.url))
        .call()
        .expect("an answer")
        .body_mut()
        .read_to_string()
        .expect("text");
    assert!(counted.contains("billing_invoices_issued_total{currency=\"USD\"} 2\n"), "two, as the books say");
    let other = json!({"plan_name": "Other", "plan_duration": "monthly", "initial_version": {"currency_code": "USD", "recurring_charges": []}});
    let other = logged.post("/api/plans/", &[], &other)["plan_id"].clone();
    let id = made["subscription_id"].as_str().expect("an id");
    let switch = json!({"switch_plan_id": other, "invoicing_behavior": "add_to_next_invoice"});
    let switched =
        logged.post(&format!("/api/subscriptions/{id}/switch_plan/"), &[("X-Request-Id", "switch")], &switch);
    let id = switched["subscription_id"].as_str().expect("an id");
    logged.post(&format!("/api/subscriptions/{id}/cancel/"), &[("X-Request-Id", "end")], &json!({}));
    what_the_log_says(logged, &hook_secrets, &counted);
}

/// Whoever finds a slow route in the metrics looks for it in the log.
fn routes_are_named_alike(lines: &[Value], metrics: &str) {
    let logged: BTreeSet<&str> =
        of(lines, "request").into_iter().map(|fields| fields["route"].as_str().expect("text")).collect();
    let counted: BTreeSet<&str> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("billing_http_requests_total{route=\"")?.split('"').next())
        .collect();
    assert!(counted.len() > 5 && counted.is_subset(&logged), "{counted:?} {logged:?}");
}

fn what_the_log_says(logged: Logged, hook_secrets: &[String], metrics: &str) {
    let (told, lines) = logged.read();
    let issued =
        of(&lines, "invoice issued").into_iter().filter(|fields| fields["request_id"] != "end").collect::<Vec<_>>();
    let shown: Vec<_> =
        issued.iter().map(|fields| (&fields["request_id"], &fields["amount"], &fields["currency"])).collect();
    let expected = [("order-1", "9.9", "USD"), ("once", "9.9", "USD")]
        .map(|(id, amount, code)| (json!(id), json!(amount), json!(code)));
    assert_eq!(
        shown,
        expected.iter().map(|(id, amount, code)| (id, amount, code)).collect::<Vec<_>>(),
        "each once: {told}"
    );
    assert!(issued[0]["invoice_number"].as_str().is_some_and(|number| number.ends_with("-000001")), "{:?}", issued[0]);
    assert_eq!((&issued[0]["trace_id"], &issued[0]["parent_id"]), (&json!(TRACE), &json!("00f067aa0ba902b7")));
    let changed: Vec<_> = of(&lines, "subscription changed")
        .iter()
        .map(|fields| (fields["request_id"].clone(), fields["change"].clone()))
        .collect();
    let expected = [("order-1", "created"), ("once", "created"), ("switch", "switched"), ("end", "cancelled")]
        .map(|(id, change)| (json!(id), json!(change)));
    assert_eq!(changed, expected, "each once: {told}");
    let ids = of(&lines, "subscription changed");
    assert_eq!(ids[2]["replaces"], ids[0]["subscription_id"], "{told}");
    routes_are_named_alike(&lines, metrics);
    let request = of(&lines, "request").into_iter().find(|fields| fields["request_id"] == "refused").expect("a line");
    assert_eq!(
        (&request["status"], &request["code"], &request["route"]),
        (&json!(409), &json!("overlapping_plans"), &json!("/api/subscriptions"))
    );
    let cause = of(&lines, "a call failed");
    assert!(
        cause.len() == 1
            && cause[0]["request_id"] == "lost"
            && cause[0]["cause"].as_str().is_some_and(|cause| cause.contains("on purpose")),
        "{cause:?}"
    );

    let secret_of_key = KEY.split('.').nth(1).expect("a secret");
    let hook_secrets = hook_secrets.iter().map(|secret| secret.trim_start_matches("whsec_"));
    for secret in SECRETS.into_iter().chain([secret_of_key, "canary-pepper", "canary-path"]).chain(hook_secrets) {
        assert!(!told.contains(secret), "{secret} is in the log: {told}");
    }
}

#[test]
fn renewals_and_customers_who_cannot_be_billed_are_told() {
    let folder = data_dir();
    let logged = Logged::start(folder.path());
    let fee = json!({"name": "fee", "amount": "5", "charge_timing": "in_arrears"});
    let plan = json!({"plan_name": "Pro", "plan_duration": "monthly", "initial_version": {"currency_code": "USD", "recurring_charges": [fee]}});
    let plan = logged.post("/api/plans/", &[], &plan)["plan_id"].clone();
    let clock =
        logged.post("/api/test_clocks/", &[], &json!({"name": "c", "frozen_time": "2025-01-01"}))["test_clock_id"]
            .clone();
    logged.post("/api/customers/", &[], &json!({"customer_id": "acme", "email": "a@acme.io", "test_clock_id": clock}));
    logged.post(
        "/api/subscriptions/",
        &[],
        &json!({"customer_id": "acme", "plan_id": plan, "start_date": "2025-01-01"}),
    );
    let path = format!("/api/test_clocks/{}/", clock.as_str().expect("an id"));
    logged.post(&format!("{path}advance/"), &[], &json!({"frozen_time": "2025-03-02"}));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while logged.send("GET", &path, &[], &Value::Null).1["status"] != "ready" {
        assert!(std::time::Instant::now() < deadline, "the clock does not arrive");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Somebody whose books cannot be read, for whom it is tried no more.
    let mut pg = PgConnection::establish(&text(&program(folder.path()).arg("database-url").output().expect("it runs")))
        .expect("a connection");
    pg.batch_execute(
        "UPDATE customers SET test_clock_id = NULL;
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'on purpose'; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON invoices FOR EACH ROW EXECUTE FUNCTION refuse();
        INSERT INTO billing_due (customer_key, organization_id, due_at, failures)
        SELECT customer_key, organization_id, '2025-04-01', 7 FROM customers",
    )
    .expect("broken");
    let is_parked = |logged: &Logged| {
        let page = logged
            .agent
            .get(format!("{}/metrics", logged.service.url))
            .call()
            .expect("an answer")
            .body_mut()
            .read_to_string();
        page.expect("text").contains("billing_parked_customers 1\n")
    };
    while !is_parked(&logged) {
        assert!(std::time::Instant::now() < deadline, "nobody is parked");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let (told, lines) = logged.read();
    let renewed = of(&lines, "subscription changed").iter().filter(|fields| fields["change"] == "renewed").count();
    assert_eq!((of(&lines, "invoice issued").len(), renewed), (2, 2), "{told}");
    let billed = of(&lines, "customer billed");
    assert!(billed.len() == 1 && billed[0]["test_clock_id"] == clock, "{billed:?}");
    let parked = of(&lines, "billing parked");
    assert!(parked.len() == 1 && parked[0]["failures"] == 8, "{told}");
    assert!(parked[0]["error"].as_str().is_some_and(|error| error.contains("on purpose")), "{parked:?}");
}

#[test]
fn the_log_tells_why_a_provider_signs_nobody_in_and_no_secret_of_it() {
    let folder = data_dir();
    drop(Service::start(folder.path(), None));
    let listed = text(&program(folder.path()).arg("list-organizations").output().expect("it runs"));
    let organization = listed.split_whitespace().next().expect("an id");
    let person = Person { subject: "subject-of-ada", email: "ada@canary.example", groups: vec!["admins"] };
    let provider = Provider::new(person);
    let log = tempfile::NamedTempFile::new().expect("a file");
    let mut command = program(folder.path());
    let roles = format!("admins={organization}:owner");
    command.env("BILLING_LOG", "json");
    command.env("RUST_LOG", "info,billing_http=trace,billing_store=trace,billing_domain=trace,billing_outbound=trace");
    command.env("BILLING_OIDC_ISSUER", &provider.issuer).env("BILLING_OIDC_CLIENT_ID", CLIENT_ID);
    command.env("BILLING_OIDC_CLIENT_SECRET", CLIENT_SECRET).env("BILLING_OIDC_ROLES", roles);
    command.env("BILLING_CONSOLE_URL", "https://billing.example");
    let mut service = Service::run(command, log.reopen().expect("a file").into());
    let agent: Agent = Agent::config_builder().http_status_as_error(false).max_redirects(0).build().into();
    let mut secrets = vec![CLIENT_SECRET.to_owned(), "eyJ".to_owned(), "opaque".to_owned(), "a description".to_owned()];
    // Signed in, sent again, a token that is not good, and a code that is not taken.
    for (forge, status, again) in [(false, 303, 400), (true, 502, 400)] {
        provider.forges(move |token| {
            if forge {
                token.claims["nonce"] = "canary-nonce".into();
            }
        });
        let sent = agent.get(format!("{}/console/oidc/sign-in/", service.url)).call().expect("an answer");
        let header = |name: &str| sent.headers().get(name).map_or("", |value| value.to_str().expect("text")).to_owned();
        let (url, cookie) = (header("location"), header("set-cookie"));
        let cookie = cookie.split(';').next().expect("a cookie").to_owned();
        let back = provider.visit(&url);
        for expected in [status, again] {
            let url = format!("{}{back}", service.url);
            let answer = agent.get(url).header("cookie", cookie.as_str()).call().expect("an answer");
            assert_eq!(answer.status().as_u16(), expected);
            assert!(!answer.headers().get("location").is_some_and(|to| to.to_str().expect("text").contains("code")));
        }
        let values = url.split(['?', '&']).chain(back.split(['?', '&'])).filter_map(|pair| pair.split_once('='));
        let secret = values.filter(|(name, _)| ["state", "nonce", "code", "code_challenge"].contains(name));
        secrets.extend(secret.map(|(_, value)| value.to_owned()));
        secrets.push(cookie.split('.').nth(1).expect("a secret part").to_owned());
    }
    assert!(secrets.len() >= 4 + 2 * 6, "all of them are looked for: {secrets:?}");
    service.stop();
    let mut text = String::new();
    log.reopen().expect("a file").read_to_string(&mut text).expect("text");
    assert!(
        text.contains("nobody was signed in with the OpenID provider") && text.contains("its nonce is another one"),
        "{text}"
    );
    secrets.extend(["canary-nonce".to_owned(), "canary.example".to_owned()]);
    for secret in secrets {
        assert!(!text.contains(&secret), "{secret} is in the log: {text}");
    }
}
