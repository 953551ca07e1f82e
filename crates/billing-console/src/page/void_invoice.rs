//! Voiding an invoice: asked first, done once.

use maud::html;
use serde_json::json;

use super::{customer_path, invoice_path};
use crate::api::Failure;
use crate::form::Form;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// `GET /console/invoices/{invoice_id}/void/`
///
/// # Errors
/// When there is no such invoice.
pub async fn confirm<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let invoice = visit.get(format!("/api/invoices/{}/", escaped(&visit.id))).await?;
    let number = show::plain(&invoice["invoice_number"]);
    let customer = &invoice["customer"];
    let here = invoice_path(&invoice);
    let form = Form { fields: &[], button: text::CONFIRM_VOID, is_danger: true, back: (&here, text::KEEP) };
    let content = html! {
        nav.path { a href=(here) { (text::INVOICE) " " (number) } }
        h1 { (text::VOID_INVOICE) }
        dl.facts {
            div { dt { (text::NUMBER) } dd { (number) } }
            div { dt { (text::BILLED_TO) } dd.long {
                a href=(customer_path(&show::plain(&customer["customer_id"]))) { (show::name(customer)) }
            } }
            div { dt { (text::TOTAL) } dd { (show::amount(&invoice["amount"], &invoice["currency"])) } }
            div { dt { (text::AMOUNT_DUE) } dd { (show::amount(&invoice["amount_due"], &invoice["currency"])) } }
        }
        p { (text::VOID_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::VOID_INVOICE.to_owned(), content))
}

/// `POST /console/invoices/{invoice_id}/void/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let voided = visit.post(format!("/api/invoices/{}/void/", escaped(&visit.id)), json!(null)).await?;
    Ok(Outcome::Go(invoice_path(&voided)))
}
