//! Changing how many units are paid for in advance: looked at first, done once.

use serde_json::Value;

use super::change::{Change, Choices, facts, subscription};
use super::customer_path;
use crate::api::Failure;
use crate::form::{Field, Input};
use crate::route::Outcome;
use crate::visit::{Fields, Visit, escaped};
use crate::{show, text};

const METRIC: &str = "metric_id";
const FIELDS: [Field; 2] = [
    Field::new("units", text::UNITS, Input::Number).required(),
    Field::new(
        "invoice_now",
        text::MORE_UNITS,
        Input::Choice(&[("true", text::INVOICE_NOW), ("false", text::WITH_NEXT_INVOICE)]),
    ),
];

fn change(call: &str, metrics: Vec<(String, String)>) -> Change<'_> {
    Change {
        title: text::PREPAID_UNITS,
        explained: text::PREPAID_UNITS_EXPLAINED,
        is_danger: false,
        choices: Some(Choices {
            name: METRIC,
            label: text::METRIC,
            options: metrics,
            is_in_body: false,
            nothing: text::NO_PREPAID_UNITS,
        }),
        fields: &FIELDS,
        told: &[],
        call,
    }
}

/// The call about the metric that is chosen.
fn call(visit: &Visit<'_>, filled: &Fields) -> String {
    let metric = escaped(filled.get(METRIC).unwrap_or_default());
    format!("/api/subscriptions/{}/components/{metric}/change_prepaid_units/", escaped(&visit.id))
}

/// The metrics whose units the plan has paid for in advance, with how many it says itself.
async fn metrics(visit: &Visit<'_>, subscription: &Value) -> Result<Vec<(String, String)>, Failure> {
    let held = &subscription["billing_plan"];
    let plan = visit.get(format!("/api/plans/{}/", escaped(&show::plain(&held["plan_id"])))).await?;
    let mut versions = show::items(&plan["versions"]).iter();
    let version = versions.find(|version| version["version_id"] == held["version_id"]);
    let components = version.map_or(&[][..], |version| show::items(&version["components"]));
    let prepaid = components.iter().filter(|component| !component["prepaid_charge"].is_null());
    let named = |component: &Value| {
        let metric = &component["billable_metric"];
        let units = &component["prepaid_charge"]["units"];
        let by_plan =
            if units.is_null() { String::new() } else { format!(" ({}: {})", text::BY_THE_PLAN, show::number(units)) };
        (show::plain(&metric["metric_id"]), format!("{}{by_plan}", show::plain(&metric["metric_name"])))
    };
    Ok(prepaid.map(named).collect())
}

/// `GET /console/subscriptions/{subscription_id}/prepaid_units/`
///
/// # Errors
/// When there is no such subscription.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let subscription = subscription(visit).await?;
    let metrics = metrics(visit, &subscription).await?;
    change(&call(visit, &visit.query), metrics).page(visit, &subscription["customer"], facts(&subscription)).await
}

/// `POST /console/subscriptions/{subscription_id}/prepaid_units/`
///
/// # Errors
/// Those of the call; when no metric is chosen.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    if visit.form.get(METRIC).is_none() {
        return Err(Failure::new(400, "invalid", text::FORM_IS_BROKEN));
    }
    let changed = change(&call(visit, &visit.form), Vec::new()).make(visit).await?;
    Ok(Outcome::Go(customer_path(&show::plain(&changed["customer"]["customer_id"]))))
}
