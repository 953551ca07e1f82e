//! On home: the events that came in lately, and which of them count for nothing.

use maud::{Markup, html};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{chart, customer_path};
use crate::visit::escaped;
use crate::zone::ViewerZone;
use crate::{show, text};

/// The part of the page; `events` is what the overview says of them.
pub(super) fn recent_events(events: &Value, zone: &ViewerZone) -> Markup {
    let minutes = show::items(&events["by_minute"]);
    let uncounted = show::items(&events["uncounted"]);
    html! {
        section {
            h2 { (text::RECENT_EVENTS) }
            (figures(events, minutes))
            @if !minutes.is_empty() {
                @let bar = |minute: &'_ Value| clock(&minute["start"], zone);
                @let bars: Vec<_> = minutes.iter().map(|minute| (bar(minute), &minute["event_count"])).collect();
                figure.chart { (chart::bars(&bars, text::EVENTS_BY_MINUTE)) }
                details { summary { (text::EVENTS_BY_MINUTE) } (table(minutes, zone)) }
            }
        }
        @if !uncounted.is_empty() {
            section {
                h2 { (text::UNCOUNTED_EVENTS) }
                p.hint { (text::UNCOUNTED_HINT) }
                (reasons(uncounted, zone))
            }
        }
    }
}

/// Hour and minute of an instant.
fn clock(instant: &Value, zone: &ViewerZone) -> String {
    let local = OffsetDateTime::parse(&show::plain(instant), &Rfc3339).map(|instant| zone.local(instant));
    local.ok().and_then(|local| Some(local.get(11..16)?.to_owned())).unwrap_or_default()
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

fn table(minutes: &[Value], zone: &ViewerZone) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { (text::MINUTE) } th.right { (text::EVENTS) } th.right { (text::COUNT_FOR_NOTHING) } } }
            tbody { @for minute in minutes.iter().rev() { tr {
                td { (show::instant(&minute["start"], zone)) }
                td.right { (show::number(&minute["event_count"])) }
                td.right { (show::number(&minute["uncounted_count"])) }
            } } }
        } }
    }
}

fn reasons(uncounted: &[Value], zone: &ViewerZone) -> Markup {
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
                    td { (show::instant(&one["first_at"], zone)) }
                    td { (show::instant(&one["last_at"], zone)) }
                }
            } }
        } }
    }
}
