//! All credits of a customer.

use maud::html;
use serde_json::Value;

use super::customer::{VOID_CREDIT, credit_table};
use super::export::{self, Export};
use super::{customer_path, is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// The columns of the table to keep, in the order of [`row`].
const COLUMNS: [&str; 11] = [
    "credit_id",
    "customer_id",
    "customer_name",
    "description",
    "effective_at",
    "expires_at",
    "status",
    "currency",
    "amount",
    "amount_remaining",
    "amount_paid",
];

fn row(credit: &Value) -> [String; 11] {
    let [id, description, effective, expires, status] =
        export::fields(credit, ["credit_id", "description", "effective_at", "expires_at", "status"]);
    let [amount, remaining, paid] = export::fields(credit, ["amount", "amount_remaining", "amount_paid"]);
    let [customer, name] = export::fields(&credit["customer"], ["customer_id", "customer_name"]);
    let currency = show::code(&credit["currency"]);
    [id, customer, name, description, effective, expires, status, currency, amount, remaining, paid]
}

/// `GET /console/customers/{customer_id}/credits/`
///
/// # Errors
/// When there is no such customer; those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let id = escaped(&visit.id);
    let customer = visit.get(format!("/api/customers/{id}/")).await?;
    let list = format!("/api/credits/?customer_id={id}");
    if export::is_wanted(visit) {
        return Export { name: "credits", list: &list, at_once: 1_000, columns: COLUMNS, row }.table(visit).await;
    }
    let credits = visit.list(paged(&list, visit)).await?;
    let (back, here) = (customer_path(&visit.id), format!("{}credits/", customer_path(&visit.id)));
    let content = html! {
        nav.path { a.long href=(back) { (show::name(&customer)) } }
        h1 { (text::CREDITS) }
        (credit_table(&credits.value, is_open_to(visit.viewer.role, Method::Get, VOID_CREDIT)))
        (pager(&here, is_first(visit), credits.next.as_deref()))
        (export::link(&here))
    };
    Ok(Outcome::Page(text::CREDITS.to_owned(), content))
}
