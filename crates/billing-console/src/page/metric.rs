//! A metric: in words what it measures, and the events that count for it as they come in.

use maud::{Markup, html};
use serde_json::Value;

use super::live_events::{Watched, live};
use crate::api::Failure;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// `GET /console/metrics/{metric_id}/`
///
/// # Errors
/// When there is no such metric.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let metric = visit.get(format!("/api/metrics/{}/", escaped(&visit.id))).await?;
    let name = show::plain(&metric["metric_name"]);
    let query = metric["custom_sql"].as_str();
    let content = html! {
        nav.path { a href="/console/metrics/" { (text::METRICS) } }
        h1.long { (name) }
        section {
            h2 { (text::WHAT_IT_MEASURES) }
            (in_words(&metric))
            @if let Some(query) = query { pre tabindex="0" { (query) } }
            dl.facts { div { dt { (text::ID) } dd.long { code { (show::plain(&metric["metric_id"])) } } } }
        }
        @match query {
            Some(_) => { section { h2 { (text::LIVE) } p.empty { (text::NO_TAIL_OF_QUERY) } } }
            None => { (live(Watched::Metric(&visit.id))) }
        }
    };
    Ok(Outcome::Page(name, content))
}

/// What a metric measures, in sentences.
pub(super) fn in_words(metric: &Value) -> Markup {
    let kind = metric["metric_type"].as_str().unwrap_or_default();
    let filters =
        [filters(metric, "numeric_filters", number_filter), filters(metric, "categorical_filters", text_filter)];
    html! {
        p.long { @match kind {
            "gauge" => (gauge(metric)),
            "rate" => (rate(metric)),
            "custom" => (text::IS_A_QUERY),
            _ => { (aggregated(metric)) "." }
        } }
        @if filters.iter().any(|filters| !filters.is_empty()) {
            p { (text::COUNTED_ONLY_IF) }
            ul { @for filter in filters.iter().flatten() { li.long { (filter) } } }
        }
        @if metric["is_cost_metric"] == true { p { (text::IS_OWN_COST) } }
    }
}

/// What is made of the events of the name.
fn aggregated(metric: &Value) -> Markup {
    let (event, property) = (named(&metric["event_name"]), named(&metric["property_name"]));
    let of_property = |before: &'static str| html! { (before) " " (property) " " (text::OF_EVENTS_NAMED) " " (event) };
    match metric["aggregation_type"].as_str().unwrap_or_default() {
        "count" => html! { (text::COUNTS_EVENTS) " " (event) },
        "sum" => of_property(text::ADDS_UP),
        "max" => of_property(text::TAKES_GREATEST),
        "min" => of_property(text::TAKES_LEAST),
        "unique" => of_property(text::COUNTS_DIFFERENT),
        "average" => of_property(text::TAKES_AVERAGE),
        "latest" => of_property(text::TAKES_LATEST),
        // A kind that has no words here is told by its name.
        other => html! { (other) " " (property) " " (text::OF_EVENTS_NAMED) " " (event) },
    }
}

fn gauge(metric: &Value) -> Markup {
    let (event, property) = (named(&metric["event_name"]), named(&metric["property_name"]));
    let is_delta = metric["event_type"] == "delta";
    let (granularity, proration) = (show::plain(&metric["granularity"]), show::plain(&metric["proration"]));
    html! {
        (text::FOLLOWS_A_LEVEL) " " (property) " " (text::OF_EVENTS_NAMED) " " (event) " "
        (if is_delta { text::IS_A_MOVE } else { text::IS_A_LEVEL }) " "
        (text::ONE_UNIT_IS_FOR) " " (span_of(&granularity)) "; "
        @if proration == "total" { (text::ITS_PEAK_COUNTS) } @else { (text::IS_WEIGHED_BY) " " (proration) "." }
    }
}

fn rate(metric: &Value) -> Markup {
    let granularity = show::plain(&metric["granularity"]);
    html! { (aggregated(metric)) ", " (text::IN_A_WINDOW_OF) " " (span_of(&granularity)) "; " (text::GREATEST_WINDOW_COUNTS) }
}

/// A span of time as the interface names it, in words.
fn span_of(granularity: &str) -> String {
    match granularity {
        "total" => text::PLAN_DURATION.to_owned(),
        "hours" => text::AN_HOUR.to_owned(),
        many => format!("{} {}", text::ONE, many.trim_end_matches('s')),
    }
}

fn filters(metric: &Value, field: &str, in_words: fn(&Value) -> Markup) -> Vec<Markup> {
    show::items(&metric[field]).iter().map(in_words).collect()
}

fn number_filter(filter: &Value) -> Markup {
    let operator = match filter["operator"].as_str().unwrap_or_default() {
        "gte" => text::IS_AT_LEAST,
        "gt" => text::IS_MORE_THAN,
        "lt" => text::IS_LESS_THAN,
        "lte" => text::IS_AT_MOST,
        _ => text::IS_EQUAL_TO,
    };
    html! { (named(&filter["property_name"])) " " (operator) " " (show::number(&filter["comparison_value"])) }
}

fn text_filter(filter: &Value) -> Markup {
    let operator = if filter["operator"] == "isnotin" { text::IS_NONE_OF } else { text::IS_ONE_OF };
    let texts = show::items(&filter["comparison_value"]);
    html! {
        (named(&filter["property_name"])) " " (operator) " "
        @for (place, text) in texts.iter().enumerate() { @if place > 0 { ", " } (named(text)) }
    }
}

/// A name as its sender gave it.
fn named(name: &Value) -> Markup {
    html! { code { (show::plain(name)) } }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_is_told_in_words() {
        #[rustfmt::skip]
        let cases = [
            // metric, in words
            (json!({"metric_type": "counter", "aggregation_type": "count", "event_name": "call"}),
                "Counts the events named call."),
            (json!({"metric_type": "counter", "aggregation_type": "sum", "event_name": "call", "property_name": "bytes"}),
                "Adds up bytes of the events named call."),
            (json!({"metric_type": "counter", "aggregation_type": "unique", "event_name": "call", "property_name": "user"}),
                "Counts the different values of user of the events named call."),
            (json!({"metric_type": "counter", "aggregation_type": "min", "event_name": "call", "property_name": "n"}),
                "Takes the least n of the events named call."),
            (json!({"metric_type": "counter", "aggregation_type": "average", "event_name": "call", "property_name": "n"}),
                "Takes the average n of the events named call."),
            (json!({"metric_type": "counter", "aggregation_type": "latest", "event_name": "call", "property_name": "n"}),
                "Takes the latest n of the events named call."),
            (json!({"metric_type": "gauge", "aggregation_type": "max", "event_name": "seats", "property_name": "n", "event_type": "delta",
                "granularity": "months", "proration": "days"}),
                "Follows a level: n of the events named seats says by how much it moves. One unit is for one month; the level is weighed by days."),
            (json!({"metric_type": "gauge", "aggregation_type": "max", "event_name": "seats", "property_name": "n", "event_type": "total",
                "granularity": "total", "proration": "total"}),
                "Follows a level: n of the events named seats says what it is. One unit is for the plan's duration; the highest level counts."),
            (json!({"metric_type": "rate", "aggregation_type": "max", "event_name": "call", "property_name": "n", "granularity": "hours"}),
                "Takes the greatest n of the events named call, in a window of an hour; the window with the most counts."),
            (json!({"metric_type": "counter", "aggregation_type": "count", "event_name": "<b>", "numeric_filters":
                [{"property_name": "n", "operator": "gte", "comparison_value": 1000}], "categorical_filters":
                [{"property_name": "region", "operator": "isnotin", "comparison_value": ["eu", "<i>"]}]}),
                "Counts the events named &lt;b&gt;.An event counts only if:n is at least 1,000region is none of eu, &lt;i&gt;"),
            (json!({"metric_type": "custom", "aggregation_type": "count", "event_name": "", "custom_sql": "SELECT"}),
                "Asks this query of the events of all names:"),
        ];
        for (metric, words) in cases {
            let shown = in_words(&metric).into_string();
            // Without its tags: what is a name is escaped, and stays.
            let parts = shown.split('<').map(|part| part.split_once('>').map_or(part, |(_, rest)| rest));
            assert_eq!(parts.collect::<String>(), words, "{metric}");
        }
    }
}
