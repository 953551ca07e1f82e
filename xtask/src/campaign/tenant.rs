//! A tenant with something of everything, and its requests.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use time::OffsetDateTime;

use crate::bench::{batch, load};

/// The customer that everything is asked about.
pub const CUSTOMER: &str = "acme";
/// Days of its events.
const DAYS: i64 = 29;
/// Events in one request of those it begins with.
const EVENTS: u64 = 5_000;
/// How often a custom metric doubles its result: said in little, and much to do for whoever puts what a name stands for in its
/// place. More than so often is refused.
const DOUBLINGS: usize = 8;

/// An organization.
pub struct Tenant {
    /// Its key.
    pub key: String,
    addr: SocketAddr,
    /// Counts calls; in the customer's plan.
    pub calls: String,
    /// Counts different users.
    pub users: String,
    /// The most calls within a minute.
    pub rate: String,
    /// A query that doubles its result as often as is allowed.
    pub custom: String,
    /// A plan that renews every month.
    pub monthly: String,
    /// A plan that starts again every day.
    pub daily: String,
    next: AtomicU64,
}

impl Tenant {
    /// Makes metrics, plans, the customer with its subscription, and so many events over its last 29 days.
    ///
    /// # Errors
    /// What is not answered as it should be.
    pub fn new(addr: SocketAddr, key: &str, events: u64) -> anyhow::Result<Self> {
        let mut tenant = Self {
            key: key.to_owned(),
            addr,
            calls: String::new(),
            users: String::new(),
            rate: String::new(),
            custom: String::new(),
            monthly: String::new(),
            daily: String::new(),
            next: AtomicU64::new(0),
        };
        tenant.calls = tenant.made("/api/metrics/", &json!({"event_name": "call"}), "metric_id")?;
        let users = json!({"event_name": "call", "metric_name": "users", "aggregation_type": "unique", "property_name": "user"});
        tenant.users = tenant.made("/api/metrics/", &users, "metric_id")?;
        let rate = json!({"event_name": "call", "metric_name": "rate", "metric_type": "rate", "granularity": "minutes",
            "usage_aggregation_type": "count"});
        tenant.rate = tenant.made("/api/metrics/", &rate, "metric_id")?;
        let custom = json!({"metric_name": "doubled", "metric_type": "custom", "custom_sql": doubled(DOUBLINGS)});
        tenant.custom = tenant.made("/api/metrics/", &custom, "metric_id")?;
        tenant.monthly =
            tenant.plan("Monthly", &json!({"name": "base", "amount": 9, "charge_timing": "in_advance"}))?;
        let day = json!({"name": "base", "amount": 1, "charge_timing": "in_arrears", "reset_interval_unit": "day",
            "reset_interval_count": 1, "invoicing_interval_unit": "day", "invoicing_interval_count": 1});
        tenant.daily = tenant.plan("Daily", &day)?;
        tenant.customer(CUSTOMER, None)?;
        tenant.post("/api/subscriptions/", &tenant.subscription(CUSTOMER, &tenant.monthly, &today(0)))?;
        for _ in 0..events.div_ceil(EVENTS) {
            tenant.post("/api/track/", &tenant.events(CUSTOMER, EVENTS.min(events)))?;
        }
        Ok(tenant)
    }

    fn plan(&self, name: &str, charge: &Value) -> anyhow::Result<String> {
        let tiers =
            json!([{"type": "per_unit", "range_start": 0, "cost_per_batch": "0.01", "metric_units_per_batch": 1}]);
        let version = json!({"currency_code": "USD", "recurring_charges": [charge],
            "components": [{"metric_id": self.calls, "tiers": tiers}]});
        let plan = json!({"plan_name": name, "plan_duration": "monthly", "initial_version": version});
        self.made("/api/plans/", &plan, "plan_id")
    }

    /// Makes a customer, on a test clock or not.
    ///
    /// # Errors
    /// When it is not made.
    pub fn customer(&self, id: &str, clock: Option<&str>) -> anyhow::Result<()> {
        let mut body = customer(id);
        if let Some(clock) = clock {
            body["test_clock_id"] = json!(clock);
        }
        self.post("/api/customers/", &body).map(drop)
    }

    /// The body of a subscription from a day on.
    pub fn subscription(&self, customer: &str, plan: &str, start: &str) -> Value {
        json!({"customer_id": customer, "plan_id": plan, "start_date": start})
    }

    /// New events of a customer, over its last days.
    pub fn events(&self, customer: &str, count: u64) -> Value {
        let event = |_| {
            let number = self.number();
            let time =
                OffsetDateTime::now_utc() - time::Duration::seconds(60 + (number % (DAYS as u64 * 86_400)) as i64);
            let time = time.format(&time::format_description::well_known::Rfc3339).expect("a time has all its parts");
            json!({"event_name": "call", "customer_id": customer, "idempotency_id": format!("{number}"),
                "time_created": time, "properties": {"user": format!("user-{}", number % 5_000)}})
        };
        json!({"batch": (0..count).map(event).collect::<Vec<_>>()})
    }

    /// A new event of now, in little time.
    pub fn event(&self) -> String {
        let (number, now) = (self.number(), batch::last_second());
        format!(
            "{{\"event_name\":\"call\",\"customer_id\":\"{CUSTOMER}\",\"idempotency_id\":\"{number}\",\
             \"time_created\":\"{now}Z\",\"properties\":{{\"user\":\"user-{}\"}}}}",
            number % 5_000
        )
    }

    /// A number that it never had.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The answer to a POST, which must succeed.
    ///
    /// # Errors
    /// When it does not.
    pub fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let (status, answer) = load::call(self.addr, &self.posting(path, &body.to_string()))?;
        if status >= 300 {
            bail!("POST {path} answered {status}: {}", String::from_utf8_lossy(&answer));
        }
        Ok(serde_json::from_slice(&answer)?)
    }

    /// The id of what a POST makes.
    ///
    /// # Errors
    /// When it makes nothing.
    pub fn made(&self, path: &str, body: &Value, id: &str) -> anyhow::Result<String> {
        self.post(path, body)?[id].as_str().map(str::to_owned).context("an answer without an id")
    }

    /// A GET.
    pub fn getting(&self, path: &str) -> Vec<u8> {
        load::get(path, &self.key)
    }

    /// A POST of JSON.
    pub fn posting(&self, path: &str, body: &str) -> Vec<u8> {
        load::post(path, &self.key, body)
    }

    /// A POST with one more header.
    pub fn posting_with(&self, path: &str, header: &str, body: &[u8]) -> Vec<u8> {
        let (length, key) = (body.len(), &self.key);
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {key}\r\nContent-Type: application/json\r\n{header}\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        [head.as_bytes(), body].concat()
    }

    /// The path of a usage query over the last days, day by day.
    pub fn usage(&self, metric: &str, days: i64) -> String {
        format!("/api/usage/?customer_id={CUSTOMER}&metric_id={metric}&start={}&window=day", today(-days))
    }
}

/// A new customer's body.
pub fn customer(id: &str) -> Value {
    json!({"customer_id": id, "email": format!("{id}@example.com")})
}

/// So many days from now.
pub fn today(days: i64) -> String {
    (OffsetDateTime::now_utc() + time::Duration::days(days)).date().to_string()
}

/// A query that doubles its result so many times.
pub fn doubled(times: usize) -> String {
    let step = |n: usize| format!(", t{n} AS (SELECT a+a AS a FROM t{})", n - 1);
    let steps: String = (1..=times).map(step).collect();
    format!("WITH t0 AS (SELECT COUNT(*) AS a FROM events){steps} SELECT a AS usage_qty FROM t{times}")
}
