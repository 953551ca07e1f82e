//! The events of a customer, or those that a line of an invoice stands on.

use maud::{Markup, html};
use serde_json::Value;
use time::format_description::well_known::Rfc3339;

use super::live_events::{Watched, live};
use super::{customer_path, is_first, paged};
use crate::api::Failure;
use crate::form::{Field, Input};
use crate::layout::{failed_part, pager};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::zone::ViewerZone;
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
    let kept: Vec<(&str, &str)> = kept.collect();
    let query = |value: &dyn Fn(&str, &str) -> String| -> String {
        kept.iter().map(|(field, typed)| format!("&{field}={}", escaped(&value(field, typed)))).collect()
    };
    let asked = query(&|field, typed| as_asked(field, typed, &visit.viewer.zone));
    let kept = query(&|_, typed| typed.to_owned());
    let list = match visit.list(paged(&format!("/api/events/?customer_id={}{asked}", escaped(&visit.id)), visit)).await
    {
        Err(failure) if failure.status != 400 => return Err(failure),
        list => list,
    };
    let metrics = MetricNames::read(visit).await?;
    let here = format!("{}events/?{}", customer_path(&visit.id), kept.trim_start_matches('&'));
    let content = html! {
        nav.path { a.long href=(customer_path(&visit.id)) { (visit.id) } }
        h1 { (text::EVENTS) }
        @if visit.query.get("line").is_some() { p { (text::EVENTS_OF_LINE) } }
        @else if kept.is_empty() && is_first(visit) { (live(Watched::Customer(&visit.id))) }
        (filter(visit))
        @match &list {
            Err(failure) => (failed_part(failure)),
            Ok(list) => {
                @let events = show::items(&list.value);
                @if events.is_empty() { p.empty { (text::NO_EVENTS) } } @else { (table(visit, events, &metrics)) }
                (pager(here.trim_end_matches('?'), is_first(visit), list.next.as_deref()))
            }
        }
    };
    Ok(Outcome::Page(format!("{}: {}", text::EVENTS, visit.id), content))
}

/// What stands in a filter, as the call takes it: days are those of the viewer's clocks, which the call does not know.
fn as_asked(field: &str, typed: &str, zone: &ViewerZone) -> String {
    let begin = match field {
        "from" => zone.begin_of(typed, false),
        "to" => zone.begin_of(typed, true),
        _ => None,
    };
    begin.and_then(|begin| begin.format(&Rfc3339).ok()).unwrap_or_else(|| typed.to_owned())
}

fn filter(visit: &Visit<'_>) -> Markup {
    html! {
        form.narrow method="get" {
            @for name in BY_LINK {
                @if let Some(value) = visit.query.get(name) { input type="hidden" name=(name) value=(value); }
            }
            @for field in FILTERS { div { (field.render(visit.query.get(field.name).unwrap_or_default(), &visit.viewer.zone)) } }
            button type="submit" { (text::FILTER) }
        }
    }
}

fn table(visit: &Visit<'_>, events: &[Value], metrics: &MetricNames) -> Markup {
    let (customer, zone) = (&*visit.id, &visit.viewer.zone);
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::AT) } th { (text::EVENT) } th { (text::COUNTS_FOR) }
                th { (text::PROPERTIES) } th { (text::IDEMPOTENCY_ID) }
            } }
            tbody {
                @for event in events {
                    tr {
                        td { (show::instant(&event["time_created"], zone)) }
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
