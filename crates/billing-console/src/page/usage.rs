//! What a customer used of a metric, day by day, as a picture and as a table; month by month where it were more days than are measured.

use maud::{Markup, html};
use serde_json::Value;

use super::{chart, customer_path};
use crate::api::Failure;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// Where a customer's usage of a metric is shown.
pub(super) fn usage_path(customer: &str, metric: &str) -> String {
    format!("{}usage/?metric_id={}", customer_path(customer), escaped(metric))
}

/// `GET /console/customers/{customer_id}/usage/?metric_id=`: since the present subscriptions began, in the customer's time zone.
///
/// # Errors
/// When there is no such customer or metric; those of the calls.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let id = escaped(&visit.id);
    let customer = visit.get(format!("/api/customers/{id}/")).await?;
    let held = show::items(&customer["subscriptions"]);
    let begin = held.iter().filter_map(|one| one["start_date"].as_str()).min();
    let (Some(metric), Some(begin)) = (visit.query.get("metric_id"), begin) else {
        let content = html! {
            nav.path { a.long href=(customer_path(&visit.id)) { (show::name(&customer)) } }
            h1 { (text::USAGE_BY_DAY) }
            p.empty { (text::NO_USAGE) }
        };
        return Ok(Outcome::Page(text::USAGE_BY_DAY.to_owned(), content));
    };
    let about = format!("customer_id={id}&metric_id={}", escaped(metric));
    let by = |window: &str| visit.get(format!("/api/usage/?{about}&start={}&window={window}", escaped(begin)));
    let (usage, heading) = match by("day").await {
        // Perhaps too many days; whatever else is wrong is wrong by month, too.
        Err(failure) if failure.status == 400 => (by("month").await?, text::USAGE_BY_MONTH),
        usage => (usage?, text::USAGE_BY_DAY),
    };
    let access = visit.get(format!("/api/metric_access/?{about}")).await?;
    let days = show::items(&usage["windows"]);
    let title = show::plain(&usage["metric"]["metric_name"]);
    let content = html! {
        nav.path { a.long href=(customer_path(&visit.id)) { (show::name(&customer)) } }
        h1.long { (heading) ": " (title) }
        dl.facts {
            div { dt { (text::SINCE) } dd { (show::day(&usage["total"]["start"])) } }
            div { dt { (text::TIMEZONE) } dd { (show::plain(&usage["timezone"])) } }
            div { dt { (text::USED) } dd { (show::number(&usage["total"]["quantity"])) } }
            div { dt { (text::EVENTS) } dd { (show::number(&usage["total"]["event_count"])) } }
        }
        (limits(&access))
        @if days.is_empty() { p.empty { (text::NO_EVENTS) } } @else {
            (picture(days, &format!("{heading}: {title}")))
            (table(days))
        }
    };
    Ok(Outcome::Page(format!("{heading}: {title}"), content))
}

/// What is used of the limit of each subscription that has one.
fn limits(access: &Value) -> Markup {
    let of = |one: &&Value| !one["metric_total_limit"].is_null() && one["has_metric"] != false;
    html! {
        @for one in show::items(&access["access_per_subscription"]).iter().filter(of) {
            @let (used, limit) = (&one["metric_usage"], &one["metric_total_limit"]);
            p.limit {
                span { (show::plain(&one["subscription"]["plan"]["plan_name"])) ": " (show::number(used)) " " (text::OF) " " (show::number(limit)) }
                meter min="0" max=(show::plain(limit)) value=(show::plain(used)) aria-label=(text::LIMIT) {}
            }
        }
    }
}

/// A bar for each day.
fn picture(days: &[Value], title: &str) -> Markup {
    // The years are in the table.
    let name = |day: &Value| show::plain(&day["start"]).get(5..10).unwrap_or_default().to_owned();
    let bars: Vec<_> = days.iter().map(|day| (name(day), &day["quantity"])).collect();
    html! { figure.chart { (chart::bars(&bars, title)) } }
}

/// Days with what was used on each, the last first.
pub(super) fn table(days: &[Value]) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { (text::SINCE) } th.right { (text::QUANTITY) } th.right { (text::EVENTS) } } }
            tbody { @for day in days.iter().rev() { tr {
                td { (show::day(&day["start"])) }
                td.right { (show::number(&day["quantity"])) }
                td.right { (show::number(&day["event_count"])) }
            } } }
        } }
    }
}
