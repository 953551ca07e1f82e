//! The events of a customer.

use maud::html;
use serde_json::Value;

use super::{customer_path, is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// Most metrics that are called by their names.
const METRICS_SHOWN: u32 = 1_000;

/// `GET /console/customers/{customer_id}/events/`
///
/// # Errors
/// Those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let kept = ["event_name", "idempotency_id"].map(|field| Some((field, visit.query.get(field)?)));
    let kept: String =
        kept.into_iter().flatten().map(|(field, value)| format!("&{field}={}", escaped(value))).collect();
    let list = visit.list(paged(&format!("/api/events/?customer_id={}{kept}", escaped(&visit.id)), visit)).await?;
    let metrics = visit.get(format!("/api/metrics/?limit={METRICS_SHOWN}")).await?;
    let events = show::items(&list.value);
    let here = format!("{}events/?{}", customer_path(&visit.id), kept.trim_start_matches('&'));
    let name = |id: &Value| {
        let metric = show::items(&metrics).iter().find(|metric| metric["metric_id"] == *id);
        show::plain(metric.map_or(id, |metric| &metric["metric_name"]))
    };
    let names = |value: &Value| show::items(value).iter().map(name).collect::<Vec<_>>().join(", ");
    let content = html! {
        nav.path { a href=(customer_path(&visit.id)) { (visit.id) } }
        h1 { (text::EVENTS) @if let Some(name) = visit.query.get("event_name") { " " code { (name) } } }
        @if events.is_empty() { p.empty { (text::NO_EVENTS) } } @else {
            div.scroll tabindex="0" { table {
                thead { tr {
                    th { (text::AT) } th { (text::EVENT) } th { (text::COUNTS_FOR) }
                    th { (text::PROPERTIES) } th { (text::IDEMPOTENCY_ID) }
                } }
                tbody {
                    @for event in events {
                        tr {
                            td { (show::instant(&event["time_created"])) }
                            td.long { code { (show::plain(&event["event_name"])) } }
                            td.long {
                                @let counts = names(&event["counts_for"]);
                                @let unusable = names(&event["unusable_for"]);
                                @if counts.is_empty() { span.quiet { (text::COUNTS_FOR_NOTHING) } } @else { (counts) }
                                @if !unusable.is_empty() { div.bad { (text::UNUSABLE_FOR) " " (unusable) } }
                            }
                            td.long { code { (event["properties"].to_string()) } }
                            td.long { code { (show::plain(&event["idempotency_id"])) } }
                        }
                    }
                }
            } }
        }
        (pager(here.trim_end_matches('?'), is_first(visit), list.next.as_deref()))
    };
    Ok(Outcome::Page(format!("{}: {}", text::EVENTS, visit.id), content))
}
