//! The list of invoices.

use maud::html;

use super::{invoice_table, is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::Outcome;
use crate::visit::Visit;
use crate::{show, text};

const STATUSES: [&str; 3] = [text::UNPAID, text::PAID, text::VOIDED];

/// `GET /console/invoices/`
///
/// # Errors
/// Those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let chosen = visit.query.get("status").filter(|status| STATUSES.contains(status));
    let filter = chosen.map(|status| format!("?status={status}")).unwrap_or_default();
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
    };
    Ok(Outcome::Page(text::INVOICES.to_owned(), content))
}
