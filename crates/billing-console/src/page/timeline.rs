//! A customer's timeline: what became true of it, newest first.

use maud::{Markup, html};
use serde_json::Value;

use super::credit::{credit_name, credit_path};
use super::{alerts, customer_path, invoice_path, is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::zone::ViewerZone;
use crate::{show, text};

/// `GET /console/customers/{customer_id}/timeline/`
///
/// # Errors
/// When there is no such customer; those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let id = escaped(&visit.id);
    let customer = visit.get(format!("/api/customers/{id}/")).await?;
    let list = visit.list(paged(&format!("/api/customers/{id}/messages/"), visit)).await?;
    let (back, here) = (customer_path(&visit.id), timeline_path(&visit.id));
    let content = html! {
        nav.path { a.long href=(back) { (show::name(&customer)) } }
        h1 { (text::TIMELINE) }
        (table(show::items(&list.value), &visit.viewer.zone))
        (pager(&here, is_first(visit), list.next.as_deref()))
    };
    Ok(Outcome::Page(format!("{}: {}", text::TIMELINE, visit.id), content))
}

/// Where the timeline of a customer is shown.
pub(super) fn timeline_path(customer: &str) -> String {
    format!("{}timeline/", customer_path(customer))
}

/// What became true, as the messages about it tell.
pub(super) fn table(messages: &[Value], zone: &ViewerZone) -> Markup {
    html! {
        @if messages.is_empty() { p.empty { (text::NOTHING_HAPPENED) } } @else { div.scroll tabindex="0" { table {
            thead { tr { th { (text::AT) } th { (text::WHAT_HAPPENED) } th { (text::ABOUT) } th.right { (text::AMOUNT) } } }
            tbody { @for message in messages {
                @let (about, amount) = subject(message);
                tr {
                    td { (show::instant(&message["timestamp"], zone)) }
                    td { (show::plain(&message["type"]).replace(['.', '_'], " ")) }
                    td.long { (about) }
                    td.right { (amount) }
                }
            } }
        } } }
    }
}

/// What a message is about, and the amount that matters of it.
fn subject(message: &Value) -> (Markup, Markup) {
    let data = &message["data"];
    let amount = |field: &str| show::amount(&data[field], &data["currency"]);
    let (kind, fact) = message["type"].as_str().unwrap_or_default().split_once('.').unwrap_or_default();
    match (kind, fact) {
        ("invoice", _) => (
            html! { a href=(invoice_path(data)) { (show::plain(&data["invoice_number"])) } },
            amount(if fact == "past_due" { "amount_due" } else { "amount" }),
        ),
        ("subscription", _) => (
            html! {
                (show::plain(&data["billing_plan"]["plan_name"])) " "
                span.quiet { (show::days(&data["start_date"], &data["end_date"])) }
            },
            html! {},
        ),
        ("addon", _) => (html! { (show::plain(&data["addon"]["addon_name"])) }, html! {}),
        ("credit", _) => (
            html! { a href=(credit_path(data)) { (credit_name(data)) } },
            match fact {
                "created" => amount("amount"),
                _ => latest_change(data),
            },
        ),
        ("credit_note", _) => (
            html! { (show::plain(&data["credit_note_number"])) ", " a href=(invoice_path(data)) { (show::plain(&data["invoice_number"])) } },
            amount("amount"),
        ),
        ("one_off_line", _) => (html! { (show::plain(&data["name"])) }, amount("amount")),
        ("usage_alert", _) => {
            let alert = &data["usage_alert"];
            (html! { (alerts::watched(alert)) " " (alerts::threshold(alert)) }, html! {})
        }
        _ => (html! {}, html! {}),
    }
}

/// What the last entry of a credit's ledger added or took away.
fn latest_change(credit: &Value) -> Markup {
    match show::items(&credit["drawdowns"]).last() {
        Some(change) => show::amount(&change["amount"], &credit["currency"]),
        None => html! {},
    }
}
