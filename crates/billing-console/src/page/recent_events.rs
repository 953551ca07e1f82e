//! On home: the events that came in lately, and which of them count for nothing.

use maud::{Markup, html};
use serde_json::Value;

use super::bar_chart::bar_chart;
use super::customer_path;
use crate::visit::escaped;
use crate::{show, text};

/// The part of the page; `events` is what the overview says of them.
pub(super) fn recent_events(events: &Value) -> Markup {
    let minutes = show::items(&events["by_minute"]);
    let uncounted = show::items(&events["uncounted"]);
    html! {
        section {
            h2 { (text::RECENT_EVENTS) }
            (figures(events, minutes))
            @if let [first, .., last] = minutes {
                @let bar = |minute: &'_ Value| clock(&minute["start"]);
                @let bars: Vec<_> = minutes.iter().map(|minute| (bar(minute), &minute["event_count"])).collect();
                @let ends = [show::instant(&first["start"]), show::instant(&last["start"])];
                (bar_chart(&bars, &ends, text::EVENTS_BY_MINUTE))
                details { summary { (text::EVENTS_BY_MINUTE) } (table(minutes)) }
            }
        }
        @if !uncounted.is_empty() {
            section {
                h2 { (text::UNCOUNTED_EVENTS) }
                p.hint { (text::UNCOUNTED_HINT) }
                (reasons(uncounted))
            }
        }
    }
}

/// Hour and minute of an instant.
fn clock(instant: &Value) -> String {
    show::plain(instant).get(11..16).unwrap_or_default().to_owned()
}

fn figures(events: &Value, minutes: &[Value]) -> Markup {
    // The minute that runs is not whole yet.
    let last_whole = minutes.len().checked_sub(2).map_or(&Value::Null, |place| &minutes[place]["event_count"]);
    html! {
        div.cards.small {
            div.card {
                h2 { (text::EVENTS_IN_LAST_MINUTE) }
                p.figure { (show::number(last_whole)) }
            }
            div.card {
                h2 { (text::EVENTS_IN_LAST_HOUR) }
                p.figure { (show::number(&events["last_hour"])) }
            }
            @for (name, field) in [(text::OF_UNKNOWN_CUSTOMERS, "of_unknown_customers"), (text::OF_UNKNOWN_NAMES, "of_unknown_names")] {
                div.card.alarm[!show::is_zero(&events[field])] {
                    h2 { (name) }
                    p.figure { (show::number(&events[field])) }
                }
            }
        }
    }
}

fn table(minutes: &[Value]) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { (text::MINUTE) } th.right { (text::EVENTS) } th.right { (text::COUNT_FOR_NOTHING) } } }
            tbody { @for minute in minutes.iter().rev() { tr {
                td { (show::instant(&minute["start"])) }
                td.right { (show::number(&minute["event_count"])) }
                td.right { (show::number(&minute["uncounted_count"])) }
            } } }
        } }
    }
}

fn reasons(uncounted: &[Value]) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::WHY) } th { (text::EVENT) } th { (text::CUSTOMER) } th.right { (text::EVENTS) } th { (text::SINCE) } th { (text::LATEST) }
            } }
            tbody { @for one in uncounted {
                @let (name, customer) = (show::plain(&one["event_name"]), show::plain(&one["customer_id"]));
                @let is_customer = one["reason"] == "unknown_customer";
                @let list = format!("{}events/", customer_path(&customer));
                tr {
                    td { (if is_customer { text::UNKNOWN_CUSTOMER } else { text::UNKNOWN_NAME }) }
                    td.long {
                        @if is_customer { code { (name) } }
                        @else { a href={ (list) "?event_name=" (escaped(&name)) } { code { (name) } } }
                    }
                    td.long { @if is_customer { a href=(list) { (customer) } } @else { (customer) } }
                    td.right { (show::number(&one["event_count"])) }
                    td { (show::instant(&one["first_at"])) }
                    td { (show::instant(&one["last_at"])) }
                }
            } }
        } }
    }
}
