//! Subscribing a customer to a plan: looked at first, done once.

use maud::html;
use serde_json::Value;

use super::change::{Change, Choices};
use super::customer_path;
use crate::api::Failure;
use crate::form::{Field, Input};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// Most plans that are offered.
const PLANS_SHOWN: u32 = 500;

const FIELDS: [Field; 3] = [
    Field::new("start_date", text::BEGINS_ON, Input::Day).required(),
    Field::new("end_date", text::ENDS_ON, Input::Day).hint(text::ENDS_ON_HINT),
    Field::new(
        "auto_renew",
        text::AT_ITS_END,
        Input::Choice(&[("true", text::RENEWS_THEN), ("false", text::ENDS_THEN)]),
    ),
];

/// Plans that are offered: id and name.
///
/// # Errors
/// Those of the call.
pub(super) async fn plans(visit: &Visit<'_>) -> Result<Vec<(String, String)>, Failure> {
    let plans = visit.get(format!("/api/plans/?limit={PLANS_SHOWN}")).await?;
    let named = |plan: &Value| (show::plain(&plan["plan_id"]), show::plain(&plan["plan_name"]));
    Ok(show::items(&plans).iter().map(named).collect())
}

fn change<'c>(told: &'c [(&'static str, &'c str)], plans: Vec<(String, String)>) -> Change<'c> {
    Change {
        title: text::NEW_SUBSCRIPTION,
        explained: text::NEW_SUBSCRIPTION_EXPLAINED,
        is_danger: false,
        choices: Some(Choices {
            name: "plan_id",
            label: text::PLAN,
            options: plans,
            is_in_body: true,
            nothing: text::NO_PLANS,
        }),
        fields: &FIELDS,
        told,
        call: "/api/subscriptions/",
    }
}

/// `GET /console/customers/{customer_id}/subscribe/`
///
/// # Errors
/// When there is no such customer.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let customer = visit.get(format!("/api/customers/{}/", escaped(&visit.id))).await?;
    let plans = plans(visit).await?;
    let facts = html! {
        dl.facts {
            div { dt { (text::CUSTOMER) } dd.long { (show::name(&customer)) } }
            div { dt { (text::TIMEZONE) } dd { (show::plain(&customer["timezone"])) } }
        }
    };
    change(&[("customer_id", &visit.id)], plans).page(visit, &customer, facts).await
}

/// `POST /console/customers/{customer_id}/subscribe/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    change(&[("customer_id", &visit.id)], Vec::new()).make(visit).await?;
    Ok(Outcome::Go(customer_path(&visit.id)))
}
