//! A webhook endpoint: what was sent to it lately, and how it answered.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{is_first, paged};
use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::layout::pager;
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::{Visit, escaped};
use crate::zone::ViewerZone;
use crate::{show, text};

const LIST: &str = "/console/webhooks/";
const REPLAY: &str = "/console/webhooks/{webhook_endpoint_id}/replay/";
const ACTIONS: [(&str, &str); 3] =
    [("test", text::TEST_WEBHOOK), ("replay", text::REPLAY), ("rotate_secret", text::ROTATE_SECRET)];
const FIELDS: [Field; 2] = [
    Field::new("message_id", text::MESSAGE, Input::Text(100)).hint(text::REPLAY_ONE_HINT),
    Field::new("since", text::SINCE, Input::Instant).hint(text::REPLAY_SINCE_HINT),
];

/// `GET /console/webhooks/{webhook_endpoint_id}/`
///
/// # Errors
/// When there is no such endpoint.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let id = escaped(&visit.id);
    let endpoint = visit.get(format!("/api/webhook_endpoints/{id}/")).await?;
    let list = visit.list(paged(&format!("/api/webhook_endpoints/{id}/deliveries/"), visit)).await?;
    let attempts = show::items(&list.value);
    let here = format!("{LIST}{id}/");
    let content = html! {
        nav.path { a href=(LIST) { (text::WEBHOOKS) } }
        h1.long { (show::plain(&endpoint["url"])) " " (show::badge(endpoint["status"].as_str().unwrap_or_default())) }
        dl.facts {
            div { dt { (text::ID) } dd.long { code { (show::plain(&endpoint["webhook_endpoint_id"])) } } }
            div { dt { (text::DESCRIPTION) } dd.long { (show::or_none(&endpoint["description"])) } }
            div { dt { (text::SINCE) } dd { (show::day(&endpoint["created_on"])) } }
            @if !endpoint["failing_since"].is_null() {
                div { dt { (text::FAILING_SINCE) } dd.bad { (show::instant(&endpoint["failing_since"], &visit.viewer.zone)) } }
            }
            @if let Some(reason) = endpoint["disabled_reason"].as_str() { div { dt { (text::REASON) } dd.bad { (reason) } } }
        }
        @if is_open_to(visit.viewer.role, Method::Get, REPLAY) {
            @let (way, word) = if endpoint["status"] == "disabled" { ("enable", text::ENABLE_WEBHOOK) } else { ("disable", text::DISABLE_WEBHOOK) };
            p.links {
                @for (way, word) in ACTIONS { a.button href={ (here) (way) "/" } { (word) } " " }
                a.button href={ (here) (way) "/" } { (word) } " "
                a.button.danger href={ (here) "delete/" } { (text::DELETE_WEBHOOK) }
            }
        }
        section {
            h2 { (text::ATTEMPTS) }
            @if attempts.is_empty() { p.empty { (text::NO_ATTEMPTS) } } @else { (table(attempts, &visit.viewer.zone)) }
            (pager(&here, is_first(visit), list.next.as_deref()))
        }
    };
    Ok(Outcome::Page(text::WEBHOOK.to_owned(), content))
}

fn table(attempts: &[Value], zone: &ViewerZone) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::AT) } th { (text::MESSAGE) } th.right { (text::ATTEMPT) } th { (text::STATUS) }
                th.right { (text::TOOK) } th { (text::ANSWER) }
            } }
            tbody { @for one in attempts {
                @let is_taken = one["status"].as_u64().is_some_and(|status| (200..300).contains(&status));
                tr {
                    td { (show::instant(&one["at"], zone)) }
                    td.long { code { (show::plain(&one["message_id"])) } }
                    td.right { (show::plain(&one["attempt"])) }
                    td { span.bad[!is_taken] { (show::or_none(&one["status"])) } }
                    td.right { (show::number(&one["duration_ms"])) " ms" }
                    td.long { code { (show::plain(&one["answer"])) } }
                }
            } }
        } }
    }
}

/// `GET /console/webhooks/{webhook_endpoint_id}/replay/`
///
/// # Errors
/// When there is no such endpoint.
pub async fn ask_replay<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let id = escaped(&visit.id);
    let endpoint = visit.get(format!("/api/webhook_endpoints/{id}/")).await?;
    let here = format!("{LIST}{id}/");
    let fields = crate::form::empty(&FIELDS);
    let form = Form { fields: &fields, button: text::REPLAY, is_danger: false, back: (&here, text::BACK) };
    let content = html! {
        nav.path { a.long href=(here) { (show::plain(&endpoint["url"])) } }
        h1 { (text::REPLAY) }
        p { (text::REPLAY_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::REPLAY.to_owned(), content))
}

/// `POST /console/webhooks/{webhook_endpoint_id}/replay/`
///
/// # Errors
/// Those of the call.
pub async fn replay<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let id = escaped(&visit.id);
    let fields = body(visit, &FIELDS)?;
    visit.post(format!("/api/webhook_endpoints/{id}/replay/"), json!(fields)).await?;
    Ok(Outcome::Go(format!("{LIST}{id}/")))
}
