//! What can be done with a webhook endpoint: each asked first.

use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::Failure;
use crate::form::Form;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const LIST: &str = "/console/webhooks/";

/// `GET /console/webhooks/{webhook_endpoint_id}/test/`
///
/// # Errors
/// When there is no such endpoint.
pub async fn ask_test<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    confirm(visit, (text::TEST_WEBHOOK, false), text::TEST_WEBHOOK_EXPLAINED).await
}

/// `POST /console/webhooks/{webhook_endpoint_id}/test/`: shows what it answered.
///
/// # Errors
/// Those of the call.
pub async fn test<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let attempt = visit.post(format!("{}test/", api_path(visit)), Value::Null).await?;
    let is_taken = attempt["status"].as_u64().is_some_and(|status| (200..300).contains(&status));
    let title = if is_taken { text::TEST_WAS_TAKEN } else { text::TEST_WAS_NOT_TAKEN };
    let content = html! {
        nav.path { a href=(here(visit)) { (text::WEBHOOK) } }
        h1 { (title) }
        dl.facts {
            div { dt { (text::STATUS) } dd.bad[!is_taken] { (show::or_none(&attempt["status"])) } }
            div { dt { (text::TOOK) } dd { (show::number(&attempt["duration_ms"])) " ms" } }
            div { dt { (text::MESSAGE) } dd.long { code { (show::plain(&attempt["message_id"])) } } }
        }
        @if attempt["answer"].as_str().is_some_and(|answer| !answer.is_empty()) {
            h2 { (text::ANSWER) }
            pre tabindex="0" { (show::plain(&attempt["answer"])) }
        }
    };
    Ok(Outcome::Page(title.to_owned(), content))
}

/// `GET /console/webhooks/{webhook_endpoint_id}/rotate_secret/`
///
/// # Errors
/// When there is no such endpoint.
pub async fn ask_secret<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    confirm(visit, (text::ROTATE_SECRET, false), text::ROTATE_SECRET_EXPLAINED).await
}

/// `POST /console/webhooks/{webhook_endpoint_id}/rotate_secret/`: shows the secret, this once.
///
/// # Errors
/// Those of the call.
pub async fn rotate_secret<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let made = visit.post(format!("{}rotate_secret/", api_path(visit)), Value::Null).await?;
    let shown =
        |secret: &str| Outcome::Page(text::SECRET_ROTATED.to_owned(), with_secret(text::SECRET_ROTATED, &made, secret));
    Ok(made["secret"].as_str().map_or_else(|| Outcome::Go(here(visit)), shown))
}

/// `GET /console/webhooks/{webhook_endpoint_id}/disable/`
///
/// # Errors
/// When there is no such endpoint.
pub async fn ask_disable<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    confirm(visit, (text::DISABLE_WEBHOOK, true), text::DISABLE_WEBHOOK_EXPLAINED).await
}

/// `POST /console/webhooks/{webhook_endpoint_id}/disable/`
///
/// # Errors
/// Those of the call.
pub async fn disable<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    visit.patch(api_path(visit), json!({"status": "disabled"})).await?;
    Ok(Outcome::Go(here(visit)))
}

/// `GET /console/webhooks/{webhook_endpoint_id}/enable/`
///
/// # Errors
/// When there is no such endpoint.
pub async fn ask_enable<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    confirm(visit, (text::ENABLE_WEBHOOK, false), text::ENABLE_WEBHOOK_EXPLAINED).await
}

/// `POST /console/webhooks/{webhook_endpoint_id}/enable/`
///
/// # Errors
/// Those of the call.
pub async fn enable<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    visit.patch(api_path(visit), json!({"status": "enabled"})).await?;
    Ok(Outcome::Go(here(visit)))
}

/// `GET /console/webhooks/{webhook_endpoint_id}/delete/`
///
/// # Errors
/// When there is no such endpoint.
pub async fn ask_delete<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    confirm(visit, (text::DELETE_WEBHOOK, true), text::DELETE_WEBHOOK_EXPLAINED).await
}

/// `POST /console/webhooks/{webhook_endpoint_id}/delete/`
///
/// # Errors
/// Those of the call.
pub async fn delete<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    visit.delete(api_path(visit)).await?;
    Ok(Outcome::Go(LIST.to_owned()))
}

/// An endpoint that was given a secret, which is shown this once.
pub(super) fn with_secret(title: &str, made: &Value, secret: &str) -> Markup {
    let path = format!("{LIST}{}/", escaped(&show::plain(&made["webhook_endpoint_id"])));
    html! {
        nav.path { a href=(LIST) { (text::WEBHOOKS) } }
        h1 { (title) }
        dl.facts { div { dt { (text::URL) } dd.long { a href=(path) { (show::plain(&made["url"])) } } } }
        p { (text::SECRET_EXPLAINED) }
        pre tabindex="0" { (secret) }
    }
}

fn api_path(visit: &Visit<'_>) -> String {
    format!("/api/webhook_endpoints/{}/", escaped(&visit.id))
}

fn here(visit: &Visit<'_>) -> String {
    format!("{LIST}{}/", escaped(&visit.id))
}

async fn confirm<'v>(
    visit: &'v Visit<'v>,
    (title, is_danger): (&'static str, bool),
    explained: &str,
) -> Result<Outcome, Failure> {
    let endpoint = visit.get(api_path(visit)).await?;
    let here = here(visit);
    let form = Form { fields: &[], button: title, is_danger, back: (&here, text::BACK) };
    let content = html! {
        nav.path { a.long href=(here) { (show::plain(&endpoint["url"])) } }
        h1 { (title) }
        p { (explained) }
        (form.render(visit))
    };
    Ok(Outcome::Page(title.to_owned(), content))
}
