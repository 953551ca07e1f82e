//! What holds for the whole organization.

use maud::html;
use serde_json::Value;

use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::Visit;
use crate::{show, text};

const HERE: &str = "/console/settings/";
const LIMIT: &str = "/console/settings/approval_limit/";
const FIELDS: [Field; 6] = [
    Field::new("organization_name", text::NAME, Input::Text(200)).required(),
    Field::new("timezone", text::TIMEZONE, Input::Text(64)).required().hint(text::ZONE_HINT),
    Field::new("default_currency_code", text::CURRENCY, Input::Text(10)).required().hint(text::DEFAULT_CURRENCY_HINT),
    Field::new("tax_rate", text::TAX_RATE, Input::Number).hint(text::TAX_RATE_HINT),
    Field::new("payment_grace_period", text::PAYMENT_GRACE, Input::Number).hint(text::PAYMENT_GRACE_HINT),
    Field::new("invoice_grace_minutes", text::INVOICE_GRACE, Input::Number).required().hint(text::INVOICE_GRACE_HINT),
];
/// Those that the API takes as whole numbers.
const WHOLE: [&str; 2] = ["payment_grace_period", "invoice_grace_minutes"];

/// `GET /console/settings/`
///
/// # Errors
/// Those of the call.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let organization = visit.get("/api/organization/").await?;
    let value = |field: &Field| match field.name {
        "default_currency_code" => show::code(&organization["default_currency"]),
        name => show::plain(&organization[name]),
    };
    let fields = FIELDS.map(|field| (field, value(&field)));
    let form = Form { fields: &fields, button: text::SAVE, is_danger: false, back: ("/console/", text::BACK) };
    let content = html! {
        h1 { (text::SETTINGS) }
        dl.facts {
            div { dt { (text::ID) } dd.long { code { (show::plain(&organization["organization_id"])) } } }
            div { dt { (text::EVENT_WINDOW) } dd { (show::plain(&organization["event_window_days"])) " " (text::DAYS) } }
            div { dt { (text::TAX_PROVIDERS) } dd {
                @for one in show::items(&organization["tax_providers"]) { span.item { (show::plain(one)) } }
            } }
            div { dt { (text::APPROVAL_LIMIT) } dd {
                @if organization["approval_limit"].is_null() { (text::NO_LIMIT) } @else { (show::number(&organization["approval_limit"])) }
                @if is_open_to(visit.viewer.role, Method::Get, LIMIT) { " " a href=(LIMIT) { (text::CHANGE_LIMIT) } }
            } }
        }
        p { (text::SETTINGS_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::SETTINGS.to_owned(), content))
}

/// `POST /console/settings/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let mut body = body(visit, &FIELDS)?;
    for name in WHOLE {
        if let Some(days) = body.get(name).and_then(|typed| typed.as_str()?.parse::<u32>().ok()) {
            body.insert(name.to_owned(), days.into());
        }
    }
    // What was emptied is taken away, where the API has something for that.
    for name in ["tax_rate", "payment_grace_period"] {
        body.entry(name).or_insert(Value::Null);
    }
    visit.patch("/api/organization/", body).await?;
    Ok(Outcome::Go(HERE.to_owned()))
}
