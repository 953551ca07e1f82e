//! A credit: what it was worth, what it was drawn for, and what is left.

use maud::{Markup, html};
use serde_json::Value;

use super::customer::VOID_CREDIT;
use super::customer_path;
use crate::api::Failure;
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::{Visit, escaped};
use crate::zone::ViewerZone;
use crate::{show, text};

/// `GET /console/credits/{credit_id}/`
///
/// # Errors
/// When there is no such credit.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let credit = visit.get(format!("/api/credits/{}/", escaped(&visit.id))).await?;
    let may_void = is_open_to(visit.viewer.role, Method::Get, VOID_CREDIT) && credit["status"] == "active";
    let owner = customer_path(&show::plain(&credit["customer"]["customer_id"]));
    let title = credit_name(&credit);
    let currency = &credit["currency"];
    let content = html! {
        nav.path { a.long href={ (owner) "credits/" } { (show::name(&credit["customer"])) } }
        h1.long { (title) " " (show::badge(credit["status"].as_str().unwrap_or_default())) }
        dl.facts {
            div { dt { (text::AMOUNT) } dd { (show::amount(&credit["amount"], currency)) } }
            div { dt { (text::REMAINING) } dd { (show::amount(&credit["amount_remaining"], currency)) } }
            div { dt { (text::SINCE) } dd { (show::day(&credit["effective_at"])) } }
            div { dt { (text::EXPIRES) } dd {
                @if credit["expires_at"].is_null() { (text::NEVER) } @else { (show::day(&credit["expires_at"])) }
            } }
            @if !show::is_zero(&credit["amount_paid"]) {
                div { dt { (text::PAID_FOR_CREDIT) } dd { (show::amount(&credit["amount_paid"], &credit["amount_paid_currency"])) } }
            }
            div { dt { (text::ID) } dd.long { code { (show::plain(&credit["credit_id"])) } } }
        }
        @if may_void { p.links { a href={ (credit_path(&credit)) "void/" } { (text::VOID_CREDIT) } } }
        section {
            h2 { (text::DRAWN_FOR) }
            (ledger(&credit, &visit.viewer.zone))
        }
    };
    Ok(Outcome::Page(title, content))
}

/// What changed what is left, oldest first.
fn ledger(credit: &Value, zone: &ViewerZone) -> Markup {
    let changes = show::items(&credit["drawdowns"]);
    html! {
        @if changes.is_empty() { p.empty { (text::NOT_DRAWN) } } @else { div.scroll tabindex="0" { table {
            thead { tr { th { (text::AT) } th { (text::WHAT_HAPPENED) } th.right { (text::AMOUNT) } } }
            tbody { @for change in changes { tr {
                td { (show::instant(&change["applied_at"], zone)) }
                td.long {
                    @match change["invoice_id"].as_str() {
                        Some(invoice) => { a href={ "/console/invoices/" (escaped(invoice)) "/" } { (show::plain(&change["description"])) } }
                        None => { (show::plain(&change["description"])) }
                    }
                }
                td.right { (show::amount(&change["amount"], &credit["currency"])) }
            } } }
            tfoot { tr {
                th colspan="2" { (text::REMAINING) }
                td.right { (show::amount(&credit["amount_remaining"], &credit["currency"])) }
            } }
        } } }
    }
}

/// Where a credit is shown.
pub(super) fn credit_path(credit: &Value) -> String {
    format!("/console/credits/{}/", escaped(&show::plain(&credit["credit_id"])))
}

/// How a credit is called: by what it is for, where that was said.
pub(super) fn credit_name(credit: &Value) -> String {
    match credit["description"].as_str().filter(|words| !words.is_empty()) {
        Some(words) => words.to_owned(),
        None => text::A_CREDIT.to_owned(),
    }
}
