//! Voiding an invoice: asked first, done once.

use maud::html;
use serde_json::json;

use super::{customer_path, invoice_path};
use crate::api::Failure;
use crate::form::{Field, Form, Input};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const REBILL: Field =
    Field::new("rebill", text::REBILL, Input::Choice(&[("", text::REBILL_NOT), ("true", text::REBILL_ANEW)]))
        .hint(text::REBILL_HINT);

/// `GET /console/invoices/{invoice_id}/void/`
///
/// # Errors
/// When there is no such invoice.
pub async fn confirm<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let invoice = visit.get(format!("/api/invoices/{}/", escaped(&visit.id))).await?;
    let number = show::plain(&invoice["invoice_number"]);
    let customer = &invoice["customer"];
    let here = invoice_path(&invoice);
    let fields = crate::form::empty(&[REBILL]);
    let form = Form { fields: &fields, button: text::CONFIRM_VOID, is_danger: true, back: (&here, text::KEEP) };
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

/// `POST /console/invoices/{invoice_id}/void/`: leads to the invoice that stands in the place of the voided one, if there is one.
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let body = if visit.form.get(REBILL.name) == Some("true") { json!({"rebill": true}) } else { json!(null) };
    let voided = visit.post(format!("/api/invoices/{}/void/", escaped(&visit.id)), body).await?;
    let reissue = &voided["reissue"];
    Ok(Outcome::Go(invoice_path(if reissue.is_object() { reissue } else { &voided })))
}
