//! The list of invoices.

use maud::html;
use serde_json::Value;

use super::export::{self, Export};
use super::{invoice_table, is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::Outcome;
use crate::visit::Visit;
use crate::{show, text};

const STATUSES: [&str; 3] = [text::UNPAID, text::PAID, text::VOIDED];

/// The columns of the table to keep, in the order of [`row`].
const COLUMNS: [&str; 10] = [
    "invoice_number",
    "issue_date",
    "due_date",
    "payment_status",
    "customer_id",
    "customer_name",
    "currency",
    "amount",
    "amount_due",
    "invoice_id",
];

fn row(invoice: &Value) -> [String; 10] {
    let [number, issued, due, status, amount, amount_due, id] = export::fields(
        invoice,
        ["invoice_number", "issue_date", "due_date", "payment_status", "amount", "amount_due", "invoice_id"],
    );
    let [customer, name] = export::fields(&invoice["customer"], ["customer_id", "customer_name"]);
    [number, issued, due, status, customer, name, show::code(&invoice["currency"]), amount, amount_due, id]
}

/// `GET /console/invoices/`
///
/// # Errors
/// Those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let chosen = visit.query.get("status").filter(|status| STATUSES.contains(status));
    let filter = chosen.map(|status| format!("?status={status}")).unwrap_or_default();
    if export::is_wanted(visit) {
        let list = &format!("/api/invoices/{filter}");
        return Export { name: "invoices", list, at_once: 1_000, columns: COLUMNS, row }.table(visit).await;
    }
    let list = visit.list(paged(&format!("/api/invoices/{filter}"), visit)).await?;
    let invoices = show::items(&list.value);
    let content = html! {
        h1 { (text::INVOICES) }
        nav.filter aria-label=(text::FILTER) {
            a href="/console/invoices/" aria-current=[chosen.is_none().then_some("true")] { (text::ALL) }
            @for status in STATUSES {
                a href={ "/console/invoices/?status=" (status) }
                    aria-current=[(chosen == Some(status)).then_some("true")] { (status) }
            }
        }
        @if invoices.is_empty() { p.empty { (text::NO_INVOICES) } } @else { (invoice_table(invoices, true)) }
        (pager(&format!("/console/invoices/{filter}"), is_first(visit), list.next.as_deref()))
        (export::link(&format!("/console/invoices/{filter}")))
        p.links { a href="/console/credit_notes/" { (text::CREDIT_NOTES) } }
    };
    Ok(Outcome::Page(text::INVOICES.to_owned(), content))
}
