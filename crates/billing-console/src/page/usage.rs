//! What a customer used of a metric, day by day, as a picture and as a table; month by month where it were more days than are measured.

use maud::{Markup, html};
use serde_json::Value;

use super::customer_path;
use crate::api::Failure;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// Size of the picture, in its own units.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 220.0;
/// Of a few days.
const BAR_WIDTH_MAX: f64 = 48.0;

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
            (chart(days, &format!("{heading}: {title}")))
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

/// A number to draw by. Figures are shown from their digits, never from this.
fn drawn(quantity: &Value) -> f64 {
    show::plain(quantity).parse::<f64>().ok().filter(|drawn| drawn.is_finite() && *drawn > 0.0).unwrap_or(0.0)
}

/// A bar for each day, the highest as high as the picture. The table beneath has the figures.
fn chart(days: &[Value], title: &str) -> Markup {
    let highest = days.iter().map(|day| drawn(&day["quantity"])).fold(0.0, f64::max);
    let count = u32::try_from(days.len()).map_or(f64::INFINITY, f64::from);
    let step = WIDTH / count;
    let bars = days.iter().zip(0_u32..).map(|(day, place)| {
        let height = if highest > 0.0 { HEIGHT * drawn(&day["quantity"]) / highest } else { 0.0 };
        let x = step * f64::from(place);
        (
            format!("{x:.2}"),
            format!("{:.2}", HEIGHT - height),
            format!("{:.2}", (step * 0.8).clamp(0.5, BAR_WIDTH_MAX)),
            format!("{height:.2}"),
            day,
        )
    });
    html! {
        figure.chart {
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(title) {
                @for (x, y, width, height, day) in bars {
                    rect x=(x) y=(y) width=(width) height=(height) {
                        title { (show::plain(&day["start"]).get(..10).unwrap_or_default()) ": " (show::number(&day["quantity"])) }
                    }
                }
            }
            figcaption {
                span { (show::day(&days[0]["start"])) }
                @if days.len() > 1 { span { (show::day(&days[days.len() - 1]["start"])) } }
            }
        }
    }
}

fn table(days: &[Value]) -> Markup {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bars_are_as_high_as_their_days() {
        let day = |day: u32, quantity: &str| {
            let quantity: Value = serde_json::from_str(quantity).expect("a number");
            json!({"start": format!("2026-01-0{day}T00:00:00+01:00"), "quantity": quantity, "event_count": 1})
        };
        let days = [day(1, "0"), day(2, "50.5"), day(3, "101"), day(4, "-1")];
        let drawn = chart(&days, "Calls <b>").into_string();
        let heights: Vec<&str> =
            drawn.split(" height=\"").skip(1).map(|bar| bar.split('"').next().expect("an end")).collect();
        assert_eq!(heights, ["0.00", "110.00", "220.00", "0.00"], "{drawn}");
        assert!(drawn.contains("2026-01-02: 50.5") && drawn.contains("Calls &lt;b&gt;"), "{drawn}");
        assert!(!drawn.contains("NaN"), "{drawn}");
        let nothing = chart(&[day(1, "0")], "").into_string();
        assert!(
            nothing.contains("height=\"0.00\"") && !nothing.contains("NaN") && !nothing.contains("inf"),
            "{nothing}"
        );
    }
}
