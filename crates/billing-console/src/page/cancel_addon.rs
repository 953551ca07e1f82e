//! Cancelling an add-on of a subscription, which goes on: looked at first, done once.

use serde_json::Value;

use super::cancel_subscription::FIELDS;
use super::change::{Change, Choices, facts, subscription};
use super::customer_path;
use crate::api::Failure;
use crate::route::Outcome;
use crate::visit::{Fields, Visit, escaped};
use crate::{show, text};

/// Which of the attached ones: each has an id of its own, as an add-on can be attached more than once.
pub(super) const ADDON: &str = "addon_subscription_id";

fn change(call: &str, attached: Vec<(String, String)>) -> Change<'_> {
    Change {
        title: text::CANCEL_ADDON,
        explained: text::CANCEL_ADDON_EXPLAINED,
        is_danger: true,
        choices: Some(Choices {
            name: ADDON,
            label: text::ADDON,
            options: attached,
            is_in_body: false,
            nothing: text::NOTHING_ATTACHED,
        }),
        fields: &FIELDS,
        told: &[],
        call,
    }
}

/// The call about the add-on that is chosen.
fn call(visit: &Visit<'_>, filled: &Fields) -> String {
    let attached = escaped(filled.get(ADDON).unwrap_or_default());
    format!("/api/subscriptions/{}/addons/{attached}/cancel/", escaped(&visit.id))
}

/// `GET /console/subscriptions/{subscription_id}/addons/cancel/`
///
/// # Errors
/// When there is no such subscription.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let subscription = subscription(visit).await?;
    let named = |one: &Value| (show::plain(&one[ADDON]), show::plain(&one["addon"]["addon_name"]));
    let attached = show::items(&subscription["addons"]).iter().map(named).collect();
    change(&call(visit, &visit.query), attached).page(visit, &subscription["customer"], facts(&subscription)).await
}

/// `POST /console/subscriptions/{subscription_id}/addons/cancel/`
///
/// # Errors
/// Those of the call; when no add-on is chosen.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    if visit.form.get(ADDON).is_none() {
        return Err(Failure::new(400, "invalid", text::FORM_IS_BROKEN));
    }
    let cancelled = change(&call(visit, &visit.form), Vec::new()).make(visit).await?;
    Ok(Outcome::Go(customer_path(&show::plain(&cancelled["customer"]["customer_id"]))))
}
