//! A version of a plan: its fees, and what usage costs, drawn.

use maud::{Markup, html};
use serde_json::Value;

use super::holders::holders_path;
use super::plan::{dates, fees, plan_path, prices, read};
use super::price_curve::{self, PriceCurve};
use crate::api::Failure;
use crate::layout::failed_part;
use crate::route::Outcome;
use crate::visit::Visit;
use crate::{show, text};

/// `GET /console/plans/{plan_id}/version/?version=`: without a version the newest.
///
/// # Errors
/// When there is no such plan or version.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let plan = read(visit).await?;
    let versions = show::items(&plan["versions"]);
    let version = match visit.query.get("version") {
        Some(id) => Some(find(versions, id)?),
        None => versions.last(),
    };
    let name = show::plain(&plan["plan_name"]);
    let title = version.map_or_else(|| name.clone(), |version| format!("{name}: {}", called(version)));
    let content = html! {
        nav.path { a.long href=(plan_path(&plan)) { (name) } }
        h1.long { (title) }
        @match version {
            None => { p.empty { (text::NO_VERSIONS) } }
            Some(version) => { (shown(&plan, version)) }
        }
    };
    Ok(Outcome::Page(title, content))
}

/// The version with this id.
///
/// # Errors
/// When there is none.
pub(super) fn find<'v>(versions: &'v [Value], id: &str) -> Result<&'v Value, Failure> {
    versions.iter().find(|version| version["version_id"] == id).ok_or_else(Failure::not_found)
}

/// How a version is called.
pub(super) fn called(version: &Value) -> String {
    format!("{} {}", text::VERSION_OF_PLAN, show::plain(&version["version"]))
}

fn shown(plan: &Value, version: &Value) -> Markup {
    let components = show::items(&version["components"]);
    let currency = &version["currency"];
    html! {
        dl.facts {
            div { dt { (text::STATUS) } dd { (show::badge(version["status"].as_str().unwrap_or_default())) } }
            div { dt { (text::CURRENCY) } dd { (show::code(currency)) } }
            div { dt { (text::SUBSCRIBABLE) } dd { (dates(version)) } }
            div { dt { (text::ACTIVE_SUBSCRIPTIONS) } dd {
                a href=(holders_path(plan, version)) { (show::number(&version["active_subscriptions"])) }
            } }
        }
        (fees(version))
        @if components.is_empty() { p.empty { (text::NO_COMPONENTS) } } @else { p.quiet { (text::CURVE_EXPLAINED) } }
        @for component in components {
            @let metric = show::plain(&component["billable_metric"]["metric_name"]);
            section {
                h2.long { (metric) }
                (prices(component, currency))
                @match PriceCurve::of(called(version), component) {
                    Err(failure) => { (failed_part(&failure)) }
                    Ok(curve) => {
                        (price_curve::picture(&[&curve], currency, &format!("{}: {metric}", text::PRICE_CURVES)))
                        (price_curve::table(&[&curve], currency))
                    }
                }
            }
        }
    }
}
