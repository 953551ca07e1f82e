//! An invoice: every line opens to how it came about.

use maud::{Markup, html};
use serde_json::Value;

use super::invoice_line::line;
use super::{customer_path, invoice_badge};
use crate::api::Failure;
use crate::layout::failed_part;
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::{Visit, escaped};
use crate::zone::ViewerZone;
use crate::{show, text};

const VOID: &str = "/console/invoices/{invoice_id}/void/";
const CREDIT_NOTES: &str = "/console/invoices/{invoice_id}/credit_notes/";
const VOID_CREDIT_NOTE: &str = "/console/credit_notes/{credit_note_id}/void/";
const CORRECTIONS: &str = "/console/invoices/{invoice_id}/corrections/";
const PAYMENTS: &str = "/console/invoices/{invoice_id}/payments/";

/// `GET /console/invoices/{invoice_id}/`
///
/// # Errors
/// When there is no such invoice; its payments fail by themselves.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let id = escaped(&visit.id);
    let invoice = visit.get(format!("/api/invoices/{id}/")).await?;
    let explained = visit.get(format!("/api/invoices/{id}/explain/")).await?;
    let payments = visit.get(format!("/api/invoices/{id}/payments/")).await;
    let customer = &invoice["customer"];
    let customer_id = show::plain(&customer["customer_id"]);
    let number = show::plain(&invoice["invoice_number"]);
    let currency = &invoice["currency"];
    let here = super::invoice_path(&invoice);
    let is_unpaid = invoice["payment_status"] == "unpaid";
    let is_open = |path| is_open_to(visit.viewer.role, Method::Get, path);
    let may = |path| is_unpaid && is_open(path);
    let content = html! {
        nav.path { a href="/console/invoices/" { (text::INVOICES) } }
        h1 { (text::INVOICE) " " (number) " " (invoice_badge(&invoice)) }
        dl.facts {
            div { dt { (text::BILLED_TO) } dd.long { a href=(customer_path(&customer_id)) { (show::name(customer)) } } }
            div { dt { (text::TOTAL) } dd { (show::amount(&invoice["amount"], currency)) } }
            div { dt { (text::AMOUNT_DUE) } dd { (show::amount(&invoice["amount_due"], currency)) } }
            div { dt { (text::ISSUED) } dd { (show::instant(&invoice["issue_date"], &visit.viewer.zone)) } }
            div { dt { (text::DUE) } dd { (show::day(&invoice["due_date"])) } }
            div { dt { (text::PERIOD) } dd { (show::days(&invoice["start_date"], &invoice["end_date"])) } }
            @for (words, other) in [(text::REPLACES, &invoice["replaces"]), (text::REPLACED_BY, &invoice["replaced_by"])] {
                @if let Some(other) = other.as_str() {
                    div { dt { (words) } dd { a href={ "/console/invoices/" (escaped(other)) "/" } { (text::INVOICE) } } }
                }
            }
            div { dt { (text::SELLER) } dd.long { (show::plain(&invoice["seller"]["name"])) } }
        }
        p.links {
            @if may(PAYMENTS) { a.button href={ (here) "payments/" } { (text::NOTE_PAYMENT) } }
            @if invoice["payment_status"] != "voided" && is_open(CREDIT_NOTES) {
                a.button.quiet href={ (here) "credit_notes/" } { (text::CREATE_CREDIT_NOTE) }
            }
            @if invoice["payment_status"] != "voided" && is_open(CORRECTIONS) {
                a.button.quiet href={ (here) "corrections/" } { (text::CORRECTIONS) }
            }
            @if may(VOID) { a.button.danger href={ (here) "void/" } { (text::VOID) } }
        }
        section {
            h2 { (text::LINES) }
            p.quiet { (text::LINES_HINT) }
            div.lines {
                @for explained in show::items(&explained["line_items"]) { (line(explained, currency, Some(&customer_id), &visit.viewer.zone)) }
                div.sum { span { (text::TOTAL) } (show::amount(&explained["amount"], currency)) }
            }
        }
        section {
            h2 { (text::PAYMENTS) }
            @match &payments {
                Ok(payments) => { (payment_table(show::items(payments), currency, &visit.viewer.zone)) }
                Err(failure) => { (failed_part(failure)) }
            }
        }
        section {
            h2 { (text::CREDIT_NOTES) }
            (note_table(show::items(&invoice["credit_notes"]), currency, is_open(VOID_CREDIT_NOTE)))
        }
    };
    Ok(Outcome::Page(format!("{} {number}", text::INVOICE), content))
}

fn payment_table(payments: &[Value], currency: &Value, zone: &ViewerZone) -> Markup {
    html! {
        @if payments.is_empty() { p.empty { (text::NO_PAYMENTS) } } @else { div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::AT) } th { (text::KIND) } th { (text::METHOD) } th { (text::REFERENCE_OF_PAYMENT) }
                th.right { (text::AMOUNT) }
            } }
            tbody { @for one in payments { tr {
                td { (show::instant(&one["at"], zone)) }
                td { (show::plain(&one["kind"])) }
                td.long { (show::or_none(&one["method"])) }
                td.long { (show::or_none(&one["reference"])) }
                td.right { (show::amount(&one["amount"], currency)) }
            } } }
        } } }
    }
}

fn note_table(notes: &[Value], currency: &Value, may_void: bool) -> Markup {
    html! {
        @if notes.is_empty() { p.empty { (text::NO_CREDIT_NOTES) } } @else { div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::NUMBER) } th { (text::ISSUED) } th { (text::SETTLEMENT) } th.right { (text::AMOUNT) } @if may_void { th { span.hidden { (text::VOID) } } }
            } }
            tbody { @for one in notes {
                @let is_voided = !one["voided_at"].is_null();
                tr {
                    td.number { (show::plain(&one["credit_note_number"])) @if is_voided { " " (show::badge(text::VOIDED)) } }
                    td { (show::day(&one["issue_date"])) }
                    td { @if one["settlement"] == "balance" { (text::TO_BALANCE) } @else { (text::OUTSIDE) } }
                    td.right { (show::amount(&one["amount"], currency)) }
                    @if may_void { td.right { @if !is_voided {
                        a href={ "/console/credit_notes/" (escaped(&show::plain(&one["credit_note_id"]))) "/void/" } { (text::VOID) }
                    } } }
                }
            } }
        } } }
    }
}
