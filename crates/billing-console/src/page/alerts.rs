//! The list of usage alerts: what is watched, and for whom.

use maud::{Markup, html};
use serde_json::Value;

use super::{customer_path, is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::{Visit, escaped};
use crate::{show, text};

const NEW: &str = "/console/alerts/new/";
pub(super) const DELETE: &str = "/console/alerts/{usage_alert_id}/delete/";

/// `GET /console/alerts/`
///
/// # Errors
/// Those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let list = visit.list(paged("/api/usage_alerts/", visit)).await?;
    let may = |path| is_open_to(visit.viewer.role, Method::Get, path);
    let alerts = show::items(&list.value);
    let content = html! {
        h1 { (text::ALERTS) }
        p.quiet { (text::ALERTS_HINT) }
        p.links { @if may(NEW) { a.button href=(NEW) { (text::NEW_ALERT) } } }
        @if alerts.is_empty() { p.empty { (text::NO_ALERTS) } } @else { (table(alerts, may(DELETE))) }
        (pager("/console/alerts/", is_first(visit), list.next.as_deref()))
    };
    Ok(Outcome::Page(text::ALERTS.to_owned(), content))
}

/// Alerts in a table, with a way to delete each.
pub(super) fn table(alerts: &[Value], may_delete: bool) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::WATCHED) } th { (text::THRESHOLD) } th { (text::FOR_WHOM) } th { (text::SINCE) }
                @if may_delete { th { span.hidden { (text::DELETE) } } }
            } }
            tbody { @for alert in alerts { tr {
                td.long { (watched(alert)) }
                td { (threshold(alert)) }
                td.long { (whom(alert)) }
                td { (show::day(&alert["created_on"])) }
                @if may_delete {
                    @let id = escaped(&show::plain(&alert["usage_alert_id"]));
                    td.right { a href={ "/console/alerts/" (id) "/delete/" } { (text::DELETE) } }
                }
            } } }
        } }
    }
}

/// Of all alerts those that are about a customer: by its id, as one of the holders of a plan version, or as everybody.
pub(super) fn about(alerts: &Value, customer: &str, versions: &[&Value]) -> Vec<Value> {
    let is_about = |alert: &&Value| match (alert["customer_id"].as_str(), &alert["plan_version_id"]) {
        (Some(id), _) => id == customer,
        (None, version) => version.is_null() || versions.contains(&version),
    };
    show::items(alerts).iter().filter(is_about).cloned().collect()
}

/// What an alert looks at.
pub(super) fn watched(alert: &Value) -> Markup {
    let kind = match alert["kind"].as_str().unwrap_or_default() {
        "metric_usage" => text::WATCHED_USAGE,
        "spend" => text::WATCHED_SPEND,
        "credit_balance" => text::WATCHED_CREDIT,
        _ => text::WATCHED_UNITS,
    };
    html! { (kind) @if let Some(metric) = alert["metric_id"].as_str() { div.quiet { code { (metric) } } } }
}

/// From where on it fires.
pub(super) fn threshold(alert: &Value) -> Markup {
    let number = show::number(&alert["threshold"]);
    html! {
        @match alert["unit"].as_str().unwrap_or_default() {
            "percent_of_limit" => { (number) " % " (text::OF_LIMIT) }
            "percent_of_free" => { (number) " % " (text::OF_FREE) }
            _ => @if alert["currency_code"].is_null() { (number) }
                @else { (show::amount(&alert["threshold"], &alert["currency_code"])) }
        }
    }
}

fn whom(alert: &Value) -> Markup {
    html! {
        @if let Some(customer) = alert["customer_id"].as_str() { a href=(customer_path(customer)) { (customer) } }
        @else if let Some(version) = alert["plan_version_id"].as_str() { (text::HOLDERS_OF) " " code { (version) } }
        @else { (text::EVERY_CUSTOMER) }
    }
}
