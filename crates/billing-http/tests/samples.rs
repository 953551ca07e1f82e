//! One valid request or more for every route, with the ids in it named, so that tests can put others in their place.
//!
//! Ids in paths and queries follow from the route table. A route with a body needs an entry in [`bodies`]; a test that
//! goes over all routes fails without it.

use std::collections::BTreeMap;

use billing_domain::id::OrganizationId;
use billing_domain::store::Users;
use billing_domain::user::Role;
use billing_http::caller::KeyText;
use billing_http::endpoint::Endpoint;
use serde_json::{Value, json};

use crate::support::{Answer, Field, World, event, now};

/// The organization's own objects by name: what `$name` stands for in a sample.
pub struct Fixture {
    /// Whose they are.
    pub organization: OrganizationId,
    /// Its API key.
    pub key: String,
    ids: BTreeMap<&'static str, String>,
}

/// Fixtures one after the other: what a call has changed nothing of serves the next call, too.
pub struct Fixtures<'w> {
    world: &'w World,
    name: &'w str,
    unchanged: Option<Fixture>,
}

impl<'w> Fixtures<'w> {
    pub fn new(world: &'w World, name: &'w str) -> Self {
        Self { world, name, unchanged: None }
    }

    /// One that nobody has changed.
    pub fn take(&mut self) -> Fixture {
        self.unchanged.take().unwrap_or_else(|| Fixture::new(self.world, self.name))
    }

    /// Takes one back that is as it was.
    pub fn give_back(&mut self, fixture: Fixture) {
        self.unchanged = Some(fixture);
    }
}

impl Fixture {
    /// A new organization with one object of every kind. What callers name themselves is named alike in all fixtures.
    pub fn new(world: &World, name: &str) -> Self {
        let (organization, key) = world.opened.create_organization(name, None).expect("an organization");
        let mut fixture = Self { organization, key: key.reveal().to_owned(), ids: BTreeMap::new() };
        fixture.sign_in(world);
        fixture.fill(world, name);
        fixture.hold(world);
        fixture
    }

    /// A user who is signed in, by nobody's call.
    fn sign_in(&mut self, world: &World) {
        let store = &world.opened.store;
        let email = format!("reader@{}.example", self.organization.uuid().simple());
        store.put_user(&email, "$hash", self.organization, Role::Reader).expect("a user");
        let user = store.find_user(&email).expect("read").expect("a user").id;
        let cookie = KeyText::generate().expect("randomness");
        let fingerprint = world.opened.pepper.fingerprint(&cookie);
        store.begin_session(&fingerprint, user, self.organization, "Browser").expect("a session");
        self.ids.insert("user", user.to_string());
        self.ids.insert("session", fingerprint.prefix);
    }

    fn fill(&mut self, world: &World, name: &str) {
        self.ids.insert("customer", "acme".to_owned());
        self.ids.insert("only_customer", format!("only at {name}"));
        self.ids.insert("event", format!("event of {name}"));
        for (number, customer) in ["acme".to_owned(), format!("only at {name}")].into_iter().enumerate() {
            let body = json!({"customer_id": customer, "email": format!("c{number}@acme.io")});
            self.post(world, "/api/customers/", &body, 201);
            let event = event(&customer, &self.ids["event"], &now());
            self.post(world, "/api/track/", &event, 201);
        }
        self.keep(world, "metric", "metric_id", "/api/metrics/", &json!({"event_name": "api_call"}), 201);
        self.keep(world, "idle_metric", "metric_id", "/api/metrics/", &json!({"event_name": "idle"}), 201);
        self.keep(world, "feature", "feature_id", "/api/features/", &json!({"feature_name": "sso"}), 201);
        for (plan, version) in [("plan", "version"), ("other_plan", "other_version"), ("third_plan", "third_version")] {
            let made = json!({"plan_name": plan, "plan_duration": "monthly", "initial_version": version_body()});
            let made = self.post(world, "/api/plans/", &self.filled(&made), 201);
            self.ids.insert(plan, made.id("plan_id"));
            self.ids.insert(version, made["versions"][0].id("version_id"));
        }
        let mut spare = self.filled(&version_body());
        spare["active_from"] = Value::Null;
        spare["make_active_type"] = json!("grandfather");
        let versions = format!("/api/plans/{}/versions/", self.id("plan"));
        self.keep(world, "spare_version", "version_id", &versions, &spare, 201);
        let subscribe =
            self.filled(&json!({"customer_id": "$customer", "plan_id": "$plan", "start_date": &now()[..10]}));
        self.keep(world, "subscription", "subscription_id", "/api/subscriptions/", &subscribe, 200);
        let credit = json!({"customer_id": "acme", "amount": 5, "currency_code": "USD"});
        self.keep(world, "credit", "credit_id", "/api/credits/", &credit, 201);
        let clock = json!({"name": "clock", "frozen_time": "2024-01-01"});
        self.keep(world, "clock", "test_clock_id", "/api/test_clocks/", &clock, 201);
        self.keep(world, "key_prefix", "prefix", "/api/api_keys/", &json!({"name": "spare"}), 201);
        self.keep(world, "token_prefix", "prefix", "/api/access_tokens/", &json!({"name": "spare"}), 201);
        self.keep(world, "mail_metric", "metric_id", "/api/metrics/", &json!({"event_name": "mail"}), 201);
        for (addon, version) in [("addon", "addon_version"), ("other_addon", "other_addon_version")] {
            let made = self.post(world, "/api/addons/", &self.filled(&addon_body(addon)), 201);
            self.ids.insert(addon, made.id("addon_id"));
            self.ids.insert(version, made.id("addon_version_id"));
        }
        let attach = format!("/api/subscriptions/{}/addons/attach/", self.id("subscription"));
        self.post(world, &attach, &json!({"addon_id": self.id("addon")}), 200);
        let invoices = world.send("GET", "/api/invoices/", &[("X-API-KEY", &self.key)], b"").ok(200);
        // The oldest: what came later was paid with the credit.
        let oldest = invoices.as_array().and_then(|list| list.last()).expect("an invoice");
        self.ids.insert("invoice", oldest.id("invoice_id"));
        self.ids.insert("line", oldest["line_items"][0].id("line_id"));
        // Nothing was due of it: this is an overpayment.
        let paid = invoices[0].id("invoice_id");
        let payments = format!("/api/invoices/{paid}/payments/");
        self.keep(world, "payment", "payment_id", &payments, &json!({"amount": 1}), 201);
        self.ids.insert("paid_invoice", paid);
        // Of an invoice that no sample voids.
        let note = json!({"invoice_id": self.id("paid_invoice"), "amount": "0.01", "reason": "sample", "settlement": "balance"});
        self.keep(world, "credit_note", "credit_note_id", "/api/credit_notes/", &note, 201);
        let one_off = json!({"name": "sample", "amount": 1});
        self.keep(world, "one_off_line", "one_off_line_id", "/api/customers/acme/one_off_lines/", &one_off, 201);
        // Nothing is told of this type: no message is sent.
        let hook = json!({"url": "https://hooks.invalid/", "event_types": ["webhook_endpoint.disabled"]});
        self.keep(world, "endpoint", "webhook_endpoint_id", "/api/webhook_endpoints/", &hook, 201);
        // Nobody ever uses so much: it does not fire.
        let alert = json!({"kind": "metric_usage", "metric_id": self.id("metric"), "threshold": 1_000_000});
        self.keep(world, "alert", "usage_alert_id", "/api/usage_alerts/", &alert, 201);
        let ordered = json!({"filter": {"customer_id": "acme", "event_name": "never sent"}, "reason": "sample"});
        let ordered = self.post(world, "/api/events/void/", &ordered, 200);
        self.ids.insert("job", ordered["job"].id("job_id"));
        // One that is over: none runs beside the samples.
        world.sql_at_home(&format!(
            "INSERT INTO books_audits (organization_id, id, state, requested_at, finished_at)
            VALUES ('{}', gen_random_uuid(), 'clean', now(), now())",
            self.organization.uuid()
        ));
        let audits = self.send(world, "GET", "/api/books_audits/", None).ok(200);
        self.ids.insert("books_audit", audits[0].id("books_audit_id"));
        let told = self.send(world, "GET", "/api/feed/?types=customer.created&wait=20", None).ok(200);
        self.ids.insert("message", told["results"][0].id("id"));
    }

    /// A request for a second person, about more than any sample comes to.
    fn hold(&mut self, world: &World) {
        self.send(world, "PATCH", "/api/organization/", Some(&json!({"approval_limit": 1_000_000}))).ok(200);
        let large = json!({"customer_id": "acme", "amount": 2_000_000, "currency_code": "USD"});
        self.keep(world, "approval", "approval_id", "/api/credits/", &large, 202);
    }

    fn post(&self, world: &World, path: &str, body: &Value, status: u16) -> Value {
        self.send(world, "POST", path, Some(body)).ok(status)
    }

    fn keep(&mut self, world: &World, name: &'static str, field: &str, path: &str, body: &Value, status: u16) {
        let id = self.post(world, path, body, status).id(field);
        self.ids.insert(name, id);
    }

    /// The object behind a name.
    pub fn id(&self, name: &str) -> &str {
        self.ids.get(name).unwrap_or_else(|| panic!("no fixture makes a {name}"))
    }

    /// Sends a request with the organization's key.
    pub fn send(&self, world: &World, method: &str, target: &str, body: Option<&Value>) -> Answer {
        let text = body.map(Value::to_string).unwrap_or_default();
        let headers = [("X-API-KEY", self.key.as_str()), ("Content-Type", "application/json")];
        let headers = if body.is_some() { &headers[..] } else { &headers[..1] };
        world.send(method, target, headers, text.as_bytes())
    }

    /// `value` with the organization's ids in the place of their names.
    pub fn filled(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match text.strip_prefix('$') {
                Some(name) => Value::String(self.id(name).to_owned()),
                None => value.clone(),
            },
            Value::Array(items) => items.iter().map(|item| self.filled(item)).collect(),
            Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), self.filled(value))).collect(),
            other => other.clone(),
        }
    }
}

/// A version with everything that can refer to something.
fn version_body() -> Value {
    json!({
        "currency_code": "USD",
        "recurring_charges": [{"name": "base", "amount": 9, "charge_timing": "in_advance"}],
        "components": [{
            "metric_id": "$metric",
            "tiers": [{"type": "per_unit", "range_start": 0, "cost_per_batch": "0.01", "metric_units_per_batch": 1}],
            "prepaid_charge": {"units": 10, "charge_behavior": "full"},
        }],
        "features": ["$feature"],
    })
}

/// An add-on with a fee and a grant.
fn addon_body(name: &str) -> Value {
    json!({
        "addon_name": name, "currency_code": "USD", "billing_frequency": "one_time", "features": ["$feature"],
        "recurring_charges": [{"name": "fee", "amount": 3, "charge_timing": "in_advance"}],
    })
}

/// A valid request, its ids still names.
#[derive(Clone, Debug)]
pub struct Sample {
    pub method: String,
    pub path: &'static str,
    /// The path's parameters.
    pub ids: BTreeMap<&'static str, Value>,
    pub query: BTreeMap<&'static str, Value>,
    pub body: Option<Value>,
    /// What it is answered.
    pub status: u16,
}

/// Where an id stands in a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Position {
    Path(&'static str),
    Query(&'static str),
    /// A JSON pointer.
    Body(String),
}

impl Sample {
    /// Every place of an id, with its name.
    pub fn positions(&self) -> Vec<(Position, String)> {
        let mut found = Vec::new();
        let name = |value: &Value| value.as_str().and_then(|text| text.strip_prefix('$')).map(str::to_owned);
        for (parameter, value) in &self.ids {
            found.extend(name(value).map(|name| (Position::Path(parameter), name)));
        }
        for (parameter, value) in &self.query {
            found.extend(name(value).map(|name| (Position::Query(parameter), name)));
        }
        leaves(self.body.as_ref().unwrap_or(&Value::Null), "", &mut |pointer, value| {
            found.extend(name(value).map(|name| (Position::Body(pointer.to_owned()), name)));
        });
        found
    }

    /// The sample with another value in one place.
    pub fn with(&self, position: &Position, value: Value) -> Self {
        let mut sample = self.clone();
        let place = match position {
            Position::Path(name) => sample.ids.get_mut(name),
            Position::Query(name) => sample.query.get_mut(name),
            Position::Body(pointer) => sample.body.as_mut().and_then(|body| body.pointer_mut(pointer)),
        };
        *place.expect("a place") = value;
        sample
    }

    /// Path and query with the ids of `fixture`.
    pub fn target(&self, fixture: &Fixture) -> String {
        let mut path = self.path.to_owned();
        for (name, value) in &self.ids {
            path = path.replace(&format!("{{{name}}}"), &escaped(&fixture.filled(value)));
        }
        let query: Vec<String> =
            self.query.iter().map(|(name, value)| format!("{name}={}", escaped(&fixture.filled(value)))).collect();
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }

    /// Sends it as the organization of `fixture`.
    pub fn send(&self, world: &World, fixture: &Fixture) -> Answer {
        let body = self.body.as_ref().map(|body| fixture.filled(body));
        fixture.send(world, &self.method, &self.target(fixture), body.as_ref())
    }
}

/// Calls `visit` with every value that holds no other, and its pointer.
pub fn leaves(value: &Value, pointer: &str, visit: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                leaves(item, &format!("{pointer}/{i}"), visit);
            }
        }
        Value::Object(fields) => {
            for (name, item) in fields {
                leaves(item, &format!("{pointer}/{name}"), visit);
            }
        }
        leaf => visit(pointer, leaf),
    }
}

/// A value as part of a URL.
pub fn escaped(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// The samples of a route.
pub fn samples(endpoint: &Endpoint) -> Vec<Sample> {
    let (method, path) = (endpoint.method.as_str(), endpoint.path);
    let ids = endpoint.path_parameters().map(|name| (name, Value::from(name_in_path(path, name)))).collect();
    let ids_in_query = endpoint.parameters.iter().filter_map(|parameter| {
        let value = name_in_query(path, parameter.name);
        assert!(
            value.is_some() || !parameter.required,
            "{method} {path}: no sample of the parameter {}",
            parameter.name
        );
        Some((parameter.name, Value::from(value?)))
    });
    let status = endpoint.answer.map_or(204, |(status, _)| status);
    let bare = Sample { method: method.to_owned(), path, ids, query: ids_in_query.collect(), body: None, status };
    if endpoint.request.is_none() {
        return vec![bare];
    }
    // A preview takes what its call takes; that of a plan also says what is used of it.
    let bodies = bodies(method, path.strip_suffix("preview/").unwrap_or(path));
    let bodies: Vec<Value> = match path {
        "/api/metrics/preview/" => bodies
            .into_iter()
            .map(|metric| json!({"metric": metric, "customer_id": "$customer", "start": "2024-01-01", "end": "2024-01-31"}))
            .collect(),
        "/api/plans/preview/" => bodies
            .into_iter()
            .map(|plan| json!({"plan": plan, "usage": [{"metric_id": "$metric", "quantity": 5}]}))
            .collect(),
        _ => bodies,
    };
    assert!(!bodies.is_empty(), "{method} {path}: no sample of its body");
    bodies.into_iter().map(|body| Sample { body: Some(body), ..bare.clone() }).collect()
}

fn name_in_path(path: &str, parameter: &str) -> &'static str {
    match (path, parameter) {
        ("/api/metrics/{metric_id}/archive/", _) => "$idle_metric",
        ("/api/plans/{plan_id}/delete/", _) => "$third_plan",
        ("/api/plan_versions/{version_id}/delete/", _) => "$spare_version",
        ("/api/access_tokens/{prefix}/", _) => "$token_prefix",
        ("/api/users/{user_id}/sessions/{prefix}/", "prefix") => "$session",
        (_, "prefix") => "$key_prefix",
        (_, "customer_id") => "$customer",
        (_, "metric_id") => "$metric",
        (_, "plan_id") => "$plan",
        (_, "version_id") => "$version",
        (_, "subscription_id") => "$subscription",
        ("/api/invoices/{invoice_id}/payments/{payment_id}/reverse/", "invoice_id") => "$paid_invoice",
        (_, "invoice_id") => "$invoice",
        (_, "payment_id") => "$payment",
        (_, "credit_note_id") => "$credit_note",
        (_, "one_off_line_id") => "$one_off_line",
        (_, "credit_id") => "$credit",
        (_, "addon_id") => "$addon",
        (_, "test_clock_id") => "$clock",
        (_, "webhook_endpoint_id") => "$endpoint",
        (_, "usage_alert_id") => "$alert",
        (_, "user_id") => "$user",
        (_, "idempotency_id") => "$event",
        (_, "approval_id") => "$approval",
        (_, "job_id") => "$job",
        (_, "books_audit_id") => "$books_audit",
        _ => panic!("{path}: no sample of {parameter}"),
    }
}

/// Ids, and what must be there. Everything else in a query is optional and tested elsewhere.
fn name_in_query(path: &str, parameter: &str) -> Option<&'static str> {
    match (path, parameter) {
        (_, "customer_id") => Some("$customer"),
        (_, "test_clock_id") => Some("$clock"),
        ("/api/credit_notes/", "invoice_id") => Some("$invoice"),
        (_, "plan_id") => Some("$plan"),
        (_, "metric_id") => Some("$metric"),
        (_, "feature_id") => Some("$feature"),
        (_, "message_id") => Some("$message"),
        (_, "idempotency_id") => Some("$event"),
        (_, "feature_name") => Some("sso"),
        ("/api/usage/", "start") | (_, "start_date") => Some("2024-01-01"),
        (_, "end_date") => Some("2024-01-31"),
        _ => None,
    }
}

/// An event that was wrong, and what was.
fn corrections(path: &str) -> Vec<Value> {
    // Nothing had happened then: what the job does in the background would be taken for the work of other samples.
    let filter = json!({"customer_id": "$customer", "metric_id": "$metric", "to": "2001-01-01"});
    if path.ends_with("/void/") {
        return vec![
            json!({"customer_id": "$customer", "idempotency_ids": ["$event"], "reason": "sample"}),
            json!({"filter": filter, "reason": "sample"}),
        ];
    }
    let region = json!({"region": "sample"});
    vec![
        json!({"customer_id": "$customer", "events": [{"idempotency_id": "$event", "properties": region}], "reason": "sample"}),
        json!({"filter": filter, "properties": region, "reason": "sample"}),
    ]
}

/// Bodies of a route: together they have every field that can hold an id.
fn bodies(method: &str, path: &str) -> Vec<Value> {
    let today = &now()[..10];
    let units = json!([{"metric_id": "$metric", "units": 1}]);
    let subscribe = |field: &str, id: &str| json!({"customer_id": "$customer", "start_date": today, field: id, "component_fixed_charges_initial_units": units});
    match (method, path) {
        ("POST", "/api/track/") => vec![json!({"batch": [event("$customer", "sample", &now())]})],
        ("POST", "/api/events/") => vec![json!({"batch": [event("$customer", "sample taken in", &now())]})],
        ("POST", "/api/events/void/" | "/api/events/amend/") => corrections(path),
        ("POST", "/api/verify_idems_received/") => {
            vec![json!({"idempotency_ids": ["$event"], "customer_id": "$customer"})]
        }
        ("POST", "/api/metrics/") => vec![json!({"event_name": "sample"})],
        ("POST", "/api/features/") => vec![json!({"feature_name": "sample"})],
        ("POST", "/api/plans/") => {
            let mut version = version_body();
            version["target_customers"] = json!(["$customer"]);
            vec![json!({"plan_name": "sample", "plan_duration": "monthly", "initial_version": version})]
        }
        ("POST", "/api/plans/{plan_id}/versions/") => {
            let mut version = version_body();
            version["target_customers"] = json!(["$customer"]);
            vec![version]
        }
        ("PATCH", "/api/plans/{plan_id}/") => vec![json!({"plan_name": "sample"})],
        ("PATCH", "/api/plan_versions/{version_id}/") => vec![
            json!({"replace_with": "$spare_version"}),
            json!({"transition_to": "$other_plan"}),
            json!({"target_customers": ["$customer"]}),
        ],
        ("PATCH", "/api/customers/{customer_id}/") => vec![json!({"customer_name": "sample"})],
        ("PATCH", "/api/invoices/{invoice_id}/") => vec![json!({"payment_status": "paid"})],
        ("POST", "/api/customers/") => {
            vec![json!({"customer_id": "sample", "email": "sample@acme.io", "test_clock_id": "$clock"})]
        }
        ("POST", "/api/subscriptions/" | "/api/subscriptions/add/") => {
            vec![subscribe("plan_id", "$other_plan"), subscribe("version_id", "$third_version")]
        }
        ("POST", "/api/subscriptions/update/") => {
            vec![json!({"turn_off_auto_renew": true}), json!({"replace_plan_id": "$third_plan"})]
        }
        ("POST", "/api/subscriptions/{subscription_id}/update/") => vec![json!({"metadata": {"a": 1}})],
        (
            "POST",
            "/api/subscriptions/cancel/"
            | "/api/subscriptions/{subscription_id}/cancel/"
            | "/api/subscriptions/{subscription_id}/addons/{addon_id}/cancel/",
        ) => vec![json!({"usage_behavior": "bill_full"})],
        ("POST", "/api/subscriptions/{subscription_id}/switch_plan/") => vec![
            json!({"switch_plan_version_id": "$other_version", "component_fixed_charges_initial_units": units}),
            json!({"switch_plan_id": "$third_plan"}),
        ],
        ("POST", "/api/addons/") => {
            let mut addon = addon_body("sample");
            addon["components"] = json!([{"metric_id": "$mail_metric", "tiers": [{"type": "free", "range_start": 0}]}]);
            vec![addon]
        }
        ("POST", "/api/credits/") => vec![json!({"customer_id": "$customer", "amount": 5, "currency_code": "USD"})],
        ("POST", "/api/credits/{credit_id}/update/") => vec![json!({"description": "sample"})],
        ("POST", "/api/test_clocks/") => vec![json!({"name": "sample", "frozen_time": "2024-01-01"})],
        ("POST", "/api/test_clocks/{test_clock_id}/advance/") => vec![json!({"frozen_time": "2024-02-01"})],
        ("PATCH", "/api/organization/") => vec![json!({"organization_name": "sample"})],
        ("POST", "/api/currencies/") => vec![json!({"code": "SAMPLES", "name": "samples", "symbol": "s"})],
        ("POST", "/api/api_keys/" | "/api/access_tokens/") => vec![json!({"name": "sample"})],
        _ => bodies_of_parts(method, path),
    }
}

/// Of what subscriptions have beside their plan.
fn bodies_of_parts(method: &str, path: &str) -> Vec<Value> {
    match (method, path) {
        ("POST", "/api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/") => {
            vec![json!({"units": 20})]
        }
        ("POST", "/api/subscriptions/{subscription_id}/addons/attach/") => {
            vec![json!({"addon_id": "$other_addon"}), json!({"addon_version_id": "$other_addon_version"})]
        }
        _ => bodies_of_payments(method, path, &now()[..10]),
    }
}

fn bodies_of_payments(method: &str, path: &str, today: &str) -> Vec<Value> {
    match (method, path) {
        ("POST", "/api/invoices/{invoice_id}/payments/") => vec![json!({"amount": 1})],
        ("POST", "/api/invoices/{invoice_id}/void/") => vec![json!({})],
        ("POST", "/api/customers/{customer_id}/one_off_lines/") => vec![
            json!({"name": "sample", "amount": 1}),
            json!({"name": "sample", "quantity": 2, "unit_amount": 1, "invoice_now": true}),
        ],
        ("POST", "/api/payments/") => {
            // The number of each organization's first invoice.
            let day: String = today[2..].split('-').collect();
            vec![json!({"invoice_number": format!("{day}-000001"), "amount": 1})]
        }
        ("POST", "/api/credit_notes/") => {
            let lines = json!([{"line_id": "$line", "percent": 10}]);
            vec![
                json!({"invoice_id": "$invoice", "percent": 10, "reason": "sample", "settlement": "balance"}),
                json!({"invoice_id": "$invoice", "lines": lines, "reason": "sample", "settlement": "balance"}),
            ]
        }
        ("POST", "/api/invoices/{invoice_id}/payments/{payment_id}/reverse/") => vec![json!({"reason": "sample"})],
        _ => bodies_of_webhooks(method, path),
    }
}

fn bodies_of_webhooks(method: &str, path: &str) -> Vec<Value> {
    match (method, path) {
        ("POST", "/api/usage_alerts/") => vec![
            json!({"kind": "metric_usage", "metric_id": "$metric", "threshold": 1_000_000, "customer_id": "$customer"}),
            json!({"kind": "spend", "threshold": 1_000_000, "plan_version_id": "$version"}),
        ],
        ("POST", "/api/users/invite/") => vec![json!({"email": "sample@acme.io", "role": "reader"})],
        ("PATCH", "/api/users/{user_id}/") => vec![json!({"role": "support"})],
        ("POST", "/api/webhook_endpoints/") => vec![json!({"url": "https://sample.invalid/"})],
        ("PATCH", "/api/webhook_endpoints/{webhook_endpoint_id}/") => vec![json!({"description": "sample"})],
        ("POST", "/api/webhook_endpoints/{webhook_endpoint_id}/replay/") => vec![json!({"message_id": "$message"})],
        _ => Vec::new(),
    }
}
