//! Making a webhook endpoint: its secret is shown this once.

use maud::html;
use serde_json::Value;

use super::webhook_actions::with_secret;
use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const LIST: &str = "/console/webhooks/";
const FIELDS: [Field; 3] = [
    Field::new("url", text::URL, Input::Text(2_048)).required().hint(text::URL_HINT),
    Field::new("event_types", text::EVENT_TYPES, Input::Text(1_000)).hint(text::EVENT_TYPES_HINT),
    Field::new("description", text::DESCRIPTION, Input::Text(500)),
];

/// `GET /console/webhooks/new/`
///
/// # Errors
/// None.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let fields = crate::form::empty(&FIELDS);
    let form = Form { fields: &fields, button: text::NEW_WEBHOOK, is_danger: false, back: (LIST, text::BACK) };
    let content = html! {
        nav.path { a href=(LIST) { (text::WEBHOOKS) } }
        h1 { (text::NEW_WEBHOOK) }
        p { (text::NEW_WEBHOOK_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::NEW_WEBHOOK.to_owned(), content))
}

/// `POST /console/webhooks/new/`: shows the secret, this once; whoever sends the form again finds the endpoint without it.
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let mut body = body(visit, &FIELDS)?;
    if let Some(types) = visit.form.get("event_types") {
        let types = types.split([',', ' ']).filter(|one| !one.is_empty()).map(Value::from);
        body.insert("event_types".to_owned(), types.collect());
    }
    let made = visit.post("/api/webhook_endpoints/", body).await?;
    let Some(secret) = made["secret"].as_str() else {
        return Ok(Outcome::Go(format!("{LIST}{}/", escaped(&show::plain(&made["webhook_endpoint_id"])))));
    };
    Ok(Outcome::Page(text::WEBHOOK_MADE.to_owned(), with_secret(text::WEBHOOK_MADE, &made, secret)))
}
