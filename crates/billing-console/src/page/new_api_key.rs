//! Making an API key: its text is shown this once.

use maud::{Markup, html};
use serde_json::Value;

use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::route::Outcome;
use crate::visit::Visit;
use crate::{show, text};

const LIST: &str = "/console/api_keys/";
/// What a key may be used for, as the API names it, in the order in which programs need it.
const SCOPES: [(&str, &str); 5] = [
    ("ingest", text::SCOPE_INGEST),
    ("access_check", text::SCOPE_ACCESS_CHECK),
    ("read", text::SCOPE_READ),
    ("billing", text::SCOPE_BILLING),
    ("admin", text::SCOPE_ADMIN),
];
const FIELDS: [Field; 2] = [
    Field::new("name", text::NAME, Input::Text(200)).required().hint(text::API_KEY_NAME_HINT),
    Field::new("expires_at", text::EXPIRES, Input::Instant),
];

/// `GET /console/api_keys/new/`
///
/// # Errors
/// None.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let fields = crate::form::empty(&FIELDS);
    let form = Form { fields: &fields, button: text::NEW_API_KEY, is_danger: false, back: (LIST, text::BACK) };
    let scopes = html! {
        fieldset {
            legend { (text::SCOPES) }
            @for (scope, words) in SCOPES { label.check { input type="checkbox" name="scopes" value=(scope); (words) } }
        }
    };
    let content = html! {
        nav.path { a href=(LIST) { (text::API_KEYS) } }
        h1 { (text::NEW_API_KEY) }
        p { (text::NEW_API_KEY_EXPLAINED) }
        (form.render_with(visit, &scopes))
    };
    Ok(Outcome::Page(text::NEW_API_KEY.to_owned(), content))
}

/// `POST /console/api_keys/new/`: shows the key, this once; whoever sends the form again finds the list.
///
/// # Errors
/// Those of the call. A key that may be used for nothing, which the API would let be used for everything, is not made.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let mut body = body(visit, &FIELDS)?;
    let chosen = visit.form.0.iter().filter(|(name, _)| name == "scopes").map(|(_, scope)| Value::from(scope.as_str()));
    let chosen: Vec<Value> = chosen.collect();
    if chosen.is_empty() {
        return Err(Failure::new(400, "invalid", text::CHOOSE_SCOPES).at("scopes"));
    }
    body.insert("scopes".to_owned(), chosen.into());
    let made = visit.post("/api/api_keys/", body).await?;
    Ok(made["key"].as_str().map_or_else(|| Outcome::Go(LIST.to_owned()), |key| shown(&made, key)))
}

/// A key that was just made, with its text.
pub(super) fn shown(made: &Value, key: &str) -> Outcome {
    let content: Markup = html! {
        nav.path { a href=(LIST) { (text::API_KEYS) } }
        h1 { (text::API_KEY_MADE) }
        dl.facts {
            div { dt { (text::NAME) } dd.long { (show::plain(&made["name"])) } }
            div { dt { (text::SCOPES) } dd.long { @for scope in show::items(&made["scopes"]) { span.item { (show::plain(scope)) } } } }
        }
        p { (text::API_KEY_SHOWN_ONCE) }
        pre tabindex="0" { (key) }
    };
    Outcome::Page(text::API_KEY_MADE.to_owned(), content)
}
