//! Ending an API key, with another in its place or without one: asked first.

use maud::html;
use serde_json::Value;

use super::new_api_key::shown;
use crate::api::Failure;
use crate::form::Form;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const LIST: &str = "/console/api_keys/";

/// `GET /console/api_keys/{prefix}/regenerate/`
///
/// # Errors
/// When there is no such key.
pub async fn confirm_new<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    confirm(visit, text::REGENERATE_KEY, text::REGENERATE_KEY_EXPLAINED).await
}

/// `POST /console/api_keys/{prefix}/regenerate/`: shows the new key, this once.
///
/// # Errors
/// Those of the call.
pub async fn regenerate<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let made = visit.post(format!("/api/api_keys/{}/regenerate/", escaped(&visit.id)), Value::Null).await?;
    Ok(made["key"].as_str().map_or_else(|| Outcome::Go(LIST.to_owned()), |key| shown(&made, key)))
}

/// `GET /console/api_keys/{prefix}/delete/`
///
/// # Errors
/// When there is no such key.
pub async fn confirm_delete<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    confirm(visit, text::DELETE_KEY, text::DELETE_KEY_EXPLAINED).await
}

/// `POST /console/api_keys/{prefix}/delete/`
///
/// # Errors
/// Those of the call.
pub async fn delete<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    visit.delete(format!("/api/api_keys/{}/", escaped(&visit.id))).await?;
    Ok(Outcome::Go(LIST.to_owned()))
}

async fn confirm<'v>(visit: &'v Visit<'v>, title: &'static str, explained: &str) -> Result<Outcome, Failure> {
    let mut path = "/api/api_keys/?limit=1000".to_owned();
    let key = loop {
        let list = visit.list(path).await?;
        if let Some(key) = show::items(&list.value).iter().find(|key| key["prefix"].as_str() == Some(visit.id.as_str()))
        {
            break key.clone();
        }
        let next = list.next.ok_or_else(Failure::not_found)?;
        path = format!("/api/api_keys/?limit=1000&cursor={}", escaped(&next));
    };
    let form = Form { fields: &[], button: title, is_danger: true, back: (LIST, text::KEEP) };
    let content = html! {
        nav.path { a href=(LIST) { (text::API_KEYS) } }
        h1 { (title) }
        dl.facts {
            div { dt { (text::NAME) } dd.long { (show::plain(&key["name"])) } }
            div { dt { (text::PREFIX) } dd { code { (show::plain(&key["prefix"])) } } }
            div { dt { (text::SCOPES) } dd.long { @for scope in show::items(&key["scopes"]) { span.item { (show::plain(scope)) } } } }
        }
        p { (explained) }
        (form.render(visit))
    };
    Ok(Outcome::Page(title.to_owned(), content))
}
