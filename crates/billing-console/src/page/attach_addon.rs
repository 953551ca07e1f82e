//! Attaching an add-on to a subscription: looked at first, done once.

use serde_json::Value;

use super::change::{Change, Choices, facts, subscription};
use super::customer_path;
use crate::api::Failure;
use crate::form::{Field, Input};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// Most add-ons that are offered.
const ADDONS_SHOWN: u32 = 500;
const FIELDS: [Field; 1] = [Field::new("quantity", text::QUANTITY, Input::Number).hint(text::ADDON_QUANTITY_HINT)];

fn change(call: &str, addons: Vec<(String, String)>) -> Change<'_> {
    Change {
        title: text::ATTACH_ADDON,
        explained: text::ADDON_EXPLAINED,
        is_danger: false,
        choices: Some(Choices {
            name: "addon_id",
            label: text::ADDON,
            options: addons,
            is_in_body: true,
            nothing: text::NO_ADDONS,
        }),
        fields: &FIELDS,
        told: &[],
        call,
    }
}

fn call(visit: &Visit<'_>) -> String {
    format!("/api/subscriptions/{}/addons/attach/", escaped(&visit.id))
}

/// `GET /console/subscriptions/{subscription_id}/addons/`
///
/// # Errors
/// When there is no such subscription.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let subscription = subscription(visit).await?;
    let addons = visit.get(format!("/api/addons/?limit={ADDONS_SHOWN}")).await?;
    let named = |addon: &Value| (show::plain(&addon["addon_id"]), show::plain(&addon["addon_name"]));
    let addons: Vec<_> = show::items(&addons).iter().map(named).collect();
    change(&call(visit), addons).page(visit, &subscription["customer"], facts(&subscription)).await
}

/// `POST /console/subscriptions/{subscription_id}/addons/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let attached = change(&call(visit), Vec::new()).make(visit).await?;
    Ok(Outcome::Go(customer_path(&show::plain(&attached["customer"]["customer_id"]))))
}
