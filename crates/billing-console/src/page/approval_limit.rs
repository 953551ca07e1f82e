//! What one person may give away or take without another.

use maud::html;
use serde_json::{Map, Value};

use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::route::Outcome;
use crate::visit::Visit;
use crate::{show, text};

const SETTINGS: &str = "/console/settings/";
const LIMIT: Field = Field::new("approval_limit", text::APPROVAL_LIMIT, Input::Number).hint(text::APPROVAL_LIMIT_HINT);

/// `GET /console/settings/approval_limit/`
///
/// # Errors
/// Those of the call.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let organization = visit.get("/api/organization/").await?;
    let fields = [(LIMIT, show::plain(&organization["approval_limit"]))];
    let form = Form { fields: &fields, button: text::SAVE, is_danger: false, back: (SETTINGS, text::BACK) };
    let content = html! {
        nav.path { a href=(SETTINGS) { (text::SETTINGS) } }
        h1 { (text::APPROVAL_LIMIT) }
        p { (text::APPROVAL_LIMIT_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::APPROVAL_LIMIT.to_owned(), content))
}

/// `POST /console/settings/approval_limit/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let mut body: Map<String, Value> = body(visit, &[LIMIT])?;
    // What was emptied is taken away.
    body.entry(LIMIT.name).or_insert(Value::Null);
    visit.patch("/api/organization/", body).await?;
    Ok(Outcome::Go(SETTINGS.to_owned()))
}
