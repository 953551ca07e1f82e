//! The list of customers.

use maud::{Markup, html};
use serde_json::Value;

use super::{customer_path, is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::Outcome;
use crate::visit::Visit;
use crate::{show, text};

/// `GET /console/customers/`
///
/// # Errors
/// Those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let list = visit.list(paged("/api/customers/", visit)).await?;
    let customers = show::items(&list.value);
    let content = html! {
        h1 { (text::CUSTOMERS) }
        @if customers.is_empty() { p.empty { (text::NO_CUSTOMERS) } } @else {
            (customer_table(customers))
        }
        (pager("/console/customers/", is_first(visit), list.next.as_deref()))
    };
    Ok(Outcome::Page(text::CUSTOMERS.to_owned(), content))
}

/// Customers in a table.
pub(super) fn customer_table(customers: &[Value]) -> Markup {
    html! {
            div.scroll tabindex="0" { table {
                thead { tr {
                    th { (text::NAME) }
                    th { (text::EMAIL) }
                    th { (text::SUBSCRIPTIONS) }
                    th.right { (text::AMOUNT_DUE) }
                } }
                tbody {
                    @for customer in customers {
                        @let id = show::plain(&customer["customer_id"]);
                        tr {
                            td.long {
                                a href=(customer_path(&id)) { (show::name(customer)) }
                                @if show::name(customer) != id { " " span.quiet { (id) } }
                            }
                            td.long { (show::or_none(&customer["email"])) }
                            td.long {
                                @for subscription in show::items(&customer["subscriptions"]) {
                                    span.item { (show::plain(&subscription["billing_plan"]["plan_name"])) }
                                }
                            }
                            td.right {
                                @for due in show::items(&customer["total_amounts_due"]) {
                                    div { (show::amount(&due["amount"], &due["currency"])) }
                                }
                            }
                        }
                    }
                }
            } }
    }
}
