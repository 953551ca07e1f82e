//! The receipt of an event: what it says, what it counts for, where it was billed and what was corrected of it.

use maud::{Markup, html};
use serde_json::Value;

use super::customer_path;
use super::events::MetricNames;
use crate::api::Failure;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::zone::ViewerZone;
use crate::{show, text};

/// `GET /console/customers/{customer_id}/event/?idempotency_id=&time_created=`
///
/// # Errors
/// When the customer has no such event.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let events = format!("{}events/", customer_path(&visit.id));
    let Some(id) = visit.query.get("idempotency_id") else {
        let content =
            html! { h1 { (text::EVENT) } p.empty { (text::NO_EVENT_NAMED) } p { a href=(events) { (text::EVENTS) } } };
        return Ok(Outcome::Page(text::EVENT.to_owned(), content));
    };
    let at = visit.query.get("time_created").map(|at| format!("&time_created={}", escaped(at))).unwrap_or_default();
    let event = visit.get(format!("/api/events/{}/?customer_id={}{at}", escaped(id), escaped(&visit.id))).await?;
    let metrics = MetricNames::read(visit).await?;
    let content = html! {
        nav.path { a.long href=(customer_path(&visit.id)) { (visit.id) } " \u{b7} " a href=(events) { (text::EVENTS) } }
        h1.long { (text::EVENT) " " code { (id) } " " (show::badge(event["state"].as_str().unwrap_or_default())) }
        dl.facts {
            div { dt { (text::KIND) } dd.long { code { (show::plain(&event["event_name"])) } } }
            div { dt { (text::AT) } dd { (show::instant(&event["time_created"], &visit.viewer.zone)) } }
            div { dt { (text::RECEIVED) } dd { (show::instant(&event["received_at"], &visit.viewer.zone)) } }
            @for other in show::items(&event["others"]) {
                div { dt { (text::SAME_ID) } dd {
                    a href={ (customer_path(&visit.id)) "event/?idempotency_id=" (escaped(id)) "&time_created=" (escaped(&show::plain(other))) } {
                        (show::instant(other, &visit.viewer.zone))
                    }
                } }
            }
        }
        pre tabindex="0" { (pretty(&event["properties"])) }
        section { h2 { (text::COUNTS_FOR) } (counts(&event, &metrics)) }
        section { h2 { (text::BILLED_ON) } (billed(show::items(&event["billed_on"]), text::NOT_BILLED, &metrics)) }
        @if !show::items(&event["taken_back_on"]).is_empty() {
            section { h2 { (text::TAKEN_BACK_ON) } (billed(show::items(&event["taken_back_on"]), "", &metrics)) }
        }
        @if !show::items(&event["corrections"]).is_empty() {
            section { h2 { (text::CORRECTIONS) } (corrections(show::items(&event["corrections"]), &visit.viewer.zone)) }
        }
    };
    Ok(Outcome::Page(format!("{} {id}", text::EVENT), content))
}

fn pretty(properties: &Value) -> String {
    serde_json::to_string_pretty(properties).unwrap_or_default()
}

fn counts(event: &Value, metrics: &MetricNames) -> Markup {
    let counted = show::items(&event["counts_for"]);
    html! {
        @if counted.is_empty() {
            p.empty { (text::COUNTS_FOR_NOTHING)
                @if let Some(why) = event["counts_for_nothing"].as_str() { ": " (why.replace('_', " ")) } }
        } @else { ul.plain {
            @for one in counted { li {
                (metrics.of(&one["metric_id"])) " "
                span.quiet { @if show::items(&one["subscription_ids"]).is_empty() { (text::MEASURED_ONLY) } @else { (text::BILLED_BY_SUBSCRIPTION) } }
            } }
        } }
    }
}

fn billed(lines: &[Value], nothing: &str, metrics: &MetricNames) -> Markup {
    html! {
        @if lines.is_empty() { p.empty { (nothing) } } @else { div.scroll tabindex="0" { table {
            thead { tr { th { (text::INVOICE) } th { (text::ISSUED) } th { (text::LINE) } th { (text::METRIC) } th.right { (text::LINE_AMOUNT) } } }
            tbody { @for line in lines { tr {
                td.number {
                    a href={ "/console/invoices/" (escaped(&show::plain(&line["invoice_id"]))) "/" } { (show::plain(&line["invoice_number"])) }
                    @if line["voided"] == true { " " (show::badge("voided")) }
                }
                td { (show::day(&line["issue_date"])) }
                td.long { (show::plain(&line["name"])) }
                td.long { (metrics.of(&line["metric_id"])) }
                td.right { (show::number(&line["amount"])) }
            } } }
        } } }
    }
}

fn corrections(corrections: &[Value], zone: &ViewerZone) -> Markup {
    let facts = |facts: &Value| {
        html! {
            @if facts.is_null() { span.quiet { (text::NONE) } } @else {
                (show::instant(&facts["time_created"], zone)) " " code { (facts["properties"].to_string()) }
            }
        }
    };
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { (text::AT) } th { (text::STATUS) } th { (text::WHO) } th { (text::REASON) } th { (text::BEFORE) } th { (text::AFTER) } } }
            tbody { @for one in corrections { tr {
                td { (show::instant(&one["corrected_at"], zone)) }
                td { (show::badge(one["state"].as_str().unwrap_or_default())) }
                td.long { (show::or_none(&one["by"])) }
                td.long { (show::or_none(&one["reason"])) }
                td.long { (facts(&one["before"])) }
                td.long { (facts(&one["after"])) }
            } } }
        } }
    }
}
