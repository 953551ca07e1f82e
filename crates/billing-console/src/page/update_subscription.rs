//! Changing when a subscription ends, and whether it renews: looked at first, done once.

use super::change::{Change, facts, subscription};
use super::customer_path;
use crate::api::Failure;
use crate::form::{Field, Input};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const FIELDS: [Field; 2] = [
    Field::new("end_date", text::ENDS_ON, Input::Day).hint(text::END_STAYS_HINT),
    Field::new(
        "turn_off_auto_renew",
        text::AT_ITS_END,
        Input::Choice(&[("", text::AS_IT_IS), ("true", text::ENDS_THEN)]),
    ),
];

fn change(call: &str) -> Change<'_> {
    Change {
        title: text::CHANGE_END,
        explained: text::CHANGE_END_EXPLAINED,
        is_danger: false,
        choices: None,
        fields: &FIELDS,
        told: &[],
        call,
    }
}

fn call(visit: &Visit<'_>) -> String {
    format!("/api/subscriptions/{}/update/", escaped(&visit.id))
}

/// `GET /console/subscriptions/{subscription_id}/update/`
///
/// # Errors
/// When there is no such subscription.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let subscription = subscription(visit).await?;
    change(&call(visit)).page(visit, &subscription["customer"], facts(&subscription)).await
}

/// `POST /console/subscriptions/{subscription_id}/update/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let updated = change(&call(visit)).make(visit).await?;
    Ok(Outcome::Go(customer_path(&show::plain(&updated["customer"]["customer_id"]))))
}
