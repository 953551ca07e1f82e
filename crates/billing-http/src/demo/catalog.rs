//! What the demo defines: two metrics, a plan, a customer for every author, and a test clock for every month in which authors were
//! last seen.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use time::Date;
use time::util::days_in_month;

use super::client::Client;
use super::commits::Author;

/// What counts commits, on invoices too.
pub const METRIC: &str = "commits";

/// How far the demo has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// All clocks stand where they began.
    SettingUp,
    /// A clock is on its way: customers and events are all there.
    Billing,
    /// All clocks have arrived.
    Billed,
}

/// What the plan is called.
const PLAN_NAME: &str = "Code hosting";

/// Ids of what was defined.
pub struct Catalog {
    /// Counts commits.
    pub commits: String,
    /// The plan that everybody is on.
    pub plan: String,
    /// The clocks, by the last month of those who live by them.
    pub clocks: BTreeMap<Date, String>,
}

/// When all clocks begin: before the first commit of all.
const BEGINNING: &str = "2018-01-01T00:00:00Z";

/// Finds or defines everything but the customers.
pub fn define(client: &Client, authors: &[Author]) -> anyhow::Result<Catalog> {
    let commits = json!({"metric_name": METRIC, "event_name": "commit", "aggregation_type": "count"});
    let commits = ensure(client, "/api/metrics/", ("metric_name", "metric_id"), &commits)?;
    let lines = json!({"metric_name": "lines added", "event_name": "commit", "aggregation_type": "sum",
        "property_name": "insertions"});
    let lines = ensure(client, "/api/metrics/", ("metric_name", "metric_id"), &lines)?;
    let plan = ensure(client, "/api/plans/", ("plan_name", "plan_id"), &plan(&commits, &lines))?;
    let mut clocks = BTreeMap::new();
    for month in authors.iter().map(|author| author.last_month) {
        if let Entry::Vacant(place) = clocks.entry(month) {
            let clock = json!({"name": format!("last seen in the month of {month}"), "frozen_time": BEGINNING});
            place.insert(ensure(client, "/api/test_clocks/", ("name", "test_clock_id"), &clock)?);
        }
    }
    Ok(Catalog { commits, plan, clocks })
}

/// When the invoices for a month are cut: half an hour after its end.
fn billed_at(month: Date) -> String {
    let days = i64::from(days_in_month(month.month(), month.year()));
    format!("{}T00:30:00Z", month + time::Duration::days(days))
}

/// The id of the object of `body`'s name, which is made if there is none.
fn ensure(client: &Client, path: &str, (name, id): (&str, &str), body: &Value) -> anyhow::Result<String> {
    let existing = client.list(path)?.into_iter().find(|object| object[name] == body[name]);
    let object = match existing {
        Some(object) => object,
        None => client.post(path, body)?,
    };
    let id = object[id].as_str().with_context(|| format!("an object of {path} without {id}"))?;
    Ok(id.to_owned())
}

/// A monthly fee in advance; commits in three tiers, the first one free; lines in started batches of 1,000.
fn plan(commits: &str, lines: &str) -> Value {
    json!({
        "plan_name": PLAN_NAME,
        "plan_description": "For people who commit",
        "plan_duration": "monthly",
        "tags": ["demo"],
        "initial_version": {
            "currency_code": "USD",
            "recurring_charges": [
                {"name": "seat", "amount": 9, "charge_timing": "in_advance", "charge_behavior": "prorate"},
            ],
            "components": [
                {"metric_id": commits, "tiers": [
                    {"type": "free", "range_start": 0, "range_end": 10},
                    {"type": "per_unit", "range_start": 10, "range_end": 100,
                        "cost_per_batch": 0.05, "metric_units_per_batch": 1},
                    {"type": "per_unit", "range_start": 100, "range_end": 500,
                        "cost_per_batch": 0.02, "metric_units_per_batch": 1},
                ]},
                {"metric_id": lines, "tiers": [
                    {"type": "per_unit", "range_start": 0, "range_end": null, "cost_per_batch": 0.35,
                        "metric_units_per_batch": 1000, "batch_rounding_type": "round_up"},
                ]},
            ],
        },
    })
}

impl Catalog {
    /// Makes `author` a customer that is on the plan from the month of the first commit on. Whoever is that already stays so.
    pub fn subscribe(&self, client: &Client, author: &Author) -> anyhow::Result<()> {
        let Author { id, first_month, last_month } = author;
        let (email, clock) =
            (format!("{id}@example.com"), self.clocks.get(last_month).context("a month without its clock")?);
        let customer = json!({"customer_id": id, "email": email, "test_clock_id": clock});
        client.post_unless("/api/customers/", &customer, "duplicate_resource")?;
        let subscription = json!({"customer_id": id, "plan_id": self.plan, "start_date": first_month.to_string()});
        client.post_unless("/api/subscriptions/", &subscription, "overlapping_plans")
    }

    /// How far the demo has come.
    ///
    /// # Errors
    /// When the advance of a clock failed.
    pub fn stage(&self, client: &Client) -> anyhow::Result<Stage> {
        let shown = client.list("/api/test_clocks/")?;
        let (mut begun, mut arrived) = (false, true);
        for (month, id) in &self.clocks {
            let clock = shown.iter().find(|clock| clock["test_clock_id"] == id.as_str()).context("a clock is gone")?;
            ensure!(clock["status"] != "failed", "a test clock failed to advance; the log says why");
            let is_sent = clock["frozen_time"] == billed_at(*month).as_str();
            begun |= is_sent;
            arrived &= is_sent && clock["status"] == "ready";
        }
        Ok(match (begun, arrived) {
            (_, true) => Stage::Billed,
            (true, false) => Stage::Billing,
            (false, false) => Stage::SettingUp,
        })
    }

    /// Tells each clock to advance past the last month of its customers; on its way already, or there, it stays so.
    pub fn advance(&self, client: &Client) -> anyhow::Result<()> {
        for (month, id) in &self.clocks {
            let (clock, time) = (format!("/api/test_clocks/{id}/"), billed_at(*month));
            if client.get(&clock)?["frozen_time"] != time.as_str() {
                client.post_unless(
                    &format!("{clock}advance/"),
                    &json!({"frozen_time": time}),
                    "test_clock_advancing",
                )?;
            }
        }
        Ok(())
    }
}
