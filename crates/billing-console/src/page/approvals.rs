//! What waits for a second person, and what became of it.

use maud::{Markup, html};
use serde_json::Value;

use super::{is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::zone::ViewerZone;
use crate::{show, text};

/// Most requests that are shown as waiting; home leads to them all the same.
const WAITING_SHOWN: u32 = 100;

/// `GET /console/approvals/`: first what waits, then all of it.
///
/// # Errors
/// Those of the lists.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let waiting = match is_first(visit) {
        true => Some(visit.get(format!("/api/approvals/?state=waiting&limit={WAITING_SHOWN}")).await?),
        false => None,
    };
    let list = visit.list(paged("/api/approvals/", visit)).await?;
    let decided: Vec<&Value> = show::items(&list.value).iter().filter(|one| one["state"] != "waiting").collect();
    let content = html! {
        h1 { (text::APPROVALS) }
        p.quiet { (text::APPROVALS_HINT) }
        @if let Some(waiting) = &waiting {
            section {
                h2 { (text::WAITING) }
                @if show::items(waiting).is_empty() { p.empty { (text::NOTHING_WAITS) } }
                @else { (table(&show::items(waiting).iter().collect::<Vec<_>>(), &visit.viewer.zone)) }
            }
        }
        section {
            h2 { (text::DECIDED) }
            @if decided.is_empty() { p.empty { (text::NOTHING_DECIDED) } } @else { (table(&decided, &visit.viewer.zone)) }
        }
        (pager("/console/approvals/", is_first(visit), list.next.as_deref()))
    };
    Ok(Outcome::Page(text::APPROVALS.to_owned(), content))
}

fn table(approvals: &[&Value], zone: &ViewerZone) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::ASKED_FOR) } th.right { (text::AMOUNT) } th { (text::ASKED_BY) } th { (text::SINCE) } th { (text::STATUS) }
            } }
            tbody { @for approval in approvals { tr {
                td.long { a href=(path_of(approval)) { (what(approval)) } }
                td.right { (amount(approval)) }
                td.long { (show::plain(&approval["requested_by"]["name"])) }
                td { (show::instant(&approval["requested_at"], zone)) }
                td { (show::badge(&show::plain(&approval["state"]))) }
            } } }
        } }
    }
}

/// The page of a request.
pub(super) fn path_of(approval: &Value) -> String {
    format!("/console/approvals/{}/", escaped(&show::plain(&approval["approval_id"])))
}

/// What is asked for, in words.
pub(super) fn what(approval: &Value) -> String {
    let operation = approval["operation"].as_str().unwrap_or_default();
    let words = match operation {
        "void_invoice" => text::VOID_INVOICE,
        "create_credit" => text::GIVE_CREDIT,
        "void_credit" => text::VOID_CREDIT,
        "create_credit_note" => text::CREATE_CREDIT_NOTE,
        "void_credit_note" => text::VOID_CREDIT_NOTE,
        "create_invoice_payment" | "create_payment" => text::NOTE_OVERPAYMENT,
        "delete_one_off_line" => text::REMOVE_ONE_OFF_LINE,
        "update_organization" => text::CHANGE_LIMIT,
        other => other,
    };
    words.to_owned()
}

/// What it comes to.
pub(super) fn amount(approval: &Value) -> Markup {
    html! {
        @if approval["amount"].is_null() { (text::NO_LIMIT) }
        @else if approval["currency_code"].is_null() { (show::number(&approval["amount"])) }
        @else { (show::amount(&approval["amount"], &approval["currency_code"])) }
    }
}
