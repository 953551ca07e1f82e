//! The list of credit notes.

use maud::{Markup, html};
use serde_json::Value;

use super::export::{self, Export};
use super::{customer_path, invoice_path, is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::Outcome;
use crate::visit::Visit;
use crate::{show, text};

const LIST: &str = "/api/credit_notes/";
const HERE: &str = "/console/credit_notes/";

/// The columns of the table to keep, in the order of [`row`].
const COLUMNS: [&str; 13] = [
    "credit_note_number",
    "issue_date",
    "voided_at",
    "customer_id",
    "invoice_number",
    "reason",
    "settlement",
    "reference",
    "currency",
    "amount",
    "tax",
    "amount_credited",
    "credit_note_id",
];

fn row(note: &Value) -> [String; 13] {
    let currency = show::code(&note["currency"]);
    COLUMNS.map(|column| if column == "currency" { currency.clone() } else { show::plain(&note[column]) })
}

/// `GET /console/credit_notes/`
///
/// # Errors
/// Those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    if export::is_wanted(visit) {
        return Export { name: "credit_notes", list: LIST, at_once: 1_000, columns: COLUMNS, row }.table(visit).await;
    }
    let list = visit.list(paged(LIST, visit)).await?;
    let notes = show::items(&list.value);
    let content = html! {
        nav.path { a href="/console/invoices/" { (text::INVOICES) } }
        h1 { (text::CREDIT_NOTES) }
        @if notes.is_empty() { p.empty { (text::NO_CREDIT_NOTES) } } @else { (table(notes)) }
        (pager(HERE, is_first(visit), list.next.as_deref()))
        (export::link(HERE))
    };
    Ok(Outcome::Page(text::CREDIT_NOTES.to_owned(), content))
}

fn table(notes: &[Value]) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::NUMBER) } th { (text::INVOICE) } th { (text::CUSTOMER) } th { (text::ISSUED) }
                th { (text::REASON) } th.right { (text::AMOUNT) }
            } }
            tbody { @for note in notes {
                @let customer = show::plain(&note["customer_id"]);
                tr {
                    td.number {
                        (show::plain(&note["credit_note_number"]))
                        @if !note["voided_at"].is_null() { " " (show::badge(text::VOIDED)) }
                    }
                    td.number { a href=(invoice_path(note)) { (show::plain(&note["invoice_number"])) } }
                    td.long { a href=(customer_path(&customer)) { (customer) } }
                    td { (show::day(&note["issue_date"])) }
                    td.long { (show::plain(&note["reason"])) }
                    td.right { (show::amount(&note["amount"], &note["currency"])) }
                }
            } }
        } }
    }
}
