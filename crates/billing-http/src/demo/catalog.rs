//! What the demo defines: two metrics, a plan, a test clock, and a customer for every author.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::client::Client;
use super::commits::{BILLED_AT, MONTH_START};

/// How far the demo has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The clock stands at the start of the month.
    SettingUp,
    /// The clock is on its way: customers and events are all there.
    Billing,
    /// The clock has arrived.
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
    /// The clock that everybody lives by.
    pub clock: String,
}

/// Finds or defines everything but the customers.
pub fn define(client: &Client) -> anyhow::Result<Catalog> {
    let commits = json!({"metric_name": "commits", "event_name": "commit", "aggregation_type": "count"});
    let commits = ensure(client, "/api/metrics/", ("metric_name", "metric_id"), &commits)?;
    let lines = json!({"metric_name": "lines added", "event_name": "commit", "aggregation_type": "sum",
        "property_name": "insertions"});
    let lines = ensure(client, "/api/metrics/", ("metric_name", "metric_id"), &lines)?;
    let plan = ensure(client, "/api/plans/", ("plan_name", "plan_id"), &plan(&commits, &lines))?;
    let clock = json!({"name": "demo", "frozen_time": MONTH_START});
    let clock = ensure(client, "/api/test_clocks/", ("name", "test_clock_id"), &clock)?;
    Ok(Catalog { commits, plan, clock })
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
    /// Makes `author` a customer that lives by the clock and is on the plan from the start of the month. Whoever
    /// is that already stays so.
    pub fn subscribe(&self, client: &Client, author: &str) -> anyhow::Result<()> {
        let email = format!("{author}@example.com");
        let customer = json!({"customer_id": author, "email": email, "test_clock_id": self.clock});
        client.post_unless("/api/customers/", &customer, "duplicate_resource")?;
        let subscription = json!({"customer_id": author, "plan_id": self.plan, "start_date": MONTH_START});
        client.post_unless("/api/subscriptions/", &subscription, "overlapping_plans")
    }

    /// How far the demo has come.
    ///
    /// # Errors
    /// When the clock's advance failed.
    pub fn stage(&self, client: &Client) -> anyhow::Result<Stage> {
        let clock = client.get(&format!("/api/test_clocks/{}/", self.clock))?;
        ensure!(clock["status"] != "failed", "the test clock failed to advance; the log says why");
        Ok(match (clock["frozen_time"] == BILLED_AT, clock["status"] == "ready") {
            (false, _) => Stage::SettingUp,
            (true, false) => Stage::Billing,
            (true, true) => Stage::Billed,
        })
    }

    /// Tells the clock to advance past the month's end; on its way already, it stays so.
    pub fn advance(&self, client: &Client) -> anyhow::Result<()> {
        let path = format!("/api/test_clocks/{}/advance/", self.clock);
        client.post_unless(&path, &json!({"frozen_time": BILLED_AT}), "test_clock_advancing")
    }
}
