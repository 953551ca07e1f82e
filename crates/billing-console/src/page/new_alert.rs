//! Making a usage alert.

use maud::html;

use crate::api::Failure;
use crate::form::{Field, Form, Input, body, empty};
use crate::route::Outcome;
use crate::text;
use crate::visit::Visit;

const LIST: &str = "/console/alerts/";

const FIELDS: [Field; 7] = [
    Field::new(
        "kind",
        text::WATCHED,
        Input::Choice(&[
            ("metric_usage", text::WATCHED_USAGE),
            ("spend", text::WATCHED_SPEND),
            ("credit_balance", text::WATCHED_CREDIT),
            ("prepaid_units", text::WATCHED_UNITS),
        ]),
    )
    .required(),
    Field::new("threshold", text::THRESHOLD, Input::Number).required(),
    Field::new(
        "unit",
        text::UNIT,
        Input::Choice(&[
            ("", text::ABSOLUTE),
            ("percent_of_limit", text::OF_LIMIT),
            ("percent_of_free", text::OF_FREE),
        ]),
    ),
    Field::new("metric_id", text::METRIC, Input::Text(100)).hint(text::ALERT_METRIC_HINT),
    Field::new("currency_code", text::CURRENCY, Input::Text(10)).hint(text::ALERT_CURRENCY_HINT),
    Field::new("customer_id", text::CUSTOMER, Input::Text(200)).hint(text::ALERT_CUSTOMER_HINT),
    Field::new("plan_version_id", text::VERSION, Input::Text(100)),
];

/// `GET /console/alerts/new/`
///
/// # Errors
/// None.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let form = Form { fields: &empty(&FIELDS), button: text::NEW_ALERT, is_danger: false, back: (LIST, text::BACK) };
    let content = html! {
        nav.path { a href=(LIST) { (text::ALERTS) } }
        h1 { (text::NEW_ALERT) }
        p { (text::ALERTS_HINT) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::NEW_ALERT.to_owned(), content))
}

/// `POST /console/alerts/new/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    visit.post("/api/usage_alerts/", body(visit, &FIELDS)?).await?;
    Ok(Outcome::Go(LIST.to_owned()))
}
