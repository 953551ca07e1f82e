//! Switching a subscription to another plan: looked at first, done once.

use super::cancel_subscription::INVOICING;
use super::change::{Change, Choices, facts, subscription};
use super::customer_path;
use super::new_subscription::plans;
use crate::api::Failure;
use crate::form::{Field, Input};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const FIELDS: [Field; 2] = [
    Field::new(
        "usage_behavior",
        text::USAGE_OF_SWITCH,
        Input::Choice(&[("transfer_to_new_subscription", text::USAGE_GOES_ON), ("keep_separate", text::USAGE_STAYS)]),
    ),
    INVOICING,
];

fn change(call: &str, plans: Vec<(String, String)>) -> Change<'_> {
    Change {
        title: text::SWITCH_PLAN,
        explained: text::SWITCH_EXPLAINED,
        is_danger: false,
        choices: Some(Choices {
            name: "switch_plan_id",
            label: text::PLAN,
            options: plans,
            is_in_body: true,
            nothing: text::NO_OTHER_PLANS,
        }),
        fields: &FIELDS,
        told: &[],
        call,
    }
}

fn call(visit: &Visit<'_>) -> String {
    format!("/api/subscriptions/{}/switch_plan/", escaped(&visit.id))
}

/// `GET /console/subscriptions/{subscription_id}/switch_plan/`
///
/// # Errors
/// When there is no such subscription.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let subscription = subscription(visit).await?;
    let mut plans = plans(visit).await?;
    plans.retain(|(plan, _)| subscription["billing_plan"]["plan_id"] != plan.as_str());
    change(&call(visit), plans).page(visit, &subscription["customer"], facts(&subscription)).await
}

/// `POST /console/subscriptions/{subscription_id}/switch_plan/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let switched = change(&call(visit), Vec::new()).make(visit).await?;
    Ok(Outcome::Go(customer_path(&show::plain(&switched["customer"]["customer_id"]))))
}
