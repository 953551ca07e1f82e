//! The list of API keys: what each may be used for, and when it was used last.

use maud::html;

use super::{is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const HERE: &str = "/console/api_keys/";

/// `GET /console/api_keys/`
///
/// # Errors
/// Those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let list = visit.list(paged("/api/api_keys/", visit)).await?;
    let keys = show::items(&list.value);
    let zone = &visit.viewer.zone;
    let content = html! {
        h1 { (text::API_KEYS) }
        p.links { a.button href={ (HERE) "new/" } { (text::NEW_API_KEY) } }
        @if keys.is_empty() { p.empty { (text::NO_API_KEYS) } } @else { div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::NAME) } th { (text::PREFIX) } th { (text::SCOPES) } th { (text::MADE_AT) } th { (text::LAST_USED) }
                th { (text::EXPIRES) } th { span.hidden { (text::REGENERATE_KEY) } } th { span.hidden { (text::DELETE_KEY) } }
            } }
            tbody { @for key in keys {
                @let prefix = show::plain(&key["prefix"]);
                @let path = format!("{HERE}{}/", escaped(&prefix));
                tr {
                    td.long { (show::plain(&key["name"])) }
                    td { code { (prefix) } }
                    td.long { @for scope in show::items(&key["scopes"]) { span.item { (show::plain(scope)) } } }
                    td { (show::instant(&key["created_at"], zone)) }
                    td { @if key["last_used_at"].is_null() { (text::NOT_YET) } @else { (show::instant(&key["last_used_at"], zone)) } }
                    td { @if !key["expires_at"].is_null() { (show::instant(&key["expires_at"], zone)) } }
                    td.right { a href={ (path) "regenerate/" } { (text::REPLACE) } }
                    td.right { a href={ (path) "delete/" } { (text::DELETE) } }
                }
            } }
        } } }
        (pager(HERE, is_first(visit), list.next.as_deref()))
    };
    Ok(Outcome::Page(text::API_KEYS.to_owned(), content))
}
