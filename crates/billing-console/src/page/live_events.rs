//! Events as they come in: the part of a page that a script fills while the page is open, and what it is filled with.

use maud::{Markup, html};
use serde_json::Value;

use super::customer_path;
use super::events::receipt_path;
use super::recent_events::recent_events;
use crate::api::Failure;
use crate::layout::failed_part;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::zone::ViewerZone;
use crate::{show, text};

/// Where the stream of what comes in is.
const STREAM: &str = "/console/events/stream/";
/// Characters that are shown of an event's properties; its receipt shows all.
const CHARACTERS_SHOWN: usize = 300;

/// What a live tail shows.
#[derive(Clone, Copy)]
pub(super) enum Watched<'w> {
    /// All events.
    Everything,
    /// Those of a customer.
    Customer(&'w str),
    /// Those that count for a metric, by its id.
    Metric(&'w str),
}

/// `GET /console/events/`
///
/// # Errors
/// None: the part that asks fails by itself.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let overview = visit.get("/api/overview/").await;
    let content = html! {
        h1 { (text::EVENTS) }
        p.hint { (text::EVENTS_HINT) }
        (live(Watched::Everything))
        @match &overview {
            Ok(overview) => { (recent_events(&overview["events"], &visit.viewer.zone)) }
            Err(failure) => { (failed_part(failure)) }
        }
    };
    Ok(Outcome::Page(text::EVENTS.to_owned(), content))
}

/// The part of a page that shows events as they come in, in its place from the first moment on: a script that comes late moves nothing. Without
/// one it says that the page has to be loaded again.
pub(super) fn live(watched: Watched<'_>) -> Markup {
    let stream = match watched {
        Watched::Everything => STREAM.to_owned(),
        Watched::Customer(id) => format!("{STREAM}?customer_id={}", escaped(id)),
        Watched::Metric(id) => format!("{STREAM}?metric_id={}", escaped(id)),
    };
    html! {
        section.live data-stream=(stream) data-waits=(text::TAIL_WAITS) data-came=(text::TAIL_CAME) data-held=(text::TAIL_HELD)
            data-lost=(text::TAIL_LOST) data-over=(text::TAIL_IS_OVER) data-many=(text::TOO_MANY_TAILS)
            data-pause=(text::PAUSE) data-resume=(text::RESUME) {
            h2 { (text::LIVE) }
            p.links {
                noscript { span { (text::TAIL_NEEDS_SCRIPT) } }
                span.scripted role="status" { (text::TAIL_WAITS) }
                a href="" { (text::REFRESH) }
                button.quiet.scripted type="button" { (text::PAUSE) }
            }
            div.scroll.scripted tabindex="0" { table {
                thead { tr {
                    th { (text::AT) } th { (text::EVENT) } th { (text::CUSTOMER) }
                    th { (if matches!(watched, Watched::Metric(_)) { text::COUNTS_AS } else { text::COUNTS_FOR }) }
                    th { (text::PROPERTIES) } th { (text::IDEMPOTENCY_ID) }
                } }
                tbody {}
            } }
        }
    }
}

/// The rows that come in: of events, the latest first, and of how many more there were. Of those that count for the metric which is looked at, what
/// each brings to it.
pub fn rows(events: &[Value], more: u64, of_metric: bool, zone: &ViewerZone) -> String {
    let rows = html! {
        @for event in events {
            @let customer = show::plain(&event["customer_id"]);
            tr {
                td { (show::second(&event["time_created"], zone)) }
                td.long { code { (show::plain(&event["event_name"])) } }
                td.long { a href=(customer_path(&customer)) { (customer) } }
                td.long { (if of_metric { html! { (show::plain(&event["value"])) } } else { counts(event) }) }
                td.long { code { (shortened(&event["properties"].to_string())) } }
                td.long { a href=(receipt_path(&customer, event)) { code { (show::plain(&event["idempotency_id"])) } } }
            }
        }
        @if more > 0 { tr { td.quiet colspan="6" { (text::AND) " " (show::number(&more.into())) " " (text::MORE_CAME) } } }
    };
    rows.into_string()
}

fn counts(event: &Value) -> Markup {
    let names: Vec<String> = show::items(&event["metric_names"]).iter().map(show::plain).collect();
    html! { @if names.is_empty() { span.quiet { (text::COUNTS_FOR_NOTHING) } } @else { (names.join(", ")) } }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(CHARACTERS_SHOWN) {
        Some((end, _)) => format!("{}\u{2026}", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_comes_in_is_text_however_it_is_called() {
        let markup = "<img src=x onerror=alert(1)>\"'&";
        let event = json!({"customer_id": markup, "event_name": markup, "idempotency_id": markup, "time_created": markup,
            "properties": {markup: markup.repeat(100)}, "metric_names": [markup], "value": markup});
        for of_metric in [false, true] {
            let rows = rows(std::slice::from_ref(&event), 1_234, of_metric, &ViewerZone::default());
            assert!(!rows.contains("<img") && rows.contains("&lt;img src=x"), "{rows}");
            assert!(rows.contains("and 1,234 more") && rows.contains('\u{2026}'), "{rows}");
            assert_eq!(rows.matches("<tr>").count(), 2, "{rows}");
            assert!(rows.len() < 4_000, "what is long is cut: {}", rows.len());
        }
        assert_eq!(rows(&[], 0, false, &ViewerZone::default()), "");
    }
}
