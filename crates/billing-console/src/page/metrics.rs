//! The list of metrics: what each counts.

use maud::html;
use serde_json::Value;

use super::{is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::{Visit, escaped};
use crate::{show, text};

const TRY: &str = "/console/metrics/try/";

/// `GET /console/metrics/`
///
/// # Errors
/// Those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let list = visit.list(paged("/api/metrics/", visit)).await?;
    let metrics = show::items(&list.value);
    let content = html! {
        h1 { (text::METRICS) }
        @if is_open_to(visit.viewer.role, Method::Get, TRY) { p.links { a.button.quiet href=(TRY) { (text::TRY_A_QUERY) } } }
        @if metrics.is_empty() { p.empty { (text::NO_METRICS) } } @else { div.scroll tabindex="0" { table {
            thead { tr { th { (text::NAME) } th { (text::EVENT) } th { (text::METRIC_KIND) } th { (text::AGGREGATION) } } }
            tbody { @for metric in metrics { tr {
                td.long { a href={ "/console/metrics/" (escaped(&show::plain(&metric["metric_id"]))) "/" } { (show::plain(&metric["metric_name"])) } }
                td.long { code { (show::plain(&metric["event_name"])) } }
                td { (show::plain(&metric["metric_type"])) }
                td.long { (aggregation(metric)) }
            } } }
        } } }
        (pager("/console/metrics/", is_first(visit), list.next.as_deref()))
    };
    Ok(Outcome::Page(text::METRICS.to_owned(), content))
}

fn aggregation(metric: &Value) -> String {
    let verb = show::plain(&metric["usage_aggregation_type"]);
    match metric["property_name"].as_str() {
        Some(property) => format!("{verb} {} {property}", text::OF),
        None => verb,
    }
}
