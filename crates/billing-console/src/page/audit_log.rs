//! The audit log: who changed what, when and from where.

use maud::{Markup, html};
use serde_json::Value;

use super::export::{self, Export};
use super::{customer_path, is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::zone::ViewerZone;
use crate::{show, text};

/// What the list can be narrowed to: the field of the API, and its label.
const FILTERS: [(&str, &str); 4] =
    [("actor", text::WHO), ("operation", text::OPERATION), ("kind", text::KIND), ("customer_id", text::CUSTOMER)];

/// The columns of the table to keep: those that the API's has.
const COLUMNS: [&str; 13] = [
    "timestamp",
    "actor_type",
    "actor_id",
    "actor_name",
    "address",
    "request_id",
    "operation",
    "kind",
    "id",
    "customer_id",
    "before",
    "after",
    "audit_entry_id",
];

/// `GET /console/audit_log/`
///
/// # Errors
/// Those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let chosen = FILTERS.iter().filter_map(|(name, _)| Some(format!("{name}={}", escaped(visit.query.get(name)?))));
    let chosen = chosen.collect::<Vec<_>>().join("&");
    let query = if chosen.is_empty() { String::new() } else { format!("?{chosen}") };
    if export::is_wanted(visit) {
        let list = &format!("/api/audit_log/{query}");
        let row = |entry: &Value| export::fields(entry, COLUMNS);
        return Export { name: "audit_log", list, at_once: 100, columns: COLUMNS, row }.table(visit).await;
    }
    let list = visit.list(paged(&format!("/api/audit_log/{query}"), visit)).await?;
    let entries = show::items(&list.value);
    let content = html! {
        h1 { (text::AUDIT_LOG) }
        form.narrow method="get" action="/console/audit_log/" {
            @for (name, label) in FILTERS {
                div {
                    label for=(name) { (label) }
                    input id=(name) name=(name) maxlength="200" autocomplete="off" value=(visit.query.get(name).unwrap_or_default());
                }
            }
            button.quiet type="submit" { (text::FILTER) }
        }
        @if entries.is_empty() { p.empty { (text::NO_ENTRIES_OF_LOG) } }
        @for entry in entries { (line(entry, &visit.viewer.zone)) }
        (pager(&format!("/console/audit_log/{query}"), is_first(visit), list.next.as_deref()))
        (export::link(&format!("/console/audit_log/{query}")))
    };
    Ok(Outcome::Page(text::AUDIT_LOG.to_owned(), content))
}

/// One change, which opens to what it was before and after.
pub(super) fn line(entry: &Value, zone: &ViewerZone) -> Markup {
    html! {
        details.line.lines {
            summary {
                span.name {
                    b { (show::plain(&entry["actor_name"])) } " " (show::plain(&entry["operation"]).replace('_', " "))
                    @if let Some(id) = entry["id"].as_str() { " " code { (id) } }
                }
                (show::instant(&entry["timestamp"], zone))
            }
            div.trace {
                dl.facts {
                    div { dt { (text::WHO) } dd.long { (show::plain(&entry["actor_type"]).replace('_', " ")) " " code { (show::plain(&entry["actor_id"])) } } }
                    @if let Some(customer) = entry["customer_id"].as_str() {
                        div { dt { (text::CUSTOMER) } dd.long { a href=(customer_path(customer)) { (customer) } } }
                    }
                    div { dt { (text::FROM_WHERE) } dd.long { (show::or_none(&entry["address"])) } }
                    div { dt { (text::REQUEST) } dd.long { code { (show::plain(&entry["request_id"])) } } }
                }
                (side(text::BEFORE, &entry["before"]))
                (side(text::AFTER, &entry["after"]))
            }
        }
    }
}

/// What something was, or has become.
fn side(title: &str, value: &Value) -> Markup {
    html! {
        @if !value.is_null() {
            p.quiet { (title) }
            pre tabindex="0" { (serde_json::to_string_pretty(value).unwrap_or_default()) }
        }
    }
}
