//! What the demo defines: two metrics, a plan, a test clock, and a customer for every author.

use anyhow::Context;
use serde_json::{Value, json};

use super::client::Client;
use super::commits::MONTH_START;

/// What the plan is called: the sign that the demo has run before.
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

/// The catalogue, if the demo has run before.
pub fn find(client: &Client) -> anyhow::Result<Option<Catalog>> {
    let plans = client.list("/api/plans/")?;
    let Some(plan) = plans.iter().find(|plan| plan["plan_name"] == PLAN_NAME) else { return Ok(None) };
    let metrics = client.list("/api/metrics/")?;
    let commits = metrics.iter().find(|metric| metric["aggregation_type"] == "count").context("no metric")?;
    let clocks = client.list("/api/test_clocks/")?;
    Ok(Some(Catalog {
        commits: text(commits, "metric_id")?,
        plan: text(plan, "plan_id")?,
        clock: text(clocks.first().context("no test clock")?, "test_clock_id")?,
    }))
}

/// Defines everything but the customers.
pub fn define(client: &Client) -> anyhow::Result<Catalog> {
    let commits = json!({"metric_name": "commits", "event_name": "commit", "aggregation_type": "count"});
    let commits = text(&client.post("/api/metrics/", &commits)?, "metric_id")?;
    let lines = json!({"metric_name": "lines added", "event_name": "commit", "aggregation_type": "sum",
        "property_name": "insertions"});
    let lines = text(&client.post("/api/metrics/", &lines)?, "metric_id")?;
    let plan = text(&client.post("/api/plans/", &plan(&commits, &lines))?, "plan_id")?;
    let clock = json!({"name": "demo", "frozen_time": MONTH_START});
    let clock = text(&client.post("/api/test_clocks/", &clock)?, "test_clock_id")?;
    Ok(Catalog { commits, plan, clock })
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
    /// Makes `author` a customer that lives by the clock and is on the plan from the start of the month.
    pub fn subscribe(&self, client: &Client, author: &str) -> anyhow::Result<()> {
        let email = format!("{author}@example.com");
        let customer = json!({"customer_id": author, "email": email, "test_clock_id": self.clock});
        client.post("/api/customers/", &customer)?;
        let subscription = json!({"customer_id": author, "plan_id": self.plan, "start_date": MONTH_START});
        client.post("/api/subscriptions/", &subscription)?;
        Ok(())
    }
}

fn text(object: &Value, field: &str) -> anyhow::Result<String> {
    let text = object[field].as_str().with_context(|| format!("an answer without {field}"))?;
    Ok(text.to_owned())
}
