//! The events of a customer, or those that a line of an invoice stands on.

use maud::{Markup, html};
use serde_json::Value;

use super::{customer_path, is_first, paged};
use crate::api::Failure;
use crate::form::{Field, Input};
use crate::layout::{failed_part, pager};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// Most metrics that are called by their names.
const METRICS_SHOWN: u32 = 1_000;
/// What the list is kept to, as the call names it.
const FILTERS: [Field; 5] = [
    Field::new("event_name", text::EVENT, Input::Text(200)),
    Field::new("idempotency_id", text::IDEMPOTENCY_ID, Input::Text(300)),
    Field::new(
        "state",
        text::STATUS,
        Input::Choice(&[
            ("", text::ALL),
            ("counted", text::EVENT_COUNTED),
            ("amended", text::EVENT_AMENDED),
            ("voided", text::EVENT_VOIDED),
        ]),
    ),
    Field::new("from", text::FROM, Input::Day),
    Field::new("to", text::UNTIL, Input::Day),
];
/// The line of an invoice whose events are shown, and the metric; both come with a link.
const BY_LINK: [&str; 2] = ["line", "metric_id"];

/// What metrics are called.
pub(super) struct MetricNames(Value);

impl MetricNames {
    /// Reads them.
    ///
    /// # Errors
    /// Those of the call.
    pub(super) async fn read(visit: &Visit<'_>) -> Result<Self, Failure> {
        Ok(Self(visit.get(format!("/api/metrics/?limit={METRICS_SHOWN}")).await?))
    }

    /// That of a metric; its id where it is not among them.
    pub(super) fn of(&self, id: &Value) -> String {
        let metric = show::items(&self.0).iter().find(|metric| metric["metric_id"] == *id);
        show::plain(metric.map_or(id, |metric| &metric["metric_name"]))
    }

    fn all(&self, ids: &Value) -> String {
        show::items(ids).iter().map(|id| self.of(id)).collect::<Vec<_>>().join(", ")
    }
}

/// Where it is shown what became of an event. An id may be used again after a while: the time says which one is meant.
pub(super) fn receipt_path(customer: &str, event: &Value) -> String {
    let [id, at] = ["idempotency_id", "time_created"].map(|field| escaped(&show::plain(&event[field])));
    format!("{}event/?idempotency_id={id}&time_created={at}", customer_path(customer))
}

/// `GET /console/customers/{customer_id}/events/`
///
/// # Errors
/// Those of the list; what is wrong with a filter is said beside it.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let names = FILTERS.iter().map(|field| field.name).chain(BY_LINK);
    let kept = names.filter_map(|field| Some((field, visit.query.get(field)?)));
    let kept: String = kept.map(|(field, value)| format!("&{field}={}", escaped(value))).collect();
    let list = match visit.list(paged(&format!("/api/events/?customer_id={}{kept}", escaped(&visit.id)), visit)).await {
        Err(failure) if failure.status != 400 => return Err(failure),
        list => list,
    };
    let metrics = MetricNames::read(visit).await?;
    let here = format!("{}events/?{}", customer_path(&visit.id), kept.trim_start_matches('&'));
    let content = html! {
        nav.path { a.long href=(customer_path(&visit.id)) { (visit.id) } }
        h1 { (text::EVENTS) }
        @if visit.query.get("line").is_some() { p { (text::EVENTS_OF_LINE) } }
        (filter(visit))
        @match &list {
            Err(failure) => (failed_part(failure)),
            Ok(list) => {
                @let events = show::items(&list.value);
                @if events.is_empty() { p.empty { (text::NO_EVENTS) } } @else { (table(&visit.id, events, &metrics)) }
                (pager(here.trim_end_matches('?'), is_first(visit), list.next.as_deref()))
            }
        }
    };
    Ok(Outcome::Page(format!("{}: {}", text::EVENTS, visit.id), content))
}

fn filter(visit: &Visit<'_>) -> Markup {
    html! {
        form.narrow method="get" {
            @for name in BY_LINK {
                @if let Some(value) = visit.query.get(name) { input type="hidden" name=(name) value=(value); }
            }
            @for field in FILTERS { div { (field.render(visit.query.get(field.name).unwrap_or_default())) } }
            button type="submit" { (text::FILTER) }
        }
    }
}

fn table(customer: &str, events: &[Value], metrics: &MetricNames) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::AT) } th { (text::EVENT) } th { (text::COUNTS_FOR) }
                th { (text::PROPERTIES) } th { (text::IDEMPOTENCY_ID) }
            } }
            tbody {
                @for event in events {
                    tr {
                        td { (show::instant(&event["time_created"])) }
                        td.long {
                            code { (show::plain(&event["event_name"])) }
                            @if event["state"] != "counted" { " " (show::badge(event["state"].as_str().unwrap_or_default())) }
                        }
                        td.long {
                            @let counts = metrics.all(&event["counts_for"]);
                            @let unusable = metrics.all(&event["unusable_for"]);
                            @if counts.is_empty() { span.quiet { (text::COUNTS_FOR_NOTHING) } } @else { (counts) }
                            @if !unusable.is_empty() { div.bad { (text::UNUSABLE_FOR) " " (unusable) } }
                        }
                        td.long { code { (event["properties"].to_string()) } }
                        td.long { a href=(receipt_path(customer, event)) { code { (show::plain(&event["idempotency_id"])) } } }
                    }
                }
            }
        } }
    }
}
