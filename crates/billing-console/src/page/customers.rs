//! The list of customers.

use maud::{Markup, html};
use serde_json::Value;

use super::export::{self, Export};
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
    if export::is_wanted(visit) {
        let columns = ["customer_id", "customer_name", "email", "plans", "amounts_due"];
        let list = "/api/customers/";
        return Export { name: "customers", list, at_once: 100, columns, row }.table(visit).await;
    }
    let list = visit.list(paged("/api/customers/", visit)).await?;
    let customers = show::items(&list.value);
    let content = html! {
        h1 { (text::CUSTOMERS) }
        @if customers.is_empty() { p.empty { (text::NO_CUSTOMERS) } } @else {
            (customer_table(customers))
        }
        (pager("/console/customers/", is_first(visit), list.next.as_deref()))
        (export::link("/console/customers/"))
    };
    Ok(Outcome::Page(text::CUSTOMERS.to_owned(), content))
}

/// A customer in a table to keep: of several plans or currencies all, one after the other.
fn row(customer: &Value) -> [String; 5] {
    let [id, name, email] = export::fields(customer, ["customer_id", "customer_name", "email"]);
    let joined = |list: &str, of: fn(&Value) -> String| {
        show::items(&customer[list]).iter().map(of).collect::<Vec<_>>().join("; ")
    };
    let plans = joined("subscriptions", |one| show::plain(&one["billing_plan"]["plan_name"]));
    let due =
        joined("total_amounts_due", |due| format!("{} {}", show::plain(&due["amount"]), show::code(&due["currency"])));
    [id, name, email, plans, due]
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
