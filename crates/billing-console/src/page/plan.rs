//! A plan: each version with its fees and its prices of usage.

use maud::{Markup, html};
use serde_json::Value;

use super::holders::holders_path;
use crate::api::Failure;
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::{Visit, escaped};
use crate::{show, text};

const NEW_VERSION: &str = "/console/plans/{plan_id}/new_version/";

/// `GET /console/plans/{plan_id}/`
///
/// # Errors
/// When there is no such plan.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let plan = read(visit).await?;
    let title = show::plain(&plan["plan_name"]);
    let versions = show::items(&plan["versions"]);
    let content = html! {
        nav.path { a href="/console/plans/" { (text::PLANS) } }
        h1.long { (title) }
        dl.facts {
            div { dt { (text::ID) } dd.long { code { (show::plain(&plan["plan_id"])) } } }
            div { dt { (text::DURATION) } dd { (show::or_none(&plan["plan_duration"])) } }
            div { dt { (text::ACTIVE_SUBSCRIPTIONS) } dd { (show::number(&plan["active_subscriptions"])) } }
        }
        @if let Some(words) = plan["plan_description"].as_str() { p.long { (words) } }
        p.links {
            @if is_open_to(visit.viewer.role, Method::Get, NEW_VERSION) {
                a.button href={ (plan_path(&plan)) "new_version/" } { (text::NEW_VERSION) }
            }
            @if versions.len() > 1 { a href={ (plan_path(&plan)) "compare/" } { (text::COMPARE_VERSIONS) } }
        }
        @for version in versions { (shown(&plan, version)) }
    };
    Ok(Outcome::Page(title, content))
}

/// The plan that the path names.
///
/// # Errors
/// When there is none.
pub(super) async fn read(visit: &Visit<'_>) -> Result<Value, Failure> {
    visit.get(format!("/api/plans/{}/", escaped(&visit.id))).await
}

/// Where a plan is shown.
pub(super) fn plan_path(plan: &Value) -> String {
    format!("/console/plans/{}/", escaped(&show::plain(&plan["plan_id"])))
}

fn shown(plan: &Value, version: &Value) -> Markup {
    let features = show::items(&version["features"]);
    let id = escaped(&show::plain(&version["version_id"]));
    html! {
        section {
            h2 {
                (text::VERSION) " " (show::plain(&version["version"])) " "
                (show::badge(version["status"].as_str().unwrap_or_default()))
            }
            p.quiet { (show::code(&version["currency"])) " \u{b7} " (dates(version)) " \u{b7} " (holders(plan, version)) }
            (fees(version))
            @for component in show::items(&version["components"]) {
                h3.long { (show::plain(&component["billable_metric"]["metric_name"])) }
                (prices(component, &version["currency"]))
            }
            @if !features.is_empty() {
                p { (text::FEATURES) ": "
                    @for feature in features { span.item { (show::plain(&feature["feature_name"])) } }
                }
            }
            p { a href={ (plan_path(plan)) "version/?version=" (id) } {
                (text::PRICE_CURVES) " " (text::OF_VERSION) " " (show::plain(&version["version"]))
            } }
        }
    }
}

/// From when on and until when a version can be subscribed to.
pub(super) fn dates(version: &Value) -> Markup {
    html! {
        @if version["active_from"].is_null() { (text::NOT_PUBLISHED) } @else {
            (text::SINCE) " " (show::day(&version["active_from"]))
        }
        @if !version["active_to"].is_null() { ", " (text::OFFERED_UNTIL) " " (show::day(&version["active_to"])) }
    }
}

/// How many hold a version now, and the way to who they are.
fn holders(plan: &Value, version: &Value) -> Markup {
    html! { a href=(holders_path(plan, version)) { (how_many_hold(version)) } }
}

/// How many running subscriptions a version has, in words.
pub(super) fn how_many_hold(version: &Value) -> String {
    let number = show::number(&version["active_subscriptions"]);
    format!("{number} {}", if number == "1" { text::HOLDS_IT } else { text::HOLD_IT })
}

/// What a version charges by time.
pub(super) fn fees(version: &Value) -> Markup {
    let fees = show::items(&version["recurring_charges"]);
    html! {
        @if !fees.is_empty() { div.scroll tabindex="0" { table {
            thead { tr { th { (text::RECURRING_CHARGES) } th { (text::TIMING) } th.right { (text::AMOUNT) } } }
            tbody { @for fee in fees { tr {
                td.long { (show::plain(&fee["name"])) }
                td { (show::plain(&fee["charge_timing"]).replace('_', " ")) }
                td.right { (show::amount(&fee["amount"], &version["currency"])) }
            } } }
        } } }
    }
}

/// The tiers of a component.
pub(super) fn prices(component: &Value, currency: &Value) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { (text::FROM_TO) } th { (text::KIND) } th.right { (text::PRICE) } th.right { (text::PER) } } }
            tbody { @for tier in show::items(&component["tiers"]) { tr {
                td { (range(tier)) }
                td { (show::plain(&tier["type"]).replace('_', " ")) }
                td.right { @if tier["cost_per_batch"].is_null() { (text::FREE) } @else {
                    (show::amount(&tier["cost_per_batch"], currency))
                } }
                td.right { (show::number(&tier["metric_units_per_batch"])) }
            } } }
        } }
    }
}

/// From where to where a tier goes.
pub(super) fn range(tier: &Value) -> Markup {
    html! {
        (show::number(&tier["range_start"])) " "
        @if tier["range_end"].is_null() { (text::ABOVE) } @else { "\u{2013} " (show::number(&tier["range_end"])) }
    }
}
