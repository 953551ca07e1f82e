//! The list of webhook endpoints: which of them fail.

use maud::html;

use super::{is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::{Visit, escaped};
use crate::{show, text};

const NEW: &str = "/console/webhooks/new/";

/// `GET /console/webhooks/`
///
/// # Errors
/// Those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let list = visit.list(paged("/api/webhook_endpoints/", visit)).await?;
    let endpoints = show::items(&list.value);
    let content = html! {
        h1 { (text::WEBHOOKS) }
        @if is_open_to(visit.viewer.role, Method::Get, NEW) { p.links { a.button href=(NEW) { (text::NEW_WEBHOOK) } } }
        @if endpoints.is_empty() { p.empty { (text::NO_WEBHOOKS) } } @else { div.scroll tabindex="0" { table {
            thead { tr { th { (text::URL) } th { (text::STATUS) } th { (text::FAILING_SINCE) } th { (text::EVENT_TYPES) } } }
            tbody { @for endpoint in endpoints { tr {
                td.long {
                    a href={ "/console/webhooks/" (escaped(&show::plain(&endpoint["webhook_endpoint_id"]))) "/" } {
                        (show::plain(&endpoint["url"]))
                    }
                }
                td {
                    (show::badge(endpoint["status"].as_str().unwrap_or_default()))
                    @if let Some(reason) = endpoint["disabled_reason"].as_str() { div.bad { (reason) } }
                }
                td { @if !endpoint["failing_since"].is_null() { span.bad { (show::instant(&endpoint["failing_since"], &visit.viewer.zone)) } } }
                td.long {
                    @let types = show::items(&endpoint["event_types"]);
                    @if types.is_empty() { (text::EVERY_TYPE) }
                    @for one in types { span.item { (show::plain(one)) } }
                }
            } } }
        } } }
        (pager("/console/webhooks/", is_first(visit), list.next.as_deref()))
    };
    Ok(Outcome::Page(text::WEBHOOKS.to_owned(), content))
}
